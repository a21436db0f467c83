"""stream-logs on a terminal: a colour for each replica, always the same; errors stand out; NO_COLOR and pipes have none."""
import os
import pty
import re
import subprocess

import pytest
from yard import BINARY

SCRIPT = 'echo from $CLOUD_ML_TASK_ID one; echo bad >&2; echo two'


@pytest.fixture(scope="module")
def job(shared_yard, tmp_path_factory):
    said = tmp_path_factory.mktemp("said")  # the chief's end stops the others: it waits for them
    chief = f"{SCRIPT}; while [ $(ls {said} | wc -l) -lt 2 ]; do sleep 0.05; done"
    worker = f"{SCRIPT}; touch {said}/$TRAINYARD_REPLICA"
    name = shared_yard.create(pools=[shared_yard.pool("sh", "-c", chief), shared_yard.pool("sh", "-c", worker, replicas=2)])
    shared_yard.wait(name)
    return name


def on_terminal(yard, name, **environment):
    """What stream-logs writes to a terminal."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([BINARY, "ai", "custom-jobs", "stream-logs", name], stdin=subprocess.DEVNULL, stdout=follower,
                               stderr=subprocess.DEVNULL, env={**yard.client_environment(), "TERM": "xterm", **environment})
    os.close(follower)
    text = b""
    try:
        while part := os.read(leader, 65536):
            text += part
    except OSError:  # the other end is closed: all was read
        pass
    os.close(leader)
    assert process.wait(30) in (0, 1)
    return text.decode().replace("\r\n", "\n")


def colors(text):
    """task -> colours its name has."""
    found = {}
    for color, task in re.findall(r"^\033\[(\d+)m(\S+)\033\[0m ", text, re.M):
        found.setdefault(task, set()).add(color)
    return found


def test_each_replica_has_its_color(shared_yard, job):
    first, second = (colors(on_terminal(shared_yard, job)) for _ in range(2))
    assert {"workerpool0-0", "workerpool1-0", "workerpool1-1"} <= set(first)
    assert all(len(c) == 1 for c in first.values()), first
    assert len({min(first[t]) for t in ("workerpool0-0", "workerpool1-0", "workerpool1-1")}) == 3, first
    assert first == second


def test_errors_stand_out(shared_yard, job):
    lines = on_terminal(shared_yard, job).splitlines()
    assert any(line.endswith("\033[31mbad\033[0m") for line in lines)
    assert any(line.endswith(" two") for line in lines)


def test_a_failed_job_stands_out(shared_yard):
    """Its last line is the service's, whose routine lines are dim."""
    name = shared_yard.create("false")
    shared_yard.wait(name)
    lines = on_terminal(shared_yard, name).splitlines()
    assert any(line.startswith("\033[90mservice\033[0m \033[31mJob failed: ") for line in lines), lines
    assert any(line.startswith("\033[90mservice\033[0m \033[90mJob ") for line in lines), lines


def test_no_color_where_none_is_wanted(shared_yard, job):
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        text = on_terminal(shared_yard, job, **environment)
        assert "\033[" not in text and "workerpool1-1 two" in text
    assert "\033[" not in shared_yard.trainyard("ai", "custom-jobs", "stream-logs", job).stdout
