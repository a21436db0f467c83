"""judge.py -- real TensorFlow 2.15 as a small server: one JSON request a line in, one JSON answer a line out.

Run with build/venv-tf's Python (tests/golden/requirements.txt), because pytest lives in a venv of its own and importing
TensorFlow takes seconds: one process serves all tests of tests/clients/test_formats.py. A request is
{"call": name, ...arguments}; the functions below are the calls.
"""
import json
import os
import pathlib
import random
import struct
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402


def bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def some_example(r):
    """A tf.Example of all three kinds, some empty, with int64s of every size."""
    value = {"image": [bytes(r.randrange(256) for _ in range(r.randrange(300)))],
             "names": [r.choice(["Flash Cab", "", "Zürich", "x" * 200]).encode() for _ in range(r.randrange(4))]}
    ints = [r.choice([0, 1, -1, 127, 128, 2**31, -2**63, 2**63 - 1, r.randrange(10**6)]) for _ in range(r.randrange(6))]
    floats = [r.choice([0.0, -0.0, 1.5, 1e-40, float("inf"), r.random()]) for _ in range(r.randrange(200))]
    feature = {name: tf.train.Feature(bytes_list=tf.train.BytesList(value=v)) for name, v in value.items()}
    feature["ids"] = tf.train.Feature(int64_list=tf.train.Int64List(value=ints))
    feature["weights"] = tf.train.Feature(float_list=tf.train.FloatList(value=floats))
    feature["label"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[r.randrange(10)]))
    return tf.train.Example(features=tf.train.Features(feature=feature))


def write_records(path, count, seed, gzip=False):
    r = random.Random(seed)
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type="GZIP" if gzip else "")) as w:
        for _ in range(count):
            w.write(some_example(r).SerializeToString())


def same_records(a, b):
    """The same bytes in both files, as TFRecordDataset reads them."""
    left, right = [list(tf.data.TFRecordDataset(p, compression_type=kind).as_numpy_iterator()) for p, kind in (a, b)]
    return {"count": len(left), "same": left == right}


def same_examples(a, b):
    """The same messages in both files, and tf.io.parse_example agrees on them."""
    left, right = [list(tf.data.TFRecordDataset(p).as_numpy_iterator()) for p in (a, b)]
    messages = [[tf.train.Example.FromString(x) for x in side] for side in (left, right)]
    spec = {"label": tf.io.FixedLenFeature([], tf.int64), "ids": tf.io.VarLenFeature(tf.int64),
            "weights": tf.io.VarLenFeature(tf.float32), "names": tf.io.VarLenFeature(tf.string)}
    parsed = [tf.io.parse_example(side, spec) for side in (left, right)]
    agree = all(np.array_equal(parsed[0][k].values.numpy(), parsed[1][k].values.numpy()) for k in ("ids", "weights", "names"))
    return {"count": len(left), "same": messages[0] == messages[1] and agree}


DEFAULTS = {"f": tf.constant([-1.0], tf.float32), "i": tf.constant([-1], tf.int64), "s": tf.constant(["na"], tf.string)}


def decode_csv(lines, types):
    """Rows as decode_csv reads them, floats as bits; null for a line it refuses."""
    rows = []
    for line in lines:
        try:
            fields = tf.io.decode_csv(line, [DEFAULTS[t] for t in types])
            rows.append([bits(f.numpy()) if t == "f" else int(f.numpy()) if t == "i" else f.numpy().decode("utf8", "replace")
                         for f, t in zip(fields, types)])
        except tf.errors.InvalidArgumentError:
            rows.append(None)
    return rows


def decode_csv_file(path, types):
    """A whole file through CsvDataset, which takes line ends inside quotes."""
    data = tf.data.experimental.CsvDataset(path, [DEFAULTS[t] for t in types])
    return [[bits(f) if t == "f" else int(f) if t == "i" else f.decode("utf8", "replace") for f, t in zip(row, types)]
            for row in data.as_numpy_iterator()]


def hashes(lines):
    buckets = tf.strings.to_hash_bucket_fast(lines, 100).numpy().tolist()
    prints = tf.fingerprint(tf.constant(lines), method="farmhash64").numpy()
    return [[str(int.from_bytes(bytes(p), "little")), b] for p, b in zip(prints, buckets)]


def crosses(rows, buckets):
    """Ids by crossed_column's op: rows of ints and strings, one column kind each."""
    columns = list(zip(*rows))
    index = [[i, 0] for i in range(len(rows))]
    sparse = [tf.SparseTensor(index, tf.constant(c, tf.string if isinstance(c[0], str) else tf.int64), [len(rows), 1]) for c in columns]
    return tf.sparse.cross_hashed(sparse, buckets).values.numpy().tolist()


def feature_cross(lat, lon, company, edges, buckets):
    """What tf.feature_column gives for the cross of two bucketized columns and a string."""
    fc = tf.feature_column
    columns = [fc.bucketized_column(fc.numeric_column(n), edges) for n in ("lat", "lon")]
    crossed = fc.crossed_column([*columns, "company"], buckets)
    layer = tf.compat.v1.keras.layers.DenseFeatures([fc.indicator_column(crossed)])
    dense = layer({"lat": tf.constant(lat), "lon": tf.constant(lon), "company": tf.constant(company)})
    return np.argmax(dense.numpy(), axis=1).tolist()


def write_checkpoint(folder):
    """A Keras model with optimizer state, as a checkpoint; tensors of several types beside it."""
    tf.keras.utils.set_random_seed(7)
    model = tf.keras.Sequential([tf.keras.layers.Dense(5, "relu", input_shape=(3,)), tf.keras.layers.BatchNormalization(),
                                 tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(np.ones((8, 3), np.float32), np.ones((8, 1), np.float32), verbose=0)
    model.save_weights(os.path.join(folder, "weights"))
    tf.raw_ops.SaveV2(prefix=os.path.join(folder, "mixed"), tensor_names=["a/double", "a/empty", "a/flag", "a/half", "a/text", "b/scalar", "c/words"],
                      shape_and_slices=[""] * 7,
                      tensors=[np.arange(12, dtype=np.float64).reshape(3, 4), np.zeros((0, 4), np.float32), np.array([True, False]),
                               np.arange(4, dtype=np.float16), tf.constant("hello"), np.int64(-5), tf.constant(["", "x" * 300, "é"])])
    model.save(os.path.join(folder, "keras_model"))


def same_checkpoints(a, b):
    left, right = tf.train.load_checkpoint(a), tf.train.load_checkpoint(b)
    names = sorted(left.get_variable_to_shape_map())
    same = names == sorted(right.get_variable_to_shape_map())
    same = same and all(np.array_equal(left.get_tensor(n), right.get_tensor(n)) for n in names)
    return {"names": names, "same": bool(same)}


def checkpoint_values(prefix):
    reader = tf.train.load_checkpoint(prefix)
    return {n: reader.get_tensor(n).tolist() for n in reader.get_variable_to_shape_map()}


def run_model(folder, inputs):
    """The default signature through tf.saved_model.load; and the same through a TF1 session."""
    loaded = tf.saved_model.load(folder)
    signature = loaded.signatures["serving_default"]
    kinds = {k: v.dtype for k, v in signature.structured_input_signature[1].items()}
    out = signature(**{k: tf.constant(v, kinds[k]) for k, v in inputs.items()})
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], folder)
        s = meta.signature_def["serving_default"]
        again = session.run({k: v.name for k, v in s.outputs.items()}, {s.inputs[k].name: v for k, v in inputs.items()})
    fingerprint = tf.saved_model.experimental.read_fingerprint(folder)
    return {"out": {k: v.numpy().tolist() for k, v in out.items()}, "again": {k: v.tolist() for k, v in again.items()},
            "shapes": {k: str(v.shape) for k, v in signature.structured_outputs.items()},
            "checksum": str(fingerprint.saved_model_checksum), "checkpoint_hash": str(fingerprint.checkpoint_hash)}


def expect_model(folder, lat, lon, when, company):
    """What the demo model of formats_tool must answer, computed from its own variables."""
    v = {k: np.array(x, np.float32) for k, x in checkpoint_values(os.path.join(folder, "variables/variables")).items()}
    edges = [0, 0.25, 0.5, 0.75, 1]
    crossed = feature_cross(lat, lon, company, edges, 1000)
    hours = [int(w[11:13]) for w in when]
    x = np.concatenate([v["embedding/table"][crossed], v["hour/table"][hours]], axis=1)
    h = np.maximum(x @ v["h0/kernel"] + v["h0/bias"], 0)
    return {"fare": (h @ v["fare/kernel"] + v["fare/bias"]).tolist(), "crossed": crossed, "hour": hours,
            "bucket": tf.strings.to_hash_bucket_fast(company, 100).numpy().tolist()}


def expect_cnn(folder, image):
    v = {k: np.array(x, np.float32) for k, x in checkpoint_values(os.path.join(folder, "variables/variables")).items()}
    x = tf.nn.relu(tf.nn.conv2d(tf.constant(image, tf.float32), v["conv/kernel"], 1, "SAME") + v["conv/bias"])
    x = tf.reshape(tf.nn.max_pool2d(x, 2, 2, "SAME"), [-1, 64]) @ v["dense/kernel"] + v["dense/bias"]
    return {"probabilities": tf.nn.softmax(x).numpy().tolist(), "class_ids": tf.argmax(x, 1).numpy().tolist()}


def load_events(folder):
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.plugins.histogram import summary_v2 as _  # noqa: F401 (the package is whole)
    loader = event_accumulator.EventAccumulator(folder, size_guidance={event_accumulator.TENSORS: 0})
    loader.Reload()
    tensors = {tag: [(e.step, e.wall_time, tf.make_ndarray(e.tensor_proto).tolist()) for e in loader.Tensors(tag)]
               for tag in loader.Tags()["tensors"]}
    for events in tensors.values():
        for i, (step, wall, value) in enumerate(events):
            events[i] = (step, wall, value.decode() if isinstance(value, bytes) else value)
    plugins = {tag: loader.SummaryMetadata(tag).plugin_data.plugin_name for tag in tensors}
    nodes = [n.name for n in loader.Graph().node] if loader.Tags()["graph"] else []
    return {"tensors": tensors, "plugins": plugins, "nodes": nodes, "version": loader.file_version}


def histogram(values):
    from tensorboard.plugins.histogram import summary_v2
    proto = summary_v2.histogram_pb("h", np.array(values, np.float32), buckets=30)
    return tf.make_ndarray(proto.value[0].tensor).tolist()


def write_events(folder):
    """As Keras's TensorBoard callback does, and a TF1 simple_value."""
    writer = tf.summary.create_file_writer(folder)
    with writer.as_default():
        for step in range(20):
            tf.summary.scalar("epoch_loss", 1.0 / (step + 1), step=step)
        tf.summary.histogram("w", tf.random.normal([100]), step=1)
        tf.summary.text("note", "hello", step=2)
    writer.close()
    with tf.Graph().as_default():
        old = tf.compat.v1.summary.FileWriter(folder, filename_suffix=".old")
        old.add_summary(tf.compat.v1.Summary(value=[tf.compat.v1.Summary.Value(tag="rmse", simple_value=2.5)]), 7)
        old.close()
    return sorted(str(p) for p in pathlib.Path(folder).glob("events*"))


def main():
    calls = {k: v for k, v in globals().items() if callable(v) and not k.startswith("_")}
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever prints goes to stderr
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": calls[request.pop("call")](**request)}
        except Exception as error:  # the test that asked shows it
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
