"""What test_sdk.py runs with the SDK's own Python, after eval "$(trainyard env)": python sdk_jobs.py SCENARIO FOLDER.

A user's own code: nothing here knows about Trainyard, except that output goes to a folder (base_output_dir), because
there are no buckets yet.
"""
import json
import sys

from google.cloud import aiplatform

scenario, folder = sys.argv[1:]
aiplatform.init(project="trainyard", location="us-central1", staging_bucket="gs://no-bucket-yet")


def job(name, *command, **rest):
    pools = [{"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1,
              "container_spec": {"image_uri": "host", "command": list(command)}}]
    return aiplatform.CustomJob(display_name=name, worker_pool_specs=pools, base_output_dir=folder, **rest)


def run():
    made = job("sdk-run", "sh", "-c", 'echo "$AIP_MODEL_DIR" && mkdir -p "$AIP_MODEL_DIR"', labels={"from": "sdk"})
    made.run()
    return {"name": made.resource_name, "state": made.state.name}


def fail():
    made = job("sdk-fail", "sh", "-c", "echo no such column: fare >&2; exit 3")
    try:
        made.run()
    except RuntimeError as error:
        return {"name": made.resource_name, "raised": str(error)}
    return {"raised": None}


def listing():
    return [j.resource_name for j in aiplatform.CustomJob.list(filter='display_name="sdk-list" AND state="JOB_STATE_SUCCEEDED"')]


def cancel():
    made = job("sdk-cancel", "sleep", "600")
    made.submit()
    made.cancel()
    return {"name": made.resource_name}


def delete():
    made = job("sdk-delete", "true")
    made.run()
    made.delete()
    return {"name": made.resource_name}


def bucket():
    try:
        aiplatform.CustomJob(display_name="b", worker_pool_specs=[{
            "machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1,
            "container_spec": {"image_uri": "host", "command": ["true"]}}]).submit()
    except Exception as error:
        return {"kind": type(error).__name__, "raised": str(error)}
    return {"raised": None}


print("RESULT " + json.dumps(globals()[scenario]()))
