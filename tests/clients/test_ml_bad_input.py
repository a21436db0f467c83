"""Bad input to the older API: every malformed request gets a 4xx that names the field; nothing is created, the server lives on."""
import copy
import json
import urllib.parse

from test_bad_input import FLAG, LIST, MESSAGE, NUMBER, TEXT, TIME, body_cases, trouble_with

JOBS = "/v1/projects/trainyard/jobs"
IN = ("trainingInput",)
REPLICA = {"imageUri": "host", "containerCommand": ["true"], "acceleratorConfig": {"count": "1", "type": "NVIDIA_TESLA_T4"},
           "diskConfig": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100}}


def valid():
    return {"jobId": "ok", "labels": {"team": "a"}, "trainingInput": {
        "region": "us-central1", "scaleTier": "CUSTOM", "masterType": "n1-standard-4", "masterConfig": copy.deepcopy(REPLICA),
        "workerType": "n1-standard-4", "workerCount": "1", "workerConfig": copy.deepcopy(REPLICA), "parameterServerType": "n1-standard-4",
        "parameterServerCount": "1", "args": ["x"], "jobDir": "/tmp/out", "pythonVersion": "3.7", "useChiefInTfConfig": True,
        "scheduling": {"maxRunningTime": "60s", "maxWaitTime": "60s", "priority": 1}}}


FIELDS = [
    (("jobId",), TEXT + ["", "n" * 129, "1a", "a-b", "a b", "ä", "customjob_123", "a/../b", "n" * (2 << 20)]),
    (("labels",), MESSAGE + [{"team": 7}, {"team": "n" * 65}, {"Team": "a"}, {"": "a"}]),
    (IN, MESSAGE), (IN + ("scaleTier",), ["HUGE", "basic", 5, -1, [], {}, True]), (IN + ("region",), TEXT + ["", "US", "a b", "n" * 64]),
    (IN + ("masterType",), TEXT + ["n1-standard-3", ""]), (IN + ("workerType",), TEXT + ["bogus"]), (IN + ("workerCount",), NUMBER + [1000, "5000"]),
    (IN + ("parameterServerCount",), NUMBER + [1000]), (IN + ("evaluatorCount",), NUMBER), (IN + ("masterConfig",), MESSAGE),
    (IN + ("masterConfig", "imageUri"), TEXT + ["no image", "a:b:c:d e"]), (IN + ("masterConfig", "containerCommand"), LIST + [[7], [None], ["a\0b"]]),
    (IN + ("masterConfig", "containerArgs"), LIST + [[7], ["with args"]]), (IN + ("masterConfig", "acceleratorConfig"), MESSAGE),
    (IN + ("masterConfig", "acceleratorConfig", "count"), NUMBER + [1 << 40]),
    (IN + ("masterConfig", "acceleratorConfig", "type"), ["BOGUS", 5, [], {}, True]), (IN + ("workerConfig", "diskConfig", "bootDiskSizeGb"), ["x", [], {}, True]),
    (IN + ("args",), LIST + [[7], [None], ["a\0b"], ["n" * 200000]]), (IN + ("packageUris",), LIST + [["/p.tar"], ["gs://no/x"], [7]]),
    (IN + ("pythonModule",), TEXT), (IN + ("jobDir",), TEXT + ["relative", "gs://", "gs://no-such-bucket/x", "s3://a/b"]),
    (IN + ("runtimeVersion",), TEXT + ["2.1", "x"]), (IN + ("pythonVersion",), TEXT + ["2.7", "three"]), (IN + ("scheduling",), MESSAGE),
    (IN + ("scheduling", "maxRunningTime"), TIME + ["0s"]), (IN + ("scheduling", "maxWaitTime"), TIME),
    (IN + ("useChiefInTfConfig",), FLAG), (IN + ("enableWebAccess",), FLAG), (IN + ("hyperparameters",), [{}, {"maxTrials": 4}, 7, "x", []]),
    (IN + ("network",), TEXT), (IN + ("encryptionConfig",), MESSAGE),
]
UNKNOWN = [(), IN, IN + ("masterConfig",), IN + ("scheduling",), IN + ("masterConfig", "acceleratorConfig")]
GETS = [(f"{JOBS}?pageSize=x", "pageSize"), (f"{JOBS}?pageToken=bogus", "pageToken"), (f"{JOBS}?pageToken=-5", "pageToken")] + [
    (f"{JOBS}?filter={urllib.parse.quote(text)}", "filter") for text in ("bogus=1", "state=JOB_STATE_RUNNING", "(", "jobId=\"x", "createTime>7", "a" * 100000)
] + [(path, None) for path in (f"{JOBS}/", f"{JOBS}/no_such", f"{JOBS}/1", f"{JOBS}/customjob_1", f"{JOBS}/customjob_-1", f"{JOBS}/%00", f"{JOBS}/{'a' * 8000}",
                               f"{JOBS}/a:bogus", "/v1/projects/UPPER/jobs", "/v1/projects/x/jobs/a/b", "/v1/projects/trainyard/operations/1")]


def put(path, value):
    job = at = valid()
    for step in path[:-1]:
        at = at.setdefault(step, {})
    at[path[-1]] = value
    return job


def cases():
    for path, values in FIELDS:
        for value in values:
            unread = "\\u0000" in json.dumps(value) or value == 10**30
            yield f"{path[-1]}={json.dumps(value)[:24]}", put(path, value), None if unread else path[-1]
    for path in UNKNOWN:
        for bogus in ("bogusField", "bogus_field", "masterTyp"):
            yield f"unknown {'/'.join(path)}/{bogus}", put(path + (bogus,), 1), bogus
    yield "jobId twice", {**valid(), "job_id": "again"}, "job"
    for missing in ("jobId", "trainingInput"):
        job = valid()
        del job[missing]
        yield f"without {missing}", job, missing


def jobs_of(yard):
    return yard.get(JOBS).json.get("jobs", [])


def test_every_case_is_refused(yard):
    wrong, count = [], 0

    def refused(label, reply, named=None):
        nonlocal count
        count += 1
        if trouble := trouble_with(reply, named):
            wrong.append(f"{label}: {trouble}")
    for label, job, named in cases():
        refused(label, yard.call("POST", JOBS, job), named)
    for label, data in body_cases():
        refused(label, yard.call("POST", JOBS, data))
    for path, named in GETS:
        refused(path[:80], yard.get(path), named)
    refused("PUT", yard.call("PUT", JOBS, valid()))
    refused("DELETE", yard.call("DELETE", f"{JOBS}/ok"))
    refused("patch of none", yard.call("PATCH", f"{JOBS}/ok?updateMask=labels", {"labels": {}}))
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong[:20])
    assert not jobs_of(yard) and count > 200
    assert yard.call("POST", JOBS, valid()).status == 200  # and the good one is
    yard.wait_for(lambda: jobs_of(yard)[0]["state"] == "SUCCEEDED", 90, "the good one")
    for query, data in (("", {}), ("?updateMask=state", {}), ("?updateMask=labels", {"labels": 7}), ("?updateMask=labels", {"labels": {"A": "b"}}),
                        ("?updateMask=labels", {"etag": "AAAA", "labels": {}}), ("?updateMask=labels", [])):
        assert 400 <= yard.call("PATCH", f"{JOBS}/ok{query}", data).status < 500, (query, data)
    assert jobs_of(yard)[0]["labels"] == {"team": "a"}


def test_damaged_at_random(yard, rng, long):
    """A valid request with some of its bytes changed: refused or accepted, never a 5xx."""
    good = json.dumps(valid()).encode()
    for number in range(5000 if long else 500):
        data = bytearray(good.replace(b'"ok"', f'"ok_{number}"'.encode()).replace(b'["true"]', b'["false"]'))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(0, 2)] = bytes(rng.choice(b'{}[]":,0123456789aeinrtu\\ \x00\xff') for _ in range(rng.randint(0, 3)))
        reply = yard.call("POST", JOBS, bytes(data))
        assert reply.status == 200 or 400 <= reply.status < 500, (bytes(data), reply)
