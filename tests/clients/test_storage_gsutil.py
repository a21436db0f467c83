"""Real gsutil, which speaks TLS only, as a user runs it after eval "$(trainyard env)"."""
import random
import ssl
import urllib.request

import pytest

MEGA = 1 << 20


@pytest.fixture
def run(shared_yard, gsutil):
    def run(*words, expect=0, timeout=300):
        result = shared_yard.run(gsutil, *words, timeout=timeout)
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
    run("mv", f"{bucket}/both", f"{bucket}/moved")
    assert "NotEmptyException: 409" in run("rb", bucket, expect=1).stderr
    run("rsync", "-r", tree, f"{bucket}/tree")
    run("rm", "-r", bucket)
    assert "404" in run("ls", bucket, expect=1).stderr and not folder.exists()


@pytest.mark.slow
def test_200_mb(run, shared_yard, tmp_path):
    data = random.Random(2).randbytes(200 * MEGA)
    (tmp_path / "large").write_bytes(data)
    run("mb", "gs://gsutil-large")
    run("cp", tmp_path / "large", "gs://gsutil-large/large")
    assert (shared_yard.data / "buckets" / "gsutil-large" / "large").read_bytes() == data
    run("cp", "gs://gsutil-large/large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data
    assert shared_yard.rss_kb() < 60 * 1024
