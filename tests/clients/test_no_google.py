"""After eval "$(trainyard env)" no client reaches Google: where all names lead to a recording fake, it records nothing."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("needs root, for a network namespace")
    if not shutil.which("unshare") or not shutil.which("ip"):
        pytest.skip("needs unshare and ip")
    spaces = ["unshare", "--net", "--mount", "--"]
    if subprocess.run([*spaces, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine allows no network namespaces")
    script = pathlib.Path(__file__).with_name("no_google.py")
    result = subprocess.run([*spaces, sys.executable, script, tmp_path_factory.mktemp("fake")],
                            capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return json.loads(next(line for line in result.stdout.splitlines() if line.startswith("RESULT "))[len("RESULT "):])


def test_the_fake_records(record):
    assert record["before"]["probe"]["connections"] and "storage.googleapis.com" in record["before"]["probe"]["lookups"]


def test_real_clients_were_there(record):
    if not record["after"]:
        pytest.skip("neither gcloud, gsutil nor the Python SDK is on this machine")


def test_no_client_connects_to_google(record):
    leaks = {label: f"{r['connections']} after asking for {r['lookups']}: {r['tail'][-200:]}"
             for label, r in record["after"].items() if r["connections"]}
    assert not leaks, json.dumps(leaks, indent=1)


def test_what_we_serve_comes_here(record):
    for label in set(record["served"]) & set(record["after"]):
        assert record["after"][label]["status"] == 0, (label, record["after"][label])
