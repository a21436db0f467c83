"""test_backup.py -- backup and restore of yards at work, seen from outside.

One yard is kept busy (jobs come, log, end, are cancelled and deleted) while backups of it are taken; what is restored
from them is served beside the original, on the same machine, and must hold J1 to J5 by itself."""
import io
import os
import pathlib
import pty
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time

import pytest
from yard import BINARY, FINAL, PARENT, Yard, clean_environment

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "faults"))
import fates  # noqa: E402
import invariants  # noqa: E402

MOST = 60  # of jobs under way at once
TALK = "i=0; while [ $i -lt 100 ] || [ ! -e {taken} ]; do echo line $i; i=$((i+1)); sleep 0.005; done"


def run(*words, environment=None, **rest):
    return subprocess.run([str(BINARY), *map(str, words)], capture_output=True, timeout=180, stdin=subprocess.DEVNULL,
                          env={**clean_environment(), **(environment or {})}, **rest)


def backup(yard, file, **rest):
    return run("backup", file, "--data", yard.data, **rest)


def good(result):
    assert result.returncode == 0, result.stderr.decode()
    return result.stderr.decode()


def restored(archive, folder, **rest):
    """A yard object, not yet started, on what is restored from `archive`."""
    folder.mkdir()
    other = Yard(folder, **rest)
    good(run("restore", archive, "--data", other.data))
    return other


class Load:
    """Keeps a yard busy from a thread until told to stop."""

    def __init__(self, yard, witness, rng):
        self.yard, self.witness, self.rng = yard, witness, rng
        self.failure, self._stop = [], threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _work(self):
        try:
            while not self._stop.wait(0.02):
                if len(self.witness.accepted) - len(self.witness.final) > MOST:  # no longer queue than this machine gets through
                    continue
                fate = self.rng.choice((fates.ok, fates.fail, fates.gang, fates.restart))
                body, expected = fate(self.yard)
                reply = self.yard.call("POST", f"/v1/{PARENT}/customJobs", body)
                assert reply.status == 200, reply
                self.witness.accept(reply.json["name"], *expected)
        except Exception as error:  # told to the main thread
            self.failure.append(error)


def test_taken_under_load_and_served_beside_the_original(tmp_path, rng):
    archive = tmp_path / "yard.tar"
    with Yard(tmp_path / "one", settings=fates.FAST) as yard, invariants.Witness(yard) as witness:
        taken = tmp_path / "one" / "taken"
        talkers = [yard.create("sh", "-c", TALK.replace("{taken}", str(taken)), display_name="talk") for _ in range(20)]
        once = yard.create("sh", "-c", f"echo only once; while [ ! -e {taken} ]; do sleep 0.05; done", scheduling={"disableRetries": True})
        stubborn = yard.create("sh", "-c", "trap '' TERM; while :; do sleep 1; done", display_name="to-cancel")
        for name in (*talkers, once):
            witness.accept(name, "JOB_STATE_SUCCEEDED")
        with Load(yard, witness, rng) as load:
            for name in (*talkers, once, stubborn):
                yard.wait(name, "JOB_STATE_RUNNING", 180)
            ended = yard.create("echo", "ended long ago")
            yard.wait(ended, "JOB_STATE_SUCCEEDED", 180)
            yard.wait_for(lambda: yard.lines(once) == ["only once"], 180, "the line that comes once")
            yard.wait_for(lambda: len(witness.given[talkers[0]]) > 20, 180, "log lines")
            given = {name: list(lines) for name, lines in list(witness.given.items())}  # the witness goes on adding to it
            final = dict(witness.final)
            known = set(given)
            text = good(backup(yard, archive))
            taken.touch()
            assert re.search(r"^Backed up \d+ jobs, \d+ files: [\d.]+ \w+ \([\d.]+ \w+/s\) in ", text), text
        assert not load.failure, load.failure
        assert archive.stat().st_mode & 0o777 == 0o600
        assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "yard.tar"]  # nothing else is left

        with tarfile.open(archive) as tar:  # somebody else's reader
            names = tar.getnames()
            assert names[0] == "trainyard-backup" and names[-1] == "trainyard-manifest" and "yard.db" in names
            assert not [n for n in names if re.search(r"/lock$|/ctl$|^sock|^python|^id$|^server.lock|token$", n)]
            assert all(member.isfile() or member.isdir() for member in tar)

        alive = invariants.marks_alive()
        other = restored(archive, tmp_path / "two", settings=fates.FAST)
        with other, invariants.Witness(other) as second:
            jobs = {job["name"]: job for job in other.list()}
            assert known <= set(jobs)
            for name in known:  # a prefix of what this one can read, and the same end
                second.accept(name, *witness.accepted[name])
                second.given[name] = list(given[name])
                if name in final:
                    assert jobs[name]["state"] == final[name], jobs[name]
            assert other.lines(ended) == ["ended long ago"]
            mine = {mark for mark in alive if mark in invariants.marks_alive()}
            # The original's processes: this yard has their jobs, and lets them be.
            assert [m for m in mine if m[0] == stubborn.rsplit("/", 1)[1]], "the original's job was touched"
            other.cancel(stubborn)
            assert other.wait(stubborn, seconds=180)["state"] == "JOB_STATE_CANCELLED"
            assert yard.describe(stubborn)["state"] == "JOB_STATE_RUNNING"
            again = other.wait(once, seconds=180)  # it ran at the time: tried again, though retries are off
            assert again["state"] == "JOB_STATE_SUCCEEDED", again
            assert other.lines(once).count("only once") == 2
            yard.cancel(stubborn)
            invariants_of_both(yard, witness, other, second)


def invariants_of_both(yard, witness, other, second):
    yard.wait_for(lambda: all(j["state"] in FINAL for j in yard.list()), 180, "the original's jobs to end")
    other.wait_for(lambda: all(j["state"] in FINAL for j in other.list()), 180, "the restored jobs to end")
    invariants.check(yard, witness)
    invariants.check(other, second)


def test_without_a_server_and_after_kill(tmp_path):
    archive = tmp_path / "yard.tar"
    with Yard(tmp_path / "one") as yard:
        job = yard.create("sh", "-c", "echo hello > made; echo hello")
        yard.wait(job)
        key = (yard.data / "client" / "key.json").read_bytes()
        (yard.data / "trainyard.conf").write_text("grace_ms = 300\n")
        yard.stop(signal.SIGKILL)  # its log of changes is not in the file yet
        good(backup(yard, archive))
        other = restored(archive, tmp_path / "two")
        number = job.rsplit("/", 1)[1]
        assert (other.data / "jobs" / number / "1" / "0-0" / "made").read_text() == "hello\n"
        with other:
            assert other.describe(job)["state"] == "JOB_STATE_SUCCEEDED"
            assert other.lines(job) == ["hello"]
            assert (other.data / "trainyard.conf").read_text() == "grace_ms = 300\n"
            assert re.search(rb'"private_key": ?"[^"]+"', key)[0] in (other.data / "client" / "key.json").read_bytes()
            assert (other.data / "id").read_text() != (yard.data / "id").read_text()
        yard.start()


def test_through_a_pipe(tmp_path):
    with Yard(tmp_path / "one") as yard:
        yard.wait(yard.create("echo", "hello"))
        result = backup(yard, "-")
        assert good(result).startswith("Backed up 1 jobs")
        target = tmp_path / "two"
        back = subprocess.run([str(BINARY), "restore", "-", "--data", str(target)], input=result.stdout,
                              capture_output=True, env=clean_environment(), timeout=180)
        assert back.returncode == 0, back.stderr
        assert (target / "yard.db").exists()


def test_a_job_deleted_meanwhile_is_not_half_there(tmp_path):
    """Rows are copied first: a job that is deleted before its folder is read must not be a row without a log."""
    archive = tmp_path / "yard.tar"
    with Yard(tmp_path / "one") as yard:
        names = [yard.create("echo", f"number {i}") for i in range(60)]
        for name in names:
            yard.wait(name)
        worker = subprocess.Popen([str(BINARY), "backup", str(archive), "--data", str(yard.data)], stderr=subprocess.PIPE,
                                  env=clean_environment())
        for name in names[10:]:
            assert yard.call("DELETE", f"/v1/{name}").status == 200
        assert worker.wait(180) == 0, worker.stderr.read()
        with restored(archive, tmp_path / "two") as other:
            left = {job["name"] for job in other.list()}
            assert set(names[:10]) <= left
            for name in left:
                assert other.lines(name) == [f"number {names.index(name)}"]


# ---- what is refused ----

@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    with Yard(folder / "one") as yard:
        for i in range(3):
            yard.wait(yard.create("echo", f"hello {i}"))
        good(backup(yard, folder / "yard.tar"))
    return (folder / "yard.tar").read_bytes()


def refused(tmp_path, content, *words):
    """Restoring it fails, says all these words, and leaves nothing."""
    (tmp_path / "bad.tar").write_bytes(content)
    result = run("restore", tmp_path / "bad.tar", "--data", tmp_path / "two")
    text = result.stderr.decode()
    assert result.returncode == 1 and all(word in text for word in words), text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.tar"]


def test_cut_short(tmp_path, archive, rng):
    for size in [0, 100, 512, len(archive) - 1, *(rng.randrange(len(archive)) for _ in range(8))]:
        refused(tmp_path, archive[:size], "bad.tar", "cut short")


def test_flipped_bits(tmp_path, archive, rng):
    for _ in range(12):
        at = rng.randrange(2048, len(archive))
        refused(tmp_path, archive[:at] + bytes([archive[at] ^ (1 << rng.randrange(8))]) + archive[at + 1:], "damaged")


def test_other_files(tmp_path, archive):
    refused(tmp_path, b"x" * 4096, "not a file that 'trainyard backup' has written")
    refused(tmp_path, rewritten(archive, lambda m, data: (m, data.replace(b"format 1", b"format 9"))), "newer")


def rewritten(archive, change, extra=()):
    """The archive by another writer's hand: entries changed, or added before the manifest."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(archive)) as source, tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as target:
        for member in source:
            data = source.extractfile(member).read() if member.isfile() else b""
            if member.name == "trainyard-manifest":
                for item in extra:
                    target.addfile(item)
            member, data = change(member, data)
            member.size = len(data)
            target.addfile(member, io.BytesIO(data) if member.isfile() else None)
    return out.getvalue()


@pytest.mark.parametrize("name", ["../escaped", "/tmp/ty-escaped", "jobs/../../escaped", "python/x", "id", "unknown"])
def test_paths_that_lead_elsewhere(tmp_path, archive, name):
    refused(tmp_path, rewritten(archive, lambda m, data: (m, data), [tarfile.TarInfo(name)]), "it has a path that", f"'{name}'")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices(tmp_path, archive, kind):
    item = tarfile.TarInfo("jobs/link")
    item.type, item.linkname = kind, "/etc/passwd"
    refused(tmp_path, rewritten(archive, lambda m, data: (m, data), [item]), "neither a file nor a folder")


def test_folder_that_is_not_empty(tmp_path, archive):
    (tmp_path / "a.tar").write_bytes(archive)
    target = tmp_path / "two"
    target.mkdir()
    (target / "mine").write_text("keep")
    text = run("restore", tmp_path / "a.tar", "--data", target).stderr.decode()
    assert "is not empty, it has 'mine'" in text and (target / "mine").read_text() == "keep"
    (target / "mine").unlink()
    good(run("restore", tmp_path / "a.tar", "--data", target))  # empty is fine
    assert (target / "yard.db").exists()


def test_folder_that_is_served(tmp_path, archive):
    (tmp_path / "a.tar").write_bytes(archive)
    with Yard(tmp_path / "one") as yard:
        result = run("restore", tmp_path / "a.tar", "--data", yard.data)
        assert result.returncode == 1
        told = result.stderr.decode()
        assert f"'{yard.data}' is served by process {yard.process.pid} on " in told and f", at {yard.url}: restore into another" in told, told


def test_no_yard_there(tmp_path):
    result = run("backup", tmp_path / "a.tar", "--data", tmp_path)
    assert result.returncode == 1 and "no yard" in result.stderr.decode()
    assert run("backup", "--data", tmp_path).returncode == 2
    assert not list(tmp_path.iterdir())


# ---- failing disks ----

def test_full_disk_leaves_no_file(tmp_path):
    with Yard(tmp_path / "one") as yard:
        yard.wait(yard.create("echo", "hello"))
        for fault in ("enospc-write:1+", "sync:1", "rename:1"):
            old = tmp_path / "a.tar"
            old.write_text("the one before")
            result = backup(yard, old, environment={"TY_FAULT": fault})
            assert result.returncode == 1, fault
            assert old.read_text() == "the one before"
            assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tar", "one"], fault


def test_failing_restore_leaves_nothing(tmp_path, archive):
    (tmp_path / "a.tar").write_bytes(archive)
    for fault in ("enospc-write:1+", "enospc-write:5+", "sync:1", "rename:1"):
        result = run("restore", tmp_path / "a.tar", "--data", tmp_path / "two", environment={"TY_FAULT": fault})
        assert result.returncode == 1, fault
        assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tar"], fault


def test_really_full_disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root for a small file system")
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", small]).returncode:
        pytest.skip("cannot mount")
    try:
        with Yard(tmp_path / "one") as yard:
            yard.wait(yard.create("sh", "-c", "head -c 1000000 /dev/urandom > made"))
            result = backup(yard, small / "a.tar")
            assert result.returncode == 1 and "RESOURCE_EXHAUSTED" in result.stderr.decode(), result.stderr
            assert not list(small.iterdir())
    finally:
        subprocess.run(["umount", small], check=True)


def test_killed_restore_is_begun_again(tmp_path, archive):
    (tmp_path / "a.tar").write_bytes(archive)
    for step in (1, 5, 12):
        result = run("restore", tmp_path / "a.tar", "--data", tmp_path / "two", environment={"TY_CRASH": f"client:{step}"})
        assert result.returncode == -signal.SIGKILL
        assert not (tmp_path / "two").exists()
    good(run("restore", tmp_path / "a.tar", "--data", tmp_path / "two"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tar", "two"]


def test_what_a_job_left_in_its_folder(tmp_path):
    """Plain files come along, whatever they are called; links, pipes and sockets are left out and named."""
    archive = tmp_path / "a.tar"
    script = ("mkdir -p deep/$(printf 'x%.0s' $(seq 120))/$(printf 'y%.0s' $(seq 150)); d=$(echo deep/x*/y*); echo deep > $d/file;"
              "ln -s /etc/passwd link; mkfifo pipe; mkdir empty; printf x > \"$(printf 'new\\nline')\"; chmod 755 empty")
    with Yard(tmp_path / "one") as yard:
        job = yard.create("sh", "-c", script)
        assert yard.wait(job)["state"] == "JOB_STATE_SUCCEEDED"
        text = good(backup(yard, archive))
        assert "link' is not in it: it is a link" in text and "pipe' is not in it: it is not a plain file" in text
        other = restored(archive, tmp_path / "two")
        here = other.data / "jobs" / job.rsplit("/", 1)[1] / "1" / "0-0"
        assert next(here.glob("deep/x*/y*/file")).read_text() == "deep\n"
        assert (here / "new\nline").exists() and (here / "empty").is_dir()
        assert not (here / "link").is_symlink() and not (here / "pipe").exists()
        shutil.rmtree(other.data)


def test_a_restored_yard_sweeps_only_its_own(tmp_path):
    """Without namespaces a lost attempt's processes are found by their mark: those of the original have another."""
    archive = tmp_path / "a.tar"
    sweep = {"TY_ISOLATION": "sweep"}
    with Yard(tmp_path / "one", environment=sweep) as yard:
        job = yard.create("sleep", "1000", display_name="to-cancel")  # one process, that stays what it is
        yard.wait(job, "JOB_STATE_RUNNING")
        number = job.rsplit("/", 1)[1]
        before = yard.wait_for(lambda: {pid for mark, pid in invariants.marks_alive() if mark == number}, 60, "its process")
        # A cancel that was asked for before the backup: the restored yard finds the attempt lost, and sweeps.
        good(backup(yard, archive))
        other = restored(archive, tmp_path / "two", environment=sweep)
        with sqlite3.connect(other.data / "yard.db") as rows:
            rows.execute("UPDATE attempt SET state = 2, outcome = '', end_ns = 0")
            rows.execute("UPDATE job SET state = 3, cancel_requested = 1")
        with other:
            assert other.wait(job)["state"] == "JOB_STATE_CANCELLED"
            time.sleep(0.2)
            now = {pid for mark, pid in invariants.marks_alive() if mark == number}
            assert before == now
            assert yard.describe(job)["state"] == "JOB_STATE_RUNNING"


def test_a_bar_on_a_terminal_only(tmp_path):
    with Yard(tmp_path / "one") as yard:
        yard.wait(yard.create("echo", "hello"))
        assert "[" not in good(backup(yard, tmp_path / "a.tar"))
        mine, theirs = pty.openpty()
        process = subprocess.Popen([str(BINARY), "backup", str(tmp_path / "b.tar"), "--data", str(yard.data)], stderr=theirs,
                                   stdin=subprocess.DEVNULL, env=clean_environment())
        os.close(theirs)
        text = b""
        try:
            while part := os.read(mine, 4096):
                text += part
        except OSError:  # the other end is closed
            pass
        assert process.wait(180) == 0
        assert re.search(rb"backup \[[#.]{24}\] +\d+ %  [\d.]+ \w+  [\d.]+ \w+/s", text), text
        assert b"Backed up 1 jobs" in text
