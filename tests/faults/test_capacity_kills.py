"""test_capacity_kills.py -- kill -9 of the server while jobs wait for CPUs and devices: nothing is ever given twice."""
import time

import invariants
import pytest
from fates import FAST, SUCCEEDED
from yard import TOP, Yard

SETTINGS = {**FAST, "capacity": "fit", "accelerators": "wait", "machine_cpus": 8, "machine_memory_bytes": 256 << 30, "max_running_jobs": 4,
            "nvml_library": TOP / "build" / "src" / "machine" / "libfake_nvml.so"}


def job(yard, rng):
    machine = {"machineType": rng.choice(("n1-standard-1", "n1-standard-2", "n1-standard-4", "n1-standard-8", "n1-standard-32"))}
    if rng.random() < 0.5:
        machine.update(acceleratorType="NVIDIA_TESLA_T4", acceleratorCount=rng.choice((1, 2)))
    return [yard.pool("sh", "-c", "echo has=$CUDA_VISIBLE_DEVICES; sleep 0.1", machineSpec=machine)]


@pytest.mark.slow
def test_nothing_is_given_twice(tmp_path, rng):
    with Yard(tmp_path, settings=SETTINGS, environment={"FAKE_NVML": "2"}) as yard, invariants.Witness(yard) as witness:
        for _ in range(6):
            for _ in range(5):
                witness.accept(yard.create(pools=job(yard, rng)), SUCCEEDED)
            time.sleep(rng.expovariate(1 / 0.3))
            yard.restart()
        invariants.check(yard, witness, seconds=120)


BODY = '"jobSpec":{"workerPoolSpecs":[{"replicaCount":"1","machineSpec":{"machineType":"n1-standard-4"}}]}'


@pytest.mark.parametrize("settings, first, second, words", [
    ({"max_running_jobs": 1}, (0, 10, ""), (5, 15, ""), "2 jobs"),
    ({}, (0, 10, "0;1"), (9, 15, "1"), "2 device 1"),
    ({"capacity": "fit", "machine_cpus": 7}, (0, 10, ""), (5, 15, ""), "8 cpus"),
    ({"replica_slots": 1}, (0, 10, ""), (5, 15, ""), "2 replicas"),
])
def test_the_checker_sees_what_is_given_twice(settings, first, second, words):
    with pytest.raises(AssertionError, match=words):
        invariants.check_capacity([(*first, 1, BODY), (*second, 1, BODY)], settings, 64)
    invariants.check_capacity([(*first, 1, BODY), (10, 20, *second[2:], 1, BODY)], settings, 64)  # one after the other
