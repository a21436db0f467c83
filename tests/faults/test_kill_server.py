"""test_kill_server.py -- kill -9 of the server at random moments while 50 jobs of mixed fate run.

200 kills with --long, else 30 seconds' worth; the seed is printed by pytest's header."""
import http.client
import threading
import time

import fates
import invariants
import pytest
from yard import PARENT


def submit_all(yard, witness, rng, stop):
    """Keeps 50 jobs of mixed fate under way until told to stop."""
    cancels = []
    while not stop.is_set():
        under_way = len(witness.accepted) - len(witness.final)
        try:
            if under_way < 50:
                fate = rng.choice(fates.ALL)
                body, expected = fate(yard)
                reply = yard.call("POST", f"/v1/{PARENT}/customJobs", body, timeout=10)
                assert reply.status == 200, reply
                name = reply.json["name"]
                witness.accept(name, *expected)
                if fate is fates.cancel:
                    cancels.append((time.monotonic() + rng.uniform(0, 1), name))
            for item in [c for c in cancels if c[0] < time.monotonic()]:
                assert yard.call("POST", f"/v1/{item[1]}:cancel", {}, timeout=10).status == 200
                cancels.remove(item)
        except (OSError, http.client.HTTPException):
            pass  # the server is down just now
        time.sleep(0.01)
    for _, name in cancels:
        yard.call("POST", f"/v1/{name}:cancel", {}, timeout=10)


@pytest.mark.slow
def test_killed_at_random_moments(fault_yard, rng, long):
    yard = fault_yard
    yard.listen = yard.url.removeprefix("http://")
    with invariants.Witness(yard) as witness:
        stop, failure = threading.Event(), []

        def work():
            try:
                submit_all(yard, witness, rng, stop)
            except BaseException as error:  # noqa: BLE001 - told to the main thread
                failure.append(error)
        thread = threading.Thread(target=work)
        thread.start()
        kills, end = 0, time.monotonic() + 30
        while not failure and (kills < 200 if long else time.monotonic() < end or kills < 6 or len(witness.accepted) < 21):
            time.sleep(rng.expovariate(1 / 0.2))
            yard.restart()
            kills += 1
        stop.set()
        thread.join()
        assert not failure, failure
        invariants.check(yard, witness, seconds=120)
        states = sorted(witness.final.values())
        print(f"{kills} kills, {len(states)} jobs:", {s: states.count(s) for s in set(states)})
        assert kills > 5 and len(states) > 20
