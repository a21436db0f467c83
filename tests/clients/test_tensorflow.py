"""Real TensorFlow and scikit-learn jobs as Python packages, on runtimes made from PyPI (hundreds of megabytes, once a run:
tf_yard in conftest.py).
"""
import json
import re
import shutil
import subprocess
import sys

import pytest
from packages import pool, sdist
from replicas import after_the_workers
from yard import BINARY, TOP

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


# ---- one spec, two programs: TensorFlow's strategies and ours, from the same pools, machines and flags ----

MULTI_WORKER = """
import datetime, json, os
import tensorflow as tf
from trainer import model, task

strategy = tf.distribute.MultiWorkerMirroredStrategy()
me = json.loads(os.environ["TF_CONFIG"])["task"]
print("replicas", strategy.num_replicas_in_sync, me["type"], flush=True)
args = task.parse_args()
data = model.load_dataset(args["train_data_path"], args["batch_size"], repeat=True)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
with strategy.scope():
    built = model.build_model(args["nbuckets"], args["nnsize"], args["lr"])
steps = args["num_examples_to_train_on"] // (args["batch_size"] * args["num_evals"])
history = built.fit(data.with_options(options), epochs=args["num_evals"], steps_per_epoch=steps, verbose=2)
chief = me["type"] == "chief"
folder = os.path.join(args["output_dir"], "export", "savedmodel", "1") if chief else "worker-model"
built.save(folder)
print("saved", me["type"], flush=True)
done = os.path.join(args["output_dir"], "worker-is-done")
if chief:  # its end is the job's
    import time
    while not os.path.exists(done):
        time.sleep(0.1)
else:
    os.makedirs(args["output_dir"], exist_ok=True)
    open(done, "w").close()
"""


def example(folder, name, more=None):
    """The example's trainer as a package."""
    files = {f"trainer/{f.name}": f.read_text() for f in (TOP / "examples" / name / "trainer").glob("*.py")}
    return sdist(folder / "trainer-0.1.tar.gz", {"trainer/__init__.py": "", **files, **(more or {})}, requires=["tensorflow>=2.3"])


def programs(package, module, model):
    """What a pool runs, without its arguments: TensorFlow's or ours."""
    environment = [{"name": k, "value": v} for k, v in QUIET.items()]
    return {"tensorflow": ("pythonPackageSpec", {"executorImageUri": IMAGE, "packageUris": [package], "pythonModule": module, "env": environment}),
            "trainyard": ("containerSpec", {"imageUri": "host", "command": ["trainyard", "train", model], "env": environment})}


def create(yard, folder, kind, program, args, replicas):
    """Pools of so many replicas, as a user's --config file, by gcloud where it is."""
    spec = {"workerPoolSpecs": [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": count, kind: {**program, "args": args}}
                                for count in replicas]}
    if kind == "containerSpec" and len(replicas) > 2:  # it has no second to lose: its workers would come to a job that is over
        trace = folder / "trace"
        first, *others = spec["workerPoolSpecs"]
        first[kind] = {**first[kind], "command": [*after_the_workers(trace, workers=replicas[1], ps=replicas[2]), *program["command"]]}
        for each in (first, *others):
            each[kind] = {**each[kind], "args": [*args, f"--ps_trace={trace}"]}
    (folder / "job.yaml").write_text(json.dumps(spec))  # JSON is YAML
    made = yard.run(shutil.which("gcloud") or BINARY, "ai", "custom-jobs", "create", "--region=us-central1", "--display-name=strategies",
                    f"--config={folder}/job.yaml")
    assert made.returncode == 0, made.stderr
    return re.search(r"\[(projects/[^\]]+)\]", made.stderr)[1]


def side(yard, tmp_path, which, package, module, model, args, replicas):
    """One side of a spec, run to its end -> its job and its output folder."""
    folder = tmp_path / which
    folder.mkdir()
    kind, program = programs(package, module, model)[which]
    name = create(yard, folder, kind, program, [*args, f"--{'job-dir' if model == 'chicago_taxi' else 'output_dir'}={folder}/out"], replicas)
    job = yard.wait(name, seconds=900)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (which, job, yard.lines(name)[-40:])
    return name, folder / "out"


def test_one_spec_of_chief_and_worker(tf_yard, tmp_path):
    """MultiWorkerMirroredStrategy and our multi_worker."""
    rides = tmp_path / "rides"
    subprocess.run([sys.executable, TOP / "examples" / "taxifare-tf" / "make_data.py", rides], check=True, stdout=subprocess.DEVNULL)
    package = example(tmp_path, "taxifare-tf", {"trainer/together.py": MULTI_WORKER})
    args = [f"--train_data_path={rides}/taxi-train*", f"--eval_data_path={rides}/taxi-valid*", "--batch_size=64", "--num_examples_to_train_on=6400",
            "--num_evals=2"]
    lines = {}
    for which in ("tensorflow", "trainyard"):
        name, out = side(tf_yard, tmp_path, which, package, "trainer.together", "taxifare", args, (1, 1))
        (model,) = (out / "export" / "savedmodel").iterdir()
        assert (model / "saved_model.pb").exists()
        lines[which] = [tf_yard.lines(name, f"workerpool{i}-0") for i in range(2)]
        # tensorflow is there by the name tensorflow-cpu: nothing was fetched for it.
        assert not any("Collecting tensorflow" in line for line in tf_yard.lines(name, "service") if "cpu" not in line)
    for i, kind in enumerate(("chief", "worker")):
        assert f"replicas 2 {kind}" in lines["tensorflow"][i] and f"saved {kind}" in lines["tensorflow"][i], lines["tensorflow"][i]
    for i, kind in enumerate(("chief", "worker 0")):
        assert any(line.startswith(f"{kind}: 3200 examples computed") for line in lines["trainyard"][i]), lines["trainyard"][i]


def test_one_spec_of_chief_workers_ps_and_evaluator(tf_yard, tmp_path):
    """ParameterServerStrategy of tf.estimator, whose ps tasks never end by themselves, and our parameter_server."""
    rides = tmp_path / "rides"
    subprocess.run([sys.executable, TOP / "examples" / "chicago_taxi" / "make_data.py", rides], check=True, stdout=subprocess.DEVNULL)
    package = example(tmp_path, "chicago-taxi-tf")
    args = [f"--train-files={rides}/train.csv", f"--eval-files={rides}/eval.csv", "--batch-size=128", "--train-size=8000", "--num-epochs=3",
            "--learning-rate=0.001", "--hidden-units=128,0,0", "--num-layers=3", "--layer-sizes-scale-factor=0.5"]
    replicas = (1, 2, 1, 1)
    lines, out = {}, {}
    for which in ("tensorflow", "trainyard"):
        name, out[which] = side(tf_yard, tmp_path, which, package, "trainer.task", "chicago_taxi", args, replicas)
        lines[which] = [line for pool, count in enumerate(replicas) for i in range(count) for line in tf_yard.lines(name, f"workerpool{pool}-{i}")]
    for role in ("chief 0", "worker 0", "worker 1", "ps 0", "evaluator 0"):
        assert any(line.startswith(f"replica {role} of TensorFlow 2.15") for line in lines["tensorflow"]), role
    assert "replica chief 0 is done" in lines["tensorflow"] and "replica ps 0 is done" not in lines["tensorflow"]
    assert list(out["tensorflow"].glob("model.ckpt-*")) and list(out["tensorflow"].glob("export/estimate/*/saved_model.pb"))
    ours = [line for line in lines["trainyard"] if "examples computed" in line]
    assert sorted(line.partition(":")[0] for line in ours) == ["chief", "evaluator 0", "ps 0", "worker 0", "worker 1"], ours
    assert list(out["trainyard"].glob("export/savedmodel/*/saved_model.pb"))
    (steps,) = [re.search(r" over (\d+) steps", line)[1] for line in lines["trainyard"] if " over " in line and " steps" in line]
    assert any(line.startswith(f"step {steps} - loss:") for line in lines["trainyard"]), "the evaluator evaluates the last checkpoint"


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
