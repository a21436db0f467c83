#!/usr/bin/env python3
"""formats.py -- CSV, TFRecord and tf.Example read by src/formats and by TensorFlow 2.15, one core's time each, in one run.

    build/venv-tf/bin/python bench/formats.py [--rows 500000]

The data is made here. Goal: CSV at least 500 MB/s on one core. Both sides hold the file in the page cache; TensorFlow
reads with its fastest call for each (CsvDataset and decode_csv of batches, TFRecordDataset, parse_example of batches).
"""
import argparse
import os
import pathlib
import random
import subprocess
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core for both
import tensorflow as tf  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parent.parent
BATCH = 1024


def taxi_rows(count):
    r = random.Random(1)
    for i in range(count):
        digits = 6 if i % 4 else 14  # both kinds are in the real files
        place = [f"{r.gauss(*at):.{digits}f}" for at in ((-73.98, 0.03), (40.75, 0.03)) * 2]
        yield [f"{r.uniform(2.5, 60):.1f}", f"201{r.randrange(6)}-{r.randrange(1, 13):02d}-{r.randrange(1, 29):02d} {r.randrange(24):02d}:42:59 UTC",
               *place, str(r.randrange(1, 7)), str(i)]


def example(row):
    feature = {"fare": tf.train.Feature(float_list=tf.train.FloatList(value=[float(row[0])])),
               "coordinates": tf.train.Feature(float_list=tf.train.FloatList(value=map(float, row[2:6]))),
               "passengers": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(row[6])])),
               "pickup_datetime": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row[1].encode()])),
               "key": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row[7].encode()]))}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def ours(kind, path):
    done = subprocess.run([TOP / "build" / "bench" / "bench_formats", kind, path], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[0])


def speed(path, dataset, passes=2):
    """MB/s of the processor's time for draining a dataset, the best of some passes."""
    best = 1e9
    for _ in range(passes):
        start = time.process_time()
        for _ in dataset:
            pass
        best = min(best, time.process_time() - start)
    return os.path.getsize(path) / 1e6 / best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=500000)
    rows = list(taxi_rows(parser.parse_args().rows))
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    kinds = [[0.0], ["na"], [0.0], [0.0], [0.0], [0.0], [0.0], ["na"]]
    spec = {"fare": tf.io.FixedLenFeature([], tf.float32), "coordinates": tf.io.FixedLenFeature([4], tf.float32),
            "passengers": tf.io.FixedLenFeature([], tf.int64), "pickup_datetime": tf.io.FixedLenFeature([], tf.string),
            "key": tf.io.FixedLenFeature([], tf.string)}
    with tempfile.TemporaryDirectory() as folder:
        csv, records = f"{folder}/taxi.csv", f"{folder}/taxi.tfrecord"
        pathlib.Path(csv).write_text("".join(",".join(row) + "\n" for row in rows))
        with tf.io.TFRecordWriter(records) as w:
            for row in rows:
                w.write(example(row))
        lines = tf.data.TextLineDataset(csv).batch(BATCH).map(lambda x: tf.io.decode_csv(x, kinds))
        files = tf.data.TFRecordDataset(records)
        theirs = {"csv": max(speed(csv, lines), speed(csv, tf.data.experimental.CsvDataset(csv, kinds).batch(BATCH))),
                  "tfrecord": speed(records, files.batch(BATCH)),
                  "example": speed(records, files.batch(BATCH).map(lambda x: tf.io.parse_example(x, spec)))}
        for kind, path in (("csv", csv), ("tfrecord", records), ("example", records)):
            mine = ours(kind, path)
            print(f"{kind:<9} trainyard {mine:8.1f} MB/s   TensorFlow {theirs[kind]:7.1f} MB/s   ratio {mine / theirs[kind]:5.1f}")


if __name__ == "__main__":
    main()
