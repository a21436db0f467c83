"""train_side.py SIDE WORKLOAD FOLDER BATCH: the other sides of bench/train.py, in the TensorFlow or the JAX venv.

SIDE is reference (fit, or the Estimator, as the reference trainer calls it on its files), best (Keras with features computed
once and cached, steps_per_execution=64, jit_compile) or jax (jit of 64 steps at once, buffers donated). Prints
{"first": seconds to the first step's end}, then for each number of seconds that it reads a line {"rate", "cpu_rate"}: examples
a second by the clock and by the CPU's time."""
import csv
import json
import math
import os
import pathlib
import sys
import time

BEGAN = time.time()
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", JAX_PLATFORMS="cpu")
import numpy as np

TOP = pathlib.Path(__file__).resolve().parent.parent
TOGETHER = 64
SIDE_PIXELS = 180
PAYMENTS = ["Cash", "Credit Card", "Pcard", "Unknown", "No Charge", "Prcard", "Dispute", "Mobile"]


def serve(run):
    """run(steps) trains; its first call is the first step."""
    run(TOGETHER if run.together else 1)
    print(json.dumps({"first": time.time() - BEGAN}), flush=True)
    steps = 4 * TOGETHER if run.together else 32
    began = time.time()
    run(steps)
    each = (time.time() - began) / steps
    for line in sys.stdin:
        steps = max(TOGETHER if run.together else 4, int(float(line) / each) // TOGETHER * TOGETHER if run.together else int(float(line) / each))
        began, cpu = time.time(), time.process_time()
        run(steps)
        wall, cpu = time.time() - began, time.process_time() - cpu
        each = wall / steps
        print(json.dumps({"rate": steps * run.batch / wall, "cpu_rate": steps * run.batch / cpu}), flush=True)


class Run:
    def __init__(self, call, batch, together):
        self.call, self.batch, self.together = call, batch, together

    def __call__(self, steps):
        self.call(steps)


# ---- the data, with features computed once, as ours are ----

def taxifare_arrays(folder):
    rows = [r for path in sorted(pathlib.Path(folder).glob("taxi-train*")) for r in csv.reader(open(path))]
    at = np.array([[float(v) for v in r[2:7]] for r in rows], np.float32)
    scaled = np.stack([(at[:, 0] + 78) / 8, (at[:, 1] - 37) / 8, (at[:, 2] + 78) / 8, (at[:, 3] - 37) / 8], 1)
    far = np.hypot(at[:, 2] - at[:, 0], at[:, 3] - at[:, 1])
    cells = np.clip((scaled * 9).astype(np.int64) + 1, 0, 10)
    pair = ((cells[:, 0] * 11 + cells[:, 1]) * 121 + cells[:, 2] * 11 + cells[:, 3]) * 2654435761 % 10_000
    return {"numbers": np.concatenate([scaled, at[:, 4:5], far[:, None]], 1).astype(np.float32),
            "hour": np.array([int(r[1][11:13]) for r in rows], np.int32), "pair": pair.astype(np.int32),
            "y": np.array([float(r[0]) for r in rows], np.float32)}


def chicago_arrays(folder):
    rows = list(csv.DictReader(open(f"{folder}/train.csv")))
    miles = np.array([float(r["trip_miles"]) for r in rows], np.float32)
    seconds = np.array([float(r["trip_seconds"]) for r in rows], np.float32)
    return {"numbers": np.stack([np.array([float(r["fare"]) for r in rows], np.float32), miles, seconds], 1),
            "company": np.array([sum(map(ord, r["company"])) % 100 for r in rows], np.int32),
            "payment": np.array([PAYMENTS.index(r["payment_type"]) if r["payment_type"] in PAYMENTS else 0 for r in rows], np.int32),
            "miles": np.minimum(miles // 5, 10).astype(np.int32), "seconds": np.minimum(seconds // 900, 4).astype(np.int32),
            "cross": ((miles.astype(np.int64) * 4001 + seconds.astype(np.int64)) * 2654435761 % 10_000).astype(np.int32),
            "y": np.array([float(r["tip"]) for r in rows], np.float32)}


def mnist_arrays(folder):
    rows = np.loadtxt(f"{folder}/mnist.csv", delimiter=",", dtype=np.float32)
    return {"x": rows[:, 1:].reshape(-1, 28, 28, 1), "y": rows[:, 0].astype(np.int32)}


def flowers_arrays(folder):
    return dict(np.load(f"{folder}/flowers.npz"))


# ---- Keras ----

def keras_taxifare(tf, best):
    layers = tf.keras.layers
    inputs = {"numbers": layers.Input((6,)), "hour": layers.Input((), dtype="int32"), "pair": layers.Input((), dtype="int32")}
    x = layers.Concatenate()([inputs["numbers"], tf.one_hot(inputs["hour"], 24), layers.Embedding(10_000, 100)(inputs["pair"])])
    x = layers.Dense(8, activation="relu")(layers.Dense(32, activation="relu")(x))
    model = tf.keras.Model(inputs, layers.Dense(1)(x))
    model.compile(optimizer=tf.keras.optimizers.Adam(0.001), loss="mse", metrics=["mse"], **best)
    return model


def keras_chicago(tf, best):
    layers = tf.keras.layers

    class WideAndDeep(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.wide = [layers.Embedding(n, 1, embeddings_initializer="zeros") for n in (11, 5, 10_000)]
            self.tables = [layers.Embedding(100, 10), layers.Embedding(8, 3)]
            self.deep = [part for n in (128, 64, 32) for part in (layers.Dense(n, activation="relu"), layers.BatchNormalization(momentum=0.999))]
            self.last = layers.Dense(1)
            self.ftrl = tf.keras.optimizers.Ftrl(0.001)

        def call(self, x, training=False):
            h = tf.concat([self.tables[0](x["company"]), x["numbers"], self.tables[1](x["payment"])], 1)
            for part in self.deep:
                h = part(h, training=training) if isinstance(part, layers.BatchNormalization) else part(h)
            return self.last(h) + sum(t(x[n]) for t, n in zip(self.wide, ("miles", "seconds", "cross")))

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y[:, None], self(x, training=True)))
            wide = [v for t in self.wide for v in t.trainable_variables]
            deep = [v for v in self.trainable_variables if all(v is not w for w in wide)]
            grads = tape.gradient(loss, wide + deep)
            self.ftrl.apply_gradients(zip(grads[:len(wide)], wide))
            self.optimizer.apply_gradients(zip(grads[len(wide):], deep))
            return {"loss": loss}
    model = WideAndDeep()
    model.compile(optimizer=tf.keras.optimizers.Adam(0.001, epsilon=1e-8), **best)
    return model


def keras_mnist(tf, best):
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)), layers.MaxPooling2D(), layers.Flatten(),
                                 layers.Dense(64, activation="relu"), layers.Dense(10)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.001), loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"], **best)
    return model


def keras_flowers(tf, best):
    layers = tf.keras.layers
    parts = [layers.Rescaling(1 / 255, input_shape=(SIDE_PIXELS, SIDE_PIXELS, 3))]
    for filters in (16, 32, 64):
        parts += [layers.Conv2D(filters, 3, padding="same", activation="relu"), layers.MaxPooling2D()]
    model = tf.keras.Sequential([*parts, layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(5, activation="softmax")])
    model.compile(optimizer="adam", loss=tf.keras.losses.SparseCategoricalCrossentropy(), metrics=["accuracy"], **best)
    return model


KERAS = {"taxifare": keras_taxifare, "chicago": keras_chicago, "mnist": keras_mnist, "flowers": keras_flowers}
ARRAYS = {"taxifare": taxifare_arrays, "chicago": chicago_arrays, "mnist": mnist_arrays, "flowers": flowers_arrays}


def best(workload, folder, batch):
    import tensorflow as tf
    arrays = ARRAYS[workload](folder)
    y = arrays.pop("y")
    x = arrays["x"] if "x" in arrays else arrays
    together = workload in ("taxifare", "chicago", "mnist")  # a step of flowers takes long enough
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(y)).batch(batch, drop_remainder=True).cache().repeat().prefetch(16)
    model = KERAS[workload](tf, {"jit_compile": True, "steps_per_execution": TOGETHER if together else 1})
    return Run(lambda steps: model.fit(data, steps_per_epoch=steps, epochs=1, verbose=0), batch, together)


def reference(workload, folder, batch):
    import tensorflow as tf
    if workload == "taxifare":
        sys.path.insert(0, str(TOP / "examples" / "taxifare-tf"))
        from trainer import model as trainer
        model = trainer.build_model(10, [32, 8], 0.001)
        data = trainer.load_dataset(f"{folder}/taxi-train*", batch, repeat=True)
    elif workload == "chicago":
        return estimator(tf, folder, batch)
    else:
        arrays = ARRAYS[workload](folder)
        data = tf.data.Dataset.from_tensor_slices((arrays["x"], arrays["y"])).batch(batch, drop_remainder=True).cache().shuffle(1000).repeat()
        data = data.prefetch(tf.data.AUTOTUNE)
        model = KERAS[workload](tf, {})
    return Run(lambda steps: model.fit(data, steps_per_epoch=steps, epochs=1, verbose=0), batch, False)


def estimator(tf, folder, batch):
    """One call of train serves all: a hook hands out steps, so that graph and session are built once."""
    import queue
    import tempfile
    import threading
    sys.path.insert(0, str(TOP / "tests" / "golden"))
    import quality
    tf.get_logger().setLevel("ERROR")
    quality.CHICAGO = {**quality.CHICAGO, "batch_size": batch}
    model, files = quality.chicago_estimator(tf, tempfile.mkdtemp(), 1)
    asked, done = queue.Queue(), queue.Queue()

    class Gate(tf.estimator.SessionRunHook):
        left = 0

        def before_run(self, context):
            if self.left == 0:
                self.left = asked.get()

        def after_run(self, context, values):
            self.left -= 1
            if self.left == 0:
                done.put(True)

    threading.Thread(target=lambda: model.train(files(f"{folder}/train.csv", True), hooks=[Gate()], steps=10**9), daemon=True).start()

    def run(steps):
        asked.put(steps)
        done.get()
    return Run(run, batch, False)


# ---- JAX ----

def jax_side(workload, folder, batch):
    import jax
    import jax.numpy as jnp
    arrays = {k: jnp.asarray(v) for k, v in ARRAYS[workload](folder).items()}
    count, key = len(arrays["y"]), jax.random.PRNGKey(1)

    def dense(k, n, m):
        return {"w": jax.random.uniform(jax.random.fold_in(key, k), (n, m), jnp.float32, -1, 1) * math.sqrt(6 / (n + m)), "b": jnp.zeros(m)}

    def conv(k, n, m):
        return {"w": jax.random.uniform(jax.random.fold_in(key, k), (3, 3, n, m), jnp.float32, -1, 1) * math.sqrt(6 / (9 * (n + m))), "b": jnp.zeros(m)}

    def conv_apply(p, x, padding):
        return jax.lax.conv_general_dilated(x, p["w"], (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")) + p["b"]

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def softmax_loss(z, y):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], 1))

    if workload == "taxifare":
        params = {"table": jax.random.normal(key, (10_000, 100)) * 0.1, "h": dense(1, 130, 32), "g": dense(2, 32, 8), "o": dense(3, 8, 1)}

        def loss(p, b):
            x = jnp.concatenate([b["numbers"], jax.nn.one_hot(b["hour"], 24), p["table"][b["pair"]]], 1)
            x = jax.nn.relu(x @ p["h"]["w"] + p["h"]["b"])
            x = jax.nn.relu(x @ p["g"]["w"] + p["g"]["b"])
            return jnp.mean(((x @ p["o"]["w"] + p["o"]["b"])[:, 0] - b["y"]) ** 2)
    elif workload == "chicago":
        params = {"company": jax.random.normal(key, (100, 10)), "payment": jax.random.normal(key, (8, 3)),
                  "deep": [dense(i, n, m) | {"gamma": jnp.ones(m), "beta": jnp.zeros(m)} for i, (n, m) in enumerate(((16, 128), (128, 64), (64, 32)))],
                  "o": dense(9, 32, 1), "wide": {n: jnp.zeros(w) for n, w in (("miles", 11), ("seconds", 5), ("cross", 10_000))}, "bias": jnp.zeros(1)}

        def loss(p, b):
            x = jnp.concatenate([p["company"][b["company"]], b["numbers"], p["payment"][b["payment"]]], 1)
            for part in p["deep"]:
                x = jax.nn.relu(x @ part["w"] + part["b"])
                x = (x - x.mean(0)) * jax.lax.rsqrt(x.var(0) + 1e-3) * part["gamma"] + part["beta"]
            z = (x @ p["o"]["w"] + p["o"]["b"])[:, 0] + p["bias"] + sum(p["wide"][n][b[n]] for n in p["wide"])
            return jnp.mean(jax.nn.softplus(z) - z * b["y"])
    elif workload == "mnist":
        params = {"c": conv(1, 1, 32), "h": dense(2, 13 * 13 * 32, 64), "o": dense(3, 64, 10)}

        def loss(p, b):
            x = pool(jax.nn.relu(conv_apply(p["c"], b["x"], "VALID"))).reshape(len(b["y"]), -1)
            x = jax.nn.relu(x @ p["h"]["w"] + p["h"]["b"])
            return softmax_loss(x @ p["o"]["w"] + p["o"]["b"], b["y"])
    else:
        params = {"c": [conv(i, n, m) for i, (n, m) in enumerate(((3, 16), (16, 32), (32, 64)))], "h": dense(8, 22 * 22 * 64, 128), "o": dense(9, 128, 5)}

        def loss(p, b):
            x = b["x"] / 255
            for part in p["c"]:
                x = pool(jax.nn.relu(conv_apply(part, x, "SAME")))
            x = jax.nn.relu(x.reshape(len(b["y"]), -1) @ p["h"]["w"] + p["h"]["b"])
            return softmax_loss(x @ p["o"]["w"] + p["o"]["b"], b["y"])

    def step(state, rows):
        p, m, v, t = state
        grads = jax.grad(loss)(p, {k: a[rows] for k, a in arrays.items()})
        if workload == "mnist":
            return (jax.tree_util.tree_map(lambda w, g: w - 0.001 * g, p, grads), m, v, t + 1), 0.0
        m = jax.tree_util.tree_map(lambda a, g: a + (g - a) * 0.1, m, grads)
        v = jax.tree_util.tree_map(lambda a, g: a + (g * g - a) * 0.001, v, grads)
        rate = 0.001 * jnp.sqrt(1 - 0.999 ** (t + 1.0)) / (1 - 0.9 ** (t + 1.0))
        return (jax.tree_util.tree_map(lambda w, a, b: w - rate * a / (jnp.sqrt(b) + 1e-7), p, m, v), m, v, t + 1), 0.0

    together = workload != "flowers"
    many = jax.jit(lambda state, rows: jax.lax.scan(step, state, rows)[0], donate_argnums=0)
    zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
    hold = [(params, zeros, jax.tree_util.tree_map(jnp.zeros_like, params), 0)]
    rng = np.random.default_rng(1)

    def run(steps):
        n = TOGETHER if together else 1
        for _ in range(max(1, steps // n)):
            hold[0] = many(hold[0], rng.integers(0, count, (n, batch), dtype=np.int32))
        jax.block_until_ready(hold[0])
    return Run(run, batch, together)


if __name__ == "__main__":
    side, workload, folder, batch = sys.argv[1:]
    serve({"reference": reference, "best": best, "jax": jax_side}[side](workload, folder, int(batch)))
