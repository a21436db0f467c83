"""test_kill_conductor.py -- kill -9 of a conductor: nothing of its replicas survives, and the job is tried again by the rules."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import invariants
from yard import BINARY, TOP, Yard

# A daemon as nasty as they come: double fork, setsid, descriptors closed, signals ignored.
DAEMON = r"""
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(s, signal.SIG_IGN)
        print("started", flush=True)
        os.closerange(0, 256)
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


def conductors(yard, job_id):
    """pids that hold the lock of an attempt of the job."""
    inodes = {str((yard.data / "jobs" / job_id / n / "lock").stat().st_ino)
              for n in os.listdir(yard.data / "jobs" / job_id) if (yard.data / "jobs" / job_id / n / "lock").exists()}
    found = []
    for line in pathlib.Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "POSIX" and fields[5].split(":")[2] in inodes:
            found.append(int(fields[4]))
    return found


def kill_conductor(yard):
    name = yard.create(sys.executable if os.access(sys.executable, os.X_OK) else "python3", "-c", DAEMON)
    job_id = name.rsplit("/", 1)[1]
    yard.wait_for(lambda: "started" in yard.lines(name), 60, "the first line")
    before = {pid for job, pid in invariants.marks_alive() if job == job_id}
    assert len(before) >= 2, "the daemon should be running"
    (pid,) = conductors(yard, job_id)
    os.kill(pid, signal.SIGKILL)
    yard.wait_for(lambda: not before & {p for j, p in invariants.marks_alive() if j == job_id}, 30,
                  "all descendants to be gone")
    # Lost is not failed: the rules give it another attempt.
    yard.wait_for(lambda: yard.lines(name).count("started") == 2, 60, "the second attempt")
    yard.wait(name, "JOB_STATE_RUNNING")  # its line may be read before the server has heard that it runs
    yard.cancel(name)
    assert yard.wait(name)["state"] == "JOB_STATE_CANCELLED"
    assert not [p for j, p in invariants.marks_alive() if j == job_id]


def test_leaves_nothing(fault_yard):
    kill_conductor(fault_yard)


def test_leaves_nothing_without_namespaces(tmp_path):
    with Yard(tmp_path, settings={"grace_ms": 300}, environment={"TY_ISOLATION": "sweep"}) as yard:
        kill_conductor(yard)


def test_leaves_nothing_as_an_ordinary_user(tmp_path, needs_root):
    """The same test, run by another user in a folder of its own."""
    home = pathlib.Path("/tmp", f"trainyard-user-{os.getpid()}")
    home.mkdir()
    try:
        shutil.copy(BINARY, home / "trainyard")
        shutil.copytree(TOP / "tests", home / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        os.chmod(home, 0o755)
        (home / "data").mkdir()
        os.chown(home / "data", 65534, 65534)
        script = ("import sys, os; sys.path[:0] = ['tests', 'tests/faults']\n"
                  "import test_kill_conductor as t; from yard import Yard\n"
                  "with Yard('data/y', settings={'grace_ms': 300}) as yard: t.kill_conductor(yard)\n"
                  "print('held')\n")
        python = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
        result = subprocess.run([python, "-c", script], cwd=home, user=65534, group=65534, extra_groups=[],
                                env={"PATH": "/usr/bin:/bin", "HOME": str(home / "data"), "TRAINYARD_BINARY": str(home / "trainyard"),
                                     "PYTHONDONTWRITEBYTECODE": "1"},
                                capture_output=True, text=True, timeout=120)
        assert "held" in result.stdout, result.stdout + result.stderr
    finally:
        shutil.rmtree(home)
