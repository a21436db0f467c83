"""google-cloud-storage from PyPI: a plain storage.Client(), nothing about us in the user's code."""
import pathlib
import subprocess
import time

import pytest
from yard import Yard

SCRIPT = pathlib.Path(__file__).with_name("sdk_storage.py")


@pytest.fixture
def scenario(shared_yard, sdk_python, tmp_path):
    def run(name):
        result = shared_yard.run(sdk_python, SCRIPT, name, f"py-{name}", tmp_path, timeout=300)
        assert result.returncode == 0 and "DONE" in result.stdout, result.stdout + result.stderr
    return run


@pytest.mark.parametrize("name", ["buckets", "objects", "ranges", "lists", "derived", "conditions", "versions", "zipped"])
def test_storage(scenario, name):
    scenario(name)


def test_objects_are_plain_files(scenario, shared_yard):
    scenario("derived")
    assert (shared_yard.data / "buckets" / "py-derived" / "composed").read_bytes() == b"abc" * 4


@pytest.mark.slow
def test_large_transfers_leave_the_server_small(scenario, shared_yard):
    scenario("large")
    assert shared_yard.rss_kb() < 60 * 1024


def test_upload_goes_on_after_kill_9(sdk_python, tmp_path):
    with Yard(tmp_path / "yard") as yard:
        environment = yard.client_environment()
        client = subprocess.Popen([sdk_python, SCRIPT, "interrupted", "py-interrupted", tmp_path], env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        yard.wait_for(lambda: (tmp_path / "half").exists() or client.poll() is not None, 60, "half of the upload")
        assert client.poll() is None, client.communicate()[0]
        yard.restart()
        (tmp_path / "go").touch()
        output = client.communicate(timeout=120)[0]
        assert client.returncode == 0 and "DONE" in output, output
        assert list((yard.data / "staging").iterdir()) == []
