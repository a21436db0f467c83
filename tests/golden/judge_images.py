"""judge_images.py -- judge.py's small server with the calls that tests/clients/test_images.py needs: images as TensorFlow 2.15
decodes, encodes and resizes them, and folders as Keras splits them."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import judge  # noqa: E402  (imports TensorFlow)
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402


def scene(width, height, channels, seed):
    """Slopes, discs and a little noise: what photographs are made of."""
    r = np.random.RandomState(seed)
    y, x = np.mgrid[0:height, 0:width]
    picture = np.stack([x * r.uniform(0, 200) / width + y * r.uniform(0, 55) / height for _ in range(channels)], axis=-1)
    for _ in range(6):
        at, size = r.rand(2) * (height, width), r.uniform(0.05, 0.3) * min(width, height)
        picture[np.hypot(y - at[0], x - at[1]) < size] = r.uniform(0, 255, channels)
    return np.clip(picture + r.normal(0, 6, picture.shape), 0, 255).astype(np.uint8)


def encoded(seed=0):
    """What TensorFlow itself writes: name -> bytes."""
    colour, grey, alpha = scene(53, 38, 3, seed), scene(47, 31, 1, seed + 1), scene(30, 20, 4, seed + 2)
    jpeg = tf.io.encode_jpeg
    made = {"tf_plain.jpg": jpeg(colour), "tf_progressive.jpg": jpeg(colour, progressive=True, quality=70),
            "tf_full.jpg": jpeg(colour, chroma_downsampling=False, quality=98), "tf_low.jpg": jpeg(colour, quality=10),
            "tf_grey.jpg": jpeg(grey), "tf_progressive_grey.jpg": jpeg(grey, progressive=True),
            "tf_colour.png": tf.io.encode_png(colour), "tf_grey.png": tf.io.encode_png(grey), "tf_alpha.png": tf.io.encode_png(alpha),
            "tf_16.png": tf.io.encode_png(colour.astype(np.uint16) * 257)}
    return {name: value.numpy() for name, value in made.items()}


def decoded(data, channels):
    """Pixels, or None if TensorFlow refuses. decode_image, which Keras calls, and the kind's own call must agree."""
    try:
        pixels = tf.io.decode_image(data, channels=channels, expand_animations=False).numpy()
    except tf.errors.InvalidArgumentError:
        return None
    own = tf.io.decode_jpeg if data[:2] == b"\xff\xd8" else tf.io.decode_png
    assert (own(data, channels=channels).numpy() == pixels).all()
    return pixels


def write_encoded(folder, seed):
    for name, data in encoded(seed).items():
        pathlib.Path(folder, name).write_bytes(data)


def decode(path, channels, out):
    """Write the pixels; their shape, or None."""
    pixels = decoded(pathlib.Path(path).read_bytes(), channels)
    if pixels is None:
        return None
    pathlib.Path(out).write_bytes(pixels.tobytes())
    return list(pixels.shape)


def resized(pixels, method, height, width):
    return tf.image.resize(pixels, (height, width), method=method, antialias=False).numpy().astype(np.float32)


def resize(path, channels, method, height, width, out):
    pathlib.Path(out).write_bytes(resized(decoded(pathlib.Path(path).read_bytes(), channels), method, height, width).tobytes())


def dataset(root, height, width, out):
    """image_dataset_from_directory itself, in order; the labels."""
    made = tf.keras.utils.image_dataset_from_directory(root, image_size=(height, width), shuffle=False)
    with open(out, "wb") as f:
        for images, _ in made:
            f.write(images.numpy().tobytes())
    return {"labels": [int(x) for _, labels in made for x in labels], "paths": made.file_paths, "classes": made.class_names}


def split(root, seed, fraction):
    both = tf.keras.utils.image_dataset_from_directory(root, validation_split=fraction, seed=seed, subset="both")
    return [d.file_paths for d in both]


def numbers(seed, most):
    """RandomState's shuffles of 0..n-1 for each n."""
    r = np.random.RandomState(seed)
    lists = []
    for n in most:
        lists.append(list(range(n)))
        r.shuffle(lists[-1])
    return lists


if __name__ == "__main__":
    judge.__dict__.update({k: v for k, v in globals().items() if callable(v)})
    judge.main()
