"""Distributed training as jobs on the yard: the same worker pools that TensorFlow's strategies have."""
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from yard import BINARY, TOP, processes_of

SUCCEEDED = "JOB_STATE_SUCCEEDED"


@pytest.fixture(scope="module")
def rides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rides")
    subprocess.run([sys.executable, TOP / "examples" / "taxifare-tf" / "make_data.py", folder], check=True)
    return folder


def command(rides, out, examples=6400, evals=2):
    return ["trainyard", "train", "taxifare", f"--train_data_path={rides}/taxi-train*", f"--eval_data_path={rides}/taxi-valid*",
            f"--output_dir={out}", "--batch_size=100", f"--num_examples_to_train_on={examples}", f"--num_evals={evals}", "--threads=1"]


def weights(out):
    (model,) = pathlib.Path(out, "export", "savedmodel").iterdir()
    return {f.name: f.read_bytes() for f in (model / "variables").iterdir()}


def alone(rides, out, **sizes):
    subprocess.run([BINARY, *command(rides, out, **sizes)[1:]], check=True, capture_output=True)
    return weights(out)


def pools(yard, words):
    return [yard.pool(*words), yard.pool(*words)]


def test_chief_and_worker(shared_yard, rides, tmp_path):
    expected = alone(rides, tmp_path / "alone")
    name = shared_yard.create(pools=pools(shared_yard, command(rides, tmp_path / "out")))
    job = shared_yard.wait(name, seconds=60)
    assert job["state"] == SUCCEEDED, shared_yard.lines(name)
    assert weights(tmp_path / "out") == expected
    for task, who in (("workerpool0-0", "chief"), ("workerpool1-0", "worker 0")):
        assert any(re.match(who + r": 3200 examples computed", line) for line in shared_yard.lines(name, task)), shared_yard.lines(name, task)
    assert not list(pathlib.Path("/dev/shm").glob(f"trainyard-*-{name.rpartition('/')[2]}-*"))


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_replica_restarts_the_job(victim, how, shared_yard, rides, tmp_path):
    """Killed or stopped: the other one names it, and the whole job goes on from the last checkpoint, to the same bits."""
    sizes = {"examples": 1_600_000, "evals": 100}
    expected = alone(rides, tmp_path / "alone", **sizes)
    name = shared_yard.create(pools=pools(shared_yard, command(rides, tmp_path / "out", **sizes)))
    chief = "workerpool0-0"
    shared_yard.wait_for(lambda: any("Epoch 3/" in line for line in shared_yard.lines(name, chief)), 30, "the third epoch")
    trainers = [pid for pid in processes_of(tmp_path / "out") if f"TRAINYARD_REPLICA={victim}-0".encode() in environ(pid) and is_trainer(pid)]
    assert trainers
    for pid in trainers:
        signal_to(pid, how)
    if how == signal.SIGSTOP:
        assert f"workerpool{victim}-0 is stopped" in why(shared_yard, name)
    shared_yard.wait_for(lambda: "Attempt 2" in why(shared_yard, name), 60, "the second attempt")
    lost = ("chief", "worker 0")[victim]
    told = why(shared_yard, name)
    assert "The attempt before: The replica" in told and lost in told, told
    job = shared_yard.wait(name, seconds=90)
    lines = shared_yard.lines(name)
    assert job["state"] == SUCCEEDED, lines
    assert weights(tmp_path / "out") == expected
    said = [line for line in lines if line.startswith("trainyard train: ") and lost in line]
    assert said and re.search(r"step \d+", said[0]), lines
    assert any(line.startswith("resumed after step") for line in lines)


def why(yard, name):
    return subprocess.run([BINARY, "why", name], env=yard.client_environment(), capture_output=True, text=True, check=True).stdout


def environ(pid):
    try:
        return pathlib.Path("/proc", str(pid), "environ").read_bytes()
    except OSError:
        return b""


def is_trainer(pid):
    words = pathlib.Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
    return words[1:3] == [b"train", b"taxifare"]


def signal_to(pid, how):
    subprocess.run(["kill", f"-{int(how)}", str(pid)], check=True)


def test_workers_that_no_chief_waits_for(shared_yard, rides, tmp_path):
    """Three pools of workers that cannot share four shards alike: one sentence, no half run."""
    words = command(rides, tmp_path / "out")
    name = shared_yard.create(pools=[shared_yard.pool(*words), shared_yard.pool(*words, replicas=2)])
    job = shared_yard.wait(name, seconds=60)
    assert job["state"] == "JOB_STATE_FAILED" and any("3 workers" in line for line in shared_yard.lines(name))
    assert not (tmp_path / "out").exists()
