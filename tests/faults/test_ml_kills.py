"""test_ml_kills.py -- kill -9 under jobs of the older API: the promises of the spine hold for them, in their own words."""
import http.client
import os
import signal
import threading
import time

import fates
import invariants
import pytest
from test_kill_conductor import conductors

JOBS = "/v1/projects/trainyard/jobs"


def legacy(job_id, body):
    """A fate's CustomJob as an AI Platform job: pools become roles."""
    spec = body["jobSpec"]
    roles = ("master", "worker")
    given = {"region": "us-central1", "scaleTier": "CUSTOM"}
    for role, pool in zip(roles, spec["workerPoolSpecs"]):
        given[f"{role}Type"] = "n1-standard-4"
        given[f"{role}Config"] = {"imageUri": "host", "containerCommand": pool["containerSpec"]["command"]}
        if role != "master":
            given[f"{role}Count"] = str(pool["replicaCount"])
    if "timeout" in spec.get("scheduling", {}):
        given["scheduling"] = {"maxRunningTime": spec["scheduling"]["timeout"]}
    return {"jobId": job_id, "trainingInput": given}


def name_of(yard, job_id):
    """The same job's name in the newer API."""
    (found,) = [job["name"] for job in yard.list(filter=f'display_name="{job_id}"')]
    return found


def submit_all(yard, witness, rng, stop, submitted):
    """Keeps 20 jobs of mixed fate under way. A create whose answer was lost is sent again: its id makes that safe."""
    cancels, number = [], 0
    while not stop.is_set():
        try:
            if len(submitted) - len(witness.final) < 20:
                fate = rng.choice(fates.ALL)
                job_id = f"{fate.__name__}_{number}"
                body, expected = fate(yard)
                reply = yard.call("POST", JOBS, legacy(job_id, body), timeout=10)
                assert reply.status in (200, 409), reply
                name = name_of(yard, job_id)
                submitted[job_id] = name
                witness.accept(name, *expected)
                number += 1
                if fate is fates.cancel:
                    cancels.append((time.monotonic() + rng.uniform(0, 1), job_id))
            for item in [c for c in cancels if c[0] < time.monotonic()]:
                assert yard.call("POST", f"{JOBS}/{item[1]}:cancel", {}, timeout=10).status == 200
                cancels.remove(item)
        except (OSError, http.client.HTTPException):
            pass  # the server is down just now
        time.sleep(0.01)
    for _, job_id in cancels:
        yard.call("POST", f"{JOBS}/{job_id}:cancel", {}, timeout=10)


@pytest.mark.slow
def test_server_killed_at_random_moments(fault_yard, rng, long):
    yard, submitted = fault_yard, {}
    yard.listen = yard.url.removeprefix("http://")
    with invariants.Witness(yard) as witness:
        stop, failure = threading.Event(), []

        def work():
            try:
                submit_all(yard, witness, rng, stop, submitted)
            except BaseException as error:  # noqa: BLE001 - told to the main thread
                failure.append(error)
        thread = threading.Thread(target=work)
        thread.start()
        kills, end = 0, time.monotonic() + (120 if long else 15)
        while not failure and (time.monotonic() < end or kills < 6 or len(submitted) < 11):
            time.sleep(rng.expovariate(1 / 0.3))
            yard.restart()
            kills += 1
        stop.set()
        thread.join()
        assert not failure, failure
        for job in yard.list():  # one whose answer was lost: nobody else will cancel it
            if job["displayName"].startswith(f"{fates.cancel.__name__}_") and "endTime" not in job:
                yard.cancel(job["name"])
        invariants.check(yard, witness, seconds=120)
    assert kills > 5 and len(submitted) > 10
    for job_id, name in submitted.items():
        job, custom = yard.get(f"{JOBS}/{job_id}").json, yard.describe(name)
        assert f"JOB_STATE_{job['state']}" == custom["state"] and job["endTime"] == custom["endTime"]
        # Who ended well says so last, each replica for itself, whatever happened to the server meanwhile.
        if job["state"] == "SUCCEEDED":
            texts = [text for _, _, text in witness.all_log(name)]
            assert texts[-1] == "Job completed successfully." and "Clean up finished." in texts[-8:], texts[-8:]


def test_conductor_killed(fault_yard):
    """Lost is not failed: another attempt, with the same roles; only that one has its closing lines."""
    yard = fault_yard
    command = ["sh", "-c", "echo started $TF_CONFIG; [ -e ../../2 ] || sleep 600; sleep 1"]
    body = {"jobId": "lost", "trainingInput": {
        "region": "us-central1", "scaleTier": "CUSTOM", "masterType": "n1-standard-4", "parameterServerType": "n1-standard-4",
        "parameterServerCount": "1", "masterConfig": {"imageUri": "host", "containerCommand": command}}}
    assert yard.call("POST", JOBS, body).status == 200
    name = name_of(yard, "lost")
    yard.wait_for(lambda: len(yard.lines(name)) == 2, 60, "the first lines")
    before = {pid for job, pid in invariants.marks_alive() if job == name.rsplit("/", 1)[1]}
    (pid,) = conductors(yard, name.rsplit("/", 1)[1])
    os.kill(pid, signal.SIGKILL)
    yard.wait_for(lambda: not before & {p for _, p in invariants.marks_alive()}, 30, "all descendants to be gone")
    assert yard.wait(name, seconds=60)["state"] == "JOB_STATE_SUCCEEDED"
    assert yard.get(f"{JOBS}/lost").json["state"] == "SUCCEEDED"
    lines = yard.lines(name, "workerpool0-0")
    assert [line.split()[0] for line in lines].count("started") == 2 and lines.count("Clean up finished.") == 1
    assert all('"task":{"type":"master","index":0}' in line for line in lines if line.startswith("started"))
