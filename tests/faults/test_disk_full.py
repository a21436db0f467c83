"""test_disk_full.py -- the disk fills while jobs run: a clear state, nothing corrupt, and on it goes when space is back."""
import pathlib
import subprocess
import time

import fates
import invariants
import pytest
from yard import PARENT, Yard


@pytest.fixture
def small_disk(tmp_path, needs_root):
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", folder], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder):
    """Take every byte that is left."""
    path = pathlib.Path(folder, "filler")
    with open(path, "ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
    return path


def test_goes_on_when_space_is_back(small_disk):
    lines = 40000
    with Yard(small_disk, settings={"grace_ms": 300, "disk_reserve_bytes": 0}) as yard, invariants.Witness(yard) as witness:
        talker = yard.create("sh", "-c", f"sleep 0.5; i=0; while [ $i -lt {lines} ]; do echo line $i of a talkative job; i=$((i+1)); done")
        witness.accept(talker, fates.SUCCEEDED)
        short = yard.create("sh", "-c", "sleep 1; exit 3")
        witness.accept(short, fates.FAILED)
        yard.wait(talker, "JOB_STATE_RUNNING")
        yard.wait(short, "JOB_STATE_RUNNING")
        filler = fill(small_disk)
        refused = yard.call("POST", f"/v1/{PARENT}/customJobs", yard.job("true"))
        assert refused.status in (429, 200), refused
        if refused.status == 429:
            assert refused.json["error"]["status"] == "RESOURCE_EXHAUSTED"
            assert "disk" in refused.json["error"]["message"].lower()
        else:
            witness.accept(refused.json["name"], fates.SUCCEEDED)
        time.sleep(3)
        assert yard.process.poll() is None, yard.log_tail()
        assert yard.get("/healthz").status == 200
        assert yard.describe(talker)["state"] == "JOB_STATE_RUNNING"
        filler.unlink()
        invariants.check(yard, witness, seconds=60)
        assert yard.lines(talker) == [f"line {i} of a talkative job" for i in range(lines)]
        again = yard.create("true")
        assert yard.wait(again)["state"] == "JOB_STATE_SUCCEEDED"


def test_below_the_reserve_new_jobs_are_refused(small_disk):
    with Yard(small_disk, settings={"disk_reserve_bytes": 1 << 40}) as yard:
        refused = yard.call("POST", f"/v1/{PARENT}/customJobs", yard.job("true"))
        assert refused.status == 429, refused
        assert refused.json["error"]["status"] == "RESOURCE_EXHAUSTED"
        assert not yard.list()
