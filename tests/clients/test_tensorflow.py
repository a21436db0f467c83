"""Real TensorFlow and scikit-learn jobs as Python packages, on runtimes made from PyPI (hundreds of megabytes, once a run:
tf_yard in conftest.py).
"""
import pytest
from packages import pool, sdist

pytestmark = pytest.mark.slow
IMAGE = "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-15:latest"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}


def run(yard, *pools, seconds=900, **rest):
    name = yard.create(pools=list(pools), **rest)
    return name, yard.wait(name, seconds=seconds)


def package(tmp_path, task, requires=()):
    return sdist(tmp_path / "trainer-0.1.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": task}, requires=requires)


def test_gpu_image_of_another_python_runs_on_cpu(tf_yard, tmp_path):
    """The package pins a TensorFlow that has no wheel here: the runtime's is used, and said."""
    task = ("import tensorflow as tf, pandas, sklearn, hypertune\nfrom google.cloud import storage\n"
            "x = tf.Variable(2.0)\nwith tf.GradientTape() as t:\n    y = x * x\nprint('tf', tf.__version__, 'gradient', float(t.gradient(y, x)))\n")
    name, job = run(tf_yard, pool(package(tmp_path, task, requires=["tensorflow==2.8.0"]), env=QUIET,
                                  image="us-docker.pkg.dev/vertex-ai/training/tf-gpu.2-12.py310:latest"))
    said = tf_yard.lines(name, "service")
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, said[-30:])
    assert "tf 2.12.1 gradient 4.0" in tf_yard.lines(name), tf_yard.lines(name)
    (line,) = [text for text in said if text.startswith("Runtime:")]
    assert "asked for tf-gpu.2-12.py310, using tensorflow-cpu 2.12.1 on Python 3." in line and "(CPU)" in line
    assert any(text.startswith("Warning:") and "tensorflow==2.8.0" in text for text in said)


MULTI_WORKER = '''
import json, os
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
task = json.loads(os.environ["TF_CONFIG"])["task"]
print("replicas", strategy.num_replicas_in_sync, task["type"], flush=True)
x = np.random.default_rng(1).normal(size=(512, 4)).astype("float32")
y = x @ np.array([[1.], [2.], [3.], [4.]], dtype="float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(64)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
data = data.with_options(options)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
history = model.fit(data, epochs=3, steps_per_epoch=16, verbose=2)
print("trained", task["type"], history.history["loss"][0] > history.history["loss"][-1], flush=True)
chief = task["type"] == "chief"
folder = os.environ["AIP_MODEL_DIR"] if chief else "worker-model"
model.save(folder)
print("saved", task["type"], flush=True)
'''


def test_multi_worker_mirrored_on_chief_and_worker(tf_yard, tmp_path):
    archive = package(tmp_path, MULTI_WORKER, requires=["tensorflow>=2.3"])
    name, job = run(tf_yard, pool(archive, image=IMAGE, env=QUIET), pool(archive, image=IMAGE, env=QUIET),
                    baseOutputDirectory={"outputUriPrefix": str(tmp_path / "out")})
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, tf_yard.lines(name)[-30:])
    for replica, kind in (("workerpool0-0", "chief"), ("workerpool1-0", "worker")):
        lines = tf_yard.lines(name, replica)
        assert f"replicas 2 {kind}" in lines and f"trained {kind} True" in lines, lines
    assert (tmp_path / "out" / "model" / "saved_model.pb").exists()
    # tensorflow is there by the name tensorflow-cpu: nothing was fetched for it.
    assert not any("Collecting tensorflow" in line for line in tf_yard.lines(name, "service") if "cpu" not in line)


PARAMETER_SERVER = '''
import json, os, sys
import tensorflow as tf

tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
task = json.loads(os.environ["TF_CONFIG"])["task"]


def train():
    x = tf.random.stateless_normal((256, 2), seed=(1, 2))
    y = tf.reduce_sum(x * [1.0, 2.0], axis=1)
    return tf.data.Dataset.from_tensor_slices(({"a": x[:, 0], "b": x[:, 1]}, y)).repeat().batch(32)


columns = [tf.feature_column.numeric_column(k) for k in "ab"]
estimator = tf.estimator.LinearRegressor(columns, model_dir=os.path.join(os.environ["AIP_MODEL_DIR"], "estimator"),
                                         optimizer=lambda: tf.keras.optimizers.legacy.Ftrl(0.2))
print("begin", task["type"], task["index"], flush=True)
tf.estimator.train_and_evaluate(estimator, tf.estimator.TrainSpec(train, max_steps=300),
                                tf.estimator.EvalSpec(train, steps=4, start_delay_secs=0, throttle_secs=0))
print("end", task["type"], task["index"], flush=True)
'''


def test_parameter_server_estimator(tf_yard, tmp_path):
    """ps never ends by itself: it and the workers are stopped when the chief is done."""
    archive = package(tmp_path, PARAMETER_SERVER)

    def member(replicas):
        return pool(archive, image=IMAGE, env=QUIET, replicas=replicas)
    name, job = run(tf_yard, member(1), member(2), member(1), baseOutputDirectory={"outputUriPrefix": str(tmp_path / "out")})
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, tf_yard.lines(name)[-40:])
    lines = tf_yard.lines(name)
    assert {"begin chief 0", "begin worker 0", "begin worker 1", "begin ps 0", "end chief 0"} <= set(lines) and "end ps 0" not in lines
    assert list((tmp_path / "out" / "model" / "estimator").glob("model.ckpt-*"))


def test_bug_in_the_trainer_is_the_job_s_error(tf_yard, tmp_path):
    task = "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.fit(x=tf.zeros((4, 1)), y=tf.zeros((4, 1)), epoch=1)\n"
    name, job = run(tf_yard, pool(package(tmp_path, task), image=IMAGE, env=QUIET))
    assert job["state"] == "JOB_STATE_FAILED" and job["error"]["code"] == 3
    assert "Traceback" in job["error"]["message"] and "task.py" in job["error"]["message"] and "epoch" in job["error"]["message"], job


SKLEARN = '''
import numpy, pandas, sklearn
from sklearn.linear_model import LinearRegression
frame = pandas.DataFrame({"x": [0.0, 1.0, 2.0], "y": [1.0, 3.0, 5.0]})
model = LinearRegression().fit(frame[["x"]], frame["y"])
print("sklearn", sklearn.__version__, "predicts", round(float(model.predict(pandas.DataFrame({"x": [3.0]}))[0]), 3))
'''


def test_sklearn_image_with_no_wheel_here(tf_yard, tmp_path):
    """scikit-learn 1.0 has none for Python 3.11: the nearest newer one is used, with a numpy it was made for."""
    name, job = run(tf_yard, pool(package(tmp_path, SKLEARN, requires=["scikit-learn", "pandas"]),
                                  image="us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-0:latest"))
    said = tf_yard.lines(name, "service")
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, said[-30:])
    (line,) = tf_yard.lines(name)
    assert line.startswith("sklearn 1.") and line.endswith("predicts 7.0")
    assert any("asked for sklearn-cpu.1-0, using scikit-learn 1." in text and "the nearest that this Python has" in text for text in said)
