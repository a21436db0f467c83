"""test_crash_points.py -- TY_CRASH=n ends server or conductor at its nth write, sync, rename, commit or fork.

Ten jobs are submitted to a server that will die at step n; it is started again (without TY_CRASH) and everything must
come out as if nothing had happened. --long walks every n until the scenario needs no more steps; otherwise 30 seconds'
worth of them, chosen by the seed. Each scenario ends with a shutdown, which has steps of its own, and one more start.
"""
import http.client
import itertools
import signal
import sys
import time

import fates
import invariants
import pytest
from fates import FAST
from yard import PARENT, Yard

JOBS = (fates.ok, fates.fail, fates.cancel, fates.gang, fates.timeout, fates.ok, fates.restart, fates.cancel, fates.gang, fates.ok)
QUIET = 10  # so many n in a row at which nobody died: there are no more steps


class Driver:
    """Submits and cancels while the server may die at any moment; counts only what was acknowledged."""

    def __init__(self, yard, witness):
        self.yard, self.witness, self.crashes = yard, witness, 0

    def alive(self):
        if self.yard.process.poll() is not None:
            self.crashes += 1
            self.yard.extra.pop("TY_CRASH", None)
            self.yard.restart()

    def call(self, *request):
        """The reply, or None if the server died meanwhile (then nothing is known)."""
        try:
            return self.yard.call(*request, timeout=10)
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
            self.alive()
            return None

    def submit(self, fate):
        body, expected = fate(self.yard)
        while (reply := self.call("POST", f"/v1/{PARENT}/customJobs", body)) is None:
            pass
        assert reply.status == 200, reply
        name = reply.json["name"]
        self.witness.accept(name, *expected)
        return name

    def run(self):
        names = [self.submit(fate) for fate in JOBS]
        time.sleep(0.3)
        for name, fate in zip(names, JOBS):
            while fate is fates.cancel and self.call("POST", f"/v1/{name}:cancel", {}) is None:
                pass
        end = time.monotonic() + 120
        while len(self.witness.final) < len(names):
            assert time.monotonic() < end, f"not ended: {set(names) - set(self.witness.final)}\n{self.yard.log_tail()}"
            self.alive()
            time.sleep(0.05)


def conductors_died(steps_file, attempts):
    """How many first attempts have a conductor that did not come to its end: each that does writes how many steps it took."""
    lines = steps_file.read_text().splitlines() if steps_file.exists() else []
    return sum(number == 1 for _, number, *_ in attempts) - sum(line.startswith("conductor ") for line in lines)


def scenario(folder, crash):
    """Returns how many processes died at the step named in `crash`."""
    steps_file = folder / "steps"
    yard = Yard(folder, settings=FAST, environment={"TY_CRASH": crash, "TY_STEPS": str(steps_file)})
    died = 0
    try:
        yard.start()
    except RuntimeError:
        assert yard.process.poll() == -signal.SIGKILL, f"it did not die at the step:\n{yard.log_tail()}"
        yard.extra.pop("TY_CRASH")
        yard.start()
        died = 1
    try:
        with invariants.Witness(yard) as witness:
            driver = Driver(yard, witness)
            driver.run()
            # Its last steps are those of a shutdown, and may be the ones to die at.
            status = yard.stop()
            assert status in (0, -signal.SIGKILL), f"the server ended with {status}:\n{yard.log_tail()}"
            died += driver.crashes + (status == -signal.SIGKILL)
            yard.extra.pop("TY_CRASH", None)
            yard.restart()
            attempts = invariants.check(yard, witness)
    finally:
        yard.__exit__(*sys.exc_info())
    return conductors_died(steps_file, attempts) if crash.startswith("conductor") else died


@pytest.mark.slow
@pytest.mark.parametrize("who", ["server", "conductor"])
def test_dies_at_every_step(who, tmp_path, rng, long):
    last = 18 if who == "conductor" else 95  # about as many as --long finds
    steps = itertools.count(1) if long else iter(sorted(rng.sample(range(1, last), last - 1), key=lambda _: rng.random()))
    end = time.monotonic() + 30
    walked = points = deaths = quiet = 0
    for n in steps:
        try:
            died = scenario(tmp_path / f"{who}-{n}", f"{who}:{n}")
        except BaseException:
            print(f"TY_CRASH={who}:{n}")
            raise
        walked += 1
        points += died > 0
        deaths += died
        quiet = 0 if died else quiet + 1
        # How many steps a run takes depends on timing: one that needed fewer than n does not mean that all do.
        if long and quiet == QUIET:
            break
        if not long and time.monotonic() > end and deaths:
            break
    print(f"{who}: {walked} crash points walked, somebody died at {points} of them, {deaths} deaths")
    assert deaths, "no crash point was reached: the seam is not in use"
