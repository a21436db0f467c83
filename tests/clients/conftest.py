"""conftest.py -- Google's own clients, where this machine has them, and a yard with real frameworks."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from gcloud_warm import WarmGcloud, WarmGsutil, WarmStorage
from yard import BINARY, TOP, Yard


@pytest.fixture(scope="session")
def gcloud():
    path = os.environ.get("REAL_GCLOUD") or shutil.which("gcloud")
    if not path:
        pytest.skip("gcloud is not on this machine")
    return path


@pytest.fixture(scope="session")
def gsutil():
    path = shutil.which("gsutil")
    if not path:
        pytest.skip("gsutil is not on this machine")
    return path


@pytest.fixture(scope="session")
def sdk_python():
    path = pathlib.Path(TOP, "build", "venv-sdk", "bin", "python")
    if not path.exists():
        pytest.skip("google-cloud-aiplatform could not be installed (build/venv-sdk.log)")
    return path


@pytest.fixture(scope="session")
def tf_python():
    """TensorFlow 2.15 as users have it, the engine's judge: its Python."""
    made = subprocess.run(["bash", "-c", ". tools/lib.sh; need_venv build/venv-tf tests/golden/requirements.txt"], cwd=TOP, capture_output=True,
                          text=True, timeout=1200)
    if made.returncode != 0:
        pytest.skip(f"TensorFlow 2.15 could not be installed: {made.stderr.strip()[-200:]}")
    return TOP / "build" / "venv-tf" / "bin" / "python"


@pytest.fixture(scope="session")
def tf_yard(tmp_path_factory):
    """A server whose runtimes (from PyPI, hundreds of megabytes) all tests of a run share.

    TRAINYARD_TF_DATA names a data folder to keep the runtimes in between runs."""
    seen = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", tmp_path_factory.mktemp("probe"),
                           "--retries", "1", "--timeout", "15", "cloudml-hypertune==0.1.0.dev6"], capture_output=True, text=True, timeout=120)
    kept = os.environ.get("TRAINYARD_TF_DATA")
    if seen.returncode != 0 and not kept:
        pytest.skip(f"PyPI cannot be reached: {seen.stderr.strip()[-200:]}")
    folder = tmp_path_factory.mktemp("yard")
    if kept:
        runtimes = pathlib.Path(kept, "python", "runtimes")  # not envs: those name this yard's folder
        runtimes.mkdir(parents=True, exist_ok=True)
        (folder / "data" / "python").mkdir(parents=True)
        (folder / "data" / "python" / "runtimes").symlink_to(runtimes)
    with Yard(folder, settings={"grace_ms": 2000}) as started:
        # Both side by side, and before a client waits for one: gcloud looks at a job once a minute.
        adding = [subprocess.Popen([BINARY, "runtimes", "add", name], env=started.client_environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for name in ("tf-cpu.2-15", "tf-cpu.2-12")]
        for process in adding:
            said, _ = process.communicate(timeout=900)
            assert process.returncode == 0, said
        yield started


@pytest.fixture(scope="module")
def warm_gcloud(gcloud, shared_yard):
    """Real gcloud on the file's yard, loaded once: for tests that call it often."""
    with WarmGcloud(gcloud, shared_yard) as run:
        yield run


@pytest.fixture(scope="module")
def warm_storage(gcloud, shared_yard):
    """Real gcloud with `gcloud storage` loaded once."""
    with WarmStorage(gcloud, shared_yard) as run:
        yield run


@pytest.fixture(scope="module")
def warm_gsutil(gsutil, shared_yard, tmp_path_factory):
    """Real gsutil, loaded once, with a home folder of its own: it keeps what it remembers there."""
    home = str(tmp_path_factory.mktemp("home"))
    with WarmGsutil(gsutil, shared_yard, {"HOME": home}) as run:
        run.home = home
        yield run
