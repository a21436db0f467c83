"""Through a link named gcloud or gsutil we are that command; what we lack is the real one's business."""
import os
import shutil

import pytest
from yard import BINARY

HOST = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=host"


@pytest.fixture
def shell(yard, tmp_path):
    """Run a line in a shell that has evaluated `trainyard env --shims`, with a "real" gcloud further down PATH or none."""
    real, tools = tmp_path / "real", tmp_path / "tools"
    real.mkdir(), tools.mkdir()
    for name in ("sh", "basename"):  # and nothing else: this machine may have a gcloud of its own
        (tools / name).symlink_to(shutil.which(name))

    def run(line, with_real=True):
        for name in ("gcloud", "gsutil"):
            (real / name).unlink(missing_ok=True)
            if with_real:
                (real / name).write_text('#!/bin/sh\necho "the real $(basename "$0"): $*"\nexit 7\n')
                (real / name).chmod(0o755)
        script = f'eval "$("{BINARY}" env --shims --data "{yard.data}")"; PATH=$PATH:{real}; {line}'
        return yard.run(shutil.which("bash"), "-c", script, environment={"PATH": str(tools), "TRAINYARD_ENV": "", "TRAINYARD_DATA": str(yard.data)})
    return run


def test_what_we_do_is_done_here(shell, yard):
    made = shell(f"gcloud ai custom-jobs create --display-name=x {HOST} --command=true --format='value(name)'")
    assert made.returncode == 0 and "the real" not in made.stdout, made.stderr
    assert "  $ gcloud ai custom-jobs describe " in made.stderr
    assert yard.describe(made.stdout.strip())["displayName"] == "x"
    assert "called as gcloud" in shell("gcloud version").stdout


@pytest.mark.parametrize("line, words", [
    ("gcloud compute instances list --format=json", "the real gcloud: compute instances list --format=json"),
    ("gcloud config set compute/zone z", "the real gcloud: config set compute/zone z"),
    ("gcloud ai models list", "the real gcloud: ai models list"),
    ("gsutil acl get 'gs://a b'", "the real gsutil: acl get gs://a b"),
    ("gsutil -m --frob ls", "the real gsutil: -m --frob ls"),
])
def test_what_we_lack_is_given_to_the_real_one(shell, line, words):
    result = shell(line)
    assert (result.returncode, result.stdout.strip()) == (7, words), result.stderr


@pytest.mark.parametrize("line", ["gcloud compute instances list", "gcloud ai models list", "gsutil acl get", "gcloud config set compute/zone z"])
def test_without_a_real_one_it_is_2_and_says_so(shell, line):
    result = shell(line, with_real=False)
    assert result.returncode == 2 and result.stdout == ""
    assert "there is no other command of that name on PATH" in result.stderr and " ".join(line.split()[1:3]) in result.stderr


def test_another_link_to_us_is_not_the_real_one(shell, tmp_path):
    again = tmp_path / "again"
    again.mkdir()
    os.symlink(BINARY, again / "gcloud")
    result = shell(f"PATH=$PATH:{again}; gcloud compute list", with_real=False)
    assert result.returncode == 2, "it ran itself"


def test_a_shell_that_is_not_pointed_here_never_reaches_the_real_one(yard, tmp_path):
    link = tmp_path / "gcloud"
    link.symlink_to(BINARY)
    result = yard.run("sh", "-c", f"unset TRAINYARD_ENV; '{link}' compute instances list")
    assert result.returncode == 2 and "has not evaluated 'trainyard env'" in result.stderr
