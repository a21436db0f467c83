"""conftest.py -- Google's own clients, where this machine has them."""
import os
import pathlib
import shutil

import pytest
from gcloud_warm import WarmGcloud
from yard import TOP


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


@pytest.fixture(scope="module")
def warm_gcloud(gcloud, shared_yard):
    """Real gcloud on the file's yard, loaded once: for tests that call it often."""
    with WarmGcloud(gcloud, shared_yard) as run:
        yield run
