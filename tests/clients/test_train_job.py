"""trainyard train as a job: image `host`, with `trainyard` first in PATH."""
import json
import os
import pathlib
import subprocess

import pytest
from yard import BINARY


def test_the_binary_is_first_in_path(shared_yard):
    name = shared_yard.create("sh", "-c", 'command -v trainyard; echo "$PATH"')
    assert shared_yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
    found, path = shared_yard.lines(name)
    assert os.path.samefile(found, BINARY) and path.split(":")[0] == os.path.dirname(found)
    pool = shared_yard.pool("sh", "-c", 'echo "$PATH"', env={"PATH": "/usr/bin:/bin"})
    name = shared_yard.create(pools=[pool])
    shared_yard.wait(name)
    assert shared_yard.lines(name) == ["/usr/bin:/bin"]  # the user's own word


def test_a_job_trains_taxifare(shared_yard, rides, tmp_path):
    """The reference command line with `python3 -m trainer.task` replaced; logs, outputs and the model are there."""
    name = shared_yard.create("trainyard", "train", "taxifare", f"--train_data_path={rides}/taxi-train*", f"--eval_data_path={rides}/taxi-valid*",
                              f"--output_dir={tmp_path}/out", "--batch_size=50", "--num_examples_to_train_on=5000", "--num_evals=4", "--nbuckets=10",
                              "--lr=0.001", "--nnsize=32 8", "--plot")
    job = shared_yard.wait(name, seconds=60)
    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    lines = shared_yard.lines(name)
    assert "Epoch 4/4" in lines and sum(" - val_rmse: " in line for line in lines) == 4 and any("epoch 1 to 4" in line for line in lines)
    (model,) = pathlib.Path(tmp_path, "out", "export", "savedmodel").iterdir()
    ride = "5.3,2012-01-03 19:21:35 UTC,-73.962627,40.763214,-73.973485,40.753353,1,0\n"
    told = subprocess.run([BINARY, "predict", "--model", model, "-"], input=ride, capture_output=True, text=True, check=True).stdout
    assert 0 < json.loads(told)["fare"][0] < 100
    assert (tmp_path / "out" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_job_that_cannot_train_says_why(shared_yard, tmp_path):
    name = shared_yard.create("trainyard", "train", "taxifare", f"--train_data_path={tmp_path}/nothing*", f"--output_dir={tmp_path}/out")
    job = shared_yard.wait(name)
    assert job["state"] == "JOB_STATE_FAILED" and any("no file matches" in line for line in shared_yard.lines(name))
