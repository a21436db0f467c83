"""TensorFlow's own gs:// in jobs, no code changed: files, records, checkpoints, TensorBoard, SavedModel, several workers, and pip beside it."""
import pathlib

import pytest
from packages import pool, sdist
from yard import Yard

pytestmark = pytest.mark.slow
IMAGE = "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-15:latest"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture(scope="module")
def bucket(tf_yard):
    reply = tf_yard.call("POST", "/storage/v1/b?project=trainyard", {"name": "tf-bucket"})
    assert reply.status == 200, reply
    return "tf-bucket"


def upload(yard, bucket, name, path):
    with open(path, "rb") as file:
        reply = yard.call("POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}", file.read(), {"Content-Type": "application/gzip"})
    assert reply.status == 200, reply
    return f"gs://{bucket}/{name}"


def names(yard, bucket, prefix):
    reply = yard.call("GET", f"/storage/v1/b/{bucket}/o?prefix={prefix}")
    assert reply.status == 200, reply
    return [item["name"] for item in reply.json.get("items", [])]


def run(yard, bucket, tmp_path, task, workers=0, requires=(), **rest):
    archive = sdist(tmp_path / "trainer-0.1.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": task}, requires=requires)
    uri = upload(yard, bucket, f"packages/{tmp_path.name}.tar.gz", archive)
    pools = [pool(uri, image=IMAGE, env=QUIET)] + ([pool(uri, image=IMAGE, env=QUIET, replicas=workers)] if workers else [])
    name = yard.create(pools=pools, baseOutputDirectory={"outputUriPrefix": f"gs://{bucket}/{tmp_path.name}"}, **rest)
    job = yard.wait(name, seconds=900)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, yard.lines(name)[-40:], yard.lines(name, "service")[-20:])
    return yard.lines(name)


ONE = '''
import os
import tensorflow as tf

model_dir, logs, checkpoints = (os.environ[k] for k in ("AIP_MODEL_DIR", "AIP_TENSORBOARD_LOG_DIR", "AIP_CHECKPOINT_DIR"))
top = model_dir.rsplit("/model/", 1)[0]
print("model dir", model_dir)
with tf.io.gfile.GFile(top + "/hello/a b.txt", "w") as file:
    file.write("hello")
print("read", tf.io.gfile.GFile(top + "/hello/a b.txt").read(), tf.io.gfile.listdir(top + "/hello"))
tf.io.gfile.rename(top + "/hello/a b.txt", top + "/moved.txt")
print("exists", tf.io.gfile.exists(top + "/hello/a b.txt"), tf.io.gfile.exists(top + "/moved.txt"))
print("file", open(top.replace("gs://", "/gcs/") + "/moved.txt").read())
with tf.io.TFRecordWriter(top + "/data/part-0.tfrecord") as writer:
    for i in range(256):
        x = [float(i % 7), float(i % 5)]
        features = {"x": x, "y": [x[0] * 2 - x[1]]}
        writer.write(tf.train.Example(features=tf.train.Features(feature={
            k: tf.train.Feature(float_list=tf.train.FloatList(value=v)) for k, v in features.items()})).SerializeToString())
spec = {"x": tf.io.FixedLenFeature([2], tf.float32), "y": tf.io.FixedLenFeature([1], tf.float32)}
parse = lambda record: (lambda e: (e["x"], e["y"]))(tf.io.parse_single_example(record, spec))
data = tf.data.TFRecordDataset(tf.io.gfile.glob(top + "/data/*.tfrecord")).map(parse).batch(32)
print("records", sum(int(x.shape[0]) for x, _ in data))
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
model.compile(optimizer=tf.keras.optimizers.SGD(0.01), loss="mse")
model.fit(data, epochs=2, verbose=0, callbacks=[tf.keras.callbacks.TensorBoard(logs),
          tf.keras.callbacks.ModelCheckpoint(checkpoints + "ckpt-{epoch}", save_weights_only=True)])
model.save(model_dir)
again = tf.keras.models.load_model(model_dir)
print("same", float(tf.reduce_max(tf.abs(again(tf.ones((1, 2))) - model(tf.ones((1, 2)))))) == 0.0)
with tf.io.gfile.GFile(top + "/big", "wb") as file:
    file.write(bytes(range(256)) * (40 << 12))
print("big", tf.io.gfile.stat(top + "/big").length)
try:
    tf.io.gfile.GFile("gs://cloud-samples-data/x").read()
except tf.errors.NotFoundError as error:
    print("not here", "cloud-samples-data" in str(error))
'''


def test_files_records_checkpoints_curves_and_model(tf_yard, bucket, tmp_path):
    lines = run(tf_yard, bucket, tmp_path, ONE)
    for line in (f"model dir gs://{bucket}/{tmp_path.name}/model/", "read hello ['a b.txt']", "exists False True", "file hello", "records 256",
                 "same True", f"big {40 << 20}", "not here True"):
        assert line in lines, (line, lines)
    found = names(tf_yard, bucket, tmp_path.name + "/")
    for end in ("/model/saved_model.pb", "/checkpoints/ckpt-2.index", "/moved.txt"):
        assert tmp_path.name + end in found, found
    assert any("/logs/train/events.out.tfevents" in name for name in found), found


MANY = '''
import json, os
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
task = json.loads(os.environ["TF_CONFIG"])["task"]
chief = task["type"] == "chief"
model_dir = os.environ["AIP_MODEL_DIR"]
top = model_dir.rsplit("/model/", 1)[0]
records = top + "/data-%s.tfrecord" % task["type"]
with tf.io.TFRecordWriter(records) as writer:
    for i in range(128):
        writer.write(b"%d" % i)
data = tf.data.TFRecordDataset(records).map(lambda r: tf.strings.to_number(r) / 128.0).map(lambda v: (tf.reshape(v, (1,)), tf.reshape(3 * v, (1,))))
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
data = data.repeat().batch(32).with_options(options)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
history = model.fit(data, epochs=2, steps_per_epoch=8, verbose=0)
print("trained", task["type"], history.history["loss"][0] > history.history["loss"][-1], flush=True)
model.save(model_dir if chief else top + "/workertemp_%d" % task["index"])
with open(model_dir.replace("gs://", "/gcs/") + "who", "w") as file:  # each its own
    file.write(task["type"])
try:
    with tf.io.gfile.GFile(model_dir + "by-" + task["type"], "w") as file:
        file.write("x")
    print("wrote", task["type"], flush=True)
except tf.errors.PermissionDeniedError as error:
    print("refused", task["type"], "only its chief writes there" in str(error), flush=True)
temp = model_dir + "workertemp_%s" % task["type"]  # as TensorFlow's tutorial has it
tf.io.gfile.makedirs(temp)
with tf.io.gfile.GFile(temp + "/part", "w") as file:
    file.write("x")
print("temp", task["type"], tf.io.gfile.exists(temp + "/part"), flush=True)
tf.io.gfile.rmtree(temp)
print("saved", task["type"], flush=True)
if chief:  # its end is the job's
    import time
    while not tf.io.gfile.exists(top + "/worker-is-done"):
        time.sleep(0.2)
else:
    tf.io.gfile.GFile(top + "/worker-is-done", "w").write("x")
'''


def test_multi_worker_mirrored_reads_and_writes_gs(tf_yard, bucket, tmp_path):
    lines = run(tf_yard, bucket, tmp_path, MANY, workers=1)
    assert {"trained chief True", "trained worker True", "saved chief", "saved worker"} <= set(lines), lines
    assert {"wrote chief", "refused worker True", "temp chief True", "temp worker True"} <= set(lines), lines
    found = names(tf_yard, bucket, tmp_path.name + "/")
    assert f"{tmp_path.name}/model/saved_model.pb" in found and f"{tmp_path.name}/data-worker.tfrecord" in found, found
    assert not any("workertemp" in name and "/model/" in name for name in found), found
    assert (tf_yard.data / "buckets" / bucket / tmp_path.name / "model" / "who").read_text() == "chief"


BARE = '''
import os, tensorflow as tf
with tf.io.gfile.GFile(os.environ["AIP_CHECKPOINT_DIR"] + "x", "w") as file:
    file.write("x")
print("gs", tf.io.gfile.GFile(os.environ["AIP_CHECKPOINT_DIR"] + "x").read(), os.path.exists("/gcs"))
'''


def test_where_namespaces_are_refused_gs_works(tf_yard, tmp_path):
    """doctor says so: /gcs is missing there, and only that."""
    with Yard(tmp_path / "bare", environment={"TY_ISOLATION": "sweep"}) as yard:
        pathlib.Path(yard.data, "python").symlink_to(pathlib.Path(tf_yard.data, "python").resolve())
        assert yard.call("POST", "/storage/v1/b?project=trainyard", {"name": "bare"}).status == 200
        assert "gs x False" in run(yard, "bare", tmp_path, BARE)


PIP = '''
import os, subprocess, sys, tensorflow as tf
assert "trainyard-gs.so" in os.environ["LD_PRELOAD"] and os.environ["CURL_CA_BUNDLE"].endswith("bundle.pem")
done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir", "--target", "here", "cloudml-hypertune==0.1.0.dev6"])
print("pip", done.returncode, os.path.exists("here/hypertune"))
with tf.io.gfile.GFile(os.environ["AIP_CHECKPOINT_DIR"] + "x", "w") as file:
    file.write("x")
print("and gs", tf.io.gfile.GFile(os.environ["AIP_CHECKPOINT_DIR"] + "x").read())
'''


def test_pip_in_a_job_goes_where_it_always_did(tf_yard, bucket, tmp_path):
    lines = run(tf_yard, bucket, tmp_path, PIP)
    assert "pip 0 True" in lines and "and gs x" in lines, lines
