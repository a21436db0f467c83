"""test_storage_crash.py -- the server ends, or its disk fails, at every step of a write to a bucket, over HTTP.

One data folder a scenario: names are new for each step, and everything written so far must still be whole at the end.
--long walks every n until the scenario needs no more steps; otherwise some seconds' worth of them, chosen by the seed.
"""
import collections
import itertools
import signal
import subprocess
import sys
import time

import objects_history
import pytest
from objects_history import Client, History, make_bucket
from test_disk_full import fill
from yard import Yard

BIG = 700_000  # three chunks
QUIET = 3  # so many n in a row at which nothing happened: there are no more steps
SETTLED_S = 0.35  # by then the objects' own thread has done its part
CALM = 4  # seconds for one scenario without --long


# ---- scenarios: what is there before, and one write ----

def nothing(client, name):
    pass


def old(client, name):
    return client.put(name, client.history.value(BIG))


def parts(client, name):
    old(client, name)
    return [client.put(f"{name}.part{i}", client.history.value(BIG // 2)) for i in range(2)]


def source(client, name):
    old(client, name)
    return client.put(f"{name}.from/here", client.history.value(BIG))


def below(client, name):
    """A file where the write needs a folder."""
    return client.put(name.rpartition("/")[0], client.history.value(100))


def media(client, name, before):
    return client.put(name, client.history.value(BIG))


def multipart(client, name, before):
    return client.put_multipart(name, client.history.value(BIG))


def resumable(client, name, before):
    return client.put_resumable(name, client.history.value(BIG), tries=8, wait_s=0.02)


def replace(client, name, before):
    return client.put(name, client.history.value(BIG), match=before.generation)


def compose(client, name, before):
    return client.compose(name, before)


def copy(client, name, before):
    return client.copy(before, name)


def move(client, name, before):
    return client.move(before, name)


def delete(client, name, before):
    return client.delete(name)


SCENARIOS = {
    "media": (nothing, media), "multipart": (nothing, multipart), "resumable": (nothing, resumable),
    "overwrite": (old, replace), "resumable-overwrite": (old, resumable), "below-a-file": (below, media),
    "compose": (parts, compose), "copy": (source, copy), "move": (source, move), "delete": (old, delete),
}


class Walk:
    """A yard whose server is started with a fault, then without, again and again; one history of all of it."""

    def __init__(self, folder, act, versions=False, faulty=False):
        self.yard = Yard(folder)
        self.prepare, self.act = SCENARIOS[act]
        self.history = History("walk", versions, faulty)
        self.names = (f"n{i}/deep/x" for i in itertools.count())

    def __enter__(self):
        self.yard.start()
        make_bucket(self.yard, self.history)
        return self

    def __exit__(self, *error):
        self.yard.__exit__(*error)

    def start(self, environment):
        """False: it ended before it was ready."""
        self.yard.extra.clear()
        self.yard.extra.update(environment)
        try:
            self.yard.start()
        except RuntimeError:
            return False
        # The ready file is there before its folder is synced, which is a step that can fail as well.
        said = f" pid={self.yard.process.pid}\n"
        self.yard.wait_for(lambda: self.yard.process.poll() is not None or said in self.yard.log_file.read_text(errors="replace"), 20, said)
        return self.yard.process.poll() is None

    def stop(self, signum):
        status = self.yard.stop(signum)
        self.history.restarted()
        return status

    def once(self, environment):
        """One write under `environment`. Returns (was it ready, how it ended)."""
        client, name = Client(self.yard, self.history), next(self.names)
        before = self.prepare(client, name)
        self.stop(signal.SIGKILL)
        ready = self.start(environment)
        if ready:
            self.act(client, name, before)
            client.read(name)
            if "TY_CRASH" in environment:
                time.sleep(SETTLED_S)
        status = self.stop(signal.SIGTERM)
        assert self.start({}), self.yard.log_tail()
        assert not (left := objects_history.strays(self.yard)), f"stray files in staging/: {left}"
        client.read(name)
        return ready, status

    def check(self):
        objects_history.check(self.yard, [self.history])


KEEPS_OLD = ("overwrite", "delete", "move")  # where a bucket with versions does something else
FIRST = {}  # (variable, prefix) -> the least n at which a server gets as far as being ready


def first_after_start(walk, variable, prefix):
    if (variable, prefix) not in FIRST:
        low, high = 1, 128
        while low < high:
            n = (low + high) // 2
            walk.stop(signal.SIGKILL)
            low, high = (low, n) if walk.start({variable: f"{prefix}{n}"}) else (n + 1, high)
        walk.stop(signal.SIGKILL)
        assert walk.start({}), walk.yard.log_tail()
        FIRST[variable, prefix] = low
    return FIRST[variable, prefix]


@pytest.mark.slow
@pytest.mark.parametrize("act, versions", [(act, False) for act in SCENARIOS] + [(act, True) for act in KEEPS_OLD])
def test_dies_at_every_step(act, versions, tmp_path, rng, long):
    walked = died = quiet = 0
    with Walk(tmp_path, act, versions) as walk:
        first, end = first_after_start(walk, "TY_CRASH", "server:"), time.monotonic() + CALM
        for n in itertools.count(1) if long else rng.sample(range(first, first + 20), 20):
            status = walk.once({"TY_CRASH": f"server:{n}"})[1]
            assert status in (0, -signal.SIGKILL), f"TY_CRASH=server:{n}: ended with {status}:\n{walk.yard.log_tail()}"
            walked, died, quiet = walked + 1, died + (status != 0), 0 if status else quiet + 1
            if quiet == QUIET if long else time.monotonic() > end:
                break
        walk.check()
        print(f"{act}: {walked} crash points walked, it died at {died}; {len(walk.history.calls)} calls")
    assert died or not long


KINDS = ("write:", "enospc-write:", "short-write:", "sync:", "rename:", "commit:", "enospc-commit:")


def injected(walk):
    return walk.yard.log_file.read_text(errors="replace").count(" seam.fault ")


def failing_steps(walk, rng, long):
    """(kind, n) to walk; the caller sends whether that step came to be. All of them, or some after the start."""
    if not long:
        for kind in rng.sample(KINDS, len(KINDS)) * 6:
            yield kind, first_after_start(walk, "TY_FAULT", kind) + rng.randrange(6)
    for kind in KINDS if long else ():
        n = quiet = 0
        while quiet < QUIET:
            n += 1
            quiet = 0 if (yield kind, n) else quiet + 1


@pytest.mark.slow
@pytest.mark.parametrize("act", ["media", "multipart", "resumable", "overwrite", "compose", "copy", "move", "delete"])
def test_disk_fails_at_every_step(act, tmp_path, rng, long):
    """The write is refused or done, the server stays up, nothing is torn or left."""
    walked, failed = 0, collections.Counter()
    with Walk(tmp_path, act, faulty=True) as walk:
        chosen, hit, end = failing_steps(walk, rng, long), None, time.monotonic() + CALM
        while long or time.monotonic() < end:
            try:
                kind, n = chosen.send(hit)
            except StopIteration:
                break
            before = injected(walk)
            ready, status = walk.once({"TY_FAULT": f"{kind}{n}"})
            assert status == 0 or not ready, f"TY_FAULT={kind}{n}: the server ended with {status}:\n{walk.yard.log_tail()}"
            hit = injected(walk) > before
            walked += 1
            failed[kind] += hit
        walk.check()
        print(f"{act}: {walked} steps walked, failed: {dict(failed)}; {len(walk.history.calls)} calls")


@pytest.mark.parametrize("kind", ["enospc-write:", "write:", "sync:", "commit:"])
def test_upload_is_retried_after_a_fault(kind, tmp_path):
    """Once the disk works again the same server takes the same upload; a refused one has left nothing."""
    with Walk(tmp_path, "media", faulty=True) as walk:
        n = first_after_start(walk, "TY_FAULT", kind)
        walk.stop(signal.SIGKILL)
        assert walk.start({"TY_FAULT": f"{kind}{n}"})
        client = Client(walk.yard, walk.history)
        calls = [client.put("again", walk.history.value(BIG)) for _ in range(3)]
        assert calls[0].outcome != "acked" and injected(walk), (calls, walk.yard.log_tail())
        assert calls[-1].outcome == "acked", calls
        assert walk.stop(signal.SIGTERM) == 0
        assert not [path for path in (walk.yard.data / "staging").iterdir()], "left in staging/ by a server that went on"
        assert walk.start({})
        walk.check()


@pytest.fixture
def small_disk(tmp_path, needs_root):
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", folder], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_full_disk(small_disk):
    """Writes are refused with a sentence, everything there can be read, and it goes on when space is back."""
    history = History("full")
    with Yard(small_disk, settings={"disk_reserve_bytes": 0}) as yard:
        make_bucket(yard, history)
        client = Client(yard, history)
        kept = [client.put(f"kept/{i}", history.value(200_000)) for i in range(5)]
        assert all(call.outcome == "acked" for call in kept)

        # An upload that is larger than the disk fills it by itself, and gives back what it took.
        reply = client.send("POST", f"{client.upload}?uploadType=media&name=huge", b"x" * (30 << 20))
        assert reply is not None and reply.status == 429, reply
        assert "space" in reply.json["error"]["message"] or "disk" in reply.json["error"]["message"], reply
        yard.wait_for(lambda: not objects_history.strays(yard), 30, "the refused upload's bytes to go")

        filler = fill(small_disk)
        tried = [client.put(f"new/{i}", history.value(BIG)) for i in range(3)]
        tried += [client.put(kept[0].name, history.value(BIG), match=kept[0].generation), client.compose("composed", kept[:2] * 3),
                  client.put_multipart("multipart", history.value(BIG)), client.put_resumable("resumed", history.value(BIG), tries=2)]
        assert all(call.outcome != "acked" for call in tried), tried
        for call in kept:
            assert client.read(call.name) == call.value.bytes()
        gone = client.delete(kept[4].name)
        assert yard.process.poll() is None, yard.log_tail()
        filler.unlink()
        assert client.put("new/0", history.value(BIG)).outcome == "acked"
        if gone.outcome != "acked":
            assert client.delete(kept[4].name).outcome == "acked"
        yard.restart()
        history.restarted()
        objects_history.check(yard, [history])
        assert client.read(kept[4].name) is None


def test_start_on_a_full_disk(small_disk):
    """Killed, and started with no byte left: it serves what it has, or says why it cannot; nothing is lost either way."""
    history = History("full")
    yard = Yard(small_disk, settings={"disk_reserve_bytes": 0})
    yard.start()
    try:
        make_bucket(yard, history)
        client = Client(yard, history)
        kept = [client.put(f"kept/{i}", history.value(200_000)) for i in range(5)]
        yard.stop(signal.SIGKILL)
        history.restarted()
        filler = fill(small_disk)
        try:
            yard.start()
            for call in kept:
                assert client.read(call.name) == call.value.bytes()
        except RuntimeError as error:
            assert "full" in str(error) or "space" in str(error), error
        filler.unlink()
        yard.stop(signal.SIGKILL)
        history.restarted()
        yard.start()
        objects_history.check(yard, [history])
    finally:
        yard.__exit__(*sys.exc_info())
