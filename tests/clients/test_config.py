"""trainyard config: the project and region of commands, shared with real gcloud."""
import json

import pytest


@pytest.fixture
def run(yard):
    def run(*words, expect=0, **rest):
        result = yard.trainyard(*words, **rest)
        assert result.returncode == expect, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result
    return run


def test_set_get_unset_list(run, yard):
    assert run("config", "get", "project").stdout == "trainyard\n"
    assert run("config", "set", "project", "another").stderr == "Updated property [core/project].\n"
    run("config", "set", "region", "europe-west4")
    run("config", "set", "project", "example.com:another")
    run("config", "set", "project", "another")
    run("config", "set", "compute/region", "europe-west1")
    assert run("config", "get-value", "core/project").stdout == "another\n"
    assert run("config", "list").stdout == "[core]\nproject = another\n[ai]\nregion = europe-west4\n[compute]\nregion = europe-west1\n"
    assert json.loads(run("config", "list", "--format=json").stdout)["ai"] == {"region": "europe-west4"}
    made = run("ai", "custom-jobs", "create", "--display-name=x", "--worker-pool-spec=container-image-uri=host,machine-type=n1-standard-4",
               "--command=true", "--format=value(name)").stdout
    assert made.startswith("projects/another/locations/europe-west4/")
    yard.restart()
    assert run("config", "get", "project").stdout == "another\n"
    assert run("config", "unset", "project").stderr == "Unset property [core/project].\n"
    unset = run("config", "get", "project")
    assert (unset.stdout, unset.stderr) == ("", "(unset)\n")


@pytest.mark.parametrize("name", ["BAD_NAME", "a.b", "-x", "x-", "x" * 64])
def test_a_project_that_is_none_is_refused(run, name):
    assert "is not a valid project ID" in run("config", "set", "project", "--", name, expect=1).stderr
    assert run("config", "get", "project").stdout == "trainyard\n"


def test_real_gcloud_sees_the_same(run, yard, gcloud):
    run("config", "set", "project", "seen-by-both")
    assert yard.run(gcloud, "config", "get", "project").stdout == "seen-by-both\n"
    assert yard.run(gcloud, "config", "set", "ai/region", "us-east1").returncode == 0
    assert run("config", "get", "region").stdout == "us-east1\n"
    assert run("config", "get", "project").stdout == "seen-by-both\n"


def test_as_gcloud_the_rest_is_for_the_real_one(yard, gcloud):
    script = 'eval "$(trainyard env --shims)"; gcloud config get project; gcloud config get account'
    assert yard.run("bash", "-c", script).stdout.splitlines() == ["trainyard", "trainyard@trainyard.iam.gserviceaccount.com"]


def test_a_folder_of_others_is_left_alone(run, tmp_path):
    folder = tmp_path / "own"
    (folder / "configurations").mkdir(parents=True)
    theirs = folder / "configurations" / "config_default"
    theirs.write_text("[core]\n# mine\nproject = real\n")
    errors = run("config", "set", "project", "x", expect=1, environment={"CLOUDSDK_CONFIG": str(folder)}).stderr
    assert "not Trainyard's" in errors and theirs.read_text() == "[core]\n# mine\nproject = real\n"


def test_a_variable_that_wins_is_named(run):
    errors = run("config", "set", "project", "x", environment={"CLOUDSDK_CORE_PROJECT": "y"}).stderr
    assert "CLOUDSDK_CORE_PROJECT" in errors and "wins" in errors
    assert "none of project" in run("config", "set", "account", "x", expect=2).stderr
