"""Real `gcloud storage`, as a user runs it after eval "$(trainyard env)"."""
import gzip
import json
import os
import signal
import subprocess

import pytest
from files import sizes

MEGA = 1 << 20


@pytest.fixture
def run(warm_storage):
    def run(*words, expect=0, **rest):
        result = warm_storage("storage", *words, **rest)
        assert result.returncode == expect, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result
    return run


@pytest.fixture
def bucket(run, request):
    name = "g-" + request.node.name.replace("_", "-").removeprefix("test-")[:40]
    run("buckets", "create", f"gs://{name}", "--location=us-central1")
    return name


def folder_of(yard, bucket):
    return yard.data / "buckets" / bucket


def test_buckets(run, bucket):
    assert f"gs://{bucket}/" in run("ls").stdout
    shown = json.loads(run("buckets", "describe", f"gs://{bucket}", "--format=json").stdout)
    assert shown["location"] == "US-CENTRAL1" and shown["name"] == bucket
    run("buckets", "update", f"gs://{bucket}", "--update-labels=team=a", "--versioning")
    shown = json.loads(run("buckets", "describe", f"gs://{bucket}", "--format=json").stdout)
    assert shown["labels"] == {"team": "a"} and shown["versioning_enabled"]
    assert "already" in run("buckets", "create", f"gs://{bucket}", "--location=us", expect=1).stderr
    run("buckets", "delete", f"gs://{bucket}")
    assert "not found: 404" in run("buckets", "describe", f"gs://{bucket}", expect=1).stderr


def test_cp_ls_cat_rm(run, bucket, shared_yard, tmp_path):
    (tmp_path / "a.txt").write_text("hello\n")
    run("cp", tmp_path / "a.txt", f"gs://{bucket}/dir/")
    assert (folder_of(shared_yard, bucket) / "dir" / "a.txt").read_text() == "hello\n"
    assert run("cat", f"gs://{bucket}/dir/a.txt").stdout == "hello\n"
    assert run("cat", "-r", "1-3", f"gs://{bucket}/dir/a.txt").stdout == "ell"
    assert f"gs://{bucket}/dir/" in run("ls", f"gs://{bucket}").stdout
    assert "TOTAL: 1 objects, 6 bytes" in run("ls", "-l", f"gs://{bucket}/dir/").stdout
    run("cp", f"gs://{bucket}/dir/a.txt", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "hello\n"
    assert "no-clobber" in run("cp", "-n", tmp_path / "a.txt", f"gs://{bucket}/dir/a.txt").stderr
    shown = json.loads(run("objects", "describe", f"gs://{bucket}/dir/a.txt", "--format=json").stdout)
    assert shown["size"] == 6 and shown["md5_hash"]
    run("rm", f"gs://{bucket}/dir/a.txt")
    assert "matched no objects" in run("rm", f"gs://{bucket}/dir/a.txt", expect=1).stderr


def test_folders(run, bucket, shared_yard, tmp_path):
    top = tmp_path / "tree"
    for name in ("a", "sub/b", "sub/deep/c"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)
    run("cp", "-r", top, f"gs://{bucket}/t")
    assert (folder_of(shared_yard, bucket) / "t" / "sub" / "deep" / "c").read_text() == "sub/deep/c"
    (tmp_path / "out").mkdir()
    run("cp", "-r", f"gs://{bucket}/t", tmp_path / "out")
    assert (tmp_path / "out" / "t" / "sub" / "deep" / "c").read_text() == "sub/deep/c"
    run("rsync", "-r", top, f"gs://{bucket}/synced")
    again = run("rsync", "-r", top, f"gs://{bucket}/synced").stderr
    assert "Copying" not in again
    run("cp", f"gs://{bucket}/t/a", f"gs://{bucket}/copied")
    run("mv", f"gs://{bucket}/t/sub/b", f"gs://{bucket}/moved")
    assert (folder_of(shared_yard, bucket) / "moved").read_text() == "sub/b"
    assert not (folder_of(shared_yard, bucket) / "t" / "sub" / "b").exists()
    run("objects", "compose", f"gs://{bucket}/copied", f"gs://{bucket}/moved", f"gs://{bucket}/composed")
    assert run("cat", f"gs://{bucket}/composed").stdout == "asub/b"
    run("objects", "update", f"gs://{bucket}/composed", "--content-type=text/x", "--custom-metadata=k=v")
    shown = json.loads(run("objects", "describe", f"gs://{bucket}/composed", "--format=json").stdout)
    assert shown["content_type"] == "text/x" and shown["custom_fields"] == {"k": "v"}
    run("rm", "-r", f"gs://{bucket}")
    assert not folder_of(shared_yard, bucket).exists()


def test_conditions(run, bucket, tmp_path):
    (tmp_path / "a").write_text("1")
    run("cp", tmp_path / "a", f"gs://{bucket}/a", "--if-generation-match=0")
    result = run("cp", tmp_path / "a", f"gs://{bucket}/a", "--if-generation-match=0", expect=1)
    assert "412" in result.stderr or "pre-conditions" in result.stderr


def test_gzip(run, bucket, shared_yard, tmp_path):
    (tmp_path / "a.txt").write_text("text " * 1000)
    run("cp", "-Z", tmp_path / "a.txt", f"gs://{bucket}/a.txt")
    stored = (folder_of(shared_yard, bucket) / "a.txt").read_bytes()
    assert gzip.decompress(stored) == b"text " * 1000
    run("cp", f"gs://{bucket}/a.txt", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "text " * 1000
    # gcloud marks it no-transform, so it goes out as it is; without the mark it is unzipped for who takes no gzip.
    reply = shared_yard.get(f"/{bucket}/a.txt")
    assert gzip.decompress(reply.body) == b"text " * 1000 and reply.headers["content-encoding"] == "gzip"
    run("objects", "update", f"gs://{bucket}/a.txt", "--cache-control=no-cache")
    reply = shared_yard.get(f"/{bucket}/a.txt")
    assert reply.body == b"text " * 1000 and "content-encoding" not in reply.headers


def large_file(path):
    """200 MB that are zeros but for a mark at every 7 MB: as cheap as can be, and no two pieces are the same."""
    with open(path, "wb") as file:
        file.truncate(200 * MEGA)
        for i in range(0, 200, 7):
            file.seek(i * MEGA)
            file.write(b"%d" % i)
    return path


def same(a, b):
    return subprocess.run(["cmp", a, b]).returncode == 0


@pytest.mark.slow
def test_200_mb(run, bucket, shared_yard, tmp_path):
    """By parts that are composed, and back in slices."""
    large = large_file(tmp_path / "large")
    run("cp", large, f"gs://{bucket}/composite")
    assert same(large, folder_of(shared_yard, bucket) / "composite")
    run("cp", f"gs://{bucket}/composite", tmp_path / "back")
    assert same(large, tmp_path / "back")
    assert shared_yard.rss_kb() < 60 * 1024
    assert sorted(p.name for p in folder_of(shared_yard, bucket).rglob("*") if p.is_file()) == ["composite"]


@pytest.mark.slow
def test_an_interrupted_upload_goes_on(run, bucket, gcloud, shared_yard, tmp_path):
    """gcloud is killed in the middle of a resumable upload; the next one takes up the same session."""
    large = large_file(tmp_path / "large")
    environment = {"CLOUDSDK_STORAGE_PARALLEL_COMPOSITE_UPLOAD_ENABLED": "False"}
    killed = subprocess.Popen([gcloud, "storage", "cp", large, f"gs://{bucket}/single"], stderr=subprocess.PIPE,
                              env={**shared_yard.client_environment(), **environment}, start_new_session=True)
    staging = shared_yard.data / "staging"
    arrived = shared_yard.wait_for(lambda: max(sizes(staging), default=0) > 16 * MEGA
                                   or killed.poll() is not None, 60, "an upload")
    assert arrived and killed.poll() is None, killed.communicate()
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    (staged,) = staging.iterdir()
    before = staged.stat()
    run("cp", large, f"gs://{bucket}/single", environment=environment)
    after = (folder_of(shared_yard, bucket) / "single").stat()
    assert after.st_ino == before.st_ino, "it began anew"
    assert same(large, folder_of(shared_yard, bucket) / "single")
