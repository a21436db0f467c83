"""gcloud_warm.py -- real gcloud for tests that call it hundreds of times; see gcloud_fork.py.

    with WarmGcloud(gcloud, yard) as run:
        result = run("ai", "custom-jobs", "list")       # like subprocess.run: returncode, stdout, stderr
"""
import json
import os
import pathlib
import subprocess
import tempfile


class WarmGcloud:
    def __init__(self, gcloud, yard, environment=None):
        root = pathlib.Path(os.path.realpath(gcloud)).parent.parent
        bundled = root / "platform" / "bundledpythonunix" / "bin" / "python3"
        python = bundled if bundled.exists() else os.environ.get("CLOUDSDK_PYTHON", "python3")
        self.folder = tempfile.TemporaryDirectory()
        # stderr goes where pytest's goes: a traceback of the helper itself has to be seen.
        self.process = subprocess.Popen(
            [python, "-S", pathlib.Path(__file__).with_name("gcloud_fork.py"), root], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder.name,
            env={**yard.client_environment(), "CLOUDSDK_ROOT_DIR": str(root), **(environment or {})})
        if self.process.stdout.readline() != "ready\n":
            self.process.wait()
            self.folder.cleanup()
            raise RuntimeError(f"gcloud_fork.py ended with {self.process.returncode}")

    def __call__(self, *words, stdin=os.devnull):
        files = {name: os.path.join(self.folder.name, name) for name in ("stdout", "stderr")}
        self.process.stdin.write(json.dumps({"argv": [str(w) for w in words], "stdin": str(stdin), **files}) + "\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        texts = {name: pathlib.Path(path).read_bytes().decode(errors="replace") for name, path in files.items()}
        return subprocess.CompletedProcess(words, status, **texts)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
        self.folder.cleanup()
