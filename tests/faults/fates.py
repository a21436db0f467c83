"""fates.py -- jobs of mixed fate: each knows how it must end whatever happens to the server meanwhile."""
# A stubborn job is gone soon, and all jobs of a scenario run at once, however few cores there are.
FAST = {"grace_ms": 300, "max_running_jobs": 64}
SUCCEEDED, FAILED, CANCELLED = "JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"


def ok(yard):
    return yard.job("sh", "-c", "for i in 1 2 3; do echo line $i; sleep 0.05; done"), (SUCCEEDED,)


def fail(yard):
    return yard.job("sh", "-c", "echo about to fail; exit 7"), (FAILED,)


def timeout(yard):
    return yard.job("sh", "-c", "echo waiting; sleep 300", scheduling={"timeout": "0.6s"}), (FAILED,)


def restart(yard):
    # The first time it kills itself, as a preempted worker; in its own folder it finds that it has been here.
    return yard.job("sh", "-c", "if [ -e been ]; then echo again; else touch been; kill -9 $$; fi"), (SUCCEEDED,)


def gang(yard):
    # The job ends with its chief, which waits for the others' words: each touches a file in its own folder when it has said them.
    talk, wait = "echo here; touch said; ", "until [ -e ../1-0/said ] && [ -e ../1-1/said ]; do sleep 0.05; done"
    return yard.job(pools=[yard.pool("sh", "-c", talk + wait), yard.pool("sh", "-c", talk + "sleep 0.2", replicas=2)]), (SUCCEEDED,)


def cancel(yard):
    return yard.job("sh", "-c", "trap '' TERM; echo stubborn; sleep 300 & sleep 300", display_name="to-cancel"), (CANCELLED,)


ALL = (ok, fail, timeout, restart, gang, cancel)
