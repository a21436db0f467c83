#!/usr/bin/env python3
"""images.py -- JPEGs decoded and resized by src/images and by TensorFlow 2.15, one core's time each, in one run.

    build/venv-tf/bin/python bench/images.py [--count 64] [FILE...]

The images are drawn here (500 x 375, quality 90, as a photo album has them), unless files are named. TensorFlow decodes and resizes in
one tf.function over files that it holds in memory, which leaves Python and the file system out of it.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core for both
import tensorflow as tf  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "golden"))
import judge_images  # noqa: E402

SIDE, PASSES = 180, 5


def ours(kind, paths):
    done = subprocess.run([TOP / "build" / "bench" / "bench_images", kind, str(SIDE), *paths], capture_output=True, text=True, check=True)
    return float(done.stdout)


def theirs(dataset, count):
    """Images a second of the processor's time for draining a dataset, the best of some passes."""
    best = 1e9
    for _ in range(PASSES + 1):
        start = time.process_time()
        dataset.reduce(tf.constant(0.0), lambda total, x: total + tf.cast(tf.reshape(x, [-1])[0], tf.float32)).numpy()
        best = min(best, time.process_time() - start)
    return count / best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = arguments.files
        for i in range(0 if paths else arguments.count):
            paths.append(f"{folder}/{i}.jpg")
            pathlib.Path(paths[-1]).write_bytes(tf.io.encode_jpeg(judge_images.scene(500, 375, 3, i), quality=90).numpy())
        files = tf.data.Dataset.from_tensor_slices([pathlib.Path(p).read_bytes() for p in paths])
        decoded = files.map(lambda data: tf.io.decode_jpeg(data, channels=3))
        one = tf.io.decode_jpeg(pathlib.Path(paths[0]).read_bytes(), channels=3)
        same = tf.data.Dataset.from_tensors(one).repeat(len(paths))  # the first image again and again, for both

        def resize(image):
            return tf.image.resize(image, (SIDE, SIDE))

        plans = {"load": (decoded.map(resize), paths), "decode": (decoded, paths), "resize": (same.map(resize), paths[:1] * len(paths))}
        for kind, (dataset, files) in plans.items():
            mine, other = ours(kind, files), theirs(dataset, len(files))
            print(f"{kind:<7} trainyard {mine:8.0f} images/s   TensorFlow {other:8.0f} images/s   ratio {mine / other:5.2f}")


if __name__ == "__main__":
    main()
