"""parity.py MODEL FOLDER: TensorFlow's side of tests/clients/test_parity.py, in the TensorFlow venv.

`make` trains 50 steps on batches of FOLDER/data.csv and leaves the weights before each step as bundles (weights-I), losses
and gradients; `judge` compares them with what build/train_tool made of the same. Prints JSON."""
import json
import os
import pathlib
import random
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import numpy as np
import tensorflow as tf

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
STEPS, BATCH = 50, 32


def save(prefix, named):
    names = sorted(named)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=[named[n] for n in names])


class Taxifare:
    """The reference trainer's own model, on rides all over the map, so that many crosses occur."""

    def __init__(self):
        sys.path.insert(0, str(TOP / "examples" / "taxifare-tf"))
        from trainer import model
        self.trainer = model
        self.model = model.build_model(nbuckets=5, nnsize=[32, 8], lr=0.001)
        self.optimizer, self.settings = self.model.optimizer, {"nbuckets": 5, "lr": 0.001, "batch_size": BATCH}

    def rows(self):
        rng = random.Random(7)
        for _ in range(STEPS * BATCH):
            place = [f"{rng.uniform(-78, -70):.5f}", f"{rng.uniform(37, 45):.5f}", f"{rng.uniform(-78, -70):.5f}", f"{rng.uniform(37, 45):.5f}"]
            yield [f"{rng.uniform(2.5, 60):.2f}", f"2013-07-{rng.randrange(1, 29):02d} {rng.randrange(24):02d}:11:59 UTC", *place,
                   f"{rng.randrange(1, 6)}.0", "unused"]

    def batch(self, rows):
        names = self.trainer.CSV_COLUMNS
        columns = {n: [r[i] for r in rows] for i, n in enumerate(names)}
        x = {n: tf.constant([float(v) for v in columns[n]]) for n in self.trainer.NUMERIC_INPUTS}
        x["pickup_datetime"] = tf.constant(columns["pickup_datetime"])
        return x, tf.constant([[float(v)] for v in columns["fare_amount"]])

    def loss(self, x, y):
        return tf.reduce_mean(tf.square(self.model(x, training=True) - y))

    def variables(self):
        named = {}
        for v in self.model.trainable_variables:
            layer, kind = v.name.split("/")[0], v.name.split("/")[-1].split(":")[0]
            named["features/pair_embedding" if kind.startswith("embedding") else f"{layer}/{kind}"] = v
        return named

    def extra(self):
        return {}

    def apply(self, grads):
        self.optimizer.apply_gradients(grads)


MODELS = {"taxifare": Taxifare}


def make(name, folder):
    tf.keras.utils.set_random_seed(1)
    case = MODELS[name]()
    rows = list(case.rows())
    with open(f"{folder}/data.csv", "w") as out:
        if hasattr(case, "HEADER"):
            out.write(",".join(case.HEADER) + "\n")
        out.writelines(",".join(r) + "\n" for r in rows)
    losses, result = [], {}
    for step in range(STEPS):
        x, y = case.batch(rows[step * BATCH:(step + 1) * BATCH])
        named = case.variables()
        save(f"{folder}/weights-{step}", {**named, **case.extra()})
        with tf.GradientTape() as tape:
            loss = case.loss(x, y)
        grads = tape.gradient(loss, list(named.values()))
        losses.append(float(loss))
        for n, g in zip(named, grads):
            result[f"{step}/{n}"] = tf.convert_to_tensor(g).numpy()
        case.apply(list(zip(grads, named.values())))
    np.savez(f"{folder}/gradients.npz", **result)
    save(f"{folder}/final", {**case.variables(), **case.extra()})
    json.dump(losses, open(f"{folder}/losses.json", "w"))
    print(json.dumps({"settings": case.settings, "steps": STEPS}))


def judge(folder):
    theirs = np.load(f"{folder}/gradients.npz")
    worst = {}
    for step in range(STEPS):
        ours = tf.train.load_checkpoint(f"{folder}/gradients-{step}")
        for key in theirs.files:
            at, name = key.split("/", 1)
            if int(at) != step:
                continue
            a, b = theirs[key], ours.get_tensor(name).reshape(theirs[key].shape)
            worst[name] = max(worst.get(name, 0.0), float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30)))
    final, ours = tf.train.load_checkpoint(f"{folder}/final"), tf.train.load_checkpoint(f"{folder}/ours")
    weights = {n: float(np.abs(final.get_tensor(n).ravel() - ours.get_tensor(n).ravel()).max()) for n in final.get_variable_to_shape_map()}
    print(json.dumps({"gradients": worst, "weights": weights}))


if __name__ == "__main__":
    judge(sys.argv[3]) if sys.argv[1] == "judge" else make(sys.argv[2], sys.argv[3])
