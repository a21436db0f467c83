#!/usr/bin/env python3
"""bench/train.py: trainyard train against Keras fit, both in one run on the same files, batch and CPUs.

Examples a second of training alone, the ratio, and seconds from the start to the first step's end. Keras is called as the
reference trainer does (examples/taxifare-tf/trainer: make_csv_dataset, fit), and at its best: rows cached as batches in
memory, steps_per_execution=64, jit_compile. Wall clock and CPU seconds are both printed: on a busy machine only the second
says much. TensorFlow 2.15 is build/venv-tf.

usage: bench/train.py [--rows N] [--seconds S]"""
import argparse
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
PYTHON = TOP / "build" / "venv-tf" / "bin" / "python"


def keras(folder, batch, seconds, best):
    """In the TensorFlow venv: one warm-up, then steps for about `seconds`."""
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    began = time.time()
    import tensorflow as tf
    sys.path.insert(0, str(TOP / "examples" / "taxifare-tf"))
    from trainer import model as trainer
    model = trainer.build_model(10, [32, 8], 0.001)
    data = trainer.load_dataset(f"{folder}/taxi-train*", batch, repeat=not best)
    if best:
        model.compile(optimizer=tf.keras.optimizers.Adam(0.001), loss="mse", metrics=[trainer.rmse, "mse"], steps_per_execution=64)
        data = data.take(max(64, 20_000 // batch)).cache().repeat().prefetch(16)
    warm = 128 if best else 20
    model.fit(data, steps_per_epoch=warm, epochs=1, verbose=0)
    first = time.time() - began
    start = time.time()
    model.fit(data, steps_per_epoch=warm, epochs=1, verbose=0)
    each = (time.time() - start) / warm
    steps = max(warm, int(seconds / each) // 64 * 64 or 64)
    start, cpu = time.time(), time.process_time()
    model.fit(data, steps_per_epoch=steps, epochs=1, verbose=0)
    wall, cpu = time.time() - start, time.process_time() - cpu
    print(json.dumps({"rate": steps * batch / wall, "cpu_rate": steps * batch / cpu, "first": first}))


def ours(folder, batch, seconds):
    def run(examples):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.time()
        out = subprocess.run([TOP / "build" / "trainyard", "train", "taxifare", "--batch_size", str(batch), "--num_evals", "1",
                              "--num_examples_to_train_on", str(examples), "--train_data_path", f"{folder}/taxi-train*", "--no_export"],
                             check=True, capture_output=True, text=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return float(re.search(r"(\d+) examples/s", out)[1]), cpu, time.time() - began
    _, start_cpu, first = run(batch)
    rate, _, _ = run(100_000)
    examples = max(100_000, int(rate * seconds))
    rate, cpu, _ = run(examples)
    return {"rate": rate, "cpu_rate": examples / max(1e-9, cpu - start_cpu), "first": first}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--keras", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.keras:
        folder, batch, best = args.keras
        return keras(folder, int(batch), args.seconds, best == "best")
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, str(TOP / "examples" / "taxifare-tf"))
        import make_data
        make_data.main(folder, train=args.rows, valid=1000)
        print(f"taxifare, {args.rows} rows, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
        print(f"{'':28}{'examples/s':>14}{'per CPU second':>16}{'first step, s':>15}")
        for batch in (32, 1024):
            results = {"trainyard": ours(folder, batch, args.seconds)}
            for kind in ("reference", "best"):
                done = subprocess.run([PYTHON, __file__, "--seconds", str(args.seconds), "--keras", folder, str(batch), kind],
                                      capture_output=True, text=True)
                if done.returncode == 0:
                    results[f"Keras, {kind}"] = json.loads(done.stdout.splitlines()[-1])
                else:
                    print(f"Keras, {kind}: failed: {done.stderr.strip().splitlines()[-1:]}")
            for name, r in results.items():
                ratio = results["trainyard"]["rate"] / r["rate"]
                cpu_ratio = results["trainyard"]["cpu_rate"] / r["cpu_rate"]
                print(f"batch {batch:<5} {name:16}{r['rate']:>14,.0f}{r['cpu_rate']:>16,.0f}{r['first']:>15.2f}"
                      + (f"   {ratio:.1f} x, by CPU time {cpu_ratio:.1f} x" if name != "trainyard" else ""))


if __name__ == "__main__":
    random.seed(1)
    main()
