"""Machine types and accelerators: how a small machine is divided, and that it says what it cut."""
import json

import pytest
from yard import PARENT, TOP, Yard

RUNNING, QUEUED, SUCCEEDED = "JOB_STATE_RUNNING", "JOB_STATE_QUEUED", "JOB_STATE_SUCCEEDED"
# A laptop, whatever the tests run on; no devices, whatever it has.
LAPTOP = {"machine_cpus": 2, "machine_memory_bytes": 23 << 30, "nvml_library": "", "grace_ms": 200}
FAKE_NVML = TOP / "build" / "src" / "machine" / "libfake_nvml.so"


def on(machine_type, *command, replicas=1, **machine):
    return Yard.pool(*(command or ("sleep", "600")), replicas=replicas, machineSpec={"machineType": machine_type, **machine})


def t4(count=1):
    return {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": count}


def why(yard, name):
    """The text and the JSON of trainyard why."""
    text, answer = yard.trainyard("why", name), yard.trainyard("why", name, "--format=json")
    assert text.returncode == 0 and answer.returncode == 0, text.stderr + answer.stderr
    return text.stdout, json.loads(answer.stdout)


def refused(yard, *pools):
    """(field, description) of the first violation."""
    reply = yard.call("POST", f"/v1/{PARENT}/customJobs", yard.job(pools=list(pools)))
    assert reply.status == 400, reply
    violation = reply.json["error"]["details"][0]["fieldViolations"][0]
    return violation["field"], violation["description"]


@pytest.fixture(scope="module")
def share_yard(tmp_path_factory):
    with Yard(tmp_path_factory.mktemp("share"), settings=LAPTOP) as started:
        yield started


def test_share_runs_side_by_side(share_yard):
    """Two n1-standard-4 trials and a two-pool n1-standard-8 job on two cores."""
    trials = [share_yard.create(display_name=f"trial-{i}", pools=[on("n1-standard-4")]) for i in (1, 2)]
    gang = share_yard.create(display_name="gang", pools=[on("n1-standard-8"), on("n1-standard-8", replicas=2)])
    for name in (*trials, gang):
        share_yard.wait(name, RUNNING)
    assert {share_yard.describe(name)["state"] for name in (*trials, gang)} == {RUNNING}
    sentence = ("Asked for 3 x n1-standard-8 (8 CPUs, 30 GB each); this machine has 2 CPUs, 23 GB and no GPU: its replicas share these "
                "CPUs with what else runs, by weight; a replica may use 22 GB of memory.")
    said = share_yard.lines(gang, "service")
    assert said.index(sentence) < said.index("All replicas are running (attempt 1).")
    text, answer = why(share_yard, gang)
    assert sentence in text and answer["note"] == sentence and answer["asked"] == "3 x n1-standard-8 (8 CPUs, 30 GB each)"
    for name in (*trials, gang):
        share_yard.cancel(name)


def test_share_has_a_limit_of_jobs(tmp_path):
    with Yard(tmp_path, settings={**LAPTOP, "max_running_jobs": 2}) as yard:
        first, second = (yard.create("sleep", "600", display_name=f"holder-{i}") for i in (1, 2))
        waits = yard.create("true")
        yard.wait(waits, QUEUED)
        assert any("waiting for a job slot (setting max_running_jobs)" in line for line in yard.lines(waits, "service"))
        text, answer = why(yard, waits)
        assert "Job slots: 2 of 2 in use." in text and answer["jobSlots"] == 2
        assert f"job {first.rsplit('/', 1)[1]} 'holder-1' ends or is cancelled; or max_running_jobs = 3" in text
        yard.cancel(second)
        assert yard.wait(waits)["state"] == SUCCEEDED


def test_a_job_that_fits_is_told_nothing(share_yard):
    name = share_yard.create(pools=[on("n1-standard-2", "true")])
    share_yard.wait(name)
    assert not any("Asked for" in line for line in share_yard.lines(name, "service"))


def test_a_type_nobody_knows(share_yard):
    assert refused(share_yard, on("n1-standrad-4")) == (
        "jobSpec.workerPoolSpecs[0].machineSpec.machineType", "no machine type is called 'n1-standrad-4'; did you mean n1-standard-4?")
    result = share_yard.trainyard("ai", "custom-jobs", "create", "--display-name=x", "--command=true",
                                  "--worker-pool-spec=machine-type=n1-standrad-4,replica-count=1,container-image-uri=host")
    assert result.returncode == 1 and "did you mean n1-standard-4?" in result.stderr


def test_fit_waits_and_why_explains(tmp_path):
    with Yard(tmp_path, settings={**LAPTOP, "machine_cpus": 8, "machine_memory_bytes": 64 << 30, "capacity": "fit"}) as yard:
        small, large = yard.create(display_name="small", pools=[on("n1-standard-2")]), yard.create(pools=[on("n1-standard-4")])
        yard.wait(small, RUNNING)
        yard.wait(large, RUNNING)
        waits = yard.create(pools=[on("n1-standard-4", "true")])
        yard.wait(waits, QUEUED)
        text, answer = why(yard, waits)
        assert "waiting for CPUs (setting capacity)" in text and "CPUs: 6 of 8 in use; it needs 4." in text
        assert (answer["cpusUsed"], answer["cpusAsked"]) == (6, 4) and "with machineType n1-standard-2 it would start now" in text
        assert f"job {small.rsplit('/', 1)[1]} 'small' ends or is cancelled" in answer["startsWith"]
        assert "capacity = share" in answer["startsWith"]
        yard.cancel(small)  # what it says would start the job does start it
        assert yard.wait(waits)["state"] == SUCCEEDED


def test_fit_runs_what_is_too_large_alone(tmp_path):
    with Yard(tmp_path, settings={**LAPTOP, "capacity": "fit"}) as yard:
        small = yard.create(pools=[on("n1-standard-1")])
        yard.wait(small, RUNNING)
        large, after = yard.create(pools=[on("n1-standard-16")]), yard.create(pools=[on("n1-standard-1", "true")])
        yard.wait(after, QUEUED)
        assert yard.describe(large)["state"] == QUEUED
        yard.cancel(small)
        yard.wait(large, RUNNING)
        assert yard.describe(after)["state"] == QUEUED
        assert any("it runs alone on all of it" in line for line in yard.lines(large, "service"))
        yard.cancel(large)
        assert yard.wait(after)["state"] == SUCCEEDED


def test_strict_refuses_with_the_numbers(tmp_path):
    with Yard(tmp_path, settings={**LAPTOP, "capacity": "strict"}) as yard:
        field, text = refused(yard, on("n1-standard-1"), on("n1-standard-16", replicas=2))
        assert field == "jobSpec.workerPoolSpecs[1].machineSpec.machineType"
        assert "33 CPUs and 124 GB in all; this machine has 2 CPUs, 23 GB and no GPU" in text
        name = yard.create(pools=[on("n1-standard-2", "true")])
        assert yard.wait(name)["state"] == SUCCEEDED


def test_a_gpu_that_is_not_there(share_yard):
    name = share_yard.create(pools=[on("n1-standard-4", "sh", "-c", "echo sees=$CUDA_VISIBLE_DEVICES", **t4())])
    assert share_yard.wait(name)["state"] == SUCCEEDED
    assert "sees=-1" in share_yard.lines(name)
    sentence = "it runs on CPU, without the accelerators (setting accelerators)."
    assert any("with 1 NVIDIA_TESLA_T4; this machine has" in line and sentence in line for line in share_yard.lines(name, "service"))
    text, answer = why(share_yard, name)
    assert sentence in text and sentence in answer["note"]


@pytest.mark.parametrize("setting", ["wait", "refuse"])
def test_a_gpu_that_can_never_be_had(tmp_path, setting):
    with Yard(tmp_path, settings={**LAPTOP, "accelerators": setting}) as yard:
        field, text = refused(yard, on("n1-standard-4", **t4(2)))
        assert field == "jobSpec.workerPoolSpecs[0].machineSpec.acceleratorType"
        assert "2 accelerators (NVIDIA_TESLA_T4)" in text and "no GPU" in text
        name = yard.create(pools=[on("n1-standard-4", "true")])
        assert yard.wait(name)["state"] == SUCCEEDED


def test_devices_go_to_one_replica_each(tmp_path):
    """Two devices of a library of our own, and a server that is killed while one is held."""
    settings = {**LAPTOP, "nvml_library": FAKE_NVML, "accelerators": "wait"}
    with Yard(tmp_path, settings=settings, environment={"FAKE_NVML": "2"}) as yard:
        tell = ("sh", "-c", "echo sees=$CUDA_VISIBLE_DEVICES; sleep 600")
        holder = yard.create(display_name="holder", pools=[on("n1-standard-4", *tell, **t4())])
        yard.wait(holder, RUNNING)
        yard.wait_for(lambda: yard.lines(holder) == ["sees=0"], 60, "its line")
        yard.restart()
        both = yard.create(pools=[on("n1-standard-4", "true", **t4(2))])
        yard.wait(both, QUEUED)
        text, answer = why(yard, both)
        assert "waiting for accelerators" in text and "GPUs: 1 of 2 in use; it needs 2." in text
        assert (answer["devices"], answer["devicesUsed"], answer["devicesAsked"]) == (2, 1, 2)
        yard.cancel(holder)
        assert yard.wait(both)["state"] == SUCCEEDED
        assert yard.lines(holder) == ["sees=0"]
        chief = f"echo sees=$CUDA_VISIBLE_DEVICES; until [ -e {tmp_path}/said ]; do sleep 0.05; done"  # its end stops the other
        worker = f"echo sees=$CUDA_VISIBLE_DEVICES; touch {tmp_path}/said; sleep 600"
        gang = yard.create(pools=[on("n1-standard-4", "sh", "-c", chief, **t4()), on("n1-standard-4", "sh", "-c", worker, **t4())])
        assert yard.wait(gang)["state"] == SUCCEEDED
        assert sorted(yard.lines(gang)) == ["sees=0", "sees=1"]


def test_settings_are_checked(tmp_path):
    with pytest.raises(RuntimeError, match="capacity: 'most' is none of share | fit | strict"):
        Yard(tmp_path, settings={"capacity": "most"}).start()
