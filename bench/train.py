#!/usr/bin/env python3
"""bench/train.py: trainyard train against Keras and JAX, all in one run on the same data, batch and CPUs.

For each workload: examples a second of training and the ratio against
  reference  Keras fit (wide and deep: the Estimator) as the reference trainer calls it on its files
  best       Keras with features computed once and cached in memory, steps_per_execution=64, jit_compile=True
  jax        JAX, 64 steps in one jit, buffers donated
and the time from the start of the process to the end of the first step. The sides take turns, several rounds, and the best
round of each counts: what else runs on the machine disturbs all alike. Then CSV parsing and each layer's share of its roofline.
TensorFlow 2.15 is build/venv-tf, JAX build/venv-jax (bench/requirements-jax.txt).

Goals: reference 20x at small batches, 5x at 1,024, 1.5x on CNNs; best and jax 1x; CSV 500 MB/s a core; first step 100 ms.

usage: bench/train.py [--only taxifare-32,flowers-32,...] [--seconds S] [--rounds N] [--sides reference,best,jax] [--brief]"""
import argparse
import json
import os
import pathlib
import random
import re
import resource
import struct
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
BINARY = TOP / "build" / "trainyard"
DATA = pathlib.Path(os.environ.get("TRAINYARD_TEST_DATA", TOP.parent / "shared" / "data"))
VENVS = {"reference": "venv-tf", "best": "venv-tf", "jax": "venv-jax"}
WORKLOADS = {"taxifare-32": ("taxifare", 32), "taxifare-1024": ("taxifare", 1024), "chicago-128": ("chicago", 128), "mnist-64": ("mnist", 64),
             "flowers-32": ("flowers", 32)}
GOALS = {"taxifare-32": 20, "taxifare-1024": 5, "chicago-128": 20, "mnist-64": 1.5, "flowers-32": 1.5}
ROWS = 200_000

MNIST = """
name: mnist
parameters: {{batch_size: 64, examples: 0}}
input: {{columns: [{{name: digit, type: int}}, {columns}]}}
network:
  input: [{pixels}]
  layers:
    - {{reshape: [28, 28, 1]}}
    - {{conv2d: 32, activation: relu, name: c}}
    - {{max_pool: 2}}
    - {{flatten: }}
    - {{dense: 64, activation: relu, name: h}}
    - {{dense: 10, name: logits}}
head: {{type: multiclass, classes: 10, label: digit}}
training: {{optimizer: {{type: sgd, learning_rate: 0.001}}, batch_size: batch_size, examples: examples}}
"""


# ---- data ----

def taxifare_make(folder):
    sys.path.insert(0, str(TOP / "examples" / "taxifare-tf"))
    import make_data
    make_data.main(folder, train=ROWS, valid=1000)


def chicago_make(folder):
    subprocess.run([sys.executable, TOP / "examples" / "chicago_taxi" / "make_data.py", folder], check=True)


def records(path):
    data, at = path.read_bytes(), 0
    while at < len(data):
        size, = struct.unpack_from("<Q", data, at)
        yield data[at + 12:at + 12 + size]
        at += 16 + size


def mnist_make(folder):
    """1,000 digits of the real file, 28 x 28 floats each, as CSV; noise where it is not here."""
    path, pixels = DATA / "mnist" / "tfx-mnist-1000.tfrecord", [f"p{i}" for i in range(784)]
    with open(f"{folder}/mnist.csv", "w") as out:
        for record in records(path) if path.exists() else [None] * 1000:
            label, values = random.randrange(10), [random.uniform(-0.5, 0.5) for _ in range(784)]
            if record:  # image_class: one byte of a varint; image_floats: 784 packed floats
                label = record[record.index(b"image_class") + 17]
                start = record.index(b"image_floats") + 21
                values = struct.unpack("<784f", record[start:start + 3136])
            out.write(",".join([str(label), *(f"{v:.4g}" for v in values)]) + "\n")
    pathlib.Path(folder, "mnist.yaml").write_text(
        MNIST.format(columns=", ".join(f"{{name: {n}}}" for n in pixels), pixels=", ".join(pixels)))


def flowers_make(folder):
    photos = DATA / "flowers" / "flower_photos"
    if not photos.exists():
        photos = pathlib.Path(folder, "photos")
        subprocess.run([sys.executable, TOP / "examples" / "flowers" / "make_images.py", photos], check=True)
    os.symlink(photos, f"{folder}/flowers")
    code = """
import os, sys
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import numpy as np, tensorflow as tf
data = tf.keras.utils.image_dataset_from_directory(sys.argv[1], validation_split=0.2, subset="training", seed=123, image_size=(180, 180), batch_size=None)
x, y = zip(*((a.numpy(), b.numpy()) for a, b in data))
np.savez(sys.argv[2], x=np.stack(x), y=np.array(y, np.int32))"""
    subprocess.run([TOP / "build" / "venv-tf" / "bin" / "python", "-c", code, photos, f"{folder}/flowers.npz"], check=True, capture_output=True)


# ---- ours ----

class Ours:
    name = "trainyard"
    commands = {
        "taxifare": lambda f, b, n: ["taxifare", "--train_data_path", f"{f}/taxi-train*", "--batch_size", b, "--num_evals", 1,
                                     "--num_examples_to_train_on", n],
        "chicago": lambda f, b, n: ["chicago_taxi", "--train-files", f"{f}/train.csv", "--batch-size", b, "--train-steps", n // b, "--evaluations", 1,
                                    "--learning-rate", 0.001, "--hidden-units", 128, "--layer-sizes-scale-factor", 0.5, "--num-layers", 3],
        "mnist": lambda f, b, n: [f"{f}/mnist.yaml", "--train_data_path", f"{f}/mnist.csv", "--batch_size", b, "--examples", n],
        "flowers": lambda f, b, n: ["flowers", "--train_data_path", f"{f}/flowers", "--batch_size", b, "--epochs", max(2, n // 240)],
    }

    def __init__(self, workload, folder, batch):
        self.workload, self.folder, self.batch, self.guess = workload, folder, batch, 20 * batch
        self.first = min(self.run(batch)[2] for _ in range(3))
        self.turn(0.5)

    def run(self, examples):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
        words = map(str, self.commands[self.workload](self.folder, self.batch, examples))
        out = subprocess.run([BINARY, "train", *words], check=True, capture_output=True, text=True).stdout
        wall, after = time.time() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        rate = float(re.search(r"(\d+) examples/s", out)[1])
        if self.workload == "flowers":  # the first pass decodes; Keras's images are decoded before it begins
            value, unit = re.findall(r"- (\d+)(us|ms|s)/step", out)[-1]
            rate = self.batch / (float(value) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit])
        return rate, cpu, wall

    def turn(self, seconds):
        examples = max(4 * self.batch, int(self.guess))
        rate, cpu, _ = self.run(examples)
        self.guess = rate * seconds
        return {"rate": rate, "cpu_rate": examples / cpu}

    def close(self):
        pass


class Side:
    def __init__(self, name, workload, folder, batch):
        python = TOP / "build" / VENVS[name] / "bin" / "python"
        self.name, self.errors = name, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([python, TOP / "bench" / "train_side.py", name, workload, folder, str(batch)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True, bufsize=1)
        self.first = self.answer()["first"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise RuntimeError((self.errors.read().strip().splitlines() or ["ended"])[-1][:300])
        return json.loads(line)

    def turn(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        return self.answer()

    def close(self):
        self.process.kill()
        self.process.wait()


# ---- all of them ----

def compare(title, folder, args):
    workload, batch = WORKLOADS[title]
    sides = [Ours(workload, folder, batch)]
    for name in args.sides.split(","):
        try:
            sides.append(Side(name, workload, folder, batch))
        except (RuntimeError, OSError) as error:
            print(f"{title:15}{name:11}does not run: {error}")
    best = {side.name: {"rate": 0.0, "cpu_rate": 0.0} for side in sides}
    for _ in range(args.rounds):
        for side in sides:
            for key, value in side.turn(args.seconds).items():
                best[side.name][key] = max(best[side.name][key], value)
    for side in sides:
        r, ours = best[side.name], best["trainyard"]
        ratio = "" if side is sides[0] else f"{ours['rate'] / r['rate']:>9.1f} x"
        goal = "" if side is sides[0] else f"   goal {GOALS[title] if side.name == 'reference' else 1} x"
        print(f"{title:15}{side.name:11}{r['rate']:>13,.0f}{r['cpu_rate']:>15,.0f}{side.first * 1e3:>13,.0f} ms{ratio}{goal}", flush=True)
        side.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join(WORKLOADS))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sides", default="reference,best,jax")
    parser.add_argument("--brief", action="store_true", help="only training")
    args = parser.parse_args()
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    print(f"{'':15}{'':11}{'examples/s':>13}{'a CPU second':>15}{'first step':>16}{'ratio':>11}")
    with tempfile.TemporaryDirectory() as folder:
        made = set()
        for title in args.only.split(","):
            workload = WORKLOADS[title][0]
            if workload not in made:
                globals()[f"{workload}_make"](folder)
                made.add(workload)
            compare(title, folder, args)
        if args.brief:
            return
        if "taxifare" not in made:
            taxifare_make(folder)
        done = subprocess.run([TOP / "build" / "bench" / "bench_formats", "csv", next(pathlib.Path(folder).glob("taxi-train*"))], check=True,
                              capture_output=True, text=True)
        print(f"\nCSV of taxi rows: {float(done.stdout.split()[0]):,.0f} MB/s of one core   goal 500\n", flush=True)
    subprocess.run([TOP / "build" / "bench" / "bench_tensor"], check=True)


if __name__ == "__main__":
    random.seed(1)
    main()
