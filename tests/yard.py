"""yard.py -- a fresh Trainyard for a test: a server of its own, in a temporary folder, on a free port.

    with Yard(folder) as yard:
        name = yard.create("sh", "-c", "echo hello")
        assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"

Leaving the block stops the server by its pid, ends what jobs are left, and checks that no process of this
yard is alive. Standard library only, so that scripts and any venv can use it.

A test waits for what it asserts, and for nothing less: a job that is RUNNING need not have printed its line, and a
chief's end stops the others wherever they are. A wait ends when the thing happens, so its limit may be generous: it is
there to end a test that hangs on a machine many times slower than ours.
"""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import urllib.parse

TOP = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ.get("TRAINYARD_BINARY", TOP / "build" / "trainyard"))
PROJECT, REGION = "trainyard", "us-central1"
PARENT = f"projects/{PROJECT}/locations/{REGION}"
FINAL = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED")


class Reply:
    """An HTTP answer: status, headers (lower case) and body; json is parsed at need."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


def clean_environment():
    """This process's environment without what points a client anywhere."""
    drop = ("TRAINYARD_", "CLOUDSDK_", "GOOGLE_", "GCLOUD_", "BOTO_", "PYTHONPATH", "TY_", "GCE_METADATA_")
    keep = ("CLOUDSDK_PYTHON", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE")
    return {k: v for k, v in os.environ.items() if k in keep or not k.startswith(drop)}


def processes_of(mark):
    """pids whose command line, working folder or environment names `mark` (a folder of this test)."""
    mark, found = os.fsencode(str(mark)), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        try:
            text = b"".join(pathlib.Path("/proc", pid, name).read_bytes() for name in ("cmdline", "environ"))
            text += os.fsencode(os.readlink(f"/proc/{pid}/cwd"))
            state = pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if mark in text and state not in "ZX":
            found.append(int(pid))
    return found


def start_seconds():
    """What starting a program and syncing a file take here, just now: what must come "at once" is bounded in these."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as file:
        subprocess.run([BINARY, "version"], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        os.fsync(file.fileno())
    return time.monotonic() - began


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class Yard:
    def __init__(self, folder, listen="127.0.0.1:0", environment=None, settings=None):
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "data"
        self.ready_file = self.folder / "ready"
        self.log_file = self.folder / "server.log"
        self.listen = listen
        self.extra = dict(environment or {})
        self.settings = settings or {}
        self.process = None
        self.url = None
        self._client_environment = None

    # ---- the server ----

    def start(self, wait_s=60):
        self.data.mkdir(parents=True, exist_ok=True)
        if self.settings:
            (self.data / "trainyard.conf").write_text("".join(f"{k} = {v}\n" for k, v in self.settings.items()))
        self.ready_file.unlink(missing_ok=True)
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                [BINARY, "serve", "--data", self.data, "--listen", self.listen, "--ready-file", self.ready_file],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                # Conductors write over their command line: the folder in their environment is what finds them.
                env={**clean_environment(), **self.extra, "YARD_FOLDER": str(self.folder)})
        end = time.monotonic() + wait_s
        while time.monotonic() < end:
            if self.ready_file.exists() and (text := self.ready_file.read_text().strip()):
                self.url = text
                return self
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}:\n{self.log_tail()}")
            time.sleep(0.005)
        raise RuntimeError(f"the server was not ready after {wait_s} s:\n{self.log_tail()}")

    def stop(self, signum=signal.SIGTERM, wait_s=60):
        """End the server (jobs run on) and return its exit status."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signum)
        try:
            return self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not end {wait_s} s after signal {signum}:\n{self.log_tail()}") from None

    def restart(self, signum=signal.SIGKILL):
        """Kill the server and start it again on the same port."""
        self.stop(signum)
        self.listen = urllib.parse.urlsplit(self.url).netloc
        return self.start()

    def log_tail(self, lines=40):
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def rss_kb(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        return 0

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, error, trace):
        alive = self.process is not None and self.process.poll() is None
        status = None
        if alive:
            try:
                for job in self.list():
                    if job["state"] not in FINAL:
                        self.call("POST", f"/v1/{job['name']}:cancel", {})
                self.wait_for(lambda: all(j["state"] in FINAL for j in self.list()), 90, "jobs to end")
            finally:
                status = self.stop()
        # Conductors end by themselves once their replicas have; give them a moment.
        end = time.monotonic() + 60
        while (left := processes_of(self.folder)) and time.monotonic() < end:
            time.sleep(0.05)
        lines = [f"{pid}: {command_line(pid)}" for pid in left]
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if kind is None:
            assert not lines, "left behind:\n" + "\n".join(lines)
            assert status in (0, None), f"the server ended with {status}:\n{self.log_tail()}"

    # ---- plain HTTP ----

    @property
    def address(self):
        parts = urllib.parse.urlsplit(self.url)
        return parts.hostname, parts.port

    def call(self, method, path, body=None, headers=None, timeout=60):
        """One request. A body that is not bytes is sent as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(*self.address, timeout=timeout)
        try:
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path, **rest):
        return self.call("GET", path, **rest)

    # ---- jobs ----

    @staticmethod
    def pool(*command, replicas=1, env=None, **spec):
        container = {"imageUri": "host", "command": list(command)}
        if env:
            container["env"] = [{"name": k, "value": v} for k, v in env.items()]
        return {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": replicas, "containerSpec": container, **spec}

    def job(self, *command, display_name="test", pools=None, labels=None, **spec):
        body = {"displayName": display_name, "jobSpec": {"workerPoolSpecs": pools or [self.pool(*command)], **spec}}
        if labels:
            body["labels"] = labels
        return body

    def create(self, *command, **rest):
        """Submit; returns the job's full name."""
        reply = self.call("POST", f"/v1/{PARENT}/customJobs", self.job(*command, **rest))
        assert reply.status == 200, reply
        return reply.json["name"]

    def describe(self, name):
        reply = self.get(f"/v1/{name}")
        assert reply.status == 200, reply
        return reply.json

    def list(self, parent=PARENT, **query):
        jobs, token = [], ""
        while True:
            text = urllib.parse.urlencode({**query, "pageToken": token} if token else query)
            reply = self.get(f"/v1/{parent}/customJobs" + (f"?{text}" if text else ""))
            assert reply.status == 200, reply
            jobs += reply.json.get("customJobs", [])
            token = reply.json.get("nextPageToken", "")
            if not token:
                return jobs

    def cancel(self, name):
        reply = self.call("POST", f"/v1/{name}:cancel", {})
        assert reply.status == 200, reply

    def wait_for(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := condition():
                return value
            time.sleep(0.02)
        raise AssertionError(f"waited {seconds} s for {what}\n{self.log_tail()}")

    def wait(self, name, states=FINAL, seconds=90):
        """The job, once its state is one of `states`."""
        if isinstance(states, str):
            states = (states,)
        job = {}

        def there():
            job.update(self.describe(name))
            return job["state"] in states
        try:
            self.wait_for(there, seconds, f"{name} to be {'/'.join(states)}")
        except AssertionError as error:
            raise AssertionError(f"{error}\nit is {json.dumps(job, indent=1)}") from None
        return self.describe(name)

    def entries(self, name, extra=""):
        """Log entries of a job, oldest first."""
        job_id = name.rsplit("/", 1)[1]
        body = {"resourceNames": [f"projects/{PROJECT}"], "orderBy": "timestamp asc", "pageSize": 1000,
                "filter": f'resource.type="ml_job" AND resource.labels.job_id="{job_id}"{extra}'}
        found = []
        while True:
            reply = self.call("POST", "/v2/entries:list", body)
            assert reply.status == 200, reply
            found += reply.json.get("entries", [])
            if not reply.json.get("nextPageToken"):
                return found
            body["pageToken"] = reply.json["nextPageToken"]

    def lines(self, name, task=None):
        """What the replicas printed, without the service's own lines."""
        found = []
        for entry in self.entries(name):
            label = entry["resource"]["labels"].get("task_name")
            if label == task or (task is None and label != "service"):
                found.append(entry.get("textPayload") or entry.get("jsonPayload", {}).get("message", ""))
        return found

    # ---- clients ----

    def client_environment(self):
        """What a user's shell has after eval "$(trainyard env)"."""
        if self._client_environment is None:
            script = f'set -e; text=$("{BINARY}" env --data "{self.data}"); eval "$text"; env -0'
            result = subprocess.run(["bash", "-c", script], env={**clean_environment(), "TRAINYARD_URL": self.url},
                                    capture_output=True, timeout=60)
            assert result.returncode == 0, result.stderr.decode()
            pairs = (item.partition("=") for item in result.stdout.decode().split("\0") if item)
            self._client_environment = {k: v for k, _, v in pairs if k not in ("_", "SHLVL")}
        return dict(self._client_environment)

    def run(self, *command, timeout=120, environment=None, **rest):
        """Run a client as a user would after eval "$(trainyard env)"."""
        return subprocess.run([str(c) for c in command], env={**self.client_environment(), **(environment or {})},
                              capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, **rest)

    def trainyard(self, *words, **rest):
        return self.run(BINARY, *words, **rest)
