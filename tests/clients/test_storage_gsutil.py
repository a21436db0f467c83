"""Real gsutil, which speaks TLS only, as a user runs it after eval "$(trainyard env)"."""
import os
import signal
import ssl
import subprocess
import urllib.request

import pytest
from files import sizes

MEGA = 1 << 20


@pytest.fixture
def run(warm_gsutil):
    def run(*words, expect=0):
        result = warm_gsutil(*words)
        assert result.returncode == expect, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result
    return run


def test_one_port_speaks_both(shared_yard):
    """Plain and TLS, and links lead back to the one that was used."""
    shared_yard.call("POST", "/storage/v1/b?project=p", {"name": "both-ways"})
    context = ssl.create_default_context(cafile=shared_yard.data / "tls" / "cert.pem")
    for base, options in ((shared_yard.url, {}), (shared_yard.url.replace("http:", "https:"), {"context": context})):
        with urllib.request.urlopen(f"{base}/storage/v1/b/both-ways", timeout=30, **options) as reply:
            assert f'"selfLink":"{base}/storage/v1/b/both-ways"' in reply.read().decode()
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(shared_yard.url.replace("http:", "https:"), timeout=30)


def test_the_command_itself(shared_yard, gsutil):
    """With the wrapper that the other tests go around."""
    assert shared_yard.run(gsutil, "mb", "-l", "us-central1", "gs://gsutil-itself").returncode == 0
    assert "gs://gsutil-itself/\n" in shared_yard.run(gsutil, "ls").stdout


def test_a_day_with_gsutil(run, shared_yard, tmp_path):
    bucket = "gs://gsutil-day"
    folder = shared_yard.data / "buckets" / "gsutil-day"
    assert f"Creating {bucket}/" in run("mb", "-l", "us-central1", bucket).stderr
    assert "409" in run("mb", bucket, expect=1).stderr
    tree = tmp_path / "tree"
    for name in ("a.txt", "sub/b.txt"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(name)
    run("cp", tree / "a.txt", f"{bucket}/a.txt")
    run("-m", "cp", "-r", tree, f"{bucket}/")
    assert (folder / "tree" / "sub" / "b.txt").read_text() == "sub/b.txt"
    assert run("cat", "-r", "1-3", f"{bucket}/a.txt").stdout == ".tx"
    listed = run("ls", "-l", "-r", bucket).stdout
    assert "TOTAL: 3 objects, 19 bytes" in listed and f"{bucket}/tree/sub/b.txt" in listed
    assert "Hash (md5)" in run("stat", f"{bucket}/a.txt").stdout
    run("compose", f"{bucket}/a.txt", f"{bucket}/tree/a.txt", f"{bucket}/both")
    assert (folder / "both").read_text() == "a.txta.txt"
    run("cp", f"{bucket}/both", f"{bucket}/copied")
    run("mv", f"{bucket}/both", f"{bucket}/moved")
    assert (folder / "copied").read_text() == (folder / "moved").read_text() == "a.txta.txt"
    run("rm", f"{bucket}/copied")
    assert f"{bucket}/tree/\n" in run("ls", bucket).stdout and not (folder / "copied").exists()
    run("-h", "x-goog-if-generation-match:0", "cp", tree / "a.txt", f"{bucket}/once")
    assert "PreconditionException: 412" in run("-h", "x-goog-if-generation-match:0", "cp", tree / "a.txt", f"{bucket}/once", expect=1).stderr
    assert "NotEmptyException: 409" in run("rb", bucket, expect=1).stderr
    run("rsync", "-r", tree, f"{bucket}/tree")
    run("rm", "-r", bucket)
    assert "404" in run("ls", bucket, expect=1).stderr and not folder.exists()


def test_files_put_by_hand(run, shared_yard, tmp_path):
    """gsutil takes hashes from the list and refuses objects that have none. What is no plain file is no object."""
    folder = shared_yard.data / "buckets" / "gsutil-hand"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("there before the bucket")
    shared_yard.trainyard("storage", "buckets", "create", "gs://gsutil-hand", check=True)
    (folder / "sub" / "b.bin").write_bytes(bytes(range(256)) * 4096)
    (folder / "link").symlink_to("a.txt")
    os.mkfifo(folder / "pipe")
    (folder / os.fsdecode(b"latin-\xe9")).write_text("not UTF-8")
    run("cp", "-r", "gs://gsutil-hand", tmp_path)
    copied = tmp_path / "gsutil-hand"
    assert sorted(str(p.relative_to(copied)) for p in copied.rglob("*") if not p.is_dir()) == ["a.txt", "sub/b.bin"]
    for name in ("a.txt", "sub/b.bin"):
        assert (copied / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.slow
def test_200_mb_with_an_interruption(run, gsutil, shared_yard, tmp_path, warm_gsutil):
    """gsutil is killed in the middle; the next one takes up the same session. Then back."""
    large = tmp_path / "large"
    with open(large, "wb") as file:  # zeros but for a mark at every 7 MB
        file.truncate(200 * MEGA)
        for i in range(0, 200, 7):
            file.seek(i * MEGA)
            file.write(b"%d" % i)
    run("mb", "gs://gsutil-large")
    killed = subprocess.Popen([gsutil, "cp", large, "gs://gsutil-large/large"], stderr=subprocess.PIPE, start_new_session=True,
                              env={**shared_yard.client_environment(), "HOME": warm_gsutil.home})
    staging = shared_yard.data / "staging"
    shared_yard.wait_for(lambda: max(sizes(staging), default=0) > 16 * MEGA
                         or killed.poll() is not None, 60, "an upload")
    assert killed.poll() is None, killed.communicate()
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert "Resuming upload for" in run("cp", large, "gs://gsutil-large/large").stderr
    stored = shared_yard.data / "buckets" / "gsutil-large" / "large"
    assert subprocess.run(["cmp", large, stored]).returncode == 0
    run("cp", "gs://gsutil-large/large", tmp_path / "back")
    assert subprocess.run(["cmp", large, tmp_path / "back"]).returncode == 0
    assert shared_yard.rss_kb() < 60 * 1024


MTIME = "goog-reserved-file-mtime"


def test_times_are_kept(run, shared_yard, tmp_path):
    """cp -P carries them both ways; rsync goes by them, and sends a missing one without the bytes."""
    bucket, times = "gs://gsutil-times", {"a.txt": 1_000_000_000, "sub/b.txt": 1_234_567_890}
    run("mb", bucket)

    def metadata(name):
        return shared_yard.get(f"/storage/v1/b/gsutil-times/o/{name.replace('/', '%2F')}").json
    tree = tmp_path / "tree"
    for name, when in times.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(name)
        os.utime(tree / name, (when, when))
    run("cp", "-P", tree / "a.txt", f"{bucket}/posix/a.txt")
    assert metadata("posix/a.txt")["metadata"][MTIME] == "1000000000"
    run("cp", "-P", f"{bucket}/posix/a.txt", tmp_path / "back.txt")
    assert int((tmp_path / "back.txt").stat().st_mtime) == 1_000_000_000
    run("rsync", "-r", tree, f"{bucket}/tree")
    before = {name: metadata(f"tree/{name}") for name in times}
    assert {name: int(before[name]["metadata"][MTIME]) for name in times} == times
    assert "Copying file" not in run("rsync", "-r", tree, f"{bucket}/tree").stderr
    (tmp_path / "down").mkdir()
    run("rsync", "-r", f"{bucket}/tree", tmp_path / "down")
    assert {name: int((tmp_path / "down" / name).stat().st_mtime) for name in times} == times
    run("cp", tree / "a.txt", f"{bucket}/plain/a.txt")
    before = metadata("plain/a.txt")
    assert "metadata" not in before
    assert "Copying mtime" in run("rsync", "-c", tree, f"{bucket}/plain").stderr
    after = metadata("plain/a.txt")
    assert after["metadata"][MTIME] == "1000000000" and after["generation"] == before["generation"], "a patch, no upload"
    run("setmeta", "-h", f"x-goog-meta-{MTIME}:1", f"{bucket}/tree/a.txt")
    assert metadata("tree/a.txt")["metadata"][MTIME] == "1"


def test_a_bucket_is_no_address(run):
    said = run("mb", "gs://192.168.5.4", expect=1)
    assert "IP address in dotted-decimal" in said.stderr, said
