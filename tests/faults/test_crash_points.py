"""test_crash_points.py -- TY_CRASH=n ends server or conductor at its nth write, sync, rename, commit or fork.

Ten jobs are submitted to a server that will die at step n; it is started again (without TY_CRASH) and everything must
come out as if nothing had happened. --long walks every n until the scenario needs no more steps; otherwise 30 seconds'
worth of them, chosen by the seed.
"""
import itertools
import time

import fates
import invariants
import pytest
from fates import FAST
from yard import PARENT, Yard

JOBS = (fates.ok, fates.fail, fates.cancel, fates.gang, fates.timeout, fates.ok, fates.restart, fates.cancel, fates.gang, fates.ok)


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
        except OSError:
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
        end = time.monotonic() + 60
        while len(self.witness.final) < len(names):
            assert time.monotonic() < end, f"not ended: {set(names) - set(self.witness.final)}\n{self.yard.log_tail()}"
            self.alive()
            time.sleep(0.05)


def scenario(folder, crash):
    """Returns whether somebody died at the step named in `crash`."""
    yard = Yard(folder, settings=FAST, environment={"TY_CRASH": crash})
    try:
        yard.start()
    except RuntimeError:  # it died before it was ready
        yard.extra.pop("TY_CRASH")
        yard.start()
        died = True
    else:
        died = False
    try:
        with invariants.Witness(yard) as witness:
            driver = Driver(yard, witness)
            driver.run()
            attempts = invariants.check(yard, witness)
        return died or driver.crashes > 0 or any(a[5] in ("lost", "fenced") for a in attempts)
    finally:
        yard.__exit__(None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["server", "conductor"])
def test_dies_at_every_step(who, tmp_path, rng, long):
    last = 12 if who == "conductor" else 120
    steps = itertools.count(1) if long else iter(sorted(rng.sample(range(1, last), last - 1), key=lambda _: rng.random()))
    end = time.monotonic() + 30
    walked = died = 0
    for n in steps:
        try:
            somebody_died = scenario(tmp_path / f"{who}-{n}", f"{who}:{n}")
        except BaseException:
            print(f"TY_CRASH={who}:{n}")
            raise
        walked += 1
        died += somebody_died
        if long and not somebody_died:
            break
        if not long and time.monotonic() > end:
            break
    print(f"{who}: {walked} crash points, {died} deaths")
    assert died, "no crash point was reached: the seam is not in use"
