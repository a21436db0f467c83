"""test_parameter_server.py -- chief, workers, ps and evaluator as processes: they learn what one process learns, never run ahead of
the bound, and apply every acknowledged update once, whoever is killed. tests/faults/test_replicas.py stops, cuts off and fills disks."""
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time

import pytest

from replicas import Replicas, after_the_workers, check_applied_once, trace_count, trace_lines
from yard import BINARY, TOP


def taxifare(rides, examples=64000, evals=2, batch=32):
    return ["taxifare", "--train_data_path", f"{rides}/taxi-train*", "--eval_data_path", f"{rides}/taxi-valid*", "--batch_size", batch,
            "--num_examples_to_train_on", examples, "--num_evals", evals, "--nnsize", "32 8", "--threads", 1]


def chicago_taxi(trips):
    return ["chicago_taxi", "--train-files", f"{trips}/train.csv", "--eval-files", f"{trips}/eval.csv", "--learning-rate", "0.001",
            "--batch-size", 128, "--hidden-units", "128,0,0", "--layer-sizes-scale-factor", "0.5", "--num-layers", 3,
            "--num-epochs", 60, "--train-size", 8000, "--threads", 1]


def alone(arguments):
    """The synchronous run's last line of an epoch."""
    done = subprocess.run([BINARY, "train", *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          env={k: v for k, v in os.environ.items() if k != "TF_CONFIG"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def val_loss(text):
    return float(re.findall(r"val_loss: (\S+)", text)[-1])


def final_metric(model, *logs):
    """The reference's own, of the last evaluation: of the model that is exported. Of Chicago's, whose moving means make it jump from 0.4
    to 1.6 and back in one process, too, the training's loss in the last epoch, over all who trained."""
    if model == "taxifare":
        return float(re.findall(r"val_rmse: (\S+)", logs[0])[-1])
    return sum(float(re.findall(r" - loss: (\S+)", log)[-1]) for log in logs) / len(logs)


def examples_of(text):
    return int(re.findall(r": (\d+) examples computed, \d+ bytes sent, \d+ bytes received, [\d.]+ s of CPU", text)[-1])


# ---- what must hold of a trace ----

def check_staleness(trace, bound):
    """No worker began a step more than `bound` ahead of the slowest that was there -> the most that was seen."""
    clocks, most, pulls = {}, 0, 0
    for line in trace_lines(f"{trace}.ps-0"):
        worker = line.get("worker")
        if line["event"] == "hello":
            clocks[worker] = line["clock"]
        elif line["event"] in ("bye", "silent"):
            clocks.pop(worker, None)
        elif line["event"] in ("push", "replayed"):
            clocks[worker] = line["clock"] + 1
        elif line["event"] == "pull":
            clocks[worker] = line["clock"]
            ahead = line["clock"] - min(clocks.values())
            pulls += 1
            most = max(most, ahead)
            assert ahead <= bound, f"{line} with clocks {clocks}"
    assert pulls > 0
    return most


def staleness(trace):
    """In words: how many updates there were between a pull and its push."""
    pulled, seen = {}, []
    for line in trace_lines(f"{trace}.ps-0"):
        if line["event"] == "pull":
            pulled[line["worker"]] = line["version"]
        elif line["event"] == "push":
            seen.append(line["version"] - 1 - pulled[line["worker"]])
    seen.sort()
    return f"updates between pull and push: {statistics.mean(seen):.1f} on average, 99 % up to {seen[len(seen) * 99 // 100]}, at most {seen[-1]}"


# ---- learning ----

STEPS = {"taxifare": 20000, "chicago_taxi": 3750}


@pytest.fixture(scope="module")
def apart(rides, trips):
    """By model: the flags of a run, and the metric that one process comes to with them."""
    found = {"taxifare": taxifare(rides, 2_560_000, 5, 128), "chicago_taxi": chicago_taxi(trips)}
    return {model: (arguments, final_metric(model, alone(arguments))) for model, arguments in found.items()}


@pytest.mark.parametrize("bound", [None, 2])
@pytest.mark.parametrize("model,ps", [("taxifare", 1), ("chicago_taxi", 2)])
def test_learns_as_well_as_one_process(apart, tmp_path, model, ps, bound):
    steps, (arguments, metric) = STEPS[model], apart[model]
    with Replicas(tmp_path, arguments, workers=2, ps=ps, evaluator=True) as job:
        job.start_all(["--ps_trace", tmp_path / "trace", *(["--staleness", bound] if bound else [])])
        job.wait_all(240)
        trainers = [("chief", 0), ("worker", 0), ("worker", 1)]
        together = final_metric(model, *(job.log(*name) for name in trainers))
        print(f"{model}: {together:.4f} with {ps} ps, {metric:.4f} alone, {staleness(tmp_path / 'trace')}")
        assert together <= 1.05 * metric
        assert f"over {steps} steps" in job.log("chief")
        assert check_applied_once(tmp_path / "trace", ps, 3) == steps
        shares = [examples_of(job.log(*name)) for name in trainers]
        assert sum(shares) == steps * 128
        assert all(share > 0 for share in shares), shares
        assert all(examples_of(job.log("ps", i)) == 0 for i in range(ps))
        # Only the chief wrote outputs, the evaluator its own curve; the servers' state went with the run.
        assert sorted(p.name for p in job.out.iterdir()) == ["checkpoints", "export", "ps", "tensorboard"]
        assert sorted(p.name for p in (job.out / "tensorboard").iterdir()) == ["eval", "train", "validation"]
        assert list((job.out / "ps").iterdir()) == []
        assert len(list((job.out / "tensorboard" / "train").iterdir())) == 1
        assert f"step {steps} - loss: {val_loss(job.log('chief')):.4f}" in job.log("evaluator")


@pytest.mark.parametrize("model,ps", [("taxifare", 1), ("taxifare", 3), ("chicago_taxi", 2)])
def test_a_chief_alone_gives_the_bits_of_one_process(rides, trips, tmp_path, model, ps):
    """The servers' steps are the optimizer's own, deferred rows and moving means included."""
    arguments = taxifare(rides, 9600) if model == "taxifare" else [*chicago_taxi(trips), "--num-epochs", 5]
    with Replicas(tmp_path, arguments, workers=0, ps=ps) as job:
        job.start_all()
        job.wait_all()
        alone([*arguments, "--output_dir", tmp_path / "alone"])
        (ours,), (theirs,) = (list(folder.glob("export/savedmodel/*/variables/variables.data*")) for folder in (job.out, tmp_path / "alone"))
        assert ours.read_bytes() == theirs.read_bytes()


def test_without_a_chief_worker_0_is_it(rides, tmp_path):
    trace = tmp_path / "trace"
    with Replicas(tmp_path, taxifare(rides), workers=2, ps=1) as job:
        del job.cluster["chief"]
        job.names.remove(("chief", 0))
        job.start("ps", 0, ["--ps_trace", trace])
        job.start("worker", 1, ["--ps_trace", trace])
        job.wait_early(trace, 1)  # what the run is says worker 0
        job.start("worker", 0, ["--ps_trace", trace])
        job.wait_all()
        assert "The model is in" in job.log("worker", 0) and "The model is in" not in job.log("worker", 1)


# ---- the bound ----

@pytest.mark.parametrize("bound", [0, 3])
def test_nobody_runs_ahead_of_the_bound(rides, tmp_path, bound):
    trace = tmp_path / "trace"
    with Replicas(tmp_path, taxifare(rides), workers=2, ps=2) as job:
        job.start_all(["--staleness", bound, "--ps_trace", trace])
        job.wait_steps(trace, 200)
        job.wait_trained(trace, 2)
        job.send(signal.SIGSTOP, "worker", 1)  # the others wait for it
        time.sleep(1.5)
        job.send(signal.SIGCONT, "worker", 1)
        job.wait_all()
        print(f"at most {check_staleness(trace, bound)} steps ahead")
        assert check_applied_once(trace, 2, 3) == 2000


def test_without_a_bound_nobody_waits(rides, tmp_path):
    trace = tmp_path / "trace"
    with Replicas(tmp_path, taxifare(rides, 192_000), workers=2, ps=1) as job:
        job.start_all(["--ps_trace", trace])
        job.wait_trained(trace, 2)
        job.send(signal.SIGSTOP, "worker", 1)
        job.wait_steps(trace, trace_count(f"{trace}.ps-0", "push") + 500)
        job.send(signal.SIGCONT, "worker", 1)
        job.wait_all()
        with pytest.raises(AssertionError):
            check_staleness(trace, 3)


@pytest.mark.parametrize("bound, lost", [(None, "steps"), (2, "time")])
def test_a_slow_worker_is_named(rides, tmp_path, bound, lost):
    """One that stands still again and again: the chief says what it costs, and TensorBoard has the times of each."""
    trace, end = tmp_path / "trace", time.monotonic() + 180
    with Replicas(tmp_path, taxifare(rides, 64_000_000, 8000), workers=2, ps=1) as job:
        job.start_all(["--ps_trace", trace, *(["--staleness", bound] if bound else [])])
        job.wait_trained(trace, 0, 1, 2)
        while not re.search(rf"worker 1 is slow: it costs \d+ % of the {lost}\. A step of it: data", job.log("chief")):
            assert time.monotonic() < end, job.log("chief")[-2000:]
            job.stand_still("worker", 1)
        wanted = [f"{who}/{phase}_ms".encode() for who in ("chief", "worker 0", "worker 1") for phase in ("data", "forward", "backward", "wait")]
        while missing := [tag for tag in wanted if tag not in b"".join(path.read_bytes() for path in (job.out / "tensorboard" / "train").iterdir())]:
            assert time.monotonic() < end, missing  # each tells its times when it has made some of an epoch
            time.sleep(0.1)


# ---- kill -9 ----

def kill_some(rides, folder, rng, kills=3):
    """A run in which somebody is killed and comes back, again and again."""
    trace, ps = folder / "trace", rng.choice([1, 2])
    bound = rng.choice([[], ["--staleness", 2]])
    flags = ["--ps_trace", trace, *bound]
    with Replicas(folder, taxifare(rides, 64000), workers=2, ps=ps) as job:
        job.start_all(flags)
        victims = [("worker", 0), ("worker", 1), *(("ps", i) for i in range(ps))]
        for number in range(kills):
            job.wait_steps(trace, rng.randrange(1, 1500 // (kills - number)))
            role, index = rng.choice(victims)
            job.send(signal.SIGSTOP, "chief")  # for the moment of the kill: who is killed when the run has ended finds nobody
            goes_on = trace_count(f"{trace}.ps-0", "push") < 1990 and job.running[role, index].poll() is None
            if goes_on:
                job.kill(role, index)
            job.send(signal.SIGCONT, "chief")
            if goes_on:
                time.sleep(rng.choice([0, 0.3]))
                job.start(role, index, flags)
        # A worker that comes when all is over finds nobody: that is no mistake of the run.
        for name in [("chief", 0), *(("ps", i) for i in range(ps))]:
            assert job.wait(*name) == 0, job.logs()
        assert check_applied_once(trace, ps, 3) == 2000
        if bound:
            check_staleness(trace, 2)
        assert val_loss(job.log("chief")) < 12


def test_killed_workers_and_servers_lose_no_acknowledged_update(rides, tmp_path, rng, long):
    end, done = time.monotonic() + 30, 0
    while done < 50 if long else time.monotonic() < end:
        kill_some(rides, tmp_path / str(done), rng)
        done += 1
    print(f"{done} runs")


def test_killed_chief_goes_on(rides, tmp_path):
    trace = tmp_path / "trace"
    with Replicas(tmp_path, taxifare(rides, 256_000, 16), workers=1, ps=1) as job:
        job.start_all(["--ps_trace", trace])
        job.wait_line("Epoch 2/16", ("chief", 0))
        job.kill("chief")
        job.start("chief", 0, ["--ps_trace", trace])
        job.wait_all()
        assert re.search(r"chief: joins at step \d+\n.*resumed after step", job.log("chief"), re.S)
        assert check_applied_once(trace, 1, 2) == 8000
        assert "The model is in" in job.log("chief")


def test_sigterm_to_all_is_a_pause(rides, tmp_path):
    """As a job that is cancelled: the same command goes on from there."""
    trace = tmp_path / "trace"
    with Replicas(tmp_path, taxifare(rides, 128_000), workers=2, ps=2) as job:
        job.start_all(["--ps_trace", trace])
        job.wait_steps(trace, 300)
        job.wait_trained(trace, 0, 1, 2)
        for name in job.names[::-1]:
            job.send(signal.SIGTERM, *name)
        for name in job.names:
            assert job.wait(*name) == 128 + signal.SIGTERM, job.logs()
        assert re.search(r"stopped by SIGTERM after step \d+; --resume goes on from there", job.log("chief"))
        assert all(examples_of(job.log(*name)) > 0 for name in job.names if name[0] != "ps"), job.logs()  # who is stopped says its share, too
        assert list((job.out / "checkpoints").glob("ckpt-*.index"))
        job.start_all(["--ps_trace", trace])
        job.wait_all()
        assert check_applied_once(trace, 2, 3) == 4000


# ---- the output folder ----

def test_an_earlier_run_is_nothing_to_go_on_from(rides, tmp_path):
    """Workers may begin before the chief has seen what is in the folder: a run that is over, of the same flags or of others."""
    with Replicas(tmp_path, taxifare(rides, 64_000), workers=1, ps=1, evaluator=True) as job:
        job.start_all()
        job.wait_all()
        assert list((job.out / "tensorboard" / "eval").iterdir())
        for number, seed in enumerate(([], ["--seed", 9])):
            trace = tmp_path / f"trace{number}"
            flags = ["--ps_trace", trace, *seed]
            job.start("ps", 0, flags)
            job.start("worker", 0, flags)  # it waits for the chief, who says what the run is
            job.wait_early(trace, 1)
            assert trace_count(f"{trace}.ps-0", "push") == 0
            job.start("chief", 0, flags)
            job.wait_all()
            assert check_applied_once(trace, 1, 2) == 2000
            assert job.log("chief").count("over 2000 steps") == number + 2 and "resumed" not in job.log("chief")
            assert len(list((job.out / "export" / "savedmodel").iterdir())) == 1
            assert not list((job.out / "tensorboard" / "eval").iterdir())  # this one had no evaluator


def test_without_their_state_the_servers_begin_with_the_last_checkpoint(rides, tmp_path):
    with Replicas(tmp_path, taxifare(rides, 96_000, 30), workers=1, ps=2) as job:
        job.start_all(["--ps_trace", tmp_path / "trace"])
        job.wait_line("Epoch 2/", ("chief", 0))
        for name in job.names[::-1]:
            job.send(signal.SIGTERM, *name)
        job.end()
        step = int(re.search(r"stopped by SIGTERM after step (\d+)", job.log("chief"))[1])
        shutil.rmtree(job.out / "ps")
        job.start("ps", 0, ["--resume", "--seed", 9])
        job.start("ps", 1, ["--resume", "--seed", 9])
        job.start("chief", 0, ["--resume", "--seed", 9])
        assert job.wait("chief") == 1 and "it is of another run" in job.log("chief"), job.logs()
        job.stop()
        shutil.rmtree(job.out / "ps", ignore_errors=True)
        job.start_all(["--resume"])
        job.wait_all()
        assert f"chief: joins at step {step}\n" in job.log("chief") and f"resumed after step {step}\n" in job.log("chief")
        assert "over 3000 steps" in job.log("chief")


def test_the_chief_holds_the_folder(rides, tmp_path):
    with Replicas(tmp_path, taxifare(rides, 640_000), workers=1, ps=1) as job:
        job.start_all()
        job.wait_line("Epoch 1", ("chief", 0))
        job.send(signal.SIGSTOP, "chief")  # so that it is not at its end when the other looks
        other = subprocess.run([BINARY, "train", *map(str, taxifare(rides)), "--output_dir", job.out], capture_output=True, text=True, timeout=60)
        assert other.returncode == 1 and f"is in use by process {job.running['chief', 0].pid}" in other.stderr, other.stderr


# ---- on the yard ----

def test_a_job_of_the_yard_has_the_same_roles(rides, tmp_path, yard):
    """Pools chief, workers, ps, evaluator: the yard's TF_CONFIG is all that the trainer needs."""
    trace = tmp_path / "trace"
    arguments = ["train", *map(str, taxifare(rides)), "--output_dir", str(tmp_path / "out"), "--ps_trace", str(trace)]
    pools = [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": count,
              "containerSpec": {"imageUri": "host", "command": [str(BINARY)], "args": arguments}} for count in (1, 2, 2, 1)]
    pools[0]["containerSpec"]["command"] = after_the_workers(trace, workers=2, ps=2) + [str(BINARY)]
    (tmp_path / "job.yaml").write_text(json.dumps({"workerPoolSpecs": pools}))
    told = yard.trainyard("ai", "custom-jobs", "create", "--display-name=ps", f"--config={tmp_path}/job.yaml")
    name = re.search(r"projects/\S+/customJobs/\d+", told.stdout + told.stderr)[0]
    assert yard.wait(name, seconds=120)["state"] == "JOB_STATE_SUCCEEDED", yard.lines(name)
    lines = "\n".join(yard.lines(name))
    assert all(f"{who}: " in lines for who in ("chief", "worker 0", "worker 1")) and "The model is in" in lines
    assert sum(map(int, re.findall(r": (\d+) examples computed", lines))) == 64000


# ---- mistakes ----

def test_wrong_clusters_are_told_before_training(rides, tmp_path):
    cases = {'{"cluster":{"ps":["h:1"]},"task":{"type":"ps","index":0}}': "no chief and no worker",
             '{"cluster":{"chief":["h:1"],"worker":["h:1"]},"task":{"type":"chief","index":0}}': "chief 0 and worker 0 have one address, h:1",
             '{"cluster":{"chief":["h:1"]},"task":{"type":"worker","index":3}}': "the cluster has no worker",
             '{"cluster":': "TF_CONFIG: JSON at line 1, column 11"}
    for text, words in cases.items():
        done = subprocess.run([BINARY, "train", *map(str, taxifare(rides))], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "TF_CONFIG": text})
        assert done.returncode == 1 and words in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""


def test_replicas_that_disagree_are_told(rides, tmp_path):
    with Replicas(tmp_path, taxifare(rides), workers=1, ps=1) as job:
        other = {**job.cluster, "worker": ["127.0.0.1:1"]}
        job.start("ps", 0)
        job.start("worker", 0, cluster=other)
        assert job.wait("worker", 0) == 1
        assert "refuses worker 0: its TF_CONFIG has another cluster: all replicas need the same" in job.log("worker")
        job.start("chief", 0)
        job.wait_line("Epoch 1", ("chief", 0))
        job.send(signal.SIGSTOP, "chief")  # so that the run is not over when the worker comes
        job.start("worker", 0, ["--seed", 77])
        assert job.wait("worker", 0) == 1
        job.send(signal.SIGCONT, "chief")
        assert "refuses worker 0: it has another seed than ps 0: all replicas need the same" in job.log("worker")
        assert job.wait("chief", 0) == 0


@pytest.mark.parametrize("flags, what", [(["--lr", "0.5"], "set of parameters"), (["--staleness", 3], "--staleness")])
def test_a_ps_with_other_flags_is_told(rides, tmp_path, flags, what):
    """It runs the optimizer: with a rate of its own it would train another model than the chief's."""
    with Replicas(tmp_path, taxifare(rides), workers=0, ps=2) as job:
        job.start("ps", 0)
        job.start("ps", 1, flags)
        job.start("chief", 0)
        assert job.wait("chief", 0) == 1
        assert re.search(rf"ps 1 \(\S+\) refuses chief: it has another {what} than ps 1: all replicas need the same", job.log("chief")), job.logs()


def test_servers_that_never_come_are_given_up(rides, tmp_path):
    with Replicas(tmp_path, taxifare(rides, 64000), workers=1, ps=1) as job:
        job.start("chief", 0, ["--ps_wait", 1])
        assert job.wait("chief", 0, 30) == 75
        assert re.search(r"chief at step 0 has waited [\d.]+ s for a welcome of ps 0 .*not been heard of.*given up", job.log("chief"))
