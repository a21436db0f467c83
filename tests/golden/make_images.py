#!/usr/bin/env python3
"""make_images.py -- the files in tests/golden/images, judged by real TensorFlow 2.15 for src/images' unit tests.

    build/venv-tf/bin/python tests/golden/make_images.py

The images are drawn by draw_images.py and judge_images.py. Same seeds, same files.

    *.jpg *.png      images; broken/* are what TensorFlow refuses
    decode.txt       file channels height width: the pixels are the next ones of pixels.bin; "file channels refused": TensorFlow does not
    resize.txt       file channels method height width: the next float32 values of floats.bin
    shuffle.txt      seed, then RandomState(seed)'s shuffle of 0..n-1
"""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import draw_images  # noqa: E402
import judge_images as judge  # noqa: E402  (imports TensorFlow)

OUT = pathlib.Path(__file__).resolve().parent / "images"
SIZES = [("tf_plain.jpg", 3, 18, 18), ("tf_plain.jpg", 3, 38, 53), ("tf_grey.jpg", 1, 20, 61), ("narrow.jpg", 3, 7, 5), ("dot.png", 3, 3, 2),
         ("full.jpg", 3, 1, 1), ("type0_8.png", 1, 5, 300)]


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    (OUT / "broken").mkdir(parents=True)
    files = {**draw_images.every(), **judge.encoded()}
    lines, pixels = [], b""
    for name, data in files.items():
        (OUT / name).write_bytes(data)
        for channels in (1, 3):
            found = judge.decoded(data, channels)
            lines.append(f"{name} {channels} refused" if found is None else f"{name} {channels} {found.shape[0]} {found.shape[1]}")
            pixels += b"" if found is None else found.tobytes()
    (OUT / "decode.txt").write_text("\n".join(lines) + "\n")
    (OUT / "pixels.bin").write_bytes(pixels)
    for name, data in draw_images.broken().items():
        assert judge.decoded(data, 3) is None, f"TensorFlow reads broken/{name}"
        (OUT / "broken" / name).write_bytes(data)
    lines, floats = [], b""
    for name, channels, height, width in SIZES:
        for method in ("bilinear", "nearest"):
            lines.append(f"{name} {channels} {method} {height} {width}")
            floats += judge.resized(judge.decoded(files[name], channels), method, height, width).tobytes()
    (OUT / "resize.txt").write_text("\n".join(lines) + "\n")
    (OUT / "floats.bin").write_bytes(floats)
    (OUT / "shuffle.txt").write_text("".join(f"{seed} {' '.join(map(str, judge.numbers(seed, [700])[0]))}\n" for seed in (0, 123, 2**32 - 1)))


if __name__ == "__main__":
    main()
