"""trainyard train with several replicas, without a yard: mirrored, multi_worker by TF_CONFIG and by mpirun. One set of bits comes out."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = TOP / "build" / "trainyard"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", "lo"]
WORK = re.compile(r"^(.+): (\d+) examples computed, ([\d.]+) MB of gradients reduced, ([\d.]+) CPU seconds$", re.M)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for script, name in (("taxifare-tf/make_data.py", "taxifare"), ("chicago_taxi/make_data.py", "chicago_taxi"), ("flowers/make_images.py", "flowers")):
        subprocess.run([sys.executable, TOP / "examples" / script, folder / name], check=True, stdout=subprocess.DEVNULL)
    return folder


def flags(model, data, out, *more):
    """A short run whose last batch of each pass is short: 6,432 is no multiple of 100, 8,000 none of 128."""
    own = {"taxifare": [f"--train_data_path={data}/taxifare/taxi-train*", f"--eval_data_path={data}/taxifare/taxi-valid*", "--batch_size=100",
                        "--num_examples_to_train_on=6432", "--num_evals=2", "--nnsize=32 8"],
           "chicago_taxi": [f"--train-files={data}/chicago_taxi/train.csv", f"--eval-files={data}/chicago_taxi/eval.csv", "--batch-size=128",
                            "--num-epochs=2", "--train-size=8000", "--hidden-units=128,0,0", "--num-layers=3", "--layer-sizes-scale-factor=0.5"],
           "flowers": [f"--train_data_path={data}/flowers", "--epochs=1", "--batch_size=32", "--img_height=32", "--img_width=32"]}[model]
    return ["train", model, *own, f"--output_dir={out}", "--seed=5", *more]


def ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    found = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return found


class Cluster:
    """Processes of one TF_CONFIG on this machine: chief, worker 0, worker 1, ..."""

    def __init__(self, size, arguments, folder, environment=None):
        names = [("chief", 0)] + [("worker", i) for i in range(size - 1)]
        addresses = [f"127.0.0.1:{port}" for port in ports(size)]
        self.cluster = {"chief": addresses[:1], **({"worker": addresses[1:]} if size > 1 else {})}
        self.tasks, self.arguments, self.folder, self.environment = names, arguments, folder, environment or {}
        self.processes = [self.start(i) for i in range(size)]

    def start(self, i):
        kind, index = self.tasks[i]
        config = {"cluster": self.cluster, "task": {"type": kind, "index": index}}
        own = self.environment(i) if callable(self.environment) else self.environment
        env = {**os.environ, "TF_CONFIG": json.dumps(config), **own}
        log = open(self.folder / f"{kind}{index}.log", "ab")
        return subprocess.Popen([BINARY, *self.arguments, "--threads=1"], env=env, stdout=log, stderr=log)

    def wait(self, seconds=120):
        end = time.monotonic() + seconds
        codes = [p.wait(max(1, end - time.monotonic())) for p in self.processes]
        return codes, [(self.folder / f"{kind}{index}.log").read_text() for kind, index in self.tasks]

    def stop(self):
        for p in self.processes:
            if p.poll() is None:
                p.kill()
                p.wait()


def weights(out):
    """The bytes of what was exported: names and bits of all variables."""
    (model,) = (out / "export" / "savedmodel").iterdir()
    return {f.name: f.read_bytes() for f in (model / "variables").iterdir()}


def alone(model, data, out, *more):
    done = subprocess.run([BINARY, *flags(model, data, out), *more], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def reference(data, tmp_path_factory):
    """By model: the weights of a run on its own, and how many examples it trains on."""
    found = {}
    for model in ("taxifare", "chicago_taxi", "flowers"):
        out = tmp_path_factory.mktemp(model) / "out"
        text = alone(model, data, out)
        found[model] = weights(out), int(re.search(r"over (\d+) steps", text)[1])
    return found


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("model", ["taxifare", "chicago_taxi", "flowers"])
def test_workers_give_the_same_bits_and_do_their_share(model, size, data, reference, tmp_path):
    cluster = Cluster(size, flags(model, data, tmp_path / "out"), tmp_path)
    codes, logs = cluster.wait()
    assert codes == [0] * size, logs
    assert weights(tmp_path / "out") == reference[model][0]
    work = [WORK.search(log) for log in logs]
    assert all(work), logs
    shares = [int(w[2]) for w in work]
    assert min(shares) > 0.8 * max(shares), shares
    assert sum(shares) == {"taxifare": 64 * 100, "chicago_taxi": reference[model][1] * 128, "flowers": sum(shares)}[model]
    assert all(float(w[3]) > 0 and float(w[4]) > 0 for w in work)
    assert not any("Epoch 1" in log for log in logs[1:]), "the chief alone tells of epochs"


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("model", ["taxifare", "chicago_taxi", "flowers"])
def test_mirrored_gives_the_same_bits(model, devices, data, reference, tmp_path):
    text = alone(model, data, tmp_path / "out", "--strategy=mirrored", f"--devices={devices}")
    assert weights(tmp_path / "out") == reference[model][0]
    work = WORK.findall(text)
    assert [w[0] for w in work] == [f"device {i}" for i in range(devices)]
    shares = [int(w[1]) for w in work]
    assert min(shares) > 0.8 * max(shares) and all(float(w[2]) > 0 and float(w[3]) > 0 for w in work)


@pytest.mark.parametrize("strategy", ["multi_worker", "mirrored"])
def test_every_replica_counts(strategy, data, reference, tmp_path):
    """Without one replica's gradients other weights come out: whichever it is."""
    for replica in range(2):
        out, hook = tmp_path / f"out{replica}", {"TRAINYARD_TEST_ZERO_REPLICA": str(replica)}
        if strategy == "mirrored":
            subprocess.run([BINARY, *flags("taxifare", data, out), "--strategy=mirrored"], env={**os.environ, **hook}, check=True, capture_output=True)
        else:
            codes, logs = Cluster(2, flags("taxifare", data, out), tmp_path, hook).wait()
            assert codes == [0, 0], logs
        assert weights(out) != reference["taxifare"][0]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not on this machine")
def test_mpirun(ranks, data, reference, tmp_path):
    done = subprocess.run([*MPIRUN, "-n", str(ranks), BINARY, *flags("taxifare", data, tmp_path / "out", "--threads=1")], capture_output=True,
                          text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert weights(tmp_path / "out") == reference["taxifare"][0]
    assert len(WORK.findall(done.stdout)) == ranks


# ---- death ----

def wait_for(log, text, seconds=60):
    end = time.monotonic() + seconds
    while text not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < end, f"'{text}' is not in {log}: {log.read_text()}"
        time.sleep(0.02)


def test_killed_at_random_moments(data, tmp_path, rng, long):
    """kill -9 of each replica in turn at a random moment; all are started again and go on from the last checkpoint, to the same bits."""
    more = ("--num_examples_to_train_on=640000", "--num_evals=40")
    alone("taxifare", data, tmp_path / "whole", *more)
    expected = weights(tmp_path / "whole")
    end, rounds = time.monotonic() + 30, 0
    while rounds < (50 if long else 4) or (not long and time.monotonic() < end and rounds < 50):
        folder = tmp_path / f"round{rounds}"
        folder.mkdir()
        size = rng.choice((2, 4))
        cluster = Cluster(size, flags("taxifare", data, folder / "out", *more), folder)
        victim = rounds % size
        try:
            wait_for(folder / "chief0.log", "Epoch 2/")
            time.sleep(rng.random() * 0.3)
            cluster.processes[victim].kill()
            codes, logs = cluster.wait(60)
            kind, index = cluster.tasks[victim]
            name = "chief" if kind == "chief" else f"worker {index}"
            for i, (code, log) in enumerate(zip(codes, logs)):
                if i != victim and code != 0:  # 0: it was done before the kill
                    assert code == 75 and f"{name} is gone" in log, (code, log)
            cluster = Cluster(size, flags("taxifare", data, folder / "out", *more, "--resume"), folder)
            codes, logs = cluster.wait(120)
            assert codes == [0] * size, logs
        finally:
            cluster.stop()
        assert weights(folder / "out") == expected, f"round {rounds}: {name} of {size}"
        shutil.rmtree(folder)
        rounds += 1
    print(f"{rounds} kills")


@pytest.mark.parametrize("victim", [0, 1])
def test_a_stopped_replica_is_named(victim, data, tmp_path):
    more = ("--num_examples_to_train_on=64000000", "--num_evals=4000")
    cluster = Cluster(2, flags("taxifare", data, tmp_path / "out", *more), tmp_path)
    try:
        wait_for(tmp_path / "chief0.log", "Epoch 2/")
        cluster.processes[victim].send_signal(signal.SIGSTOP)
        code = cluster.processes[1 - victim].wait(30)
        kind, index = cluster.tasks[1 - victim]
        log = (tmp_path / f"{kind}{index}.log").read_text()
        name = ("chief", "worker 0")[victim]
        assert code == 75 and re.search(f"{name}.*(stopped|no sign of life).*step \\d+", log), log[-2000:]
    finally:
        cluster.stop()


def test_a_slow_replica_is_named(data, tmp_path):
    """A worker that is stopped for a moment again and again holds the others up: the chief says who and what it costs."""
    more = ("--num_examples_to_train_on=64000000", "--num_evals=4000")
    cluster = Cluster(2, flags("taxifare", data, tmp_path / "out", *more), tmp_path)
    try:
        wait_for(tmp_path / "chief0.log", "Epoch 2/")
        end = time.monotonic() + 60
        while "worker 0 is slow: it costs" not in (tmp_path / "chief0.log").read_text():
            assert time.monotonic() < end, (tmp_path / "chief0.log").read_text()[-2000:]
            cluster.processes[1].send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            cluster.processes[1].send_signal(signal.SIGCONT)
            time.sleep(0.01)
    finally:
        cluster.stop()


def test_a_full_disk_of_the_chief_ends_all(data, tmp_path):
    """The chief cannot write its checkpoint: it says so, and the worker says that it left and why."""
    cluster = Cluster(2, flags("taxifare", data, tmp_path / "out"), tmp_path, {})
    cluster.stop()
    os.truncate(tmp_path / "chief0.log", 0)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    (tmp_path / "out").write_text("a file where the folder should be")
    codes, logs = Cluster(2, flags("taxifare", data, tmp_path / "out"), tmp_path).wait()
    assert codes[0] == 1 and codes[1] == 75, (codes, logs)
    assert "out" in logs[0] and "chief" in logs[1]


def test_sigterm_stops_all_after_one_step(data, tmp_path):
    more = ("--num_examples_to_train_on=640000", "--num_evals=40")
    alone("taxifare", data, tmp_path / "whole", *more)
    cluster = Cluster(2, flags("taxifare", data, tmp_path / "out", *more), tmp_path)
    wait_for(tmp_path / "chief0.log", "Epoch 2/")
    cluster.processes[1].terminate()  # the worker alone
    codes, logs = cluster.wait()
    assert codes == [143, 143], logs
    steps = [re.search(r"SIGTERM after step (\d+)", log)[1] for log in logs]
    assert steps[0] == steps[1]
    codes, logs = Cluster(2, flags("taxifare", data, tmp_path / "out", *more, "--resume"), tmp_path).wait()
    assert codes == [0, 0] and f"resumed after step {steps[0]}" in logs[0]
    assert weights(tmp_path / "out") == weights(tmp_path / "whole")


# ---- what cannot be ----

def test_workers_that_cannot_share_alike(data, tmp_path):
    codes, logs = Cluster(3, flags("taxifare", data, tmp_path / "out"), tmp_path).wait()
    assert codes == [1, 1, 1] and all("3 workers" in log and "4 shards" in log and "--shards 6" in log for log in logs), logs
    assert not (tmp_path / "out").exists()
    codes, logs = Cluster(3, flags("taxifare", data, tmp_path / "out", "--shards=6"), tmp_path).wait()
    assert codes == [0, 0, 0], logs
    alone("taxifare", data, tmp_path / "six", "--shards=6")
    assert weights(tmp_path / "out") == weights(tmp_path / "six")


def test_clusters_that_disagree(data, tmp_path):
    def other(rank):
        return {"TRAINYARD_MEETING": str(tmp_path / "meeting"), **({} if rank == 0 else {"TF_CONFIG": json.dumps(
            {"cluster": {"chief": ["127.0.0.1:1111"], "worker": ["127.0.0.1:2222"]}, "task": {"type": "worker", "index": 0}})})}
    codes, logs = Cluster(2, flags("taxifare", data, tmp_path / "out"), tmp_path, other).wait()
    assert all(codes) and all("TF_CONFIG" in log and "worker 0" in log for log in logs), logs
    assert not (tmp_path / "out").exists()


def test_other_data_or_seed_is_told(data, tmp_path):
    cluster = Cluster(2, flags("taxifare", data, tmp_path / "out"), tmp_path)
    cluster.stop()
    cluster.processes[0] = cluster.start(0)
    cluster.arguments = [*cluster.arguments, "--seed=6"]
    cluster.processes[1] = cluster.start(1)
    codes, logs = cluster.wait()
    assert all(codes) and all("worker 0 has another" in log for log in logs), logs


@pytest.mark.parametrize("config, words", [
    ({"cluster": {"worker": ["a:1"], "chief": ["a:1"]}, "task": {"type": "chief", "index": 0}}, "one address"),
    ({"cluster": {"chief": ["a:1"], "worker": ["a:2"]}, "task": {"type": "worker", "index": 1}}, "index"),
    ({"cluster": {"chief": ["a:1"], "worker": ["a:2"]}, "task": {"type": "boss", "index": 0}}, "boss"),
    ({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}}, "nobody would train"),
    ({"cluster": {"chief": ["a:1"], "worker": ["b:2"]}, "task": {"type": "worker", "index": 0}}, "mpirun"),
])
def test_wrong_clusters_are_told_before_training(config, words, data, tmp_path):
    done = subprocess.run([BINARY, *flags("taxifare", data, tmp_path / "out")], env={**os.environ, "TF_CONFIG": json.dumps(config)},
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not (tmp_path / "out").exists()
