"""examples/chicago-taxi-tf: an estimator with workers and a parameter server, as an AI Platform job and by local train."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from test_ml import SCRIPTS, bucket, entries, wait
from yard import TOP

pytestmark = pytest.mark.slow
EXAMPLE = TOP / "examples" / "chicago-taxi-tf"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
MODEL = ["--train-size=800", "--num-epochs=10", "--batch-size=128", "--learning-rate=0.001", "--hidden-units=128,0,0",
         "--layer-sizes-scale-factor=0.5", "--num-layers=3"]


@pytest.fixture(scope="module")
def trips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trips")
    subprocess.run([sys.executable, EXAMPLE / "make_data.py", folder, "800", "200"], check=True)
    return folder


@pytest.fixture(scope="module")
def taxi_bucket(tf_yard, trips):
    place = bucket(tf_yard, "chicago")
    for file in trips.iterdir():
        sent = tf_yard.call("POST", f"/upload/storage/v1/b/chicago/o?uploadType=media&name=data/{file.name}", file.read_bytes(), {"Content-Type": "text/csv"})
        assert sent.status == 200, sent
    return place


@pytest.fixture(scope="module")
def tf_path(tf_yard):
    """PATH with the Python of a TensorFlow 2.15 runtime before all others, for what runs by hand."""
    added = tf_yard.trainyard("runtimes", "add", "tf-cpu.2-15", timeout=900)
    assert added.returncode == 0, added
    for python in pathlib.Path(tf_yard.data, "python", "runtimes").glob("*/bin/python3"):
        if list(python.parent.parent.glob("lib/python3*/site-packages/tensorflow_cpu-2.15*")):
            return f"{python.parent}:{os.environ['PATH']}"
    raise AssertionError("no runtime with TensorFlow 2.15")


def assert_outputs(names):
    """Checkpoints, curves of training and evaluation, one exported model."""
    text = "\n".join(sorted(names))
    assert re.search(r"^checkpoint$", text, re.M) and re.search(r"^model\.ckpt-\d\d+\.index$", text, re.M), text
    assert re.search(r"^events\.out\.tfevents\.", text, re.M) and re.search(r"^eval/events\.out\.tfevents\.", text, re.M), text
    assert len(re.findall(r"^export/estimate/\d+/saved_model\.pb$", text, re.M)) == 1, text
    assert re.search(r"^export/estimate/\d+/variables/variables\.index$", text, re.M), text


@pytest.mark.parametrize("version, first", [("2.15", "chief"), ("1.15", "master")])
def test_job_with_workers_and_a_parameter_server(tf_yard, taxi_bucket, version, first):
    name = f"chicago_{version.replace('.', '_')}"
    out = f"model-{version}"
    ran = tf_yard.trainyard("ai-platform", "jobs", "submit", "training", name, "--stream-logs", f"--job-dir={taxi_bucket}/{out}",
                            f"--runtime-version={version}", "--python-version=3.7", "--region=us-central1", "--module-name=trainer.task",
                            "--package-path=./trainer", "--config=./config-ps.yaml", "--", f"--train-files={taxi_bucket}/data/taxi_trips_train.csv",
                            f"--eval-files={taxi_bucket}/data/taxi_trips_eval.csv", *MODEL, cwd=EXAMPLE, timeout=900)
    assert ran.returncode == 0 and "state: SUCCEEDED" in ran.stdout, ran.stderr[-4000:]
    log = entries(tf_yard, name)
    for task in [f"{first} 0", *(f"worker {i}" for i in range(4)), "ps 0"]:
        kind, index = task.split()
        replica = f"{'master' if kind == first else kind}-replica-{index}"
        assert (replica, f"replica {task} of TensorFlow 2.15.1") in log, log[-40:]
        assert (replica, "Clean up finished.") in log
    reply = tf_yard.get(f"/storage/v1/b/chicago/o?prefix={out}/")
    assert_outputs(item["name"].removeprefix(f"{out}/") for item in reply.json["items"])
    assert wait(tf_yard, name)["trainingInput"]["workerCount"] == "4"


def test_local_train_distributed(tf_yard, tf_path, trips, tmp_path):
    ran = tf_yard.trainyard("ai-platform", "local", "train", "--module-name=trainer.task", "--package-path=./trainer", f"--job-dir={tmp_path}/out",
                            "--distributed", "--worker-count=4", "--parameter-server-count=1", "--start-port=9400", "--",
                            f"--train-files={trips}/taxi_trips_train.csv", f"--eval-files={trips}/taxi_trips_eval.csv", *MODEL, cwd=EXAMPLE,
                            timeout=900, environment={**QUIET, "PATH": tf_path})
    assert ran.returncode == 0, ran.stderr[-4000:]
    for task in ["chief 0", *(f"worker {i}" for i in range(4)), "ps 0"]:
        assert f"replica {task} of TensorFlow 2.15.1" in ran.stdout, ran.stdout
    assert "replica chief 0 is done" in ran.stdout
    found = json.loads(re.search(r"evaluated (\{.*\})", ran.stdout)[1])
    assert found["global_step"] >= 62 and 0 < found["accuracy"] <= 1
    assert_outputs(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*"))


def test_local_script(tf_yard, tf_path, trips, tmp_path, gcloud):
    """train-local.sh (2.7) with real gcloud."""
    ran = tf_yard.run("bash", SCRIPTS / "taxi_train_local.sh", cwd=EXAMPLE, timeout=900,
                      environment={**QUIET, "MODEL_DIR": str(tmp_path / "tensorflow_taxi"), "TRAIN_FILES": f"{trips}/taxi_trips_train.csv",
                                   "EVAL_FILES": f"{trips}/taxi_trips_eval.csv", "PATH": f"{tf_path}:{pathlib.Path(gcloud).parent}"})
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert re.fullmatch(r"\d{10}", ran.stdout.splitlines()[-1]), ran.stdout[-500:]


def test_it_learns(tf_yard, tf_path, tmp_path):
    """More trips and more steps: it tells who tips from who does not, and the model that was saved answers. The rate decays, so that the moving
    means come to what they are the means of: without, some seeds and some types of CPU end with an AUC of 0.59."""
    subprocess.run([sys.executable, EXAMPLE / "make_data.py", tmp_path, "4000", "1000"], check=True)
    ran = tf_yard.trainyard("ai-platform", "local", "train", "--module-name=trainer.task", "--package-path=./trainer", f"--job-dir={tmp_path}/out", "--",
                            f"--train-files={tmp_path}/taxi_trips_train.csv", f"--eval-files={tmp_path}/taxi_trips_eval.csv", "--train-size=4000",
                            "--num-epochs=80", "--batch-size=128", "--learning-rate=0.01", "--learning-rate-decay-factor=0.001", "--hidden-units=128,0,0", "--layer-sizes-scale-factor=0.5",
                            "--num-layers=3", "--eval-frequency-secs=600", "--serving-export-format=CSV", cwd=EXAMPLE, timeout=900, environment={**QUIET, "PATH": tf_path})
    assert ran.returncode == 0, ran.stderr[-4000:]
    auc = float(re.findall(r"\bauc = ([\d.]+)", ran.stderr)[-1])
    assert auc > 0.75, auc  # who knows nothing has 0.5
    (model,) = (tmp_path / "out" / "export" / "estimate").iterdir()
    ask = ("import sys, tensorflow as tf\nm = tf.saved_model.load(sys.argv[1]).signatures['predict']\n"
           "row = '8.4,1500,2950,5,12,3,8,32,17031080101,17031320100,41.9,-87.6,41.8,-87.7,%s,Blue Taxi'\n"
           "print([float(p) for p in m(tf.constant([row % 'Credit Card', row % 'Cash']))['probabilities'][:, 1]])")
    said = subprocess.run(["python", "-c", ask, model], capture_output=True, text=True, env={**os.environ, **QUIET, "PATH": tf_path})
    assert said.returncode == 0, said.stderr[-2000:]
    card, cash = json.loads(said.stdout)
    assert card > cash + 0.1, (card, cash)
