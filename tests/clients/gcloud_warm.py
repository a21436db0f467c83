"""gcloud_warm.py -- real gcloud and gsutil for tests that call them often; see fork_server.py.

    with WarmGcloud(gcloud, yard) as run:
        result = run("ai", "custom-jobs", "list")       # like subprocess.run: returncode, stdout, stderr
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading


PROGRAM = """\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({socket!r})
    with connection.makefile("rw") as file:
        file.write(json.dumps(dict(argv=sys.argv[1:], cwd=os.getcwd())) + "\\n")
        file.flush()
        status, out, err = json.load(file)
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(status)
"""


class Warm:
    program, arguments, options = "", (), ["-S"]

    def __init__(self, path, yard, environment=None):
        root = pathlib.Path(os.path.realpath(path)).parent.parent
        bundled = root / "platform" / "bundledpythonunix" / "bin" / "python3"
        python = bundled if bundled.exists() else os.environ.get("CLOUDSDK_PYTHON", "python3")
        self.folder = tempfile.TemporaryDirectory()
        # stderr goes where pytest's goes: a traceback of the helper itself has to be seen.
        self.process = subprocess.Popen(
            [python, *self.options, pathlib.Path(__file__).with_name(self.program), root, *self.arguments], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder.name,
            env={**yard.client_environment(), "CLOUDSDK_ROOT_DIR": str(root), **(environment or {})})
        if self.process.stdout.readline() != "ready\n":
            self.process.wait()
            self.folder.cleanup()
            raise RuntimeError(f"{self.program} ended with {self.process.returncode}")

    def __call__(self, *words, stdin=os.devnull, cwd=None, environment=None, text=True):
        files = {name: os.path.join(self.folder.name, name) for name in ("stdout", "stderr")}
        request = {"argv": [str(w) for w in words], "stdin": str(stdin), "cwd": str(cwd or self.folder.name),
                   "environment": environment or {}, **files}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        out = {name: pathlib.Path(path).read_bytes() for name, path in files.items()}
        if text:
            out = {name: data.decode(errors="replace") for name, data in out.items()}
        return subprocess.CompletedProcess(words, status, **out)

    def program_file(self, path):
        """Make an executable file that is this client, for scripts."""
        path = pathlib.Path(path)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{path}.sock")
        listener.listen()
        threading.Thread(target=self.serve, args=(listener,), daemon=True).start()
        path.write_text(f"#!{sys.executable} -S\n" + PROGRAM.format(socket=f"{path}.sock"))
        path.chmod(0o755)

    def serve(self, listener):
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rw") as file:
                request = json.loads(file.readline())
                result = self(*request["argv"], cwd=request["cwd"])
                file.write(json.dumps([result.returncode, result.stdout, result.stderr]))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
        self.folder.cleanup()


class WarmGcloud(Warm):
    program, arguments = "gcloud_fork.py", ("ai",)


class WarmStorage(Warm):
    """gcloud, for gcloud storage."""
    program, arguments = "gcloud_fork.py", ("storage",)


class WarmGsutil(Warm):
    program, options = "gsutil_fork.py", []

    def __init__(self, path, yard, environment=None):
        super().__init__(path, yard, {"CLOUDSDK_WRAPPER": "1", **(environment or {})})

    def __call__(self, *words, **rest):
        return super().__call__("-o", "GSUtil:default_project_id=trainyard", *words, **rest)
