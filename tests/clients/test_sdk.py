"""google-cloud-aiplatform from PyPI over REST: a plain aiplatform.init, nothing about us in the user's code."""
import json
import pathlib

import pytest


@pytest.fixture
def sdk(shared_yard, sdk_python, tmp_path):
    def run(scenario):
        script = pathlib.Path(__file__).with_name("sdk_jobs.py")
        result = shared_yard.run(sdk_python, script, scenario, tmp_path / "out", timeout=120)
        assert result.returncode == 0, result.stdout + result.stderr
        line = next(text for text in result.stdout.splitlines() if text.startswith("RESULT "))
        return json.loads(line[len("RESULT "):])
    return run


def test_run_to_succeeded(sdk, shared_yard, tmp_path):
    result = sdk("run")
    assert result["state"] == "JOB_STATE_SUCCEEDED"
    job = shared_yard.describe(result["name"])
    assert job["labels"] == {"from": "sdk"} and job["state"] == "JOB_STATE_SUCCEEDED"
    assert shared_yard.lines(result["name"])[0].rstrip("/") == str(tmp_path / "out" / "model")
    assert (tmp_path / "out" / "model").is_dir()


def test_failing_job_raises_with_our_message(sdk, shared_yard):
    result = sdk("fail")
    message = shared_yard.describe(result["name"])["error"]["message"]
    assert "no such column: fare" in message and "workerpool0-0" in message
    assert "no such column: fare" in result["raised"]


def test_list_with_filter(sdk, shared_yard):
    wanted = [shared_yard.create("true", display_name="sdk-list") for _ in range(2)]
    for name in wanted + [shared_yard.create("true", display_name="sdk-list-not")]:
        shared_yard.wait(name)
    assert sorted(sdk("listing")) == sorted(wanted)


def test_cancel(sdk, shared_yard):
    assert shared_yard.wait(sdk("cancel")["name"])["state"] == "JOB_STATE_CANCELLED"


def test_delete(sdk, shared_yard):
    assert shared_yard.get("/v1/" + sdk("delete")["name"]).status == 404


def test_default_output_in_a_bucket_that_is_not_there(sdk):
    """The SDK's own default is the staging bucket: the refusal says how to make it."""
    result = sdk("bucket")
    assert "trainyard storage buckets create gs://" in (result["raised"] or ""), result
