"""invariants.py -- one witness that watches a yard while faults happen, and one check of J1 to J5 after them.

J1 each accepted job reaches exactly one terminal state
J2 no replica of a finished job is alive after the grace period
J3 acknowledged log bytes are a prefix of what can be read
J4 allocations never exceed capacity: replicas, jobs, each device; and CPUs where the setting says that they must fit
J5 no partial gang: an attempt that ran had all its replicas
"""
import collections
import http.client
import json
import os
import pathlib
import sqlite3
import threading
import time

from yard import FINAL, PROJECT


class Witness:
    """Follows jobs from outside, as users do: remembers each state and each log line it was ever given."""

    def __init__(self, yard):
        self.yard = yard
        self.accepted = {}  # name -> expected final states
        self.final = {}  # name -> the first final state seen
        self.changed_minds = []  # (name, first, later)
        self.given = collections.defaultdict(list)  # name -> [(time, task, text)]
        self.trouble = []  # answers that no fault explains
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def accept(self, name, *expected):
        self.accepted[name] = expected

    def note_state(self, name, state):
        if name in self.final and self.final[name] != state:
            self.changed_minds.append((name, self.final[name], state))
        if state in FINAL:
            self.final.setdefault(name, state)

    def read_log(self, name, after):
        path = f"/trainyard/v1/projects/{PROJECT}/jobs/{name.rsplit('/', 1)[1]}/log?after={after}&limit=1000"
        reply = self.yard.get(path, timeout=5)
        if reply.status == 503:  # it is stopping
            raise ConnectionError(reply)
        assert reply.status == 200, reply
        return [(int(line["t"]), line["task"], line["text"]) for line in reply.json.get("lines", [])]

    def _look(self, name):
        reply = self.yard.get(f"/v1/{name}", timeout=5)
        if reply.status == 503:
            raise ConnectionError(reply)
        assert reply.status == 200, reply
        self.note_state(name, reply.json["state"])
        given = self.given[name]
        given.extend(self.read_log(name, given[-1][0] if given else 0))

    def _follow(self):
        while not self._stop.wait(0.02):
            for name in list(self.accepted):
                if self._stop.is_set():
                    return
                try:
                    self._look(name)
                except (OSError, http.client.HTTPException):
                    time.sleep(0.01)  # the server is away just now
                except Exception as error:
                    self.trouble.append((name, repr(error)))

    def all_log(self, name):
        lines = []
        while more := self.read_log(name, lines[-1][0] if lines else 0):
            lines += more
        return lines


def marks_alive():
    """(job, attempt) marks of living processes, from their environment."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = pathlib.Path("/proc", pid, "environ").read_bytes()
            state = pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        for item in environment.split(b"\0"):
            if item.startswith(b"TRAINYARD_ATTEMPT=") and state not in "ZX":
                found.add((item.partition(b"=")[2].decode().split("/")[0], pid))
    return found


def cpus_of(body):
    """CPUs that a job asks for; tests name types that end in their number of CPUs."""
    pools = json.loads("{" + body + "}")["jobSpec"]["workerPoolSpecs"]
    return sum(int(pool.get("replicaCount", 1)) * int(pool.get("machineSpec", {}).get("machineType", "n1-standard-4").rpartition("-")[2])
               for pool in pools if pool)


def check_capacity(placed, settings, slots):
    """J4, over (start, end, devices, replicas, body) of all attempts."""
    cores = settings.get("machine_cpus") or len(os.sched_getaffinity(0))
    most = {"replicas": settings.get("replica_slots", slots), "jobs": settings.get("max_running_jobs") or max(4, 2 * cores)}
    fit = settings.get("capacity", "share") != "share"
    edges = []
    for start, end, devices, replicas, body in placed:
        uses = collections.Counter(replicas=replicas, jobs=1, cpus=cpus_of(body))
        uses.update(f"device {n}" for n in devices.replace(";", ",").split(",") if n)
        edges += [(start, 1, uses), (max(end, start), 0, uses)]
    used = collections.Counter()
    for _, begins, uses in sorted(edges, key=lambda edge: edge[:2]):
        for what, n in uses.items():
            used[what] += n if begins else -n
        for what, n in used.items():
            allowed = 1 if what.startswith("device") else most.get(what)
            if what == "cpus":  # a job that is larger than the machine runs alone
                allowed = cores if fit and used["jobs"] > 1 else None
            assert allowed is None or n <= allowed, f"J4: {n} {what} in use at once, {allowed} allowed"


def check(yard, witness, seconds=60, slots=64):
    """All of J1 to J5. The yard's server must be up. Waits for jobs that have not ended yet."""
    # A create whose answer was lost may have been done all the same: nobody will cancel that one.
    for job in yard.list():
        if job["displayName"] == "to-cancel" and "endTime" not in job:
            yard.cancel(job["name"])

    def all_ended():
        jobs = yard.list()
        for job in jobs:
            if job["name"] in witness.accepted:
                witness.note_state(job["name"], job["state"])
        return all("endTime" in job for job in jobs)
    yard.wait_for(all_ended, seconds, "every job to end (J1)")

    for name, expected in witness.accepted.items():
        job = yard.describe(name)
        witness.note_state(name, job["state"])
        if expected:
            assert job["state"] in expected, f"{name}: {json.dumps(job, indent=1)}\n{yard.log_tail()}"
        assert "endTime" in job, job
    assert not witness.changed_minds, f"J1: a final state changed: {witness.changed_minds}"

    assert not witness.trouble, f"J1: {len(witness.trouble)} bad answers, the first: {witness.trouble[0]}"

    ids = {name.rsplit("/", 1)[1] for name in witness.accepted}
    left = [mark for mark in marks_alive() if mark[0] in ids]
    assert not left, f"J2: processes of finished jobs are alive: {left}"

    for name, given in list(witness.given.items()):
        given = list(given)  # the witness may still be reading
        readable = witness.all_log(name)
        nth = next((i for i, line in enumerate(given) if readable[i : i + 1] != [line]), None)
        assert nth is None, (
            f"J3: {name}: line {nth} of the {len(given)} a reader was given was {given[nth]}, now it reads {readable[nth : nth + 1]};"
            f"\ngiven: {given[-5:]}\nreadable: {readable[-5:]}")

    rows = sqlite3.connect(f"file:{yard.data}/yard.db?mode=ro", uri=True)
    assert rows.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    attempts = rows.execute(
        "SELECT a.job_id, a.number, a.start_ns, a.end_ns, a.running_ns, a.outcome, j.replicas"
        " FROM attempt a JOIN job j ON j.id = a.job_id").fetchall()
    placed = rows.execute("SELECT a.start_ns, a.end_ns, a.devices, j.replicas, j.body FROM attempt a JOIN job j ON j.id = a.job_id").fetchall()
    rows.close()
    for _, _, _, end, _, _, _ in attempts:
        assert end, "J1: an attempt of a finished job has no end"
    check_capacity(placed, yard.settings, slots)

    for job, number, _, _, running, outcome, replicas in attempts:
        if replicas > 1 and running and outcome == "succeeded":
            log = pathlib.Path(yard.data, "jobs", str(job), str(number), "log").read_bytes().splitlines()
            tasks = {line.split(b" ")[1] for line in log if not line.split(b" ")[1] == b"-"}
            assert len(tasks) == replicas, f"J5: job {job} attempt {number}: only {tasks} of {replicas} ran"
    return attempts
