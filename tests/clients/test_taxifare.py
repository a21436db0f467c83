"""examples/taxifare-tf: by hand, through local-run, and as a job, with the same arguments."""
import os
import pathlib
import re
import subprocess
import sys

import pytest
from yard import TOP, clean_environment

pytestmark = pytest.mark.slow
EXAMPLE = TOP / "examples" / "taxifare-tf"
IMAGE = "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-15:latest"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture(scope="module")
def tf_python(tf_yard):
    """The runtime's own interpreter, for what is run by hand."""
    added = tf_yard.trainyard("runtimes", "add", IMAGE, timeout=900)
    assert added.returncode == 0, added
    for python in pathlib.Path(tf_yard.data, "python", "runtimes").glob("*/bin/python3"):
        if list(python.parent.parent.glob("lib/python3*/site-packages/tensorflow_cpu-2.15*")):
            return python
    raise AssertionError("no runtime with TensorFlow 2.15")


def arguments(rides, output, batch=5, examples=100, evals=1, lr=0.001):
    return [f"--train_data_path={rides}/taxi-train*", f"--eval_data_path={rides}/taxi-valid*", f"--output_dir={output}",
            f"--batch_size={batch}", f"--num_examples_to_train_on={examples}", f"--num_evals={evals}", "--nbuckets=10", f"--lr={lr}",
            "--nnsize=32 8"]


def outputs(output):
    """What the trainer leaves: checkpoints, curves, one model."""
    (model,) = pathlib.Path(output, "export", "savedmodel").iterdir()
    assert re.fullmatch(r"\d{14}", model.name) and (model / "saved_model.pb").is_file()
    assert list(pathlib.Path(output, "tensorboard", "train").glob("events.out.tfevents.*"))
    assert pathlib.Path(output, "checkpoints.index").is_file()
    return model


def sdist(python, folder):
    made = subprocess.run([python, "setup.py", "-q", "egg_info", f"--egg-base={folder}", "sdist", "--formats=gztar", f"--dist-dir={folder}"],
                          cwd=EXAMPLE, capture_output=True, text=True)
    assert made.returncode == 0, made


def price(python, model):
    """What a saved model asks for a ride."""
    ask = ("import sys, tensorflow as tf\nserve = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
           "ride = dict(pickup_longitude=-73.98, pickup_latitude=40.75, dropoff_longitude=-73.93, dropoff_latitude=40.78, passenger_count=1.0)\n"
           "print(float(serve(pickup_datetime=tf.constant(['2012-07-05 14:18:00 UTC']), "
           "**{k: tf.constant([v]) for k, v in ride.items()})['fare'][0, 0]))")
    said = subprocess.run([python, "-c", ask, model], capture_output=True, text=True, env={**clean_environment(), **QUIET})
    assert said.returncode == 0, said
    return float(said.stdout)


def test_by_hand(tf_python, rides, tmp_path):
    """The reference's local command line: PYTHONPATH, python3 -m trainer.task, words for --nnsize."""
    words = arguments(rides, tmp_path / "out")[:-1] + ["--nnsize", "32", "8"]
    ran = subprocess.run(["python3", "-m", "trainer.task", *words], capture_output=True, text=True, timeout=600,
                         env={**clean_environment(), **QUIET, "PATH": f"{tf_python.parent}:{os.environ['PATH']}", "PYTHONPATH": f":{EXAMPLE}"})
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "1004465 parameters" in ran.stdout and "final {" in ran.stdout, ran.stdout
    outputs(tmp_path / "out")


def test_local_run(tf_yard, rides, tmp_path):
    ran = tf_yard.trainyard("ai", "custom-jobs", "local-run", f"--executor-image-uri={IMAGE}", f"--local-package-path={EXAMPLE}",
                            "--python-module=trainer.task", f"--data={tf_yard.data}", "--", *arguments(rides, tmp_path / "out"),
                            timeout=900, environment=QUIET)
    assert ran.returncode == 0, (ran.stdout[-2000:], ran.stderr[-2000:])
    assert "1004465 parameters" in ran.stdout
    outputs(tmp_path / "out")


def test_job_learns(tf_yard, tf_python, rides, tmp_path):
    """The same package as a job: an sdist by setup.py, enough steps to learn, and a price for a ride from what it saved."""
    package = tmp_path / "taxifare_trainer-0.1.tar.gz"
    sdist(tf_python, tmp_path)
    name = tf_yard.create(pools=[{
        "machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1",
        "pythonPackageSpec": {"executorImageUri": IMAGE, "packageUris": [str(package)], "pythonModule": "trainer.task",
                              "env": [{"name": k, "value": v} for k, v in QUIET.items()],
                              "args": arguments(rides, tmp_path / "out", batch=50, examples=50_000, evals=2, lr=0.02)}}])
    job = tf_yard.wait(name, seconds=900)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, tf_yard.lines(name)[-30:])
    (final,) = [line for line in tf_yard.lines(name) if line.startswith("final ")]
    # The mean of all fares, 8.6, would be off by 3.1; this ride costs 13.8 by the rule that make_data.py has.
    assert float(re.search(r'"val_rmse": ([\d.]+)', final)[1]) < 2, final
    assert 11 < price(tf_python, outputs(tmp_path / "out")) < 17


def names(yard, prefix):
    reply = yard.call("GET", f"/storage/v1/b/taxi-bucket/o?prefix={prefix}")
    assert reply.status == 200, reply
    return [item["name"] for item in reply.json.get("items", [])]


def test_all_of_it_in_a_bucket(tf_yard, tf_python, gcloud, gsutil, rides, tmp_path):
    """As on Google Cloud, with Google's own programs: data and package are copied to a bucket, the job reads and writes gs:// alone,
    nothing in the trainer is changed, and TensorFlow loads what came out."""
    def run(*words):
        ran = tf_yard.run(*words, timeout=300)
        assert ran.returncode == 0, ran
        return ran.stdout.strip()
    package = tmp_path / "taxifare_trainer-0.1.tar.gz"
    sdist(tf_python, tmp_path)
    run(gsutil, "mb", "-l", "us-central1", "gs://taxi-bucket")
    run(gsutil, "cp", package, f"gs://taxi-bucket/code/{package.name}")
    run(gsutil, "-m", "cp", *sorted(rides.iterdir()), "gs://taxi-bucket/data/")
    words = ",".join(arguments("gs://taxi-bucket/data", "gs://taxi-bucket/out", batch=50, examples=2000, evals=2))
    name = run(gcloud, "ai", "custom-jobs", "create", "--region=us-central1", "--display-name=taxifare", "--format=value(name)",
               f"--python-package-uris=gs://taxi-bucket/code/{package.name}", f"--args={words}",
               f"--worker-pool-spec=machine-type=n1-standard-4,replica-count=1,executor-image-uri={IMAGE},python-module=trainer.task")
    job = tf_yard.wait(name, seconds=900)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, tf_yard.lines(name)[-30:])
    found = names(tf_yard, "out/")
    assert any(re.fullmatch(r"out/export/savedmodel/\d{14}/saved_model.pb", one) for one in found), found
    assert any(one.startswith("out/tensorboard/train/events.out.tfevents.") for one in found) and "out/checkpoints.index" in found, found
    run(gsutil, "-m", "cp", "-r", "gs://taxi-bucket/out", tmp_path)
    price(tf_python, outputs(tmp_path / "out"))
