"""Distributed training as jobs on the yard: the same worker pools that TensorFlow's strategies have."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from yard import BINARY, command_line, processes_of

SUCCEEDED = "JOB_STATE_SUCCEEDED"


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
    job = shared_yard.wait(name, seconds=180)
    assert job["state"] == SUCCEEDED, shared_yard.lines(name)
    assert weights(tmp_path / "out") == expected
    for task, who in (("workerpool0-0", "chief"), ("workerpool1-0", "worker 0")):
        assert any(re.match(who + r": 3200 examples computed", line) for line in shared_yard.lines(name, task)), shared_yard.lines(name, task)
    assert not list(pathlib.Path("/dev/shm").glob(f"trainyard-*-{name.rpartition('/')[2]}-*"))


LONGER = {"examples": 1_600_000, "evals": 100}


@pytest.fixture(scope="module")
def longer(rides, tmp_path_factory):
    """The weights of a run that is long enough to be disturbed."""
    return alone(rides, tmp_path_factory.mktemp("longer") / "out", **LONGER)


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_replica_restarts_the_job(victim, how, shared_yard, rides, longer, tmp_path):
    """Killed or stopped: the other one names it, and the whole job goes on from the last checkpoint, to the same bits."""
    name = shared_yard.create(pools=pools(shared_yard, command(rides, tmp_path / "out", **LONGER)))
    chief = "workerpool0-0"
    shared_yard.wait_for(lambda: any("Epoch 3/" in line for line in shared_yard.lines(name, chief)), 90, "the third epoch")
    trainers = [pid for pid in processes_of(tmp_path / "out") if f"TRAINYARD_REPLICA={victim}-0".encode() in environ(pid) and is_trainer(pid)]
    assert trainers
    for pid in trainers:
        os.kill(pid, how)
    if how == signal.SIGSTOP:
        shared_yard.wait_for(lambda: f"workerpool{victim}-0 is stopped" in why(shared_yard, name), 30, "the word of it")  # which ends with the attempt
    lost = ("chief", "worker 0")[victim]
    told = shared_yard.wait_for(lambda: text if "Attempt 2" in (text := why(shared_yard, name)) else "", 180, "the second attempt")
    assert "The attempt before: The replica" in told and lost in told and len(told.splitlines()) < 12, told
    job = shared_yard.wait(name, seconds=300)
    lines = shared_yard.lines(name)
    assert job["state"] == SUCCEEDED, lines
    assert weights(tmp_path / "out") == longer
    # the one that was started in its place, or is woken up, stops when it is told to
    assert not any("did not stop within" in line for line in shared_yard.lines(name, "service"))
    said = [line for line in lines if line.startswith("trainyard train: ") and lost in line]
    assert said and re.search(r"step \d+", said[0]), lines
    assert any(line.startswith("resumed after step") for line in lines)


def test_a_slow_replica_is_told_by_why(shared_yard, rides, tmp_path):
    name = shared_yard.create(pools=pools(shared_yard, command(rides, tmp_path / "out", examples=100_000_000, evals=4000)))
    shared_yard.wait_for(lambda: any("Epoch 2/" in line for line in shared_yard.lines(name, "workerpool0-0")), 90, "the second epoch")
    (worker,) = [pid for pid in processes_of(tmp_path / "out") if b"TRAINYARD_REPLICA=1-0" in environ(pid) and is_trainer(pid)]
    end = time.monotonic() + 180
    while "worker 0 is slow: it costs" not in (told := why(shared_yard, name)):
        assert time.monotonic() < end, told
        for _ in range(20):
            os.kill(worker, signal.SIGSTOP)
            time.sleep(0.05)
            os.kill(worker, signal.SIGCONT)
            time.sleep(0.01)
    shared_yard.cancel(name)
    shared_yard.wait(name)


def test_a_folder_that_a_job_writes_in_is_told_by_its_replica(shared_yard, rides, tmp_path):
    """Its pid is one of its own namespace: a run outside, and one in another job, are told job and replica."""
    words = command(rides, tmp_path / "out", examples=100_000_000, evals=1000)
    name = shared_yard.create(*words)
    shared_yard.wait_for(lambda: any("Epoch 2/" in line for line in shared_yard.lines(name)), 30, "the second epoch")
    holder = rf"'{tmp_path}/out' is in use by replica workerpool0-0 of job {name.rpartition('/')[2]} \(attempt 1\) on \S+ \(since \d+-"
    outside = subprocess.run([BINARY, *words[1:]], capture_output=True, text=True)
    assert outside.returncode == 1 and re.search(holder, outside.stderr), outside.stderr
    other = shared_yard.create(*words)
    assert shared_yard.wait(other)["state"] == "JOB_STATE_FAILED"
    assert any(re.search(holder, line) for line in shared_yard.lines(other)), shared_yard.lines(other)
    shared_yard.cancel(name)
    shared_yard.wait(name)


@pytest.fixture(scope="module")
def bucket(shared_yard, rides):
    """The rides, in gs://many/in."""
    assert shared_yard.call("POST", "/storage/v1/b?project=trainyard", {"name": "many"}).status == 200
    for path in rides.glob("*.csv"):
        reply = shared_yard.call("POST", f"/upload/storage/v1/b/many/o?uploadType=media&name=in/{path.name}", path.read_bytes(),
                                 {"Content-Type": "text/csv"})
        assert reply.status == 200, reply
    return "gs://many"


def without_output(words):
    return [word for word in words if not word.startswith("--output_dir")]


def objects(yard, prefix):
    return [i["name"] for i in yard.call("GET", f"/storage/v1/b/many/o?prefix={prefix}").json.get("items", [])]


def test_evaluator_of_a_job_whose_outputs_are_in_a_bucket(shared_yard, bucket, tmp_path):
    """Chief, two workers, ps, evaluator. Only the chief has the model's folder, yet the evaluator sees each checkpoint, and ends with the last."""
    words = [*without_output(command(f"{bucket}/in", None, examples=300_000, evals=3)), "--staleness=2"]
    pools = [shared_yard.pool(*words, replicas=count) for count in (1, 2, 1, 1)]
    (tmp_path / "job.json").write_text(json.dumps({"workerPoolSpecs": pools, "baseOutputDirectory": {"outputUriPrefix": f"{bucket}/run"}}))
    made = shared_yard.trainyard("ai", "custom-jobs", "create", "--display-name=ps", f"--config={tmp_path}/job.json")
    name = re.search(r"projects/\S+/customJobs/\d+", made.stdout + made.stderr)[0]
    job = shared_yard.wait(name, seconds=300)
    assert job["state"] == SUCCEEDED, shared_yard.lines(name)
    steps = [int(step) for line in shared_yard.lines(name, "workerpool3-0") for step in re.findall(r"^step (\d+) - loss", line)]
    assert len(steps) == 3 and steps == sorted(set(steps)) and steps[-1] == 3000, (steps, shared_yard.lines(name))
    found = objects(shared_yard, "run/")
    assert any(f.startswith("run/logs/eval/events.") for f in found) and any(f.startswith("run/logs/train/events.") for f in found), found
    assert "run/checkpoints/ckpt-3000.index" in found and any(re.match(r"run/model/export/savedmodel/\d+/saved_model.pb", f) for f in found), found
    assert not [f for f in found if "workertemp" in f or "/ps/" in f], found


def test_a_lost_worker_restarts_a_job_whose_outputs_are_in_a_bucket(shared_yard, bucket, rides, tmp_path):
    """All replicas find the chief's checkpoint, and go on from it together, to the same bits."""
    sizes = {"examples": 600_000, "evals": 40}
    expected = alone(rides, tmp_path / "alone", **sizes)
    words = without_output(command(rides, None, **sizes))
    name = shared_yard.create(pools=pools(shared_yard, words), baseOutputDirectory={"outputUriPrefix": f"{bucket}/lost"})
    shared_yard.wait_for(lambda: any("Epoch 3/" in line for line in shared_yard.lines(name, "workerpool0-0")), 90, "the third epoch")
    trainers = [pid for pid in processes_of(rides) if b"TRAINYARD_REPLICA=1-0" in environ(pid) and is_trainer(pid)]
    assert trainers
    for pid in trainers:
        os.kill(pid, signal.SIGKILL)
    job = shared_yard.wait(name, seconds=300)
    lines = shared_yard.lines(name)
    assert job["state"] == SUCCEEDED, lines
    assert any(line.startswith("resumed after step") for line in lines), lines
    assert weights(shared_yard.data / "buckets" / "many" / "lost" / "model") == expected


def why(yard, name):
    return subprocess.run([BINARY, "why", name], env=yard.client_environment(), capture_output=True, text=True, check=True).stdout


def environ(pid):
    try:
        return pathlib.Path("/proc", str(pid), "environ").read_bytes()
    except OSError:
        return b""


def is_trainer(pid):
    return command_line(pid).split()[1:3] == ["train", "taxifare"]


ASYNCHRONOUS = {"chief": (0, 0), "worker 0": (1, 0), "worker 1": (1, 1), "ps 0": (2, 0), "evaluator 0": (3, 0)}


@pytest.mark.parametrize("victim", ["worker 1", "ps 0", "evaluator 0"])
def test_a_lost_replica_of_an_asynchronous_job_is_replaced(victim, shared_yard, rides, tmp_path):
    """The others go on: it is the first attempt that ends well, with every step made."""
    words = command(rides, tmp_path / "out", examples=2_000_000, evals=20)
    name = shared_yard.create(pools=[shared_yard.pool(*words, replicas=count) for count in (1, 2, 1, 1)])
    shared_yard.wait_for(lambda: any("Epoch 3/" in line for line in shared_yard.lines(name, "workerpool0-0")), 90, "the third epoch")
    pool, index = ASYNCHRONOUS[victim]
    (trainer,) = [pid for pid in processes_of(tmp_path / "out") if f"TRAINYARD_REPLICA={pool}-{index}".encode() in environ(pid) and is_trainer(pid)]
    os.kill(trainer, signal.SIGKILL)
    job = shared_yard.wait(name, seconds=300)
    assert job["state"] == SUCCEEDED, shared_yard.lines(name)
    said = shared_yard.lines(name, "service")
    assert any(f"workerpool{pool}-{index} was ended by signal 9 (SIGKILL). Restarting it (1 of 5)." in line for line in said), said
    assert not any("ttempt 2" in line for line in said), said
    chief = shared_yard.lines(name, "workerpool0-0")
    assert any("Epoch 20/20" in line for line in chief) and sum("rows to train" in line for line in chief) == 1, chief
    assert f"The last restart: The replica workerpool{pool}-{index} was ended by signal 9 (SIGKILL)." in why(shared_yard, name)
    if victim == "worker 1":
        assert any(line.startswith("worker 1: joins at step") for line in shared_yard.lines(name, "workerpool1-1"))
    assert weights(tmp_path / "out")


def test_workers_that_no_chief_waits_for(shared_yard, rides, tmp_path):
    """Three pools of workers that cannot share four shards alike: one sentence, no half run."""
    words = command(rides, tmp_path / "out")
    name = shared_yard.create(pools=[shared_yard.pool(*words), shared_yard.pool(*words, replicas=2)])
    job = shared_yard.wait(name, seconds=180)
    assert job["state"] == "JOB_STATE_FAILED" and any("3 workers" in line for line in shared_yard.lines(name))
    assert not (tmp_path / "out").exists()
