"""conftest.py -- options and fixtures of all Python tests: a fresh server, the seed, the long counts."""
import os
import random
import shutil
import subprocess
import sys
import pathlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from yard import BINARY, TOP, Yard  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="the full counts")
    parser.addoption("--seed", type=int, default=None, help="what random choices start from")


def pytest_configure(config):
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(1 << 30)


LARGE = ("tf_yard", "tf_python")


def group_of(item):
    """Which worker's: those with TensorFlow's runtimes share one yard, those that TensorFlow judges its venv, those with podman
    its storage, tests of a file its fixtures; a test that has none of these is on its own."""
    for fixture in LARGE:
        if fixture in item.fixturenames:
            return fixture
    if item.path.stem in ("test_containers", "test_token"):
        return "podman"
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    return item.path.stem if any(f[-1].scope == "module" for f in fixtures) else item.nodeid


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items):
    """The longest groups begin first, so that they are not what everybody waits for at the end."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
    items.sort(key=lambda item: group_of(item) not in LARGE)


def pytest_report_header(config):
    return f"seed {config.option.seed}, binary {BINARY}"


@pytest.fixture(scope="session")
def long(request):
    return request.config.option.long


@pytest.fixture
def rng(request):
    """Random choices that --seed repeats, the same for a test whatever ran before it."""
    return random.Random(f"{request.config.option.seed} {request.node.name}")


@pytest.fixture
def yard(tmp_path):
    """A fresh server, for one test."""
    with Yard(tmp_path) as started:
        yield started


@pytest.fixture(scope="module")
def shared_yard(tmp_path_factory):
    """A fresh server, for all tests of a file."""
    with Yard(tmp_path_factory.mktemp("yard")) as started:
        yield started


@pytest.fixture(scope="session")
def rides(tmp_path_factory):
    """Taxi fares, as the example makes them."""
    return made(tmp_path_factory, "taxifare-tf", "rides")


@pytest.fixture(scope="session")
def trips(tmp_path_factory):
    """Chicago's taxi tips, as the example makes them."""
    return made(tmp_path_factory, "chicago_taxi", "trips")


def made(tmp_path_factory, example, name):
    folder = tmp_path_factory.mktemp(name)
    subprocess.run([sys.executable, TOP / "examples" / example / "make_data.py", folder], check=True)
    return folder


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """A folder with the wheel of setuptools: all that a runtime needs to build packages."""
    kept = TOP / "build" / "wheels-test"
    if not list(kept.glob("setuptools-*.whl")):
        kept.mkdir(parents=True, exist_ok=True)
        fetched = tmp_path_factory.mktemp("fetched")
        got = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", fetched, "setuptools>=70.1,<82"],
                             capture_output=True, text=True, timeout=300)
        if got.returncode != 0:
            pytest.skip(f"setuptools cannot be fetched: {got.stderr.strip()[-200:]}")
        for file in fetched.iterdir():  # whole or not there: other workers look, too
            shutil.copy(file, kept / f"{file.name}.{os.getpid()}")
            os.replace(kept / f"{file.name}.{os.getpid()}", kept / file.name)
    folder = tmp_path_factory.mktemp("wheels")
    for file in kept.glob("setuptools-*.whl"):
        shutil.copy(file, folder)
    return folder
