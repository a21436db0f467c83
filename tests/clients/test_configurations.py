"""config configurations: gcloud's own files, so that real gcloud and our command see the same ones."""
import json

import pytest


@pytest.fixture
def ours(shared_yard):
    def run(*words, expect=0):
        result = shared_yard.trainyard("config", "configurations", *words)
        assert result.returncode == expect, result.stderr
        return result
    return run


def test_real_gcloud_sees_what_we_make(ours, shared_yard, warm_gcloud):
    made = ours("create", "night")
    assert made.stderr == "Created [night].\nActivated [night].\n"
    try:
        assert warm_gcloud("config", "configurations", "list", "--format=value(name,is_active)").stdout == "default\tFalse\nnight\tTrue\n"
        assert shared_yard.trainyard("config", "set", "project", "night-project").returncode == 0
        assert shared_yard.trainyard("config", "set", "region", "europe-west4").returncode == 0
        assert warm_gcloud("config", "get", "project").stdout == "night-project\n"
        listed = warm_gcloud("ai", "custom-jobs", "list")
        assert listed.returncode == 0 and f"Using endpoint [{shared_yard.url}/]" in listed.stderr  # it leads here too
        # The first one is as it was.
        one = shared_yard.trainyard("config", "get", "project", "--configuration=default")
        assert one.stdout == "trainyard\n"
        assert warm_gcloud("config", "get", "project", "--configuration=default").stdout == "trainyard\n"
    finally:
        assert ours("activate", "default").stderr == "Activated [default].\n"
    assert shared_yard.trainyard("config", "get", "project").stdout == "trainyard\n"
    described = ours("describe", "night", "--format=json")
    assert json.loads(described.stdout)["properties"]["core"]["project"] == "night-project"
    assert ours("delete", "night", "--quiet").stderr.endswith("Deleted [night].\n")
    assert warm_gcloud("config", "configurations", "list", "--format=value(name)").stdout == "default\n"


def test_we_see_what_real_gcloud_makes(ours, warm_gcloud):
    assert warm_gcloud("config", "configurations", "create", "theirs", "--no-activate").returncode == 0
    assert ours("list", "--format=value(name,is_active)").stdout == "default\tTrue\ntheirs\tFalse\n"
    ours("delete", "theirs")
    assert "theirs" not in warm_gcloud("config", "configurations", "list").stdout


@pytest.mark.parametrize("words, says", [
    (("create", "Bad_Name"), "Invalid name [Bad_Name]"), (("create", "../x"), "Invalid name"), (("create", "default"), "already exists"),
    (("activate", "nope"), "does not exist"), (("delete", "nope"), "does not exist"), (("describe", "nope"), "does not exist"),
    (("delete", "default"), "is set as active")])
def test_mistakes(ours, words, says):
    assert says in ours(*words, expect=1).stderr


def test_a_folder_that_is_not_ours_stays_as_it_is(shared_yard, tmp_path):
    foreign = tmp_path / "gcloud"
    (foreign / "configurations").mkdir(parents=True)
    (foreign / "configurations" / "config_default").write_text("[core]\nproject = real\n")
    result = shared_yard.trainyard("config", "configurations", "create", "x", environment={"CLOUDSDK_CONFIG": str(foreign)})
    assert result.returncode == 1 and "not Trainyard's" in result.stderr
    assert [p.name for p in (foreign / "configurations").iterdir()] == ["config_default"]
