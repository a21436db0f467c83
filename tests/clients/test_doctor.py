"""trainyard doctor: what is wrong is named, with the fix in words."""
import json
import os
import socket
import subprocess

import pytest
from replicas import free_ports
from yard import BINARY, clean_environment


def doctor(data, expect, **environment):
    result = subprocess.run([BINARY, "doctor", "--data", data, "--format=json"], capture_output=True, text=True, timeout=120,
                            env={**clean_environment(), **environment})
    assert result.returncode == expect, result.stdout + result.stderr
    return {row["check"]: row for row in json.loads(result.stdout)}


def test_of_a_running_server(yard):
    yard.data.chmod(0o700)  # as `serve` makes it; this one was there before
    rows = doctor(yard.data, 0)
    assert rows["server"]["result"] == "ok" and yard.url in rows["server"]["detail"]
    assert f"held by the server: process {yard.process.pid} (trainyard)" in rows["listen port"]["detail"]
    assert f"{len(os.sched_getaffinity(0))} cores" in rows["machine"]["detail"]
    for check in ("settings", "data folder", "disk", "peer check"):
        assert rows[check]["result"] == "ok", rows[check]


def test_a_folder_that_is_no_bucket(yard):
    """What a job leaves that writes to /gcs/NAME without a bucket NAME: said by doctor and by 404s, and adopted."""
    folder = yard.data / "buckets" / "typo-bucket"
    folder.mkdir(parents=True)
    (folder / "model.txt").write_text("trained\n")
    row = doctor(yard.data, 0)["buckets"]
    assert row["result"] == "note" and "typo-bucket" in row["detail"] and "buckets create gs://NAME" in row["detail"], row
    environment = {**yard.client_environment(), "TRAINYARD_DATA": str(yard.data)}

    def storage(*words):
        return subprocess.run([BINARY, "storage", *words], capture_output=True, text=True, timeout=120, env=environment)
    said = "there is a folder of that name in the data folder's buckets/: 'trainyard storage buckets create gs://typo-bucket'"
    for words in (["ls", "gs://typo-bucket"], ["cat", "gs://typo-bucket/model.txt"], ["buckets", "describe", "gs://typo-bucket"],
                  ["cp", BINARY.parent / "build.ninja", "gs://typo-bucket/x"]):
        result = storage(*words)
        assert result.returncode == 1 and said in result.stderr and "of Google's" not in result.stderr, result
    for method, path in (("GET", ""), ("GET", "/o"), ("GET", "/o/model.txt"), ("DELETE", "")):
        reply = yard.call(method, "/storage/v1/b/typo-bucket" + path)
        assert reply.status == 404 and said in reply.json["error"]["message"], reply
    assert "folder" not in yard.get("/storage/v1/b/no-such-bucket").json["error"]["message"]
    assert storage("buckets", "create", "gs://typo-bucket").returncode == 0
    assert storage("cat", "gs://typo-bucket/model.txt").stdout == "trained\n"
    assert doctor(yard.data, 0)["buckets"]["result"] == "ok"


def test_without_a_data_folder(tmp_path):
    rows = doctor(tmp_path / "none", 0)
    assert rows["data folder"]["result"] == "note" and "'trainyard serve' makes it" in rows["data folder"]["detail"]
    assert "disk" not in rows


def test_a_folder_others_can_read(tmp_path):
    tmp_path.chmod(0o755)
    row = doctor(tmp_path, 0)["data folder"]
    assert row["result"] == "note" and f"chmod 700 '{tmp_path}'" in row["detail"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else(tmp_path):
    os.chown(tmp_path, 12345, 12345)
    row = doctor(tmp_path, 1)["data folder"]
    assert row["result"] == "missing" and "belongs to user 12345" in row["detail"] and "chown" in row["detail"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide the machine's authorities")
def test_a_machine_without_certificate_authorities(tmp_path):
    hidden = "mount -t tmpfs none /etc/ssl; test ! -d /etc/pki || mount -t tmpfs none /etc/pki; "
    environment = {k: v for k, v in clean_environment().items() if k not in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")}
    for script, result in ((hidden, "note"), ("", "ok")):
        ran = subprocess.run(["unshare", "-m", "sh", "-c", f'{script} exec "$0" "$@"', BINARY, "doctor", "--data", tmp_path, "--format=json"],
                             capture_output=True, text=True, timeout=120, env=environment)
        row = {row["check"]: row for row in json.loads(ran.stdout)}["gs://"]
        assert row["result"] == result, row
        if script:
            assert "apt install ca-certificates" in row["detail"] and "/gcs/BUCKET" in row["detail"], row
            assert "SSL_CERT_FILE" in row["detail"] and "start the server again" in row["detail"], row


def test_a_data_folder_that_cannot_be_preloaded_from(tmp_path):
    (tmp_path / "a b").mkdir(mode=0o700)
    row = doctor(tmp_path / "a b", 0)["gs://"]
    assert row["result"] == "note" and "has a space" in row["detail"] and "--data" in row["detail"], row


def test_a_file_for_a_folder(tmp_path):
    (tmp_path / "x").write_text("")
    assert "is no folder" in doctor(tmp_path / "x", 1)["data folder"]["detail"]


def test_a_port_that_is_taken(tmp_path):
    (port,) = free_ports(1)  # nobody else takes it when we have closed it
    with socket.create_server(("127.0.0.1", port)):
        (tmp_path / "trainyard.conf").write_text(f"listen = 127.0.0.1:{port}\n")
        row = doctor(tmp_path, 1, TRAINYARD_URL="http://127.0.0.1:1")["listen port"]
    assert row["result"] == "missing" and f"{port} is held by process {os.getpid()}" in row["detail"] and "--listen" in row["detail"]
    assert doctor(tmp_path, 0, TRAINYARD_URL="http://127.0.0.1:1")["listen port"]["result"] == "ok"


def test_settings_that_are_wrong(tmp_path):
    (tmp_path / "trainyard.conf").write_text("bogus = 1\n")
    row = doctor(tmp_path, 1)["settings"]
    assert row["result"] == "missing" and "bogus" in row["detail"]


def test_a_disk_below_the_reserve(tmp_path):
    (tmp_path / "trainyard.conf").write_text("disk_reserve_bytes = 1099511627776\n")
    free = os.statvfs(tmp_path)
    if free.f_bavail * free.f_frsize > 1099511627776:
        pytest.skip("more than 1 TiB is free here")
    row = doctor(tmp_path, 1)["disk"]
    assert row["result"] == "missing" and "disk_reserve_bytes" in row["detail"]
