#!/usr/bin/env python3
"""make_formats.py -- the files in tests/golden/formats, made by real TensorFlow 2.15 for src/formats' unit tests.

    build/venv-tf/bin/python tests/golden/make_formats.py

Same seeds, same files: only times inside the event file differ from run to run, which no test looks at.
"""
import os
import pathlib
import random
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import judge  # noqa: E402  (imports TensorFlow)
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parent / "formats"


def numbers(r):
    """Decimal text as data files have it, and the traps: ties between floats, long digits, the ends of the range."""
    yield from ("0 -0 5. .5 -.25 +3 1e40 -1e40 3.4028235e38 3.4028236e38 inf -inf 16777217 16777219 33554434.999999 0.1 1e-37 "
                "-73.86344146728516 40.76899719238281 9007199254740993 9999999999999999999 1234567890123456789.0").split()
    for _ in range(300):
        yield f"{r.uniform(-180, 180):.{r.randrange(18)}f}"
        middle = r.randrange(2**23, 2**24) * 2 + 1
        yield r.choice([f"{middle}", f"{middle}.0000000001", f"{middle - 1}.999999999", f"{middle / 2**20:.28f}"[:30]])


def text_files(r):
    lines = list(numbers(r))
    rows = judge.decode_csv(lines, "f")
    (OUT / "floats.txt").write_text("".join(f"{row[0]} {line}\n" for line, row in zip(lines, rows)))
    words = ["".join(r.choice("abc é0123456789") for _ in range(n)) for n in [*range(1, 140), 1000]]
    (OUT / "hashes.txt").write_text("".join(f"{p} {b} {w}\n" for w, (p, b) in zip(words, judge.hashes(words))))
    pairs = [[r.randrange(-9, 99), r.choice(["Flash Cab", "x", "Ärger"]), r.randrange(2**40)] for _ in range(40)]
    (OUT / "crosses.txt").write_text("".join(f"{i} {a} {c} {b}\n" for (a, b, c), i in zip(pairs, judge.crosses(pairs, 10000))))


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    text_files(random.Random(1))
    judge.write_records(str(OUT / "examples.tfrecord"), 6, 1)
    judge.write_records(str(OUT / "examples.tfrecord.gz"), 6, 1, gzip=True)
    tf.raw_ops.SaveV2(prefix=str(OUT / "mixed"), tensor_names=["a/double", "a/empty", "a/text", "b/kernel", "b/scalar", "c/words"],
                      shape_and_slices=[""] * 6,
                      tensors=[np.arange(12, dtype=np.float64).reshape(3, 4), np.zeros((0, 4), np.float32), tf.constant("hello"),
                               np.arange(6, dtype=np.float32).reshape(2, 3) / 4, np.int64(-5), tf.constant(["", "x" * 300, "é"])])

    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable([[1.0], [2.0]], name="w")

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
        def serve(self, x):
            return {"y": x @ self.w}

    with tempfile.TemporaryDirectory() as folder:
        module = Module()
        tf.saved_model.save(module, folder, signatures={"serving_default": module.serve})
        shutil.copy(os.path.join(folder, "saved_model.pb"), OUT / "saved_model.pb")
        for path in judge.write_events(os.path.join(folder, "events")):
            name = "events.old" if path.endswith(".old") else "events.v2"
            shutil.copy(path, OUT / name)


if __name__ == "__main__":
    main()
