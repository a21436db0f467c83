"""Bad input: every malformed request and file gets a 4xx that names the field; nothing is created, the server lives on.

Cases come from tables (each field with each kind of wrong value, each route with each bad parameter) and from a generator
that damages a valid request at random, from a printed seed.
"""
import copy
import json
import resource
import socket
import subprocess
import time
import urllib.parse

import pytest
from yard import BINARY, PARENT, Yard, clean_environment

JOBS = f"/v1/{PARENT}/customJobs"
MB = 1 << 20


def valid():
    return {"displayName": "ok", "labels": {"team": "a"}, "jobSpec": {
        "scheduling": {"timeout": "60s", "restartJobOnWorkerRestart": False, "maxWaitDuration": "60s"},
        "baseOutputDirectory": {"outputUriPrefix": "/tmp/out"},
        "workerPoolSpecs": [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1",
                             "diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100},
                             "containerSpec": {"imageUri": "host", "command": ["true"], "args": ["x"],
                                               "env": [{"name": "A", "value": "b"}]}}]}}


# Where a field is, and the kinds of value it must refuse.
TEXT = [7, 1.5, True, [], {}, ["x"], {"a": 1}]
FLAG = ["yes", 3, [], {}, "1"]
LIST = ["x", 7, True]
MESSAGE = ["x", 7, True, []]
NUMBER = ["x", "", "1.5", 1.5, True, [], {}, -1, "-1", 10**30, "99999999999999999999", "0x10", " 1", "1e3"]
TIME = [7, "60", "60 s", "s", "-5s", "x", "1h", [], {}, True, "99999999999999999999s", "1.5.5s"]
POOL = ("jobSpec", "workerPoolSpecs", 0)
FIELDS = [
    (("displayName",), TEXT + ["", "n" * 129, "n" * (10 * MB)]),
    (("labels",), MESSAGE + [{"team": 7}, {"team": "n" * 65}, {"Team": "a"}, {"n" * 65: "a"}, {"": "a"}]),
    (("jobSpec",), MESSAGE),
    (("jobSpec", "workerPoolSpecs"), LIST + [[], [7], ["x"], [[]], [{}]]),
    (("jobSpec", "scheduling"), MESSAGE),
    (("jobSpec", "scheduling", "timeout"), TIME),
    (("jobSpec", "scheduling", "maxWaitDuration"), TIME),
    (("jobSpec", "scheduling", "restartJobOnWorkerRestart"), FLAG),
    (("jobSpec", "scheduling", "disableRetries"), FLAG),
    (("jobSpec", "scheduling", "strategy"), ["BOGUS", 999, -1, [], {}, True, 1.5]),
    (("jobSpec", "baseOutputDirectory"), MESSAGE),
    (("jobSpec", "baseOutputDirectory", "outputUriPrefix"),
     [7, True, [], {}, "gs://bucket/x", "relative/path", "s3://x/y", "http://h/x", "/tmp/../etc", "/tmp/\0x"]),
    (("jobSpec", "enableWebAccess"), FLAG),
    (("jobSpec", "network"), TEXT),
    (POOL + ("replicaCount",), NUMBER + ["2", 1000000]),
    (POOL + ("machineSpec",), MESSAGE),
    (POOL + ("machineSpec", "machineType"), TEXT),
    (POOL + ("machineSpec", "acceleratorType"), ["BOGUS", 9999, [], {}, True]),
    (POOL + ("machineSpec", "acceleratorCount"), ["x", -1, [], {}, True, 1 << 40]),
    (POOL + ("diskSpec",), MESSAGE),
    (POOL + ("diskSpec", "bootDiskSizeGb"), ["x", [], {}, True, 1 << 40]),
    (POOL + ("containerSpec",), MESSAGE),
    (POOL + ("containerSpec", "imageUri"), TEXT + [""]),
    (POOL + ("containerSpec", "command"), LIST + [[7], [None], [["x"]], [{}], ["a\0b"]]),
    (POOL + ("containerSpec", "args"), LIST + [[7], [None], [True], ["a\0b"]]),
    (POOL + ("containerSpec", "env"), LIST + [[7], ["A=b"], [{}], [{"name": ""}], [{"name": "A=B", "value": "x"}],
                                             [{"name": "A", "value": 7}], [{"name": "A\0", "value": "x"}],
                                             [{"name": "A", "value": "x", "more": 1}]]),
]
# A field that is not there is named wherever it stands.
UNKNOWN = [(), ("jobSpec",), ("jobSpec", "scheduling"), POOL, POOL + ("machineSpec",), POOL + ("containerSpec",),
           ("jobSpec", "baseOutputDirectory"), POOL + ("diskSpec",)]


def put(path, value):
    job = valid()
    at = job
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return job


def field_cases():
    for path, values in FIELDS:
        name = next(step for step in reversed(path) if isinstance(step, str))
        for value in values:
            # A zero byte or an integer of 30 digits is refused where JSON is read, before there are fields.
            unread = "\\u0000" in json.dumps(value) or value == 10**30
            yield f"{name}={json.dumps(value)[:24]}", put(path, value), None if unread else name
    for path in UNKNOWN:
        for bogus in ("bogusField", "bogus_field", "display_nam", "__proto__"):
            job = valid()
            at = job
            for step in path:
                at = at[step]
            at[bogus] = 1
            yield f"unknown {'/'.join(map(str, path))}/{bogus}", job, bogus
    # Both spellings of one field is one field given twice.
    yield "displayName twice", {**valid(), "display_name": "again"}, "display"
    for missing in ("displayName", "jobSpec"):
        job = valid()
        del job[missing]
        yield f"without {missing}", job, missing


def body_cases():
    """Bodies that are no JSON object at all."""
    good = json.dumps(valid())
    texts = ["", " ", "{", "}", "[]", "7", "null", '"x"', "{]", "{'a':1}", "{\"a\":}", good[:-1], good + "x", good + good,
             "//c\n" + good, good.replace('"ok"', "NaN"), good.replace('"ok"', "Infinity"), good.replace('"ok"', "01"),
             good.replace('"ok"', '"\\ud800"'), good.replace('"ok"', '"\\u0000"'), good.replace('"ok"', '"a\nb"'),
             "[" * 100000, '{"jobSpec":' * 20000, good.replace('"ok"', "[" * 5000 + "]" * 5000),
             good.replace('"displayName"', '"displayName":"a","displayName"'), "\ufeff{"]
    for text in texts:
        yield text[:24], text.encode()
    yield "invalid UTF-8", good.encode().replace(b"ok", b"\xff\xfe")
    yield "overlong UTF-8", good.encode().replace(b"ok", b"\xc0\xaf")
    yield "surrogate in UTF-8", good.encode().replace(b"ok", b"\xed\xa0\x80")
    yield "cut UTF-8", good.encode().replace(b"ok", b"\xe2\x82")
    yield "zero byte", good.encode().replace(b"ok", b"o\0k")
    yield "form", b"displayName=x&jobSpec=y"
    yield "yaml", b"displayName: x\njobSpec: {}\n"


GET_CASES = [  # path, what the answer names
    (f"{JOBS}?pageSize=x", "pageSize"), (f"{JOBS}?pageSize=-1", "pageSize"), (f"{JOBS}?pageSize=1.5", "pageSize"),
    (f"{JOBS}?pageSize=99999999999999999999", "pageSize"), (f"{JOBS}?page_size=x", "page"),
    (f"{JOBS}?pageToken=bogus", "pageToken"), (f"{JOBS}?pageToken=%00", "pageToken"), (f"{JOBS}?pageToken=-5", "pageToken"),
    (f"{JOBS}?filter=display_name%3D%22%FF%22", "filter"),
    (f"{JOBS}?pageToken={'9' * 500}", "pageToken"), (f"{JOBS}?pageToken=' OR 1=1 --", "pageToken"),
] + [(f"{JOBS}?filter={urllib.parse.quote(text)}", "filter") for text in (
    "bogus", "bogus=1", "state=", "=x", "state=JOB_STATE_BOGUS", "state>\"JOB_STATE_RUNNING\"", "(state=\"JOB_STATE_RUNNING\"",
    "state=\"JOB_STATE_RUNNING\")", "state=\"JOB_STATE_RUNNING\" AND", "AND", "NOT", "display_name=\"x", "create_time>\"yesterday\"",
    "create_time>7", "labels.=x", "display_name==\"x\"", "(" * 10000, "NOT " * 10000 + "state=\"x\"", "a" * 100000, "\"\\",
    "state=\"JOB_STATE_RUNNING\" XOR state=\"JOB_STATE_FAILED\"", "1; DROP TABLE jobs",
)] + [(path, None) for path in (
    "/v1", "/v1/", "//v1//" + PARENT, "/v2/customJobs", f"/v3/{PARENT}/customJobs", f"{JOBS}/", f"{JOBS}//", f"{JOBS}/abc",
    f"{JOBS}/-1", f"{JOBS}/0", f"{JOBS}/1", f"{JOBS}/99999999999999999999", f"{JOBS}/1e3", f"{JOBS}/1/2", f"{JOBS}/1:bogus",
    f"{JOBS}/..", f"{JOBS}/../../../../etc/passwd", f"{JOBS}/%2e%2e%2f%2e%2e", f"{JOBS}/1%00", f"{JOBS}/%", f"{JOBS}/%zz",
    f"{JOBS}/1%2f..%2f2", f"{JOBS}/\x7f", f"{JOBS}/{'9' * 8000}", "/v1/projects//locations/us-central1/customJobs",
    "/v1/projects/demo/locations//customJobs", "/v1/projects/..%2f..%2fetc/locations/x/customJobs", "/../../etc/passwd",
    "/v1/projects/demo/locations/us-central1/operations/abc", "/v1/projects/demo/locations/us-central1/operations/9",
    "/trainyard/v1/projects/demo/jobs/abc/log", "/trainyard/v1/projects/demo/jobs/abc/why",
    "/trainyard/v1/projects/demo/jobs/7/why", "/computeMetadata/v1/bogus", "/.git/config", "/jobs/1/1/log",
)]
LOG_CASES = [  # body of /v2/entries:list, what the answer names
    ({"filter": 7}, "filter"), ({"filter": "("}, "filter"), ({"filter": "severity>="}, "filter"), ({"filter": "timestamp>\"x\""}, "filter"),
    ({"filter": "a" * 100000 + "="}, "filter"), ({"pageSize": -1}, "pageSize"), ({"pageSize": "x"}, "pageSize"),
    ({"orderBy": "bogus"}, "orderBy"), ({"orderBy": 7}, "orderBy"), ({"resourceNames": "x"}, "resourceNames"),
    ({"resourceNames": [7]}, "resourceNames"), ({"pageToken": "bogus"}, "pageToken"), ({"bogus": 1}, "bogus"),
    ({"filter": "(" * 20000}, "filter"),
]
# Not HTTP, or HTTP that two parsers would read in two ways: a bare 4xx or a closed connection, never a 2xx or 5xx.
HEAD = f"POST {JOBS} HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
BODY = json.dumps(valid())
RAW_CASES = {
    "noise": b"\x00\x01\x02\x03\xff\xfe\r\n\r\n",
    "TLS hello": bytes.fromhex("16030100f6010000f20303") + b"\0" * 200,
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
    "no version": f"GET {JOBS}\r\n\r\n",
    "HTTP/9.9": f"GET {JOBS} HTTP/9.9\r\nHost: HOST\r\n\r\n",
    "bogus method": f"BOGUS {JOBS} HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "no Host": f"GET {JOBS} HTTP/1.1\r\n\r\n",
    "no Host in 1.0": f"GET {JOBS} HTTP/1.0\r\n\r\n",
    "two Hosts": f"GET {JOBS} HTTP/1.1\r\nHost: HOST\r\nHost: HOST\r\n\r\n",
    "empty Host": f"GET {JOBS} HTTP/1.1\r\nHost:\r\n\r\n",
    "another Host": f"GET {JOBS} HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "another port": f"GET {JOBS} HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
    "Host with a path": f"GET {JOBS} HTTP/1.1\r\nHost: HOST/x\r\n\r\n",
    "Host with a user": f"GET {JOBS} HTTP/1.1\r\nHost: a@HOST\r\n\r\n",
    "absolute target elsewhere": "GET http://evil.example/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "two Content-Lengths": f"{HEAD}Content-Length: {len(BODY)}\r\nContent-Length: 5\r\n\r\n{BODY}",
    "two equal Content-Lengths": f"{HEAD}Content-Length: {len(BODY)}\r\nContent-Length: {len(BODY)}\r\n\r\n{BODY}",
    "Content-Length list": f"{HEAD}Content-Length: {len(BODY)}, {len(BODY)}\r\n\r\n{BODY}",
    "negative Content-Length": f"{HEAD}Content-Length: -5\r\n\r\n{BODY}",
    "Content-Length x": f"{HEAD}Content-Length: x\r\n\r\n{BODY}",
    "huge Content-Length": f"{HEAD}Content-Length: 99999999999\r\n\r\n{BODY}",
    "overflowing Content-Length": f"{HEAD}Content-Length: 18446744073709551617\r\n\r\n{BODY}",
    "both lengths": f"{HEAD}Content-Length: {len(BODY)}\r\nTransfer-Encoding: chunked\r\n\r\n{len(BODY):x}\r\n{BODY}\r\n0\r\n\r\n",
    "unknown encoding": f"{HEAD}Transfer-Encoding: gzip\r\n\r\n{BODY}",
    "bad chunk size": f"{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n{BODY}\r\n0\r\n\r\n",
    "200 KB header": f"GET {JOBS} HTTP/1.1\r\nHost: HOST\r\nX: {'a' * 200000}\r\n\r\n",
    "50,000 headers": f"GET {JOBS} HTTP/1.1\r\nHost: HOST\r\n" + "A: b\r\n" * 50000 + "\r\n",
    "200 KB target": f"GET /{'a' * 200000} HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "zero byte in target": f"GET {JOBS}/1\0 HTTP/1.1\r\nHost: HOST\r\n\r\n",
}
# What a web page can cause a browser to send, with a body that would be a fine job.
PAGE_CASES = [
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "http://localhost.evil.example"},
    {"Origin": ""}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "bogus"},
    {"Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain"}, {"Host": "evil.example"},
    {"Host": "127.0.0.1.evil.example"}, {"Origin": "https://evil.example", "Content-Type": "text/plain;charset=UTF-8"},
]


def raw(yard, data, wait_s=60):
    """Send bytes as they are; returns what came back until the server closed."""
    host = "%s:%d" % yard.address
    if isinstance(data, str):
        data = data.replace("HOST", host).encode("latin-1")
    with socket.create_connection(yard.address, timeout=wait_s) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        got = b""
        try:
            while chunk := client.recv(65536):
                got += chunk
        except OSError:
            pass
        return got


def trouble_with(reply, named):
    """What is wrong with the answer to a bad request; None if it is as it should be."""
    if not 400 <= reply.status < 500:
        return repr(reply)
    if len(reply.body) >= 65536:
        return f"an answer of {len(reply.body)} bytes"
    if reply.status in (414, 431):
        return None  # a target or header that does not fit: nobody has looked for fields in it
    error = reply.json["error"]
    text = json.dumps(error, ensure_ascii=False)
    if named and named.lower().replace("_", "") not in text.lower().replace("_", ""):
        return f"'{named}' is not named: {text[:300]}"
    if not error["status"] or error["code"] != reply.status or not error["message"]:
        return text[:300]
    return None


def send_all(yard):
    """Every table case once; returns how many, and those that were not refused as they should be."""
    count, wrong = 0, []

    def refused(label, reply, named=None):
        nonlocal count
        count += 1
        if trouble := trouble_with(reply, named):
            wrong.append(f"{label}: {trouble}")
    for label, job, named in field_cases():
        refused(label, yard.call("POST", JOBS, job), named)
    for label, body in body_cases():
        refused(label, yard.call("POST", JOBS, body))
    for path, named in GET_CASES:
        refused(path[:80], yard.get(urllib.parse.quote(path, safe="/?=&:%'", encoding="latin-1")), named)
    for extra, named in LOG_CASES:
        body = {"resourceNames": ["projects/trainyard"], "filter": 'resource.type="ml_job"', **extra}
        refused(str(extra)[:60], yard.call("POST", "/v2/entries:list", body), named)
    for method in ("PUT", "PATCH", "DELETE"):
        refused(method, yard.call(method, JOBS, valid()))
    refused("body over the limit", yard.call("POST", JOBS, b" " * (17 * MB)))
    for headers in PAGE_CASES + [{"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}]:
        method = "OPTIONS" if "Access-Control-Request-Method" in headers else "POST"
        reply = yard.call(method, JOBS, valid(), headers=headers)
        refused(f"{method} {headers}", reply)
        if [name for name in reply.headers if name.startswith("access-control")]:
            wrong.append(f"{headers}: {reply.headers}")
    for label, data in RAW_CASES.items():
        count += 1
        got = raw(yard, data)
        if got and got[9:10] != b"4" and got[9:12] != b"505":  # 505: no such version of HTTP
            wrong.append(f"{label}: {got[:200]!r}")
    return count, wrong


@pytest.mark.slow
def test_three_hundred_malformed_requests(yard):
    before = yard.call("POST", JOBS, valid())
    assert before.status == 200, f"the valid request is not: {before}"
    yard.wait(before.json["name"])
    yard.call("DELETE", f"/v1/{before.json['name']}")
    count, wrong = send_all(yard)
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong)
    assert count >= 300
    assert yard.list() == [] and yard.get("/healthz").status == 200
    yard.wait_for(lambda: not (yard.data / "jobs").exists() or not any((yard.data / "jobs").iterdir()), 60, "the deleted job's folder to go")
    # Further rounds must not need more memory than the first: what a request took, it gave back (at the latest
    # when its connection has gone, hence the wait).
    rss = yard.rss_kb()
    for _ in range(3):
        send_all(yard)
    yard.wait_for(lambda: yard.rss_kb() - rss < 16 * 1024, 60, f"memory to go back to {rss} KB, it is {yard.rss_kb()} KB")
    assert yard.process.poll() is None


def damage(rng, text):
    """One random change to the bytes of a request body."""
    data = bytearray(text)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data))
        kind = rng.randrange(5)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at:at + rng.randint(1, 30)]
        elif kind == 2:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 8)))
        elif kind == 3:
            data[at:at] = data[:at]
        else:
            data[at:at] = rng.choice([b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"-1", b"\\u", b"1e999"])
        if not data:
            data = bytearray(b"x")
    return bytes(data)


@pytest.mark.slow
def test_random_damage_never_breaks_the_server(yard, rng, long):
    """Damage that leaves a valid job is a job (answer 200); everything else is 4xx. Never 5xx, never silence."""
    good = json.dumps(valid()).encode()
    accepted = 0
    for number in range(5000 if long else 500):
        body = damage(rng, good)
        reply = yard.call("POST", JOBS, body)
        assert reply.status == 200 or 400 <= reply.status < 500, f"case {number}: {body!r}: {reply}"
        accepted += reply.status == 200
    assert len(yard.list()) == accepted


YAML_CASES = [
    ("workerPoolSpecs: {replicaCount: x, containerSpec: {imageUri: host}}", "replicaCount"),
    ("workerPoolSpecs: [{replicaCount: -3, containerSpec: {imageUri: host}}]", "replicaCount"),
    ("workerPoolSpecs: [{replicaCount: 1, containerSpec: {imageUri: 7}}]", "imageUri"),
    ("workerPoolSpecs: [{replicaCount: 1, containerSpec: {imageUri: host, command: true}}]", "command"),
    ("workerPoolSpecs: [{replicaCount: 1, containerSpec: {imageUri: host, env: {A: b}}}]", "env"),
    ("workerPoolSpecs: [{replicaCount: 1, containerSpec: {imageUri: host}, bogus: 1}]", "bogus"),
    ("scheduling: {timeout: soon}\nworkerPoolSpecs: [{containerSpec: {imageUri: host}}]", "timeout"),
    ("scheduling: []\nworkerPoolSpecs: [{containerSpec: {imageUri: host}}]", "scheduling"),
    ("displayName: x\nworkerPoolSpecs: [{containerSpec: {imageUri: host}}]", "displayName"),
    ("? [a, b]\n: c\n", None), ("a: b: c", None), ("\tworkerPoolSpecs: []", None), ("%YAML 9.9\n---\na: b", None), ("", None),
    ("---\na: 1\n---\nb: 2\n", None), ("workerPoolSpecs: !!python/object:os.system [x]", None), ("&a a: *b", None),
    ("a: " + "[" * 5000, None), ("a: &x [1]\nb: [" + ",".join(["*x"] * 5000) + "]", None), ("x: '" + "y" * (10 * MB), None),
    ("workerPoolSpecs:\n  - <<: {a: 1}\n", None), ("workerPoolSpecs: [{containerSpec: {imageUri: host}}]\nworkerPoolSpecs: []", None),
]


def bomb():
    rows = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    rows += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    return "\n".join(rows)


def cpu_seconds():
    """What the commands that have ended used: a busy machine adds nothing to it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_malformed_yaml_files(yard, tmp_path):
    path = tmp_path / "bad job.yaml"
    cases = YAML_CASES + [(bomb(), None)]
    cases += [("workerPoolSpecs: [\xff]".encode("latin-1"), None), (b"a: \x00", None), (b"\xff\xfea\0:\0", None)]
    for text, named in cases:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        start = cpu_seconds()
        result = yard.trainyard("ai", "custom-jobs", "create", "--display-name=bad", f"--config={path}")
        label = repr(text[:60])
        assert result.returncode == 1, f"{label}: exit {result.returncode}: {result.stderr[:300]}"
        assert (named or "bad job.yaml") in result.stderr or (named is None and "workerPoolSpecs" in result.stderr), f"{label}: {result.stderr[:300]}"
        assert len(result.stderr) < 10000 and cpu_seconds() - start < 10, label
    missing = yard.trainyard("ai", "custom-jobs", "create", "--display-name=bad", "--config=/nowhere/x.yaml")
    assert missing.returncode == 1 and "/nowhere/x.yaml" in missing.stderr
    assert yard.list() == []


# ---- clients that are slow, or stop in the middle ----

def half_open(yard, count=120):
    """Clients that stop in the middle: before the first byte, after it, within the headers, within the body."""
    host = "%s:%d" % yard.address
    starts = [b"", b"G", f"POST {JOBS} HTTP/1.1\r\nHost: {host}\r\n".encode(),
              f"POST {JOBS} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000\r\n\r\n{{".encode()]
    clients = []
    for number in range(count):
        client = socket.create_connection(yard.address, timeout=60)
        client.sendall(starts[number % len(starts)])
        clients.append(client)
    return clients


def is_held(client):
    """Neither an answer nor an end has come."""
    client.setblocking(False)
    try:
        client.recv(1)
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    return False


def test_slow_and_half_open_clients_hold_up_nobody(tmp_path):
    """They may stay for ten minutes here: who had to wait for them would not be answered in the time that a call has."""
    with Yard(tmp_path, settings={"header_timeout_ms": 600_000, "idle_timeout_ms": 3_600_000, "connections": 256}) as yard:
        clients = half_open(yard)
        for _ in range(20):
            assert yard.get("/healthz").status == 200
            for client in clients[2::4]:  # one byte now and then does not make it a good client
                client.sendall(b"X")
        assert all(is_held(client) for number, client in enumerate(clients) if number % 4 != 3)  # a body must come at some rate
        for client in clients:
            client.close()
        assert yard.list() == []


def test_slow_and_half_open_clients_are_dropped(tmp_path):
    with Yard(tmp_path, settings={"header_timeout_ms": 1500, "idle_timeout_ms": 3000, "connections": 256}) as yard:
        clients = half_open(yard)
        for _ in range(20):
            assert yard.get("/healthz").status == 200
            for client in clients[2::4]:
                try:
                    client.sendall(b"X")
                except OSError:
                    pass
            time.sleep(0.05)
        end = time.monotonic() + 60
        for client in clients:
            client.settimeout(max(0.1, end - time.monotonic()))
            try:
                while client.recv(4096):
                    pass
            except ConnectionError:
                pass
            except TimeoutError:
                raise AssertionError("a client that never finished its request was not dropped in 60 s") from None
            client.close()
        assert yard.list() == []


def test_drip_of_a_header_is_dropped(tmp_path):
    """A byte every 100 ms resets an idle timer (75 s) for ever; the deadline is for the headers as a whole."""
    with Yard(tmp_path, settings={"header_timeout_ms": 1500}) as yard:
        end = time.monotonic() + 60
        with socket.create_connection(yard.address, timeout=60) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
            with pytest.raises(ConnectionError):
                while time.monotonic() < end:
                    client.sendall(b"a")
                    time.sleep(0.1)


def test_as_many_idle_clients_as_there_are_places(tmp_path):
    """Every place taken by a silent client: places come free again, and the Unix socket and others get theirs."""
    with Yard(tmp_path, settings={"connections": 32, "header_timeout_ms": 1000, "idle_timeout_ms": 2000}) as yard:
        clients = []
        for _ in range(64):
            try:
                clients.append(socket.create_connection(yard.address, timeout=60))
            except OSError:
                break
        yard.wait_for(lambda: answers(yard), 60, "a place to come free")
        for client in clients:
            client.close()
        yard.wait_for(lambda: answers(yard), 60, "an answer")


def answers(yard):
    try:
        return yard.get("/healthz", timeout=2).status == 200
    except OSError:
        return False


def test_valid_is_valid(yard):
    """The request the damage starts from is a good one, field by field, or the tests above prove nothing."""
    job = copy.deepcopy(valid())
    reply = yard.call("POST", JOBS, job)
    assert reply.status == 200, reply
    assert yard.wait(reply.json["name"])["state"] == "JOB_STATE_SUCCEEDED"


def test_data_folder_that_no_path_can_name(tmp_path):
    """PATH and Python's environments split at ':', so nothing in such a folder would be found."""
    done = subprocess.run([BINARY, "serve", "--data", tmp_path / "a:b", "--listen", "127.0.0.1:0"], capture_output=True,
                          text=True, env=clean_environment(), timeout=60)
    assert done.returncode != 0 and "has a ':' in its path" in done.stderr and "--data" in done.stderr, done
