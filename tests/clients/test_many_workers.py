"""trainyard train with several replicas, without a yard: mirrored, multi_worker by TF_CONFIG and by mpirun. One set of bits comes out."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from replicas import Replicas
from yard import BINARY, TOP

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", "lo"]
WORK = re.compile(r"^(.+): (\d+) examples computed, ([\d.]+) MB of gradients reduced, ([\d.]+) CPU seconds$", re.M)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for script, name in (("taxifare-tf/make_data.py", "taxifare"), ("chicago_taxi/make_data.py", "chicago_taxi"), ("flowers/make_images.py", "flowers")):
        subprocess.run([sys.executable, TOP / "examples" / script, folder / name], check=True, stdout=subprocess.DEVNULL)
    return folder


def flags(model, data, *more):
    """A short run whose last batch of each pass is short: 6,432 is no multiple of 100, 8,000 none of 128."""
    own = {"taxifare": [f"--train_data_path={data}/taxifare/taxi-train*", f"--eval_data_path={data}/taxifare/taxi-valid*", "--batch_size=100",
                        "--num_examples_to_train_on=6432", "--num_evals=2", "--nnsize=32 8"],
           "chicago_taxi": [f"--train-files={data}/chicago_taxi/train.csv", f"--eval-files={data}/chicago_taxi/eval.csv", "--batch-size=128",
                            "--num-epochs=2", "--train-size=8000", "--hidden-units=128,0,0", "--num-layers=3", "--layer-sizes-scale-factor=0.5"],
           "flowers": [f"--train_data_path={data}/flowers", "--epochs=1", "--batch_size=32", "--img_height=32", "--img_width=32"]}[model]
    return [model, *own, "--seed=5", *more]


def workers(size, arguments, folder, threads=1, **more):
    """The chief and size - 1 workers, started."""
    job = Replicas(folder, [*arguments, f"--threads={threads}"], workers=size - 1, ps=0, **more)
    job.start_all()
    return job


def weights(out):
    """The bytes of what was exported: names and bits of all variables."""
    (model,) = (out / "export" / "savedmodel").iterdir()
    return {f.name: f.read_bytes() for f in (model / "variables").iterdir()}


def alone(model, data, out, *more):
    done = subprocess.run([BINARY, "train", *flags(model, data, *more), f"--output_dir={out}"], capture_output=True, text=True, timeout=300)
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
    with workers(size, flags(model, data), tmp_path) as job:
        codes, logs = job.end()
    assert codes == [0] * size, logs
    assert weights(tmp_path / "out") == reference[model][0]
    work = [WORK.search(log) for log in logs]
    assert all(work), logs
    shares = [int(w[2]) for w in work]
    assert min(shares) > 0.8 * max(shares), shares
    assert sum(shares) == {"taxifare": 64 * 100, "chicago_taxi": reference[model][1] * 128, "flowers": sum(shares)}[model]
    assert all(float(w[3]) > 0 and float(w[4]) > 0 for w in work)
    assert not any("Epoch 1" in log for log in logs[1:]), "the chief alone tells of epochs"


EARLY = re.compile(r"^.+: of (\d+) buckets of gradients, (\d+) were being summed before backward had ended$", re.M)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("model", ["chicago_taxi", "flowers"])
def test_sums_while_backward_runs_give_the_same_bits(model, threads, data, reference, tmp_path):
    """Buckets as small as layers are; with a bucket for all, which these models would have, there is no such line."""
    with workers(2, flags(model, data), tmp_path, threads, environment={"TRAINYARD_TEST_BUCKET": "64"}) as job:
        codes, logs = job.end()
    assert codes == [0, 0], logs
    assert weights(tmp_path / "out") == reference[model][0]
    assert "buckets while backward runs" in logs[0] and "buckets while" not in logs[1]
    early = [EARLY.search(log) for log in logs]
    assert all(e and int(e[2]) <= int(e[1]) for e in early), logs
    # In each step whoever is last finds what the other has ready; who is always first, on a core of its own, finds nothing.
    assert sum(int(e[2]) for e in early) > 0, logs


def test_an_evaluator_evaluates_the_checkpoints(data, reference, tmp_path):
    """It is no worker: the bits are those of two, and its last line is of the last step."""
    with workers(2, flags("taxifare", data), tmp_path, evaluator=True) as job:
        codes, logs = job.end()
    assert codes == [0, 0, 0], logs
    assert weights(tmp_path / "out") == reference["taxifare"][0]
    assert re.findall(r"val_loss: (\S+)", logs[0])[-1] == re.findall(r"^step 64 - loss: (\S+)", logs[2], re.M)[-1], logs
    assert list((tmp_path / "out" / "tensorboard" / "eval").iterdir())


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
        folder, hook = tmp_path / str(replica), {"TRAINYARD_TEST_ZERO_REPLICA": str(replica)}
        out = folder / "out"
        if strategy == "mirrored":
            subprocess.run([BINARY, "train", *flags("taxifare", data, "--strategy=mirrored"), f"--output_dir={out}"], env={**os.environ, **hook},
                           check=True, capture_output=True)
        else:
            with workers(2, flags("taxifare", data), folder, environment=hook) as job:
                codes, logs = job.end()
            assert codes == [0, 0], logs
        assert weights(out) != reference["taxifare"][0]


@pytest.mark.parametrize("way, bucket", [("memory", None), ("mpi", None), ("mpi", "64")])
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("model", ["taxifare", "flowers"])
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not on this machine")
def test_mpirun(model, ranks, way, bucket, data, reference, tmp_path):
    """On one machine ranks use its memory, unless they are told of no place to meet at."""
    environment = {**os.environ, **({"TRAINYARD_MEETING": ""} if way == "mpi" else {}), **({"TRAINYARD_TEST_BUCKET": bucket} if bucket else {})}
    done = subprocess.run([*MPIRUN, "-n", str(ranks), BINARY, "train", *flags(model, data, "--threads=1"), f"--output_dir={tmp_path}/out"],
                          capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert weights(tmp_path / "out") == reference[model][0]
    assert len(WORK.findall(done.stdout)) == ranks
    assert len(EARLY.findall(done.stdout)) == (ranks if bucket or "in 1 piece" not in done.stdout else 0), done.stdout


# ---- death (tests/faults/test_replicas.py has the other faults) ----

def test_killed_at_random_moments(data, tmp_path, rng, long):
    """kill -9 of each replica in turn at a random moment; all are started again and go on from the last checkpoint, to the same bits. Of
    flowers' largest parameter each worker updates a part, in memory that all have."""
    lengths = {"taxifare": ("--num_examples_to_train_on=640000", "--num_evals=40"), "flowers": ("--epochs=60",)}
    expected = {}
    for model, more in lengths.items():
        alone(model, data, tmp_path / model, *more)
        expected[model] = weights(tmp_path / model)
    end, rounds = time.monotonic() + 30, 0
    while rounds < (50 if long else 4) or (not long and time.monotonic() < end and rounds < 50):
        folder = tmp_path / f"round{rounds}"
        size, model = rng.choice((2, 4)), rng.choice(list(lengths))
        with workers(size, flags(model, data, *lengths[model]), folder) as job:
            kind, index = victim = job.names[rounds % size]
            name = "chief" if kind == "chief" else f"worker {index}"
            job.wait_line("Epoch 2/", ("chief", 0))
            time.sleep(rng.random() * 0.3)
            job.kill(*victim)
            codes, logs = job.end()
            for who, code, log in zip(job.names, codes, logs):
                if who != victim and code != 0:  # 0: it was done before the kill
                    assert code == 75 and f"{name} is gone" in log, (code, log)
            job.start_all(["--resume"])
            codes, logs = job.end()
            assert codes == [0] * size, logs
        assert weights(folder / "out") == expected[model], f"round {rounds}: {name} of {size}, {model}"
        shutil.rmtree(folder)
        rounds += 1
    print(f"{rounds} kills")


def test_a_slow_replica_is_named(data, tmp_path):
    """A worker that is stopped for a moment again and again holds the others up: the chief says who and what it costs."""
    more = ("--num_examples_to_train_on=64000000", "--num_evals=4000")
    with workers(2, flags("taxifare", data, *more), tmp_path) as job:
        job.wait_line("Epoch 2/", ("chief", 0))
        end = time.monotonic() + 180
        while "worker 0 is slow: it costs" not in job.log("chief"):
            assert time.monotonic() < end, job.log("chief")[-2000:]
            job.stand_still("worker", 0)
        curves = b"".join(path.read_bytes() for path in (job.out / "tensorboard" / "train").iterdir())
        for who in ("chief", "worker 0"):
            assert all(f"{who}/{phase}_ms".encode() in curves for phase in ("data", "forward", "backward", "wait")), who


def test_sigterm_stops_all_after_one_step(data, tmp_path):
    more = ("--num_examples_to_train_on=640000", "--num_evals=40")
    alone("taxifare", data, tmp_path / "whole", *more)
    with workers(2, flags("taxifare", data, *more), tmp_path) as job:
        job.wait_line("Epoch 2/", ("chief", 0))
        job.send(signal.SIGTERM, "worker", 0)  # the worker alone
        codes, logs = job.end()
        assert codes == [143, 143], logs
        steps = [re.search(r"SIGTERM after step (\d+)", log)[1] for log in logs]
        assert steps[0] == steps[1]
        job.start_all(["--resume"])
        codes, logs = job.end()
        assert codes == [0, 0] and f"resumed after step {steps[0]}" in logs[0]
    assert weights(tmp_path / "out") == weights(tmp_path / "whole")


# ---- what cannot be ----

def test_workers_that_cannot_share_alike(data, tmp_path):
    with workers(3, flags("taxifare", data), tmp_path) as job:
        codes, logs = job.end()
    assert codes == [1, 1, 1] and all("3 workers" in log and "4 shards" in log and "--shards 6" in log for log in logs), logs
    assert not (tmp_path / "out").exists()
    with workers(3, flags("taxifare", data, "--shards=6"), tmp_path) as job:
        codes, logs = job.end()
    assert codes == [0, 0, 0], logs
    alone("taxifare", data, tmp_path / "six", "--shards=6")
    assert weights(tmp_path / "out") == weights(tmp_path / "six")


@pytest.mark.parametrize("more, words", [(["127.0.0.1:2223"], "told of 3"), ([], "another cluster")])
def test_a_worker_of_another_cluster_is_told(more, words, data, tmp_path):
    """They meet where the chief is, whatever else their clusters say."""
    with workers(2, flags("taxifare", data), tmp_path) as job:
        chief = {"chief": job.cluster["chief"], "worker": ["127.0.0.1:2222", *more]}
        config = json.dumps({"cluster": chief, "task": {"type": "worker", "index": 0}})
        job.stop()
        job.start("chief")
        other = subprocess.run([BINARY, "train", *map(str, job.arguments), f"--output_dir={job.out}"], env={**os.environ, "TF_CONFIG": config},
                               capture_output=True, text=True, timeout=30)
        assert other.returncode == 1 and words in other.stderr and "TF_CONFIG" in other.stderr, other.stderr
        job.kill("chief")


@pytest.mark.parametrize("strategy", ["mirrored", "one_device"])
def test_a_strategy_of_one_process_is_not_for_many(strategy, data, tmp_path):
    words = [BINARY, "train", *flags("taxifare", data), "--strategy", strategy, f"--output_dir={tmp_path}/out"]
    config = {"cluster": {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}, "task": {"type": "worker", "index": 0}}
    done = subprocess.run(words, env={**os.environ, "TF_CONFIG": json.dumps(config)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and f"--strategy {strategy} is of one process, and TF_CONFIG's cluster has 2" in done.stderr, done.stderr
    if shutil.which("mpirun"):
        done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and f"--strategy {strategy} is of one process, and mpirun or srun has started 2" in done.stderr, done.stderr
    assert not list(tmp_path.glob("out/*"))


def test_flags_of_parameter_servers_are_theirs(data, tmp_path):
    for flag in (["--staleness=2"], ["--ps_listen=127.0.0.1:1"], ["--ps_trace=t"], ["--ps_wait=3"]):
        done = subprocess.run([BINARY, "train", *flags("taxifare", data), *flag], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and f"{flag[0].partition('=')[0]} is for --strategy parameter_server, and this is one_device" in done.stderr, done.stderr


def test_clusters_that_disagree(data, tmp_path):
    other = {"chief": ["127.0.0.1:1111"], "worker": ["127.0.0.1:2222"]}
    with workers(2, flags("taxifare", data), tmp_path, addresses={("worker", 0): other},
                 environment={"TRAINYARD_MEETING": str(tmp_path / "meeting")}) as job:
        codes, logs = job.end()
    assert all(codes) and all("TF_CONFIG" in log and "worker 0" in log for log in logs), logs
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("what", ["seed", "data", "evaluation data", "no evaluation", "first values", "--resume"])
def test_what_differs_is_told_before_training(what, data, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(next((data / "taxifare").glob("taxi-valid*")).read_text().replace("1.0", "2.0"))
    arguments = flags("taxifare", data, "--threads=1")
    words = {"seed": "seed", "data": "set of training data", "evaluation data": "evaluation data (--eval_data_path)", "no evaluation": "evaluation data (--eval_data_path)",
             "first values": "--init_from", "--resume": "--resume"}[what]
    with Replicas(tmp_path, arguments, workers=1, ps=0) as job:
        if what == "first values":
            alone("taxifare", data, tmp_path / "before")
        job.start("chief")
        if what == "no evaluation":
            job.arguments = [a for a in job.arguments if not a.startswith("--eval_data_path")]
        job.start("worker", 0, {"seed": ["--seed=6"], "data": [f"--train_data_path={other}"], "evaluation data": [f"--eval_data_path={other}"],
                                "no evaluation": [], "first values": [f"--init_from={tmp_path}/before/checkpoints/ckpt-64"],
                                "--resume": ["--resume"]}[what])
        codes, logs = job.end()
    assert all(codes) and all(f"worker 0 has another {words} than chief" in log for log in logs), logs
    assert not any("Epoch 1" in log for log in logs)


def test_a_second_chief_is_told_at_once(data, tmp_path):
    """It does not wait for its workers first."""
    more = ("--num_examples_to_train_on=64000000", "--num_evals=4000")
    with workers(2, flags("taxifare", data, *more), tmp_path) as job:
        job.wait_line("Epoch 2/", ("chief", 0))
        again = subprocess.run([BINARY, "train", *job.arguments, f"--output_dir={job.out}"], capture_output=True, text=True, timeout=90,
                               env={**os.environ, "TF_CONFIG": json.dumps({"cluster": job.cluster, "task": {"type": "chief", "index": 0}})})
        assert again.returncode == 1 and f"is in use by process {job.running['chief', 0].pid}" in again.stderr, again.stderr


def test_names_of_this_machine_are_one(data, tmp_path):
    with Replicas(tmp_path, flags("taxifare", data, "--threads=1"), workers=1, ps=0) as job:
        job.cluster["chief"] = [job.cluster["chief"][0].replace("127.0.0.1", "localhost")]
        job.start_all()
        job.wait_all()


def test_devices_are_of_mirrored(data, tmp_path):
    done = subprocess.run([BINARY, "train", *flags("taxifare", data, "--devices=2"), f"--output_dir={tmp_path}/out"], capture_output=True, text=True)
    assert done.returncode == 1 and "--devices is for --strategy mirrored" in done.stderr, done.stderr


@pytest.mark.parametrize("config, words", [
    ({"cluster": {"worker": ["a:1"], "chief": ["a:1"]}, "task": {"type": "chief", "index": 0}}, "one address"),
    ({"cluster": {"worker": ["localhost:1"], "chief": ["127.0.0.1:1"]}, "task": {"type": "chief", "index": 0}}, "one address"),
    ({"cluster": {"chief": ["a:1"], "worker": ["a:2"]}, "task": {"type": "worker", "index": 1}}, "index"),
    ({"cluster": {"chief": ["a:1"], "worker": ["a:2"]}, "task": {"type": "boss", "index": 0}}, "boss"),
    ({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}}, "nobody would train"),
    ({"cluster": {}, "task": {"type": "evaluator", "index": 0}}, "nobody would train"),
    ({"cluster": {"chief": ["a:1"], "worker": ["b:2"]}, "task": {"type": "worker", "index": 0}}, "mpirun"),
])
def test_wrong_clusters_are_told_before_training(config, words, data, tmp_path):
    done = subprocess.run([BINARY, "train", *flags("taxifare", data), f"--output_dir={tmp_path}/out"], env={**os.environ, "TF_CONFIG": json.dumps(config)},
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not (tmp_path / "out").exists()
