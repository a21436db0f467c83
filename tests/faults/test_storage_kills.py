"""test_storage_kills.py -- kill -9 of the server at random moments while 8 clients write to two buckets and read them.

500 kills with --long, else 30 seconds' worth; the seed is printed by pytest's header. One bucket keeps old generations, so
that every write it ever acknowledged must be there at the end; in the other the last ones must be."""
import collections
import hashlib
import random
import threading
import time

import objects_history
import pytest
from objects_history import Client, History, make_bucket

CLIENTS = 8
NAMES = ("a", "a/b", "d/one", "d/two", "d/e/deep", "shared", "odd/../name", "x" * 300)  # the last two are no file names


class Worker:
    """One client: mixed calls on names that all of them use. It copies only what it wrote itself, so that no value is
    given to one name twice."""

    def __init__(self, yard, histories, seed):
        self.rng = random.Random(seed)
        self.clients = [Client(yard, history) for history in histories]
        self.mine = {client: [] for client in self.clients}  # its own acknowledged writes
        self.given = set()  # what copies and compositions there were

    def size(self):
        return self.rng.choice((16, 4096, 70_000, 300_000))

    def value(self, client):
        return client.history.value(self.size())

    def note(self, client, call):
        if call.outcome == "acked" and call.value.size < 1 << 20:  # composed of composed ones, they would grow and grow
            self.mine[client] = [*self.mine[client][-20:], call]

    def put(self, client, name):
        self.note(client, client.put(name, self.value(client)))

    def multipart(self, client, name):
        self.note(client, client.put_multipart(name, self.value(client)))

    def overwrite(self, client, name):
        """As a careful client does: read which one is there, replace that one or nothing."""
        reply = client.send("GET", f"{client.base}/{objects_history.quote(name)}")
        if reply is not None and reply.status in (200, 404):
            match = int(reply.json["generation"]) if reply.status == 200 else 0
            self.note(client, client.put(name, self.value(client), match))

    def resumable(self, client, name):
        self.note(client, client.put_resumable(name, client.history.value(600_000), wait_s=0.05))

    def compose(self, client, name):
        if len(self.mine[client]) > 3:
            parts = self.rng.sample(self.mine[client], 2)
            made = (client, name, parts[0].value.pieces + parts[1].value.pieces)  # (a b) c is a (b c)
            if made not in self.given:
                self.given.add(made)
                self.note(client, client.compose(f"composed/{name}", parts))

    def fresh(self, client, name):
        """Something of ours that this name was never given. By its bytes: one composed with an empty part is what it was."""
        found = [c for c in self.mine[client] if c.name != name and not c.name.startswith("copies/")]
        if not found:
            return None
        source = self.rng.choice(found)
        given = (client, name, hashlib.sha256(source.value.bytes()).digest())
        if given in self.given:
            return None
        self.given.add(given)
        return source

    def copy(self, client, name):
        if source := self.fresh(client, f"copies/{name}"):
            client.copy(source, f"copies/{name}")

    def move(self, client, name):
        if source := self.fresh(client, f"copies/{name}"):
            client.move(source, f"copies/{name}")

    def delete(self, client, name):
        mine = [call for call in self.mine[client] if call.name == name]
        client.delete(name, self.rng.choice(mine).generation if mine and self.rng.random() < 0.5 else None)

    def read(self, client, name):
        client.read(self.rng.choice((name, f"composed/{name}", f"copies/{name}")))

    def read_part(self, client, name):
        first = self.rng.randrange(70_000)
        client.read_part(name, first, first + self.rng.randrange(1, 100_000))

    CALLS = (put, put, multipart, overwrite, overwrite, resumable, compose, copy, move, delete, read, read, read_part, read_part)

    def run(self, stop, counts):
        while not stop.is_set():
            act = self.rng.choice(self.CALLS)
            act(self, self.rng.choice(self.clients), self.rng.choice(NAMES))
            counts[act.__name__] += 1
            time.sleep(0.001)


@pytest.mark.slow
def test_killed_at_random_moments(fault_yard, rng, long):
    yard = fault_yard
    yard.listen = yard.url.removeprefix("http://")
    histories = [History("kills"), History("kills-versions", versions=True)]
    for history in histories:
        make_bucket(yard, history)
    stop, failure, counts = threading.Event(), [], [collections.Counter() for _ in range(CLIENTS)]

    def work(seed, counter):
        try:
            Worker(yard, histories, seed).run(stop, counter)
        except BaseException as error:  # noqa: BLE001 - told to the main thread
            failure.append(error)
    threads = [threading.Thread(target=work, args=(rng.random(), counter)) for counter in counts]
    for thread in threads:
        thread.start()
    kills, end = 0, time.monotonic() + 30
    try:
        while not failure and (kills < 500 if long else time.monotonic() < end or kills < 6):
            time.sleep(rng.expovariate(1 / 0.4))
            yard.process.kill()
            yard.process.wait()
            for history in histories:
                history.restarted()
            yard.start()
            kills += 1
            left = objects_history.strays(yard)
            # Clients are at work again: what is there now may be theirs, and then has a row or is gone a little later.
            if left:
                yard.wait_for(lambda: not set(left) & set(objects_history.strays(yard)), 30, f"{left} to go from staging/")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failure:
        raise failure[0]
    yard.restart()
    for history in histories:
        history.restarted()
    objects_history.check(yard, histories)
    calls = sum(counts, collections.Counter())
    outcomes = collections.Counter(call.outcome for history in histories for call in history.calls)
    print(f"{kills} kills, {sum(calls.values())} calls {dict(calls)}, {dict(outcomes)}")
    assert kills > 5 and outcomes["acked"] > 100
