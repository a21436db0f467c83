"""Who may talk to the server: processes of its own user, nobody else.

The dangerous moment is a peer that sends a request and closes at once: its socket then belongs to nobody (uid 0,
inode 0), which a careless "same uid or root" takes for root. So most strangers here do exactly that, while
the server is busy enough for its accept queue to lag behind.
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from yard import BINARY, PARENT, Yard, clean_environment, processes_of

NOBODY = 65534
JOBS = f"/v1/{PARENT}/customJobs"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")


def request(address, body, path=JOBS):
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


# Another user's program: send a valid create many times, then 0 and 1 close at once, 2 reset, 3 half-close and read,
# 4 read until dropped. It prints what it was answered, which must be nothing.
STRANGER = """
import errno, socket, struct, sys
host, port, number, times = sys.argv[1], *map(int, sys.argv[2:5])
evil = sys.stdin.buffer.read()
for turn in range(times):
    way = (number + turn) % 5
    with socket.socket() as client:
        client.settimeout(60)
        client.connect((host, port))
        try:
            if way == 2:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(evil)
            if way == 3:
                client.shutdown(socket.SHUT_WR)
            if way >= 3:
                sys.stdout.buffer.write(client.recv(4096))
        except OSError as error:
            if error.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
                raise  # to be dropped is all that may happen; to wait for it in vain is not
"""


def strangers(yard, processes, times):
    """So many programs of another user at once; returns what they were answered, and what went wrong with them."""
    evil = request(yard.address, yard.job("touch", "/tmp/trainyard-stranger-was-here", display_name="stranger"))
    python = os.path.realpath(sys.executable)  # not the venv's, which another user may not reach
    running = []
    for number in range(processes):
        process = subprocess.Popen([python, "-I", "-c", STRANGER, *map(str, yard.address), str(number), str(times)], cwd="/",
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   user=NOBODY, group=NOBODY, extra_groups=[])
        process.stdin.write(evil)
        process.stdin.close()
        process.stdin = None
        running.append(process)
    answers = [process.communicate(timeout=300)[0] for process in running]
    return [answer for answer in answers if answer]


def refused(yard):
    lines = yard.get("/metrics").body.decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("trainyard_http_refused_peers_total "))


@needs_root
@pytest.mark.slow
def test_another_user_who_sends_and_closes_at_once(yard):
    """10,000 times from 8 processes, while two threads keep the server busy."""
    pathlib.Path("/tmp/trainyard-stranger-was-here").unlink(missing_ok=True)
    stop, ours, trouble = threading.Event(), [], []

    def busy():
        while not stop.is_set():
            try:
                ours.append(yard.create("true", display_name="ours"))
                yard.get(f"{JOBS}?pageSize=50")
                time.sleep(0.02)
            except Exception as error:
                trouble.append(repr(error))
                return
    workers = [threading.Thread(target=busy) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        answers = strangers(yard, 8, 1250)
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    assert not answers, f"a stranger was answered: {answers[0][:300]!r}"
    assert not trouble, trouble[0]
    assert ours, "the server was not busy"
    yard.wait_for(lambda: yard.get("/healthz").status == 200, 30, "an answer")
    names = [j["displayName"] for j in yard.list(pageSize=1000)]
    assert "stranger" not in names and len(names) == len(ours)
    assert not pathlib.Path("/tmp/trainyard-stranger-was-here").exists()
    yard.wait_for(lambda: refused(yard) == 10000, 60, "each of them to have reached the server, and been refused there")


@needs_root
def test_strangers_are_counted(yard):
    strangers(yard, 1, 10)
    yard.wait_for(lambda: refused(yard) == 10, 30, "ten refusals")


@pytest.fixture
def nobodys_folder():
    """A folder and a binary that another user can reach (pytest's own are private)."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ty-peer-"))
    folder.chmod(0o755)
    shutil.copy(BINARY.resolve(), folder / "trainyard")
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@needs_root
def test_root_is_a_stranger_too_for_an_ordinary_users_server(nobodys_folder):
    ready = nobodys_folder / "ready"
    environment = {**clean_environment(), "HOME": str(nobodys_folder)}
    server = subprocess.Popen([nobodys_folder / "trainyard", "serve", "--data", nobodys_folder / "data", "--listen", "127.0.0.1:0",
                               "--ready-file", ready], env=environment, user=NOBODY, group=NOBODY, extra_groups=[],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/")
    try:
        end = time.monotonic() + 60
        while not (ready.exists() and ready.read_text().strip()):
            assert server.poll() is None and time.monotonic() < end, server.stderr.read() if server.poll() is not None else "not ready"
            time.sleep(0.02)
        port = int(ready.read_text().strip().rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            try:
                assert client.recv(100) == b""
            except ConnectionError:
                pass
        # The same request by its own user is answered, and so is its command; jobs run without root.
        own = {**environment, "TRAINYARD_URL": f"http://127.0.0.1:{port}"}
        words = [nobodys_folder / "trainyard", "ai", "custom-jobs"]
        as_nobody = {"env": own, "user": NOBODY, "group": NOBODY, "extra_groups": [], "capture_output": True, "text": True, "timeout": 60, "cwd": "/"}
        flags = ["--region=us-central1", "--project=trainyard"]
        made = subprocess.run([*words, "create", *flags, "--display-name=mine", "--command=id,-u", "--format=json",
                               "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=host"], **as_nobody)
        assert made.returncode == 0, made.stderr
        logs = subprocess.run([*words, "stream-logs", json.loads(made.stdout)["name"]], **as_nobody)
        assert logs.returncode == 0 and str(NOBODY) in logs.stdout, logs
        through_socket = subprocess.run([*words, "list", *flags], **{**as_nobody, "user": 65533, "group": 65533})
        assert through_socket.returncode == 1
    finally:
        server.terminate()
        server.wait(30)
    end = time.monotonic() + 30
    while (left := processes_of(nobodys_folder)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left


def test_our_own_user_is_served(yard):
    with socket.create_connection(yard.address, timeout=30) as client:
        client.sendall(request(yard.address, yard.job("true")))
        assert client.recv(100).startswith(b"HTTP/1.1 200")
