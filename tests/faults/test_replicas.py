"""test_replicas.py -- the fault matrix of distributed training: each role in turn is stopped, killed, cut off, and has a full disk.

    strategy          role        stopped, killed              cut off                      disk is full
    multi_worker      chief       the others name it, all end  as left, by MPI (shared      it says so, the others say why it left; all
                                  with 75 and start again      memory cannot be cut)        start again from the checkpoint
                      worker      as chief                     as chief                     it writes nothing: not bothered
    parameter_server  chief       ps 0 names it, the others    as left; it comes back by    it says so and ends; the others go on, it
                                  go on, it joins again        itself                       joins again
                      worker      as chief                     as chief                     it writes nothing: not bothered
                      ps          chief and workers name it    as left; it comes back by    it says so and so do the workers; all go on
                                  and wait; given up in the    itself                       when there is space; given up in the end
                                  end if it stays away
                      evaluator   ps 0 names it, nobody waits  as left                      it says so and ends; the others end well, and
                                                                                            started again it evaluates the last

Who has no lasting harm takes part again. What a fault leads to is waited for 30 s at most; each test prints the seconds to the diagnosis.
"""
import os
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest

from network import Proxy, Switch
from replicas import Replicas, check_applied_once, free_ports, trace_count
from test_disk_full import fill
from yard import BINARY, TOP

CHIEF, WORKER, PS, EVALUATOR = ("chief", 0), ("worker", 0), ("ps", 0), ("evaluator", 0)
NAMES = {CHIEF: "chief", WORKER: "worker 0", PS: "ps 0", EVALUATOR: "evaluator"}
STATES = {"stopped": r"stopped \(SIGSTOP\)", "killed": "dead: its process is gone", "cut_off": "cut off: its process is alive"}
LONGEST = 30  # seconds, for what a fault leads to
FINISH = 120  # for a run that goes on to its end, on a machine that has other things to do


@pytest.fixture
def disk(tmp_path, needs_root):
    """A small one, which can be filled."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "none", folder], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


class Filled:
    """A disk without a byte left, and kept so: who had a file to remove just then would go on in its place."""

    def __init__(self, folder):
        self.folder, self.path, self.over = folder, fill(folder), threading.Event()
        self.thread = threading.Thread(target=self.keep)
        self.thread.start()

    def keep(self):
        while not self.over.wait(0.01):
            fill(self.folder)

    def give_back(self):
        self.over.set()
        self.thread.join()
        self.path.unlink(missing_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.give_back()


def flags(rides, examples, evals, batch):
    return ["taxifare", f"--train_data_path={rides}/taxi-train*", f"--eval_data_path={rides}/taxi-valid*", f"--batch_size={batch}",
            f"--num_examples_to_train_on={examples}", f"--num_evals={evals}", "--nnsize=32 8", "--threads=1"]


def told(record_property, seconds):
    record_property("seconds_to_diagnosis", round(seconds, 1))
    print(f"told after {seconds:.1f} s")


def on_full_disk(folder, listing):
    """The prefix of a command that finds no space in the folder. It leaves what it wrote there in the list."""
    return ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=64k none {folder} && head -c 64k /dev/zero >{folder}/filler && '
            f'{{ "$@"; code=$?; ls -A {folder} >{listing}; exit $code; }}', "sh"]


# ---- multi_worker ----

def together(rides, folder, **more):
    """Chief and worker, who compute each step together: 2,400 steps, a checkpoint after each 200."""
    return Replicas(folder, flags(rides, 240_000, 12, 100), workers=1, ps=0, **more)


def both_start_again(job):
    job.stop()
    job.start_all(["--resume"])
    job.wait_all(FINISH)
    assert "resumed after step" in job.log("chief"), job.logs()


@pytest.mark.parametrize("fault", ["stopped", "killed"])
@pytest.mark.parametrize("victim", [CHIEF, WORKER], ids=NAMES.get)
def test_multi_worker_names_the_lost_one(victim, fault, rides, tmp_path, record_property):
    other = WORKER if victim == CHIEF else CHIEF
    with together(rides, tmp_path) as job:
        job.start_all()
        job.wait_line("Epoch 2/", CHIEF)
        job.send(signal.SIGSTOP if fault == "stopped" else signal.SIGKILL, *victim)
        began = time.monotonic()
        assert job.wait(*other, LONGEST) == 75, job.logs()
        told(record_property, time.monotonic() - began)
        words = rf"no sign of life of {NAMES[victim]} .*is stopped" if fault == "stopped" else f"{NAMES[victim]} is gone: its process was killed"
        assert re.search(words + r".*step \d+", job.log(*other)), job.logs()
        both_start_again(job)


class Ranks:
    """The same two by mpirun, each in a network of its own; a rank's output and exit code are in files, for mpirun does not hear of the one
    that is cut off."""

    def __init__(self, folder, arguments, switch):
        self.folder, self.arguments, self.switch, self.process = folder, arguments, switch, None
        self.agent = folder / "agent"
        self.agent.write_text(f'#!/bin/sh\nhost=$1; shift\nexec ip netns exec "{switch.name}-${{host##*.}}" unshare -u sh -c "hostname n${{host##*.}}; $*"\n')
        self.agent.chmod(0o755)

    def start(self, *more):
        for file in self.folder.glob("rank-*"):
            file.unlink()
        hosts = ",".join(self.switch.address(name) for name in self.switch.hosts)
        rank = f'f={self.folder}/rank-$OMPI_COMM_WORLD_RANK; "$@" >$f.log 2>&1; echo $? >$f.new; mv $f.new $f.code'
        self.process = subprocess.Popen(
            [*self.switch.prefix(CHIEF), "unshare", "-u", "sh", "-c", 'hostname n1; exec "$@"', "sh", "mpirun", "--allow-run-as-root", "--host", hosts,
             "-n", "2", "--mca", "plm_rsh_agent", self.agent, "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "eth0", "--mca",
             "oob_tcp_if_include", "eth0", "sh", "-c", rank, "sh", BINARY, "train", *self.arguments, "--output_dir", self.folder / "out", *more],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def log(self, number):
        path = self.folder / f"rank-{number}.log"
        return path.read_text() if path.exists() else ""

    def wait(self, number, seconds=LONGEST):
        path, end = self.folder / f"rank-{number}.code", time.monotonic() + seconds
        while not path.exists():
            assert time.monotonic() < end, f"rank {number} is still there\n{self.log(0)}\n{self.log(1)}"
            time.sleep(0.05)
        return int(path.read_text())

    def stop(self):
        """mpirun, and its own daemon beyond the cable."""
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.mark.parametrize("victim", [CHIEF, WORKER], ids=NAMES.get)
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not on this machine")
def test_multi_worker_names_the_one_that_is_cut_off(victim, rides, tmp_path, record_property, needs_root):
    """Either is cut off as the other sees it: both say who, end with 75, and start again."""
    with Switch([CHIEF, WORKER]) as switch:
        ranks = Ranks(tmp_path, flags(rides, 720_000, 48, 100), switch)  # seconds, even where all is idle
        try:
            ranks.start()
            end = time.monotonic() + FINISH
            while "Epoch 2/" not in ranks.log(0):
                assert time.monotonic() < end, ranks.log(0)
                time.sleep(0.02)
            time.sleep(0.5)  # signs of life, which say the step, come 20 times a second
            switch.cut(victim)
            began = time.monotonic()
            assert [ranks.wait(0), ranks.wait(1)] == [75, 75], ranks.log(0) + ranks.log(1)
            told(record_property, time.monotonic() - began)
            for number, lost in ((0, "worker 0"), (1, "chief")):
                assert re.search(rf"no sign of life of {lost} for .*step \d+", ranks.log(number)), ranks.log(number)
            assert "its signs of life do not come through" in ranks.log(0) + ranks.log(1)  # the later one may see that the other has ended
            ranks.stop()
            switch.plug(victim)
            ranks.start("--resume")
            assert [ranks.wait(0, FINISH), ranks.wait(1, FINISH)] == [0, 0] and "resumed after step" in ranks.log(0), ranks.log(0) + ranks.log(1)
        finally:
            ranks.stop()


def test_multi_worker_chief_with_a_full_disk(rides, tmp_path, disk, record_property):
    with together(rides, tmp_path) as job:
        job.out = disk / "out"
        job.start_all()
        job.wait_line("Epoch 2/", CHIEF)
        with Filled(disk):
            began = time.monotonic()
            assert job.wait(*CHIEF, LONGEST) == 1 and job.wait(*WORKER, LONGEST) == 75, job.logs()
            told(record_property, time.monotonic() - began)
        assert re.search(r"checkpoint 'ckpt-\d+': .*No space left on device|tensorboard.*No space left on device", job.log("chief")), job.logs()
        assert re.search("chief .*No space left on device", job.log("worker")), job.logs()
        both_start_again(job)


def test_multi_worker_worker_writes_nothing(rides, tmp_path, needs_root):
    with together(rides, tmp_path) as job:
        job.out.mkdir()
        job.prefixes[WORKER] = on_full_disk(job.out, tmp_path / "written")
        job.start_all()
        job.wait_all(FINISH)
        assert "The model is in" in job.log("chief") and (tmp_path / "written").read_text() == "filler\n"


# ---- parameter_server ----

class Apart(Replicas):
    """Chief, worker, ps and evaluator, at most a step apart, with an evaluation each 200. Unless told otherwise the run has more steps than
    anybody waits for."""

    def __init__(self, rides, folder, steps=2_000_000, hosts=None, ps=1):
        super().__init__(folder, [*flags(rides, steps * 32, steps // 200, 32), "--staleness=1"], workers=1, ps=ps, evaluator=True)
        self.trace = self.folder / "trace"
        self.more = ["--ps_trace", self.trace]
        if hosts:
            self.cluster = {role: [f"{hosts.address((role, 0))}:7000"] for role in self.cluster}
            self.prefixes = {name: hosts.prefix(name) for name in self.names}

    def begin(self):
        """All of them are there and take part."""
        self.start_all(self.more)
        self.takes_part(PS, CHIEF, WORKER, EVALUATOR, seconds=FINISH)

    def begin_short(self):
        """A run that is soon over: the worker is there before the chief begins it."""
        for name in (*self.others(CHIEF), CHIEF):
            if name == CHIEF:
                self.wait_early(self.trace, 1)
            self.start(*name, self.more)

    def work(self, name):
        """What it has done, which grows while it takes part."""
        if name == EVALUATOR:
            return len(re.findall(r"^step \d+ - loss", self.log(*name), re.M))
        if name == PS:
            return trace_count(f"{self.trace}.ps-0", "push")
        return trace_count(f"{self.trace}.worker-{[CHIEF, WORKER].index(name)}", "acknowledged")

    def takes_part(self, *names, seconds=LONGEST):
        for name in names:
            before, end = self.work(name), time.monotonic() + seconds
            while self.work(name) < before + (1 if name == EVALUATOR else 20):
                assert time.monotonic() < end, f"{name} does nothing\n{self.logs()}"
                time.sleep(0.05)

    def others(self, victim):
        return [name for name in self.names if name != victim]

    def stop(self):
        super().stop()
        if self.trace.with_name("trace.ps-0").exists():
            check_applied_once(self.trace, len(self.cluster["ps"]), 2)


def diagnosis(victim, fault, cluster):
    """Who says it, and what."""
    if victim == PS:
        return CHIEF, rf"has waited [\d.]+ s for .* of ps 0 \({cluster['ps'][0]}\), which has not been heard of for [\d.]+ s: it is {STATES[fault]}"
    since = "" if victim == EVALUATOR else r", since its step \d+"
    return PS, rf"ps 0: {NAMES[victim]} has not been heard of for [\d.]+ s{since}: it is {STATES[fault]}"


def wait_words(job, where, words):
    began = time.monotonic()
    while not re.search(words, job.log(*where)):
        assert time.monotonic() - began < LONGEST, f"no '{words}' in the log of {where}\n{job.logs()}"
        time.sleep(0.05)
    return time.monotonic() - began


@pytest.mark.parametrize("fault", ["stopped", "killed", "cut_off"])
@pytest.mark.parametrize("victim", [CHIEF, WORKER, PS, EVALUATOR], ids=NAMES.get)
def test_parameter_server_goes_on(victim, fault, rides, tmp_path, record_property, request):
    """It is named; nobody else is held up, unless it has the weights; and it takes part again when it can."""
    hosts = [CHIEF, WORKER, PS, EVALUATOR]
    if fault == "cut_off":
        request.getfixturevalue("needs_root")
    with Switch(hosts if fault == "cut_off" else []) as switch, Apart(rides, tmp_path, hosts=switch if fault == "cut_off" else None) as job:
        job.begin()
        strike = {"stopped": lambda: job.send(signal.SIGSTOP, *victim), "killed": lambda: job.kill(*victim), "cut_off": lambda: switch.cut(victim)}
        mend = {"stopped": lambda: job.send(signal.SIGCONT, *victim), "killed": lambda: job.start(*victim, job.more),
                "cut_off": lambda: switch.plug(victim)}
        strike[fault]()
        told(record_property, wait_words(job, *diagnosis(victim, fault, job.cluster)))
        if victim != PS:
            job.takes_part(*(name for name in job.others(victim) if victim != CHIEF or name != EVALUATOR))  # without it no checkpoint is made
        assert [name for name in job.others(victim) if job.running[name].poll() is not None] == [], job.logs()
        mend[fault]()
        job.takes_part(victim, *job.others(victim))
        if fault == "stopped":  # it stood still itself
            assert "has not been heard of" not in job.log(*victim), job.log(*victim)


@pytest.mark.parametrize("fault", ["stopped", "killed"])
def test_parameter_server_is_given_up(fault, rides, tmp_path, record_property):
    """One of two that stays away: all who need it name it and end with 75, and so does the other, to whom nobody talks any more."""
    with Apart(rides, tmp_path, ps=2) as job:
        job.more += ["--ps_wait", 6]
        job.begin()
        job.send(signal.SIGSTOP if fault == "stopped" else signal.SIGKILL, "ps", 1)
        lost = rf"has waited [\d.]+ s for .* of ps 1 \({job.cluster['ps'][1]}\), which has not been heard of for [\d.]+ s: it is {STATES[fault]}"
        told(record_property, wait_words(job, CHIEF, lost))
        for name in (CHIEF, WORKER):
            assert job.wait(*name, LONGEST) == 75, job.logs()
            assert re.search(lost + ": given up", job.log(*name)), job.logs()
        assert job.wait(*PS, LONGEST) == 75 and "ps 0: no worker has been heard of for" in job.log(*PS), job.logs()


def test_parameter_server_whose_disk_stays_full_is_given_up(rides, tmp_path, disk):
    with Apart(rides, tmp_path) as job:
        job.more += ["--ps_wait", 4, "--ps_dir", disk / "ps"]
        job.begin()
        with Filled(disk):
            for name in (CHIEF, WORKER):
                assert job.wait(*name, LONGEST) == 75, job.logs()
                assert re.search(r"of ps 0 \(.*\), which fails: .*No space left on device: given up", job.log(*name)), job.logs()
            assert job.wait(*PS, LONGEST) == 75 and "ps 0: no worker has been heard of for" in job.log(*PS), job.logs()


@pytest.mark.parametrize("fault", ["stopped", "killed"])
def test_parameter_server_chief_stays_away(fault, rides, tmp_path, record_property):
    """The steps are made without it, the ps gives up; what was acknowledged is kept, and started again they finish."""
    with Apart(rides, tmp_path, steps=6000) as job:
        job.names.remove(EVALUATOR)
        job.more += ["--ps_wait", 5]
        job.start_all(job.more)
        job.wait_steps(job.trace, 50)
        job.send(signal.SIGSTOP if fault == "stopped" else signal.SIGKILL, *CHIEF)
        told(record_property, wait_words(job, *diagnosis(CHIEF, fault, job.cluster)))
        assert job.wait(*WORKER, FINISH) == 0, job.logs()
        assert job.wait(*PS, LONGEST) == 75 and "no worker has been heard of" in job.log("ps"), job.logs()
        if fault == "killed":
            job.start(*PS, job.more)
            job.start(*CHIEF, job.more)
            job.wait_all(FINISH)
            assert "The model is in" in job.log("chief") and check_applied_once(job.trace, 1, 2) == 6000


def test_parameter_server_connections_are_made_again(rides, tmp_path):
    """The ps listens behind a proxy, which all replicas are told of; its own TF_CONFIG differs in nothing else."""
    with Apart(rides, tmp_path, steps=600) as job:
        (real,) = free_ports(1)
        proxy = Proxy(real)
        job.cluster["ps"] = [f"127.0.0.1:{proxy.port}"]
        job.start(*PS, [*job.more, "--ps_listen", f"127.0.0.1:{real}"])
        job.start(*WORKER, job.more)
        job.wait_early(job.trace, 1)
        job.start(*CHIEF, job.more)
        for number in range(4):
            job.wait_steps(job.trace, 50 + 100 * number)
            proxy.hole() if number == 2 else proxy.cut()
        job.wait_all(FINISH)
        proxy.close()
        assert check_applied_once(job.trace, 1, 2) == 600


def test_parameter_server_ps_with_a_full_disk(rides, tmp_path, disk, record_property):
    with Apart(rides, tmp_path) as job:
        job.more += ["--ps_dir", disk / "ps"]
        job.begin()
        with Filled(disk):
            told(record_property, wait_words(job, CHIEF, r"of ps 0 \(.*\), which fails: the log of updates in .*No space left on device"))
            wait_words(job, PS, "ps 0: .*No space left on device")
        job.takes_part(*job.names)


def test_parameter_server_chief_with_a_full_disk(rides, tmp_path, disk, record_property):
    with Apart(rides, tmp_path) as job:
        job.out = disk / "out"
        job.more += ["--ps_dir", tmp_path / "ps"]
        job.begin()
        with Filled(disk):
            began = time.monotonic()
            assert job.wait(*CHIEF, LONGEST) == 1, job.logs()
            told(record_property, time.monotonic() - began)
            assert re.search(r"checkpoint 'ckpt-\d+': .*No space left on device|tensorboard.*No space left on device", job.log("chief")), job.logs()
            job.takes_part(WORKER, PS)
        job.start(*CHIEF, job.more)
        job.takes_part(CHIEF, WORKER, PS)


def test_parameter_server_worker_writes_nothing(rides, tmp_path, needs_root):
    with Apart(rides, tmp_path, steps=600) as job:
        job.names.remove(EVALUATOR)
        job.out.mkdir()
        job.prefixes[WORKER] = on_full_disk(job.out, tmp_path / "written")
        job.begin_short()
        job.wait_all(FINISH)
        assert job.work(WORKER) > 0 and "The model is in" in job.log("chief") and (tmp_path / "written").read_text() == "filler\n"


def test_parameter_server_evaluator_with_a_full_disk(rides, tmp_path, needs_root, record_property):
    with Apart(rides, tmp_path, steps=600) as job:
        curves = job.out / "tensorboard"
        curves.mkdir(parents=True)
        job.prefixes[EVALUATOR] = on_full_disk(curves, tmp_path / "written")
        job.begin_short()
        began = time.monotonic()
        assert job.wait(*EVALUATOR, LONGEST) == 1, job.logs()
        told(record_property, time.monotonic() - began)
        assert "No space left on device" in job.log("evaluator") and str(curves) in job.log("evaluator"), job.logs()
        job.wait_all(FINISH, but=[EVALUATOR])
        del job.prefixes[EVALUATOR]
        job.start(*EVALUATOR)
        assert job.wait(*EVALUATOR, LONGEST) == 0 and "step 600 - loss" in job.log("evaluator"), job.logs()
