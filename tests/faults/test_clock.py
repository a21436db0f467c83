"""test_clock.py -- the wall clock jumps an hour either way: no deadline moves, nothing is lost."""
import struct
import time

import pytest
from yard import Yard

HOUR_NS = 3600 * 10**9


@pytest.mark.parametrize("jump", [HOUR_NS, -HOUR_NS], ids=["forward", "back"])
def test_no_deadline_moves(jump, tmp_path):
    clock = tmp_path / "clock"
    clock.write_bytes(struct.pack("=q", 0))
    with Yard(tmp_path, settings={"grace_ms": 300, "replica_slots": 2}, environment={"TY_CLOCK": str(clock)}) as yard:
        before = yard.create("true", display_name="before")
        yard.wait(before)
        running = yard.create("sh", "-c", f"echo one; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo two", scheduling={"timeout": "3600s"})
        yard.wait(running, "JOB_STATE_RUNNING")
        began = time.monotonic()
        limited = yard.create("sh", "-c", "echo on; sleep 600", scheduling={"timeout": "2s"})
        waiting = yard.create("true", scheduling={"maxWaitDuration": "60s"})
        yard.wait_for(lambda: "on" in yard.lines(limited), 30, "it to run")
        with open(clock, "r+b") as file:
            file.write(struct.pack("=q", jump))
        yard.restart()
        ended = yard.wait(limited)  # in seconds, not in an hour
        took = time.monotonic() - began
        assert ended["state"] == "JOB_STATE_FAILED" and ended["error"]["code"] == 4, ended
        assert took > 1.9, f"a timeout of 2 s took {took:.1f} s"
        (tmp_path / "go").touch()
        assert yard.wait(running)["state"] == "JOB_STATE_SUCCEEDED"
        assert yard.wait(waiting)["state"] == "JOB_STATE_SUCCEEDED"
        assert yard.lines(running) == ["one", "two"]
        after = yard.create("true", display_name="after")
        assert yard.wait(after)["state"] == "JOB_STATE_SUCCEEDED"
        assert [job["displayName"] for job in yard.list()][0] == "after", "newest first, whatever the clock says"
