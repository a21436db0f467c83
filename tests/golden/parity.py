"""parity.py MODEL FOLDER: TensorFlow's side of tests/clients/test_parity.py, in the TensorFlow venv.

A ReLU's input that is 0 within rounding has the gradient 0 or 1 by chance: steps with one are left out of the comparison of
gradients (`kinks`), and only of that. Where a model has `exact`, its gradients are also computed by TensorFlow in float64: a
unit that batch norm magnifies may make TensorFlow's own rounding larger than what is allowed, and then the exact ones judge.

In the flowers network, with a million ReLUs and windows of a pool, there is one at nearly every step: `make` computes gradients in
float64, too, and `judge` lists the steps where the two sides took different branches (`branches`), with how far each of them is
from float64. Measured: TensorFlow's own float32 takes another branch than its float64 as often as ours does, and freely run for 50
steps its losses differ by 3e-4 between one thread and two, and by 6e-4 from float64 (ours: 1e-4).

`make` trains 50 steps on batches of FOLDER/data and leaves the weights before each step as bundles (weights-I), losses
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


class ChicagoTaxi:
    """The reference's wide and deep classifier, of the same feature columns; its two optimizers as Keras has them."""

    HEADER = ["tip", "trip_miles", "trip_seconds", "fare", "payment_type", "company"]
    PAYMENTS = ["Cash", "Credit Card", "Pcard", "Unknown", "No Charge", "Prcard", "Dispute", "Mobile"]

    def __init__(self):
        fc = tf.feature_column
        miles, seconds, fare = (fc.numeric_column(n) for n in ("trip_miles", "trip_seconds", "fare"))
        payment = fc.categorical_column_with_vocabulary_list("payment_type", self.PAYMENTS)
        company = fc.categorical_column_with_hash_bucket("company", 100)
        self.categories = {"payment": payment, "companies": company}
        self.deep_columns = tf.keras.layers.DenseFeatures([fc.embedding_column(company, 10), fare, fc.embedding_column(payment, 3), miles, seconds])
        wide = {"miles": fc.bucketized_column(miles, list(range(5, 55, 5))), "seconds": fc.bucketized_column(seconds, [900, 1800, 2700, 3600]),
                "miles_x_seconds": fc.indicator_column(fc.crossed_column(["miles_int", "trip_seconds"], 10000))}
        self.wide_columns = {n: tf.keras.layers.DenseFeatures([c]) for n, c in wide.items()}
        self.wide = {f"wide/{n}_weights": tf.Variable(tf.zeros((w, 1))) for n, w in (("miles", 11), ("seconds", 5), ("miles_x_seconds", 10000))}
        self.wide["wide/bias"] = tf.Variable(tf.zeros((1,)))
        self.dense = [tf.keras.layers.Dense(u) for u in (128, 64, 32)]  # ReLU follows
        self.norm = [tf.keras.layers.BatchNormalization(momentum=0.999) for _ in self.dense]
        self.last = tf.keras.layers.Dense(1)
        self.adam, self.ftrl = tf.keras.optimizers.Adam(0.001, epsilon=1e-8), tf.keras.optimizers.Ftrl(0.001)
        self.settings = {"batch_size": BATCH, "learning_rate": 0.001, "hidden_units": "128", "layer_sizes_scale_factor": 0.5, "num_layers": 3,
                         "train_steps": STEPS}

    def rows(self):
        rng = random.Random(8)
        for _ in range(STEPS * BATCH):
            yield [str(rng.randrange(2)), f"{rng.uniform(0, 50):.1f}", str(rng.randrange(1, 3600)), str(rng.randrange(300, 9000)),
                   rng.choice(self.PAYMENTS + ["Barter"]), f"Company {rng.randrange(60)}"]

    def batch(self, rows):
        column = {n: [r[i] for r in rows] for i, n in enumerate(self.HEADER)}
        x = {n: tf.constant([[float(v)] for v in column[n]]) for n in ("trip_miles", "fare")}
        x["miles_int"] = tf.cast(x["trip_miles"], tf.int64)
        x["trip_seconds"] = tf.constant([[int(v)] for v in column["trip_seconds"]], tf.int64)
        x.update({n: tf.constant([[v] for v in column[n]]) for n in ("payment_type", "company")})
        return x, tf.constant([[float(v)] for v in column["tip"]])

    def logits(self, x):
        y, self.nearest = self.deep_columns(x), 1.0
        for dense, norm in zip(self.dense, self.norm):
            before = dense(y)
            self.nearest = min(self.nearest, float(tf.reduce_min(tf.abs(before)) / tf.reduce_max(tf.abs(before))))
            y = norm(tf.nn.relu(before), training=True)
        y = self.last(y)
        for n, columns in self.wide_columns.items():
            y += tf.matmul(columns(x), self.wide[f"wide/{n}_weights"])
        return y + self.wide["wide/bias"]

    def loss(self, x, y):
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, self.logits(x)))

    def exact(self, x, y):
        """The same gradients by name, from the same weights and ids, in float64."""
        def double(v):
            return tf.cast(v, tf.float64)
        fc, w = tf.feature_column, {n: tf.Variable(double(v)) for n, v in self.variables().items()}
        ids = {n: double(tf.keras.layers.DenseFeatures([fc.indicator_column(c)])(x)) for n, c in self.categories.items()}
        with tf.GradientTape() as tape:
            h = tf.concat([ids["companies"] @ w["features/companies_embedding"], double(x["fare"]), ids["payment"] @ w["features/payment_embedding"],
                           double(x["trip_miles"]), double(x["trip_seconds"])], 1)
            for i, norm in enumerate(self.norm):
                h = tf.nn.relu(h @ w[f"hidden{i}/kernel"] + w[f"hidden{i}/bias"])
                mean, variance = tf.nn.moments(h, [0])
                h = tf.nn.batch_normalization(h, mean, variance, w[f"hidden{i}/batch_norm/beta"], w[f"hidden{i}/batch_norm/gamma"], norm.epsilon)
            logits = h @ w["logits/kernel"] + w["logits/bias"] + w["wide/bias"]
            for n, columns in self.wide_columns.items():
                logits += double(columns(x)) @ w[f"wide/{n}_weights"]
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(double(y), logits))
        return dict(zip(w, tape.gradient(loss, list(w.values()))))

    def variables(self):
        if not self.last.built:  # the moving means stay as they began
            self.logits(self.batch(list(self.rows())[:2])[0])
            for norm in self.norm:
                norm.moving_mean.assign(tf.zeros_like(norm.moving_mean))
                norm.moving_variance.assign(tf.ones_like(norm.moving_variance))
        tables = {"companies" if v.shape[0] == 100 else "payment": v for v in self.deep_columns.trainable_variables}
        named = {f"features/{n}_embedding": v for n, v in tables.items()}
        for i, (dense, norm) in enumerate(zip(self.dense, self.norm)):
            named.update({f"hidden{i}/kernel": dense.kernel, f"hidden{i}/bias": dense.bias, f"hidden{i}/batch_norm/gamma": norm.gamma,
                          f"hidden{i}/batch_norm/beta": norm.beta})
        return {**named, "logits/kernel": self.last.kernel, "logits/bias": self.last.bias, **self.wide}

    def extra(self):
        means = {f"hidden{i}/batch_norm/moving_mean": norm.moving_mean for i, norm in enumerate(self.norm)}
        return {**means, **{f"hidden{i}/batch_norm/moving_variance": norm.moving_variance for i, norm in enumerate(self.norm)}}

    def apply(self, grads):
        wide = {id(v) for v in self.wide.values()}
        self.ftrl.apply_gradients([(g, v) for g, v in grads if id(v) in wide])
        self.adam.apply_gradients([(g, v) for g, v in grads if id(v) not in wide])


class Flowers:
    """The reference trainer's network, names and optimizer, on small JPEG files that we made."""

    CLASSES, SIDE = ["daisy", "dandelion", "roses", "sunflowers", "tulips"], int(os.environ.get("PARITY_SIDE", 48))

    def __init__(self, dtype="float32"):
        layers = tf.keras.layers
        tf.keras.backend.set_floatx(dtype)
        convolution = dict(kernel_size=3, padding="same", activation="relu")
        self.model = tf.keras.Sequential([
            layers.Input((self.SIDE, self.SIDE, 3)), layers.Rescaling(1 / 255),
            layers.Conv2D(16, name="conv2d", **convolution), layers.MaxPooling2D(),
            layers.Conv2D(32, name="conv2d_1", **convolution), layers.MaxPooling2D(),
            layers.Conv2D(64, name="conv2d_2", **convolution), layers.MaxPooling2D(), layers.Flatten(),
            layers.Dense(128, activation="relu", name="dense"), layers.Dense(len(self.CLASSES), name="dense_1")])
        self.optimizer = tf.keras.optimizers.Adam()
        self.settings = {"batch_size": BATCH, "img_height": self.SIDE, "img_width": self.SIDE}

    def rows(self):
        """Files in the order that train_tool takes them: all in a list, class by class, then every seventh."""
        rng, files = np.random.default_rng(9), []
        for label, name in enumerate(self.CLASSES):
            os.makedirs(f"{self.folder}/data/{name}", exist_ok=True)
            for i in range(STEPS * BATCH // len(self.CLASSES)):
                y, x = np.mgrid[0:60, 0:70] / 10
                centre, colour = rng.uniform(2, 5, 2), rng.integers(0, 200, 3) + 20 * np.eye(5, 3, -label % 3)[label % 3]
                far = np.hypot(y - centre[0], x - centre[1]) * (1 + .3 * np.cos((label + 3) * np.arctan2(y - centre[0], x - centre[1])))
                pixels = np.clip((far < 2)[..., None] * colour + rng.normal(60, 20, (60, 70, 3)), 0, 255).astype("uint8")
                path = f"{self.folder}/data/{name}/{i:04d}.jpg"
                pathlib.Path(path).write_bytes(tf.io.encode_jpeg(pixels, quality=92).numpy())
                files.append((path, label))
        return [files[i * 7 % len(files)] for i in range(len(files))]

    def batch(self, rows):
        images = [tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), channels=3), (self.SIDE, self.SIDE)) for path, _ in rows]
        return tf.stack(images), tf.constant([label for _, label in rows])

    def loss(self, x, y):
        logits = self.model(tf.cast(x, self.model.trainable_variables[0].dtype), training=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))

    def variables(self):
        return {v.name.split(":")[0]: v for v in self.model.trainable_variables}

    def extra(self):
        return {}

    def apply(self, grads):
        self.optimizer.apply_gradients(grads)

    def exact(self, x, y):
        """Gradients in float64."""
        if not hasattr(self, "twin"):
            self.twin = Flowers("float64")
            tf.keras.backend.set_floatx("float32")
        theirs = self.twin.variables()
        for name, v in self.variables().items():
            theirs[name].assign(tf.cast(v, tf.float64))
        with tf.GradientTape() as tape:
            loss = self.twin.loss(x, y)
        return dict(zip(theirs, tape.gradient(loss, list(theirs.values()))))


class Heads:
    """Two heads of one network on normalised inputs: a Huber loss, and classes with weights of their own."""

    WEIGHTS = [0.5, 2.0]
    CLASS_WEIGHTS = [1.0, 3.0, 0.5]

    def __init__(self):
        layers = tf.keras.layers
        values = np.array([[float(v) for v in r[2:]] for r in self.rows()], np.float32)
        self.norm = []
        for column in values.T:  # adapt sums in float32, too coarse for 1000 +- 3: it must agree, and numpy's float64 is used
            exact = column.astype(np.float64)
            adapted = layers.Normalization(axis=None)
            adapted.adapt(column)
            assert np.isclose(float(adapted.variance), exact.var(), rtol=0.02) and np.isclose(float(adapted.mean), exact.mean(), rtol=1e-5)
            self.norm.append(layers.Normalization(axis=None, mean=exact.mean(), variance=exact.var()))
        inputs = layers.Input((3,))
        h = layers.Dense(16, activation="tanh", name="h")(inputs)
        self.model = tf.keras.Model(inputs, [layers.Dense(1, name="fare_out")(h), layers.Dense(3, name="kind_out")(h)])
        self.optimizer, self.settings = tf.keras.optimizers.Adam(0.01), {"batch_size": BATCH}

    def model_file(self):
        return f"""
name: heads
parameters: {{batch_size: 32}}
input: {{columns: [{{name: fare}}, {{name: kind, type: int}}, {{name: a}}, {{name: b}}, {{name: c, type: int}}]}}
features:
  - {{name: a1, normalise: a}}
  - {{name: b1, normalise: b}}
  - {{name: c1, normalise: c}}
network:
  input: [a1, b1, c1]
  layers:
    - {{dense: 16, activation: tanh, name: h}}
    - {{dense: 1, name: fare_out, input: h}}
    - {{dense: 3, name: kind_out, input: h}}
heads:
  - {{name: fare, input: fare_out, label: fare, loss: huber, weight: {self.WEIGHTS[0]}, metrics: [mae]}}
  - {{name: kind, input: kind_out, type: multiclass, classes: [low, middle, high], label: kind, weight: {self.WEIGHTS[1]},
     class_weights: {self.CLASS_WEIGHTS}, metrics: [accuracy]}}
training: {{optimizer: {{type: adam, learning_rate: 0.01}}, batch_size: batch_size}}
"""

    def rows(self):
        rng = random.Random(10)
        for _ in range(STEPS * BATCH):
            a, b, c = rng.gauss(1000, 3), rng.uniform(0, 1e-3), rng.randrange(100)
            yield [f"{rng.gauss(a - 1000, 1):.4f}", str(min(2, c // 30)), f"{a:.4f}", f"{b:.8f}", str(c)]

    def batch(self, rows):
        x = tf.constant([[float(v) for v in r[2:]] for r in rows])
        y = [tf.constant([[float(r[0])] for r in rows]), tf.constant([int(r[1]) for r in rows])]
        return tf.stack([norm(x[:, i]) for i, norm in enumerate(self.norm)], 1), y

    def loss(self, x, y):
        fare, kind = self.model(x, training=True)
        weights = tf.gather(self.CLASS_WEIGHTS, y[1])
        losses = [tf.keras.losses.Huber()(y[0], fare), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y[1], kind, weights)]
        return sum(w * loss for w, loss in zip(self.WEIGHTS, losses))

    def variables(self):
        return {v.name.split(":")[0]: v for v in self.model.trainable_variables}

    def extra(self):
        return {}

    def apply(self, grads):
        self.optimizer.apply_gradients(grads)


MODELS = {"taxifare": Taxifare, "chicago_taxi": ChicagoTaxi, "flowers": Flowers, "heads": Heads}


def make(name, folder):
    tf.keras.utils.set_random_seed(1)
    case = MODELS[name]()
    case.folder = folder
    rows = list(case.rows())
    if hasattr(case, "model_file"):
        pathlib.Path(folder, "model.yaml").write_text(case.model_file())
    if name != "flowers":
        with open(f"{folder}/data", "w") as out:
            if hasattr(case, "HEADER"):
                out.write(",".join(case.HEADER) + "\n")
            out.writelines(",".join(r) + "\n" for r in rows)
    losses, result, kinks = [], {}, []
    for step in range(STEPS):
        x, y = case.batch(rows[step * BATCH:(step + 1) * BATCH])
        named = case.variables()
        save(f"{folder}/weights-{step}", {**named, **case.extra()})
        with tf.GradientTape() as tape:
            loss = case.loss(x, y)
        grads = tape.gradient(loss, list(named.values()))
        losses.append(float(loss))
        if getattr(case, "nearest", 1.0) < 2e-6:
            kinks.append(step)
        for n, g in zip(named, grads):
            result[f"{step}/{n}"] = tf.convert_to_tensor(g).numpy()
        if hasattr(case, "exact"):
            result.update({f"{step}/{n}/exact": tf.convert_to_tensor(g).numpy() for n, g in case.exact(x, y).items()})
        case.apply(list(zip(grads, named.values())))
    np.savez(f"{folder}/gradients.npz", **result)
    save(f"{folder}/final", {**case.variables(), **case.extra()})
    json.dump(losses, open(f"{folder}/losses.json", "w"))
    json.dump(kinks, open(f"{folder}/kinks.json", "w"))
    print(json.dumps({"settings": case.settings, "steps": STEPS, "kinks": len(kinks)}))


def judge(model, folder):
    theirs = np.load(f"{folder}/gradients.npz")
    worst, sizes, branches = {}, {}, {}
    for key in theirs.files:
        if not key.endswith("/exact"):
            sizes.setdefault(key.split("/", 1)[1], []).append(float(np.abs(theirs[key]).max()))
    for step in sorted(set(range(STEPS)) - set(json.load(open(f"{folder}/kinks.json")))):
        ours = tf.train.load_checkpoint(f"{folder}/gradients-{step}")
        for name in sizes:
            a = theirs[f"{step}/{name}"]
            b = ours.get_tensor(name).reshape(a.shape)
            # A step whose examples nearly cancel has small gradients of large terms, rounded as those are.
            size = max(float(np.abs(a).max()), float(np.median(sizes[name])) / 5)
            error, exact = float(np.abs(a - b).max()) / size, theirs.get(f"{step}/{name}/exact")
            if exact is not None and error > 1e-5:
                pair = [float(np.abs(side - exact).max()) / size for side in (a, b)]
                if model == "flowers":
                    branches.setdefault(step, []).append(pair)
                    continue
                error = pair[1]
            worst[name] = max(worst.get(name, 0.0), error)
    final, ours = tf.train.load_checkpoint(f"{folder}/final"), tf.train.load_checkpoint(f"{folder}/ours")
    weights = {n: float(np.abs(final.get_tensor(n).ravel() - ours.get_tensor(n).ravel()).max()) for n in final.get_variable_to_shape_map()}
    print(json.dumps({"gradients": worst, "weights": weights, "branches": branches}))


if __name__ == "__main__":
    judge(*sys.argv[2:4]) if sys.argv[1] == "judge" else make(sys.argv[2], sys.argv[3])
