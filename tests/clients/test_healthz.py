"""The server itself: it answers, it measures, it holds its folder alone."""
import json
import socket
import subprocess

from yard import BINARY, Yard, clean_environment


def test_healthz(yard):
    reply = yard.get("/healthz")
    assert reply.status == 200
    assert b"ok" in reply.body.lower()


def test_metrics_are_prometheus_text(yard):
    yard.wait(yard.create("true"))
    reply = yard.get("/metrics")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain")
    samples = {}
    for line in reply.body.decode().splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            samples[name] = float(value)
    assert samples and all(name.startswith(("trainyard_", "process_")) for name in samples)
    succeeded = [v for k, v in samples.items() if "SUCCEEDED" in k or "succeeded" in k]
    assert succeeded == [1.0], samples


def test_answers_on_ipv4_ipv6_and_unix_socket(yard):
    port = yard.address[1]
    for family, address in ((socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port))):
        with socket.socket(family) as client:
            client.settimeout(60)
            client.connect(address)
            host = "[::1]" if family == socket.AF_INET6 else "127.0.0.1"
            client.sendall(f"GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            assert client.recv(64).startswith(b"HTTP/1.1 200"), family
    sockets = [p for p in yard.data.iterdir() if p.is_socket()]
    assert len(sockets) == 1, "one Unix socket in the data folder"
    assert sockets[0].stat().st_mode & 0o777 == 0o600


def test_nobody_else_reads_the_secrets(yard):
    """A folder the user made keeps its mode (containers of other users reach the library in it); what is secret is closed
    by itself. One we make is closed whole."""
    token = (yard.data / "client/token").read_text().strip()
    for path in (p for p in yard.data.rglob("*") if p.is_file() and not p.is_symlink()):
        if path.stat().st_mode & 0o077 and token.encode() in path.read_bytes():
            closed = [p for p in path.parents if p.is_relative_to(yard.data) and p.stat().st_mode & 0o011 == 0]
            assert closed, f"others can read the token in {path}"
    made = yard.folder / "made"
    subprocess.run([BINARY, "serve", "--data", made, "--listen", "example.com:80"], env=clean_environment(), capture_output=True, timeout=60)
    assert made.stat().st_mode & 0o077 == 0


def test_second_server_of_a_folder_names_the_first(yard):
    second = subprocess.run([BINARY, "serve", "--data", yard.data, "--listen", "127.0.0.1:0"], env=clean_environment(),
                            capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    assert str(yard.process.pid) in second.stderr


def test_only_loopback_addresses_are_served(tmp_path):
    for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:7575", "example.com:80", "127.0.0.1", "127.0.0.1:99999"):
        result = subprocess.run([BINARY, "serve", "--data", tmp_path / "data", "--listen", address],
                                env=clean_environment(), capture_output=True, text=True, timeout=60)
        assert result.returncode in (1, 2), (address, result)
        assert address.rsplit(":", 1)[0].strip("[]") in result.stderr, result.stderr


def test_taken_port_is_named(yard, tmp_path):
    port = yard.address[1]
    result = subprocess.run([BINARY, "serve", "--data", tmp_path / "other", "--listen", f"127.0.0.1:{port}"],
                            env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and str(port) in result.stderr, result


def test_restart_keeps_jobs_and_logs(tmp_path):
    with Yard(tmp_path) as yard:
        done = yard.create("sh", "-c", "echo before")
        yard.wait(done)
        going = yard.create("sh", "-c", "echo one; sleep 3; echo two")
        yard.wait(going, "JOB_STATE_RUNNING")
        yard.restart()
        assert yard.describe(done)["state"] == "JOB_STATE_SUCCEEDED"
        assert yard.lines(done) == ["before"]
        assert yard.wait(going)["state"] == "JOB_STATE_SUCCEEDED"
        assert yard.lines(going) == ["one", "two"]


def test_errors_carry_a_request_id_and_the_google_shape(yard):
    reply = yard.get("/v1/projects/demo/locations/us-central1/customJobs/1")
    assert reply.status == 404
    error = reply.json["error"]
    assert error["code"] == 404 and error["status"] == "NOT_FOUND" and error["message"]
    assert "access-control-allow-origin" not in reply.headers
    assert json.dumps(reply.json)
