"""test_disk_full.py -- the disk fills while jobs run: a clear state, nothing corrupt, and on it goes when space is back."""
import os
import pathlib
import subprocess
import time
import urllib.parse

import fates
import invariants
import pytest
from files import sizes
from yard import BINARY, PARENT, Yard


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


def test_goes_on_when_space_is_back(small_disk, tmp_path_factory):
    lines, full = 40000, tmp_path_factory.mktemp("elsewhere") / "full"
    with Yard(small_disk, settings={"grace_ms": 300, "disk_reserve_bytes": 0}) as yard, invariants.Witness(yard) as witness:
        wait = f"until [ -e {full} ]; do sleep 0.05; done"
        talker = yard.create("sh", "-c", f"{wait}; i=0; while [ $i -lt {lines} ]; do echo line $i of a talkative job; i=$((i+1)); done")
        witness.accept(talker, fates.SUCCEEDED)
        short = yard.create("sh", "-c", f"{wait}; sleep 1; exit 3")
        witness.accept(short, fates.FAILED)
        yard.wait(talker, "JOB_STATE_RUNNING")
        yard.wait(short, "JOB_STATE_RUNNING")
        filler = fill(small_disk)
        full.touch()
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
        invariants.check(yard, witness, seconds=120)
        assert yard.lines(talker) == [f"line {i} of a talkative job" for i in range(lines)]
        again = yard.create("true")
        assert yard.wait(again)["state"] == "JOB_STATE_SUCCEEDED"


def test_below_the_reserve_new_jobs_are_refused(small_disk):
    with Yard(small_disk, settings={"disk_reserve_bytes": 1 << 40}) as yard:
        refused = yard.call("POST", f"/v1/{PARENT}/customJobs", yard.job("true"))
        assert refused.status == 429, refused
        assert refused.json["error"]["status"] == "RESOURCE_EXHAUSTED"
        assert not yard.list()


def storage(yard, *words):
    return subprocess.run([BINARY, "storage", *map(str, words)], env=yard.client_environment(), capture_output=True, text=True, timeout=60)


def left(folder):
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def test_a_full_disk_can_be_emptied(small_disk, tmp_path):
    """With no byte left: what is there can be deleted, the server starts, and it can be deleted then, too."""
    (tmp_path / "one.bin").write_bytes(b"x" * 300_000)
    with Yard(small_disk, settings={"disk_reserve_bytes": 0}) as yard:
        assert storage(yard, "buckets", "create", "gs://full").returncode == 0
        for i in range(6):
            assert storage(yard, "cp", tmp_path / "one.bin", f"gs://full/{i}").returncode == 0
        reserve = yard.data / "reserve"
        yard.wait_for(lambda: reserve.exists() and reserve.stat().st_blocks * 512 >= 4 << 20, 30, "the reserve")
        filler = fill(small_disk)
        assert left(small_disk) == 0
        result = storage(yard, "rm", "gs://full/0", "gs://full/1")
        assert result.returncode == 0, result.stderr + yard.log_tail()
        yard.wait_for(lambda: reserve.exists(), 30, "the reserve to be made again")

        yard.stop()
        fill(small_disk)
        assert left(small_disk) == 0
        yard.listen = urllib.parse.urlsplit(yard.url).netloc
        yard.start()
        result = storage(yard, "rm", "gs://full/2", "gs://full/3")
        assert result.returncode == 0, result.stderr
        yard.restart()
        assert storage(yard, "ls", "gs://full").stdout.split() == ["gs://full/4", "gs://full/5"]
        assert storage(yard, "rm", "-r", "gs://full").returncode == 0
        filler.unlink()


def test_a_copy_to_a_full_disk_fails_at_once(small_disk, tmp_path):
    """It asks once, says why, and leaves no bytes; the server's log has the refusal."""
    (tmp_path / "small.bin").write_bytes(b"x" * 6_000_000)
    (tmp_path / "large.bin").write_bytes(b"x" * 40_000_000)
    with Yard(small_disk, settings={"disk_reserve_bytes": 0}) as yard:
        assert storage(yard, "buckets", "create", "gs://full").returncode == 0
        yard.wait_for(lambda: (yard.data / "reserve").exists(), 30, "the reserve")

        def refusals():
            return yard.log_file.read_text().count("gcs.refused")
        result = storage(yard, "cp", tmp_path / "large.bin", "gs://full/large")
        assert result.returncode == 1 and "No space left" in result.stderr, result.stderr
        assert refusals() == 1, yard.log_tail()
        yard.wait_for(lambda: sum(sizes(yard.data / "staging")) == 0, 30, "the bytes to go")
        fill(small_disk)
        result = storage(yard, "cp", tmp_path / "small.bin", "gs://full/small")
        assert result.returncode == 1 and ("No space left" in result.stderr or "disk full" in result.stderr), result.stderr
        assert refusals() == 2, yard.log_tail()
