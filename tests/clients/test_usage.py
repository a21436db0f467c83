"""What replicas use: samples, receipts, limits, and the lines and commands that show them."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from yard import BINARY, Yard

MB = 1 << 20

# Burns a second of CPU with 200 MB, and says itself what that was.
BURN = """
import resource, time
block = bytearray(200 << 20)
for i in range(0, len(block), 4096): block[i] = 1
while time.process_time() < 1: pass
used = resource.getrusage(resource.RUSAGE_SELF)
print("own", used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
"""
EAT = "x = []\nwhile True: x.append(bytearray(b'x' * (16 << 20)))"
HERE = "/trainyard/v1/projects/trainyard/jobs"


@pytest.fixture(scope="module")
def usage_yard(tmp_path_factory):
    with Yard(tmp_path_factory.mktemp("usage"), settings={"grace_ms": 500}) as started:
        yield started


def id_of(name):
    return name.rsplit("/", 1)[1]


def usage(yard, name, query=""):
    reply = yard.get(f"{HERE}/{id_of(name)}/usage{query}")
    assert reply.status == 200, reply
    return reply.json


def lines(yard, name, task=None):
    reply = yard.get(f"{HERE}/{id_of(name)}/log?after=0&limit=1000")
    return [line["text"] for line in reply.json["lines"] if task in (None, line["task"])]


def groups_of(name):
    """Folders of control groups of a job, anywhere."""
    return [str(p) for p in pathlib.Path("/sys/fs/cgroup").rglob(f"trainyard-{id_of(name)}-*")]


def cgroups(yard):
    """What doctor says of them."""
    rows = json.loads(yard.trainyard("doctor", "--format=json").stdout)
    return next(row for row in rows if row["check"] == "cgroups")


def burn_is_measured(yard):
    name = yard.create(sys.executable, "-c", BURN)
    assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
    _, cpu, peak = next(t for t in lines(yard, name, "workerpool0-0") if t.startswith("own")).split()
    (attempt,) = usage(yard, name)["attempts"]
    (replica,) = attempt["replicas"]
    assert attempt["ended"] and replica["ended"] and replica["replica"] == "workerpool0-0" and replica["runs"] == 1
    assert float(cpu) / 2 < replica["cpuSeconds"] < float(cpu) * 2
    assert int(peak) / 2 < replica["peakMemoryBytes"] < int(peak) * 2
    assert replica["wallSeconds"] >= float(cpu) / 2
    assert groups_of(name) == []
    return name, replica


def test_a_job_is_measured(usage_yard):
    name, replica = burn_is_measured(usage_yard)
    used = [t for t in lines(usage_yard, name, "service") if t.startswith("Used: ")]
    assert len(used) == 1 and re.fullmatch(r"Used: \d+\.\d CPU seconds, \d+ MB peak memory, \d+\.\d s wall \(.+\)\.", used[0])
    assert replica["method"] in used[0]
    if cgroups(usage_yard)["result"] == "ok":
        assert replica["method"].startswith("cgroup v")


def test_without_cgroups(tmp_path):
    with Yard(tmp_path, settings={"cgroups": "off", "replica_memory_bytes": 2048 * MB}) as yard:
        name, replica = burn_is_measured(yard)
        assert replica["method"] == "/proc every second + wait4"
        assert replica["memoryLimitBytes"] == 2048 * MB and replica["memoryLimitEnforced"] is False
        assert any("the memory limit of 2.0 GB is not enforced: cgroups = off" in t for t in lines(yard, name, "service"))
        row = cgroups(yard)
        assert row["result"] == "note" and "not enforced" in row["detail"]


def test_a_wrong_setting_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match=r"cgroups: 'on' is none of auto \| off"):
        Yard(tmp_path, settings={"cgroups": "on"}).start()


def test_the_log_tells_each_step(usage_yard):
    name = usage_yard.create(pools=[Yard.pool("true"), Yard.pool("sleep", "60", replicas=2)])
    usage_yard.wait(name)
    said = lines(usage_yard, name, "service")
    steps = ["accepted: 3 replicas", "Starting 3 replicas", "Provisioned 3 replicas", "All replicas are running", "Used: ",
             "Released 3 replicas.", "Job completed successfully."]
    places = [next(i for i, t in enumerate(said) if step in t) for step in steps]
    assert places == sorted(places), said


def test_samples_while_it_runs(usage_yard):
    name = usage_yard.create("sh", "-c", "while :; do :; done")
    usage_yard.wait(name, "JOB_STATE_RUNNING")

    def samples():
        replicas = usage(usage_yard, name)["attempts"][0]["replicas"]
        return replicas[0]["samples"] if replicas else []
    usage_yard.wait_for(lambda: len(samples()) >= 3, 60, "three samples")
    (replica,) = usage(usage_yard, name)["attempts"][0]["replicas"]
    assert replica["ended"] is False and replica["cpuSeconds"] > 0
    times, cpu = [s[0] for s in replica["samples"]], [s[1] for s in replica["samples"]]
    assert times == sorted(set(times)) and cpu == sorted(cpu) and cpu[-1] > cpu[0]
    assert len(usage(usage_yard, name, "?points=2")["attempts"][0]["replicas"][0]["samples"]) <= 2
    text = usage_yard.trainyard("usage", name).stdout
    assert usage(usage_yard, name)["attempts"][0]["method"]
    assert "workerpool0-0" in text and "now " in text and "CPU    " in text and "█" in text
    usage_yard.cancel(name)
    assert usage_yard.wait(name)["state"] == "JOB_STATE_CANCELLED"
    (replica,) = usage(usage_yard, name)["attempts"][0]["replicas"]  # a cancelled job has its receipt
    assert replica["ended"] is True and replica["method"] and replica["cpuSeconds"] >= cpu[-1] / 1e6
    assert groups_of(name) == []


def test_a_memory_limit_ends_a_job(tmp_path):
    with Yard(tmp_path, settings={"replica_memory_bytes": 128 * MB}) as yard:
        if cgroups(yard)["result"] != "ok":
            pytest.skip("no cgroups here")
        name = yard.create(sys.executable, "-c", EAT)
        job = yard.wait(name)
        assert job["state"] == "JOB_STATE_FAILED" and job["error"]["code"] == 8
        assert "ran out of memory and was killed. Its limit is 128 MB of memory: use a machine type with more" in job["error"]["message"]
        assert any("memory limit 128 MB enforced" in t for t in lines(yard, name, "service"))
        assert usage(yard, name)["attempts"][0]["replicas"][0]["memoryLimitEnforced"] is True
        # In a worker process of the program: its parent goes on and gives up in its own way.
        child = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {EAT!r}]).returncode != 0)"
        job = yard.wait(yard.create(sys.executable, "-c", child))
        assert job["error"]["code"] == 8 and "one of its processes was killed" in job["error"]["message"]


def test_a_fork_bomb_within_its_limit(tmp_path):
    with Yard(tmp_path, settings={"replica_processes": 100, "grace_ms": 500}) as yard:
        if "pids" not in cgroups(yard)["detail"]:
            pytest.skip("no cgroups here")
        bomb = "import os, time\nwhile True:\n  if os.fork() == 0: time.sleep(600)"
        name = yard.create(sys.executable, "-c", bomb)
        job = yard.wait(name)
        assert job["state"] == "JOB_STATE_FAILED" and job["error"]["code"] == 3
        assert "reached its limit of 100 processes and threads (replica_processes in trainyard.conf)" in job["error"]["message"]
        assert groups_of(name) == []
        stubborn = bomb.replace("  if os.fork", "  try:\n   if os.fork") + "\n  except OSError: print('full', flush=True); time.sleep(1)"
        name = yard.create(sys.executable, "-c", stubborn)  # never ends by itself
        yard.wait_for(lambda: "full" in lines(yard, name, "workerpool0-0"), 60, "the limit")
        yard.cancel(name)
        assert yard.wait(name)["state"] == "JOB_STATE_CANCELLED"
        assert groups_of(name) == []


def test_receipts_outlive_a_killed_server(tmp_path):
    with Yard(tmp_path) as yard:
        name = yard.create(sys.executable, "-c", f"{BURN}import os\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.05)\n")
        yard.wait(name, "JOB_STATE_RUNNING")
        yard.restart()
        (tmp_path / "go").touch()
        assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
        (replica,) = usage(yard, name)["attempts"][0]["replicas"]
        assert replica["method"] and 0.5 < replica["cpuSeconds"] < 20
        assert groups_of(name) == []


def conductor_of(yard, name):
    journal = yard.data / "jobs" / id_of(name) / "1" / "journal"
    return int(re.search(r" pid=(\d+)", journal.read_text()).group(1))


def test_a_killed_conductor_loses_one_receipt(tmp_path):
    with Yard(tmp_path) as yard:
        name = yard.create("sh", "-c", "if [ -e ../../1/marked ]; then exit 0; fi; touch ../../1/marked; while :; do :; done")
        yard.wait_for((yard.data / "jobs" / id_of(name) / "1" / "marked").exists, 30, "its first attempt")
        yard.wait_for(lambda: [r for a in usage(yard, name)["attempts"] for r in a["replicas"] if r["cpuSeconds"] > 0], 30, "a sample")
        if cgroups(yard)["result"] == "ok":
            assert groups_of(name)
        os.kill(conductor_of(yard, name), signal.SIGKILL)
        assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
        first, second = usage(yard, name)["attempts"]
        assert "method" not in first["replicas"][0] and first["replicas"][0]["cpuSeconds"] > 0  # what its samples say
        assert second["replicas"][0]["method"] and second["replicas"][0]["ended"]
        assert "no receipt" in yard.trainyard("usage", name, "--attempt=1").stdout
        assert groups_of(name) == []


def on_terminal(yard, *command):
    """The command's output on a terminal."""
    shell = " ".join([str(BINARY), *command])
    result = subprocess.run(["script", "-qec", shell, "/dev/null"], capture_output=True, text=True, timeout=60,
                            env=yard.client_environment(), stdin=subprocess.DEVNULL)
    return result.stdout


def test_describe_shows_it_to_people_only(usage_yard):
    name = usage_yard.create("true")
    usage_yard.wait(name)
    plain = usage_yard.trainyard("ai", "custom-jobs", "describe", name).stdout
    assert "CPU_SECONDS" not in plain and "cpuSeconds" not in usage_yard.get(f"/v1/{name}").body.decode()
    shown = on_terminal(usage_yard, "ai", "custom-jobs", "describe", name)
    assert "CPU_SECONDS" in shown and "workerpool0-0" in shown and "state: JOB_STATE_SUCCEEDED" in shown
    assert "CPU_SECONDS" not in on_terminal(usage_yard, "ai", "custom-jobs", "describe", name, "--format=json")


def test_the_command_and_its_mistakes(usage_yard):
    name = usage_yard.create("true")
    usage_yard.wait(name)
    answer = json.loads(usage_yard.trainyard("usage", name, "--format=json").stdout)
    assert answer["name"] == name and answer["attempts"][0]["replicas"][0]["runs"] == 1
    assert usage_yard.trainyard("usage", "77").returncode == 1
    assert usage_yard.get(f"{HERE}/x/usage").status == 400
    for query in ("?points=0", "?points=x", "?attempt=9", "?attempt=0"):
        assert usage_yard.get(f"{HERE}/{id_of(name)}/usage{query}").status == 400, query
