"""Tokens of replicas: who has one is answered whatever its uid, in its own project, as long as its attempt runs."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from test_containers import container_yard, engine, images, podman, PREFIX, root_tar  # noqa: F401 (fixtures)
from yard import BINARY, PARENT

NOBODY = 65534
JOBS = f"/v1/{PARENT}/customJobs"
TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"
PYTHON = "/usr/bin/python3"  # another user cannot reach the tests' own

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")

# Another user's program: takes raw requests, a JSON list on stdin, each on a connection of its own, and prints what came back
# until the end of the connection.
ASK = """
import json, socket, sys
out = []
for text in json.load(sys.stdin):
    with socket.socket() as client:
        client.settimeout(60)
        client.connect((sys.argv[1], int(sys.argv[2])))
        got = b""
        try:
            client.sendall(text.encode())
            while piece := client.recv(65536):
                got += piece
        except ConnectionError:
            pass
        out.append(got.decode())
print(json.dumps(out))
"""


def get(yard, path, *headers, method="GET", body=""):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {yard.address[0]}:{yard.address[1]}", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines) + "\r\n\r\n" + body


def bearer(token):
    return f"Authorization: Bearer {token}"


def ask_as(uid, yard, requests):
    ran = subprocess.run([PYTHON, "-I", "-c", ASK, *map(str, yard.address)], input=json.dumps(requests), text=True, cwd="/",
                         capture_output=True, timeout=120, user=uid, group=uid, extra_groups=[])
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def ask(yard, *requests):
    return ask_as(NOBODY, yard, requests)


def status(reply):
    return int(reply.split()[1]) if reply else None


def refused(yard):
    lines = yard.get("/metrics").body.decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("trainyard_http_refused_peers_total "))


class Running:
    """A job that has written its replicas' tokens down and goes on until it is told to end."""

    def __init__(self, yard, folder, pools=1):
        self.yard, self.folder = yard, folder
        # shown only when it is whole; the wait has an end, should the test have failed
        script = (f'cd {folder}; echo "$TRAINYARD_TOKEN" >$TRAINYARD_REPLICA.new; mv $TRAINYARD_REPLICA.new $TRAINYARD_REPLICA; '
                  'test "$TRAINYARD_TOKEN" = "$GOOGLE_AUTH_TOKEN_FOR_TESTING" || exit 3; '
                  'n=0; while ! test -e end && test $n -lt 12000; do sleep 0.05; n=$((n + 1)); done')
        self.name = yard.create(pools=[yard.pool("sh", "-c", script)] + [yard.pool("sh", "-c", script, replicas=2)] * (pools - 1))
        self.token = self.of("0-0")

    def of(self, replica):
        path = self.folder / replica
        self.yard.wait_for(path.exists, 60, f"the token of {replica}")
        return path.read_text().strip()

    def end(self):
        (self.folder / "end").touch()
        assert self.yard.wait(self.name)["state"] == "JOB_STATE_SUCCEEDED"


@needs_root
def test_a_token_opens_the_door_until_the_attempt_ends(yard, tmp_path):
    job = Running(yard, tmp_path)
    head, mac = job.token.rsplit(".", 1)
    wrong = [f"{head}.{'0' * 64}", f"{head}.{mac[:-1]}{'0' if mac[-1] != '0' else '1'}", head, mac, head.replace(".0-0", ".0-1") + "." + mac,
             job.token + "0", "", "local"]
    before = refused(yard)
    replies = ask(yard, get(yard, JOBS), *[get(yard, JOBS, bearer(token)) for token in wrong])
    assert replies == [""] * len(replies)
    assert refused(yard) == before + len(replies)
    by_bearer, by_header, small = ask(yard, get(yard, JOBS, bearer(job.token)), get(yard, JOBS, f"X-Trainyard-Token: {job.token}"),
                                      get(yard, JOBS, f"authorization: bearer {job.token}"))
    assert [status(reply) for reply in (by_bearer, by_header, small)] == [200, 200, 200]
    assert job.name in by_bearer

    yard.restart()  # kill -9: nothing about tokens was in its memory
    assert status(ask(yard, get(yard, JOBS, bearer(job.token)))[0]) == 200
    job.end()
    assert ask(yard, get(yard, JOBS, bearer(job.token)), get(yard, "/healthz", bearer(job.token))) == ["", ""]
    # For our own uid it is as ever.
    assert yard.call("GET", JOBS, headers={"Authorization": f"Bearer {job.token}"}).status == 200


@needs_root
def test_its_project_and_no_other(yard, tmp_path):
    job = Running(yard, tmp_path)
    other = JOBS.replace("projects/" + PARENT.split("/")[1], "projects/other")
    me = bearer(job.token)
    listed, created, logs, other_logs = ask(
        yard, get(yard, other, me),
        get(yard, other, me, "Content-Type: application/json", method="POST", body=json.dumps(yard.job("true"))),
        get(yard, "/v2/entries:list", me, method="POST", body=json.dumps({"resourceNames": ["/".join(PARENT.split("/")[:2])]})),
        get(yard, "/v2/entries:list", me, method="POST", body=json.dumps({"resourceNames": ["projects/other"]})))
    assert [status(reply) for reply in (listed, created, logs, other_logs)] == [403, 403, 200, 403]
    assert "may use its own project only" in listed
    assert yard.get(other).json.get("customJobs", []) == []
    mine, = ask(yard, get(yard, JOBS, me, method="POST", body=json.dumps(yard.job("true", display_name="made by a replica"))))
    assert status(mine) == 200
    # Our own uid may, token or not.
    assert yard.call("GET", other, headers={"Authorization": f"Bearer {job.token}"}).status == 200
    job.end()


@needs_root
def test_each_replica_has_its_own_and_gets_it_back(yard, tmp_path):
    job = Running(yard, tmp_path, pools=2)
    tokens = [job.of(replica) for replica in ("0-0", "1-0", "1-1")]
    number = job.name.rsplit("/", 1)[1]
    assert [token.rsplit(".", 1)[0] for token in tokens] == [f"ty1.{number}.1.{replica}" for replica in ("0-0", "1-0", "1-1")]
    for token in tokens:
        metadata, oauth = ask(yard, get(yard, TOKEN_PATH, bearer(token), "Metadata-Flavor: Google"),
                              get(yard, "/token", bearer(token), method="POST", body="grant_type=refresh_token"))
        for reply in (metadata, oauth):
            assert json.loads(reply.split("\r\n\r\n", 1)[1])["access_token"] == token
    assert ask(yard, get(yard, TOKEN_PATH, "Metadata-Flavor: Google")) == [""]
    plain = yard.get(TOKEN_PATH).json["access_token"]
    assert plain and not plain.startswith("ty1.")
    assert yard.call("GET", TOKEN_PATH, headers={"Authorization": f"Bearer {tokens[1]}"}).json["access_token"] == tokens[1]
    job.end()


def test_no_file_but_the_plan_holds_a_token(yard, tmp_path):
    job = Running(yard, tmp_path)
    mac = job.token.rsplit(".", 1)[1]
    job.end()
    told = [path for path in pathlib.Path(yard.data).rglob("*") if path.is_file() and path.name != "spec" and mac.encode() in path.read_bytes()]
    assert told == []
    secret = pathlib.Path(yard.data) / "secret"
    assert secret.stat().st_mode & 0o777 == 0o600 and secret.stat().st_size == 32


@needs_root
def test_a_connection_must_show_it_with_every_request(yard, tmp_path):
    job = Running(yard, tmp_path)
    keep = get(yard, JOBS, bearer(job.token)).replace("Connection: close\r\n", "")
    both, bad = ask(yard, keep + get(yard, JOBS, bearer(job.token)), keep + get(yard, JOBS))
    assert both.count("HTTP/1.1 200") == 2
    assert bad.count("HTTP/1.1") == 1
    job.end()


HOLD = """
import socket, sys, time
held = []
for n in range(200):
    client = socket.socket()
    client.connect((sys.argv[1], int(sys.argv[2])))
    client.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\nX-Slow: ")
    held.append(client)
print("held", flush=True)
sys.stdin.read()
closed = 0
for client in held:
    client.settimeout(60)
    try:
        closed += client.recv(100) == b""
    except ConnectionError:
        closed += 1
print(closed)
"""


@needs_root
def test_strangers_who_hold_connections_keep_nobody_out(yard, tmp_path):
    job = Running(yard, tmp_path)
    before = refused(yard)
    holder = subprocess.Popen([PYTHON, "-I", "-c", HOLD, *map(str, yard.address)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, cwd="/", user=NOBODY, group=NOBODY, extra_groups=[])
    try:
        assert holder.stdout.readline() == "held\n"
        # At most 32 of 200 have a place; a replica and the user come through all the same.
        yard.wait_for(lambda: refused(yard) >= before + 168, 30, "all but 32 to be closed")
        assert status(ask(yard, get(yard, JOBS, bearer(job.token)))[0]) == 200
        assert yard.get("/healthz").status == 200
        out = holder.communicate("", timeout=120)[0]
    finally:
        holder.kill()
        holder.wait()
    assert out == "200\n"
    yard.wait_for(lambda: refused(yard) == before + 200, 30, "all of them to be closed")
    job.end()


@needs_root
def test_headers_in_pieces_and_too_long(yard, tmp_path):
    job = Running(yard, tmp_path)
    before = refused(yard)
    script = ASK.replace("client.sendall(text.encode())", "[(client.sendall(text[i:i + 40].encode()), time.sleep(0.005)) for i in range(0, len(text), 40)]")
    requests = [get(yard, JOBS, bearer(job.token)), get(yard, JOBS, "X-Long: " + "x" * 20000, bearer(job.token)).replace("\r\n\r\n", "")]
    ran = subprocess.run([PYTHON, "-I", "-c", "import time" + script, *map(str, yard.address)], input=json.dumps(requests[:1]), text=True,
                         cwd="/", capture_output=True, timeout=60, user=NOBODY, group=NOBODY, extra_groups=[])
    assert status(json.loads(ran.stdout)[0]) == 200, ran
    assert ask(yard, requests[1]) == [""]
    assert refused(yard) == before + 1
    job.end()


@pytest.fixture
def open_binary():
    """Our program where another user can run it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ty-token-"))
    folder.chmod(0o755)
    shutil.copy(BINARY.resolve(), folder / "trainyard")
    yield folder / "trainyard"
    shutil.rmtree(folder, ignore_errors=True)


@needs_root
def test_a_job_whose_program_is_another_user(yard, open_binary):
    """setpriv does what a container's USER does: the same environment, another uid."""
    helper = ("import json, os, urllib.request as r\n"
              "u = os.environ['TRAINYARD_URL'] + '" + JOBS + "'\n"
              "def get(**headers):\n"
              "    try:\n"
              "        return r.build_opener(r.ProxyHandler({})).open(r.Request(u, headers=headers), timeout=20).status\n"
              "    except Exception as error:\n"
              "        return type(error).__name__\n"
              "print('as', os.getuid(), get(), get(Authorization='Bearer ' + os.environ['TRAINYARD_TOKEN']))\n")
    nobody = f"setpriv --reuid={NOBODY} --clear-groups"
    script = (f'cd /; {nobody} {PYTHON} -I -c "$HELPER"; {nobody} {open_binary} ai custom-jobs list --region=us-central1 --format="value(name)"; '
              f'env -u TRAINYARD_TOKEN {nobody} {open_binary} ai custom-jobs list --region=us-central1 >/dev/null 2>&1; echo without $?')
    name = yard.create(pools=[yard.pool("sh", "-c", script, env={"HELPER": helper, "HOME": "/nonexistent"})])
    assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED", yard.lines(name)
    lines = [line for line in yard.lines(name, "workerpool0-0")]
    assert f"as {NOBODY} RemoteDisconnected 200" in lines or f"as {NOBODY} ConnectionResetError 200" in lines, lines
    assert any(name.rsplit("/", 1)[1] in line for line in lines), lines
    assert "without 1" in lines, lines


# TensorFlow's part, without TensorFlow: a library of that name connects, and Python speaks TLS on what it gave.
DIAL = r"""
#include <netdb.h>
#include <string.h>
#include <fcntl.h>
#include <errno.h>
#include <sys/socket.h>
int dial(const char *host, int nonblocking)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *list;
    if (getaddrinfo(host, "443", &hints, &list) != 0) return -1;
    int fd = socket(AF_INET, SOCK_STREAM | (nonblocking ? SOCK_NONBLOCK : 0), 0);
    int failed = connect(fd, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    return failed ? -errno : fd;
}
"""
SPEAK = """
import ctypes, os, socket, ssl, sys
dial = ctypes.CDLL(sys.argv[1] + "/libtensorflow_dial.so").dial
context = ssl.create_default_context(cafile=sys.argv[1] + "/bundle.pem")
def ask(token, nonblocking=0, host="storage.googleapis.com"):
    try:
        with socket.socket(fileno=dial(host.encode(), nonblocking)) as plain:
            plain.settimeout(20)
            with context.wrap_socket(plain, server_hostname=host) as tls:
                tls.sendall(("GET /storage/v1/b/bkt/o/x?alt=media HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n%s\\r\\n"
                             % (host, "Authorization: Bearer %s\\r\\n" % token if token else "")).encode())
                got = b"".join(iter(lambda: tls.recv(65536), b"")).decode()
                return got.split()[1] + " " + got[-5:] if got else "nothing"
    except OSError as error:
        return "closed"
token = os.environ["TRAINYARD_TOKEN"]
print(os.getuid(), "both", ask(token), ask(token, 1))
print(os.getuid(), "only before", ask(""))
os.environ.pop("TRAINYARD_TOKEN")
ctypes.CDLL(None).unsetenv(b"TRAINYARD_TOKEN")
print(os.getuid(), "only inside", ask(token))
"""


@needs_root
def test_another_user_s_tensorflow_speaks_tls(yard, open_binary):
    """As a container's USER: the library and the bundle where it can read them, and the replica's own environment."""
    folder = open_binary.parent
    (folder / "dial.c").write_text(DIAL)
    (folder / "speak.py").write_text(SPEAK.replace("\\\\", "\\"))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libtensorflow_dial.so", folder / "dial.c"], check=True)
    for name in ("bundle.pem", "lib/trainyard-gs.so"):
        shutil.copy(yard.data / "client" / name, folder)
    assert yard.call("POST", "/storage/v1/b?project=trainyard", {"name": "bkt"}).status == 200
    assert yard.call("POST", "/upload/storage/v1/b/bkt/o?uploadType=media&name=x", b"hello", {"Content-Type": "text/plain"}).status == 200
    before = refused(yard)
    script = (f'cd /; export LD_PRELOAD={folder}/trainyard-gs.so; {PYTHON} -I {folder}/speak.py {folder}; '
              f'setpriv --reuid={NOBODY} --clear-groups {PYTHON} -I {folder}/speak.py {folder}')
    name = yard.create(pools=[yard.pool("sh", "-c", script)])
    assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED", yard.lines(name)
    assert yard.lines(name) == ["0 both 200 hello 200 hello", "0 only before 200 hello", "0 only inside 200 hello",
                                f"{NOBODY} both 200 hello 200 hello", f"{NOBODY} only before nothing", f"{NOBODY} only inside closed"], yard.lines(name)
    assert refused(yard) == before + 2


@needs_root
def test_a_container_with_a_user_of_its_own(container_yard):
    yard, image = container_yard, f"{PREFIX}/user:1"
    podman("import", "--change", f"USER {NOBODY}", "--change", "ENV PATH=/bin", "-", image, stdin=root_tar())
    try:
        # not by nc, which ends its half of the connection with the request: MHD takes that for the end of both, now and then
        script = ('id -u; ask() { wget -S -O /dev/null "$@" 2>&1 | sed -n "s/^ *HTTP/HTTP/p"; }; '
                  f'echo "with $(ask --header "Authorization: Bearer $TRAINYARD_TOKEN" "$TRAINYARD_URL{JOBS}")"; '
                  f'echo "without $(ask "$TRAINYARD_URL{JOBS}")."; '
                  'test -r "$LD_PRELOAD" && test -r "$CURL_CA_BUNDLE" && ! test -r "$GOOGLE_APPLICATION_CREDENTIALS" && echo what it needs and no more')
        pools = [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1,
                  "containerSpec": {"imageUri": image, "command": ["sh", "-c", script]}}]
        name = yard.create(pools=pools)
        assert yard.wait(name, seconds=120)["state"] == "JOB_STATE_SUCCEEDED", yard.lines(name)
        lines = yard.lines(name, "workerpool0-0")
        assert str(NOBODY) in lines, lines
        assert any(line.startswith("with HTTP/1.1 200") for line in lines), lines
        assert "without ." in lines and "what it needs and no more" in lines, lines
    finally:
        podman("rmi", "--force", image, check=False)


@needs_root
def test_a_token_is_in_no_command_line(container_yard, images):  # noqa: F811
    """Every user can read command lines; the engine is given the name alone."""
    yard = container_yard
    pools = [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1,
              "containerSpec": {"imageUri": images["plain"], "command": ["/bin/sh", "-c", "echo here $TRAINYARD_TOKEN; sleep 600"]}}]
    name = yard.create(pools=pools)

    def token():
        return next((line.split()[1] for line in yard.lines(name, "workerpool0-0") if line.startswith("here ty1.")), None)
    yard.wait_for(token, 60, "the container")
    mac = token().rsplit(".", 1)[1]
    shown = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            shown += [path] if mac.encode() in path.read_bytes() else []
        except OSError:
            pass
    yard.cancel(name)
    yard.wait(name, seconds=60)
    assert shown == []
