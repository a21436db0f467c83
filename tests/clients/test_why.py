"""trainyard why: what a job waits for, who holds it, and why it ended."""
import json

import pytest
from yard import Yard


@pytest.fixture(scope="module")
def small_yard(tmp_path_factory):
    """A server with place for two replicas."""
    with Yard(tmp_path_factory.mktemp("small"), settings={"replica_slots": 2, "grace_ms": 200}) as started:
        yield started


def why(yard, name, *flags, expect=0):
    result = yard.trainyard("why", name, *flags)
    assert result.returncode == expect, result.stderr
    return result.stdout if expect == 0 else result.stderr


def test_a_waiting_job_names_who_holds_its_place(small_yard):
    holder = small_yard.create("sleep", "600", display_name="the-holder", pools=[Yard.pool("sleep", "600"), Yard.pool("sleep", "600")])
    small_yard.wait(holder, "JOB_STATE_RUNNING")
    first, second = (small_yard.create("true", display_name=f"waits-{i}") for i in (1, 2))
    small_yard.wait(second, "JOB_STATE_QUEUED")
    text = why(small_yard, second)
    assert "QUEUED" in text and "2 of 2 in use; it needs 1" in text and "What would start it now" in text
    assert holder.rsplit("/", 1)[1] in text and "the-holder" in text and "waits-1" in text
    answer = json.loads(why(small_yard, second, "--format=json"))
    assert [j["job"] for j in answer["heldBy"]] == [holder.rsplit("/", 1)[1]] and answer["heldBy"][0]["replicas"] == 2
    assert [j["job"] for j in answer["ahead"]] == [first.rsplit("/", 1)[1]] and answer["waits"] is True
    small_yard.cancel(holder)  # what it says would start the job does start it
    assert small_yard.wait(second)["state"] == "JOB_STATE_SUCCEEDED"


def test_running_and_ended(small_yard):
    name = small_yard.create("sleep", "600", display_name="runs")
    small_yard.wait(name, "JOB_STATE_RUNNING")
    text = why(small_yard, name)
    assert "RUNNING" in text and "all its replicas are running" in text and "Attempt 1" in text
    small_yard.cancel(name)
    small_yard.wait(name)
    assert "cancelled" in why(small_yard, name)
    name = small_yard.create("sh", "-c", "echo no such column; exit 3")
    small_yard.wait(name)
    text = why(small_yard, name)
    assert "FAILED" in text and "status of 3" in text and "no such column" in text


def test_attempts_that_are_over(small_yard, tmp_path):
    """The last one that failed with the end of what it printed, those before it in a line each."""
    script = f"echo >> {tmp_path}/n; n=$(wc -l < {tmp_path}/n); seq 30; echo word $n; [ $n = 3 ] && exec sleep 600; exit 75"
    name = small_yard.create("sh", "-c", script)
    small_yard.wait_for(lambda: "Attempt 3;" in (text := why(small_yard, name)) and "are running" in text, 30, "the third attempt")
    text = why(small_yard, name)
    ended = "The replica workerpool0-0 exited with a non-zero status of 75"
    assert f"The attempt before: {ended}. " in text and "\n29\n30\nword 2\n" in text and "\n28\n" not in text, text
    assert f"\nAttempt 1: {ended}: word 1\n" in text, text
    assert json.loads(why(small_yard, name, "--format=json"))["earlier"] == [{"attempt": 1, "reason": f"{ended}: word 1"}]
    small_yard.cancel(name)
    small_yard.wait(name)
    text = why(small_yard, name)
    assert "CANCELLED" in text and f"\nAttempt 1: {ended}: word 1\nAttempt 2: {ended}: word 2\n" in text and "\n30\n" not in text, text


def test_in_the_grace_period_after_its_timeout(tmp_path):
    with Yard(tmp_path, settings={"grace_ms": 600000}) as yard:
        name = yard.create("sh", "-c", f"trap 'echo stopping' TERM; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done", scheduling={"timeout": "1s"})
        yard.wait_for(lambda: "stopping" in yard.lines(name), 60, "its SIGTERM")
        text = why(yard, name)
        assert "its time is over" in text and "all its replicas are running" not in text
        (tmp_path / "go").touch()
        assert yard.wait(name)["error"]["code"] == 4


def test_what_is_not_there(small_yard):
    assert "NOT_FOUND" in why(small_yard, "77", expect=1)
    assert small_yard.get("/trainyard/v1/projects/trainyard/jobs/x/why").status == 400
