"""Real gcloud, as a user runs it after eval "$(trainyard env)"."""
import json
import re
import time

import pytest

HOST = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=host"


@pytest.fixture
def run(shared_yard, gcloud):
    def run(*words, expect=0, timeout=180):
        result = shared_yard.run(gcloud, *words, timeout=timeout)
        assert result.returncode == expect, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result
    return run


def submitted(result):
    return re.search(r"CustomJob \[(projects/[^\]]+)\] is submitted successfully", result.stderr)[1]


def test_create_from_flags(run, shared_yard):
    result = run("ai", "custom-jobs", "create", "--region=us-central1", "--display-name=from-flags", HOST,
                 "--command=sh,-c", "--args=^|^echo from gcloud: $0 $1|a,b|c", "--labels=team=a")
    name = submitted(result)
    assert shared_yard.url in result.stderr
    job = shared_yard.wait(name)
    assert job["state"] == "JOB_STATE_SUCCEEDED" and job["labels"] == {"team": "a"}
    assert shared_yard.lines(name) == ["from gcloud: a,b c"]


CAMEL = """
workerPoolSpecs:
  - machineSpec: {machineType: n1-standard-4}
    replicaCount: 1
    containerSpec: {imageUri: host, command: [echo, camel]}
"""
SNAKE = """
worker_pool_specs:
  - machine_spec: {machine_type: n1-standard-4}
    replica_count: 1
    container_spec: {image_uri: host, command: [echo, snake]}
"""


@pytest.mark.parametrize("text, line", [(CAMEL, "camel"), (SNAKE, "snake")], ids=["camelCase", "snake_case"])
def test_create_from_yaml(run, shared_yard, tmp_path, text, line):
    (tmp_path / "job.yaml").write_text(text)
    name = submitted(run("ai", "custom-jobs", "create", "--display-name=from-yaml", f"--config={tmp_path}/job.yaml"))
    assert shared_yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
    assert shared_yard.lines(name) == [line]


def test_unknown_key_is_refused_by_name(run, shared_yard, tmp_path):
    (tmp_path / "job.yaml").write_text(CAMEL + "bogusKey: 3\n")
    before = len(shared_yard.list())
    result = run("ai", "custom-jobs", "create", "--display-name=bogus", f"--config={tmp_path}/job.yaml", expect=1)
    assert "INVALID_ARGUMENT" in result.stderr and "bogusKey" in result.stderr
    assert len(shared_yard.list()) == before


def test_list_with_filter_and_describe(run, shared_yard):
    wanted = shared_yard.create("true", display_name="find-me")
    other = shared_yard.create("true", display_name="not-me")
    shared_yard.wait(wanted), shared_yard.wait(other)
    listed = json.loads(run("ai", "custom-jobs", "list", "--filter=displayName=find-me", "--format=json").stdout)
    assert [j["name"] for j in listed] == [wanted]
    described = run("ai", "custom-jobs", "describe", wanted.rsplit("/", 1)[1], "--region=us-central1")
    assert "state: JOB_STATE_SUCCEEDED" in described.stdout and wanted in described.stdout
    assert json.loads(run("ai", "custom-jobs", "describe", wanted, "--format=json").stdout) == shared_yard.describe(wanted)


def test_describe_of_no_job(run):
    assert "NOT_FOUND" in run("ai", "custom-jobs", "describe", "123", expect=1).stderr


def test_stream_logs_of_a_finished_job(run, shared_yard):
    name = shared_yard.create("sh", "-c", "echo one; echo two >&2")
    shared_yard.wait(name)
    time.sleep(5)  # gcloud asks for nothing younger
    result = run("ai", "custom-jobs", "stream-logs", name, "--polling-interval=1")
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert {"one", "two"} <= {line[3] for line in lines if line[2] == "workerpool0-0"}


def test_stream_logs_of_a_running_job_ends_with_it(run, shared_yard):
    name = shared_yard.create("sh", "-c", "for i in 1 2 3 4 5 6; do echo tick $i; sleep 1; done; echo last")
    shared_yard.wait(name, "JOB_STATE_RUNNING")
    result = run("ai", "custom-jobs", "stream-logs", name, "--polling-interval=1")
    printed = [line.split("\t")[3] for line in result.stdout.splitlines() if "\tworkerpool0-0\t" in line]
    assert printed == [f"tick {i}" for i in range(1, 7)] + ["last"]


def test_cancel(run, shared_yard):
    name = shared_yard.create("sleep", "600")
    shared_yard.wait(name, "JOB_STATE_RUNNING")
    assert "has been sent" in run("ai", "custom-jobs", "cancel", name).stderr
    assert shared_yard.wait(name)["state"] == "JOB_STATE_CANCELLED"


def test_beta_track(run, shared_yard):
    name = submitted(run("beta", "ai", "custom-jobs", "create", "--display-name=beta", HOST, "--command=true"))
    assert shared_yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
    assert name in run("beta", "ai", "custom-jobs", "list", "--limit=5").stdout


def test_config_set_project_works_and_stays(run, shared_yard):
    run("config", "set", "project", "other-project")
    try:
        assert run("config", "get-value", "project").stdout.strip() == "other-project"
        name = submitted(run("ai", "custom-jobs", "create", "--display-name=elsewhere", HOST, "--command=true"))
        assert name not in [j["name"] for j in shared_yard.list()]
        assert name in run("ai", "custom-jobs", "list").stdout
    finally:
        run("config", "set", "project", "trainyard")


def test_logging_read(run, shared_yard):
    name = shared_yard.create("sh", "-c", "echo good; echo broken >&2")
    shared_yard.wait(name)
    job_id = name.rsplit("/", 1)[1]
    base = f"resource.type=ml_job AND resource.labels.job_id={job_id}"
    everything = run("logging", "read", base, "--format=json")
    assert {"good", "broken"} <= {e.get("textPayload") or e.get("jsonPayload", {}).get("message") for e in json.loads(everything.stdout)}
    errors = json.loads(run("logging", "read", f"{base} AND severity>=ERROR", "--format=json", "--order=asc").stdout)
    assert ["broken"] == [e.get("textPayload") or e["jsonPayload"]["message"] for e in errors]
    assert "INVALID_ARGUMENT" in run("logging", "read", 'severity>="', expect=1).stderr


def test_print_access_token(run):
    token = run("auth", "print-access-token").stdout.strip()
    assert token and " " not in token
