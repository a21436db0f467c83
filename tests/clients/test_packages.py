"""Jobs with Python packages: installed once, kept, and a reason when they cannot be.

Nothing here needs the network but `wheels`, which fetches setuptools once; the tests that need TensorFlow are in
test_tensorflow.py.
"""
import os
import shutil
import zipfile

import pytest
from packages import HELD_SETUP, HELLO, pool, preparing, sdist, settings, wheel
from yard import PARENT, Yard, processes_of


@pytest.fixture(scope="module")
def packages_yard(tmp_path_factory, wheels):
    """One server for the file: the host's runtime is made once."""
    with Yard(tmp_path_factory.mktemp("yard"), settings=settings(wheels)) as started:
        yield started


def service_lines(yard, name):
    return yard.lines(name, "service")


def submit(yard, *pools, **rest):
    return yard.create(pools=list(pools), **rest)


def test_sdist_without_version_in_an_odd_folder(packages_yard, tmp_path):
    yard = packages_yard
    package = sdist(tmp_path / "trainer.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": HELLO})
    name = submit(yard, pool(package, args=["--x=1", "two words"], env={"WHO": "me"}))
    job = yard.wait(name, seconds=120)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, service_lines(yard, name))
    assert yard.lines(name) == ["hello from __main__ ['--x=1', 'two words'] me"]
    said = service_lines(yard, name)
    first = next(i for i, line in enumerate(said) if line.startswith("Runtime:"))
    assert "asked for host, using this machine's Python 3." in said[first]
    assert any("Installing 1 package" in line for line in said) and any("Successfully" in line for line in said)
    assert said.index("All replicas are running (attempt 1).") > first


def test_second_job_installs_nothing(packages_yard, tmp_path):
    """bench/jobs has the time it takes."""
    yard = packages_yard
    package = sdist(tmp_path / "quick.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": HELLO})
    assert yard.wait(submit(yard, pool(package)), seconds=120)["state"] == "JOB_STATE_SUCCEEDED"
    # The same bytes under another name are the same package.
    other = str(shutil.copy(package, tmp_path / "aiplatform-2026-01-02-03:04:05.006-quick.tar.gz"))
    name = submit(yard, pool(other))
    assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
    assert not any("Installing" in line for line in service_lines(yard, name))
    # Other bytes are another one.
    other = sdist(tmp_path / "quick.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": HELLO + "print('more')\n"})
    name = submit(yard, pool(other))
    assert yard.wait(name, seconds=120)["state"] == "JOB_STATE_SUCCEEDED" and yard.lines(name)[-1] == "more"


def test_wheel_under_a_changed_name(packages_yard, tmp_path):
    yard = packages_yard
    package = wheel(tmp_path, {"trainer/__init__.py": "", "trainer/task.py": HELLO}, file_name="aiplatform-2026-x.whl")
    name = submit(yard, pool("file://" + package))
    job = yard.wait(name, seconds=60)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, service_lines(yard, name))


def test_dependency_is_installed_from_the_wheel_folder(packages_yard, tmp_path, wheels):
    yard = packages_yard
    wheel(wheels, {"ty_helper.py": "def word():\n    return 'helped'\n"}, name="ty_helper", version="1.5")
    wheel(wheels, {"ty_helper.py": "def word():\n    return 'too new'\n"}, name="ty_helper", version="2.0")
    package = sdist(tmp_path / "x.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": "import ty_helper\nprint(ty_helper.word())\n"},
                    requires=["ty_helper<2"])
    name = submit(yard, pool(package))
    job = yard.wait(name, seconds=60)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, service_lines(yard, name))
    assert yard.lines(name) == ["helped"]


def test_pin_without_a_wheel_yields_to_the_runtime(packages_yard, tmp_path):
    yard = packages_yard
    package = sdist(tmp_path / "x.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": HELLO}, requires=["setuptools==1.0"])
    name = submit(yard, pool(package))
    job = yard.wait(name, seconds=60)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, service_lines(yard, name))
    (warning,) = [line for line in service_lines(yard, name) if line.startswith("Warning:")]
    assert "setuptools==1.0" in warning and "the runtime's" in warning


def test_two_packages_and_pools_with_different_ones(packages_yard, tmp_path):
    yard = packages_yard
    library = wheel(tmp_path, {"ty_lib.py": "NAME = 'library'\n"}, name="ty_lib")
    said = tmp_path / "said"  # by the worker: the chief's end is the job's
    wait = f"import os, time\nwhile not os.path.exists({str(said)!r}):\n    time.sleep(0.05)\n"
    chief = sdist(tmp_path / "chief.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": "import ty_lib\nprint('chief', ty_lib.NAME, flush=True)\n" + wait})
    worker = sdist(tmp_path / "worker.tar.gz", {"other/__init__.py": "", "other/run.py": f"print('worker', flush=True)\nopen({str(said)!r}, 'w').close()\n"},
                   name="other")
    name = submit(yard, pool([library, chief]), pool(worker, module="other.run"))
    job = yard.wait(name, seconds=120)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, service_lines(yard, name))
    assert yard.lines(name, "workerpool0-0") == ["chief library"] and yard.lines(name, "workerpool1-0") == ["worker"]


BROKEN = {
    "setup.py raises": (dict(files={"trainer/task.py": HELLO}, setup="raise RuntimeError('no licence file here')\n"), "no licence file here"),
    "no such module": (dict(files={"trainer/__init__.py": "", "trainer/tsk.py": HELLO}), "trainer.tsk"),
    "package does not import": (dict(files={"trainer/__init__.py": "import not_there_at_all\n", "trainer/task.py": HELLO}), "No module named 'not_there_at_all'"),
    "package raises": (dict(files={"trainer/__init__.py": "raise ValueError('bad table')\n", "trainer/task.py": HELLO}), "ValueError: bad table"),
    "module is no Python": (dict(files={"trainer/__init__.py": "", "trainer/task.py": "def f(:\n"}), "SyntaxError"),
    "import is nowhere": (dict(files={"trainer/__init__.py": "", "trainer/task.py": '"""Doc."""\nimport os\nfrom not_there.x import y\n' + HELLO}),
                          "imports 'not_there' (line 3), which neither the packages nor the runtime have. Add what provides it"),
    "package ends Python": (dict(files={"trainer/__init__.py": "import sys\nprint('missing')\nsys.exit(0)\n", "trainer/task.py": HELLO}),
                            "ends Python when it is imported"),
    "module is a package": (dict(files={"trainer/__init__.py": "", "trainer/task/__init__.py": ""}), "name a module in it"),
    "dependency is nowhere": (dict(files={"trainer/__init__.py": "", "trainer/task.py": HELLO}, requires=["ty-nowhere==7"]), "ty-nowhere==7"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_package_fails_before_any_replica(packages_yard, tmp_path, what):
    yard = packages_yard
    arguments, reason = BROKEN[what]
    name = submit(yard, pool(sdist(tmp_path / "b.tar.gz", **arguments)), pool(sdist(tmp_path / "b.tar.gz", **arguments), replicas=2))
    job = yard.wait(name, seconds=120)
    assert job["state"] == "JOB_STATE_FAILED" and job["error"]["code"] == 3, job
    assert job["error"]["message"].startswith("The package could not be prepared.") and reason in job["error"]["message"], job
    assert yard.lines(name) == [] and "startTime" not in job
    assert not any("attempt 2" in line for line in service_lines(yard, name))


# What may fail, and what may change where Python looks, is not held against a module before it runs.
LENIENT = """
try:
    import not_there_at_all
except ImportError:
    pass
from . import beside
if False:
    import not_there_either
import libs_of_mine
import sys
sys.path.insert(0, sys.argv[1])
import made_later
print('fine', libs_of_mine.A, made_later.B)
"""


def test_imports_that_are_found_later(packages_yard, tmp_path):
    yard = packages_yard
    for folder, text in (("libs", "A = 1\n"), ("later", "B = 2\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / ("libs_of_mine.py" if folder == "libs" else "made_later.py")).write_text(text)
    package = sdist(tmp_path / "x.tar.gz", {"trainer/__init__.py": "", "trainer/beside.py": "", "trainer/task.py": LENIENT})
    name = submit(yard, pool(package, args=[str(tmp_path / "later")], env={"PYTHONPATH": str(tmp_path / "libs")}))
    job = yard.wait(name, seconds=60)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, service_lines(yard, name))
    assert yard.lines(name) == ["fine 1 2"]
    # The same package where PYTHONPATH is not set: another answer, not the one remembered.
    job = yard.wait(submit(yard, pool(package, args=[str(tmp_path / "later")])), seconds=60)
    assert job["state"] == "JOB_STATE_FAILED" and "imports 'libs_of_mine'" in job["error"]["message"], job


def test_extras_are_installed(packages_yard, tmp_path, wheels):
    """pip check does not look at extras: they are asked for each time."""
    yard = packages_yard
    wheel(wheels, {"ty_extra.py": "WORD = 'extra'\n"}, name="ty_extra", version="1.0")
    wheel(wheels, {"ty_main.py": ""}, name="ty_main", version="1.0", requires=["ty_extra; extra == 'more'"], extras=["more"])
    package = sdist(tmp_path / "x.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": "import ty_extra\nprint(ty_extra.WORD)\n"},
                    requires=["ty_main[more]", "ty_nowhere; python_version < '3'"])
    name = submit(yard, pool(package))
    job = yard.wait(name, seconds=60)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, service_lines(yard, name))
    assert yard.lines(name) == ["extra"]


def test_another_version_than_the_runtime_s(packages_yard, tmp_path, wheels):
    """A wheel of the version that is asked for goes into the job's environment, in front of the runtime's."""
    yard = packages_yard
    wheel(wheels, {"pip_marker.py": "", "wheel_marker.py": "V = 9\n"}, name="setuptools", version="999.0")
    package = wheel(tmp_path, {"trainer/__init__.py": "", "trainer/task.py": "import wheel_marker\nprint('version', wheel_marker.V)\n"},
                    requires=["setuptools>=900"])
    try:
        name = submit(yard, pool(package))
        job = yard.wait(name, seconds=60)
    finally:
        (wheels / "setuptools-999.0-py3-none-any.whl").unlink()
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, service_lines(yard, name))
    assert yard.lines(name) == ["version 9"]
    assert any("asks for setuptools>=900: it is used instead of the runtime's" in line for line in service_lines(yard, name))


def test_archives_of_all_kinds(packages_yard, tmp_path):
    """A zip source archive under a tar's name, and one whose build asks for setuptools in pyproject.toml."""
    yard = packages_yard
    path = tmp_path / "trainer.tar.gz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("top/setup.py", "from setuptools import setup\nsetup(name='trainer', version='1', packages=['trainer'])\n")
        archive.writestr("top/pyproject.toml", "[build-system]\nrequires = ['setuptools>=40', 'wheel']\n")
        archive.writestr("top/trainer/__init__.py", "")
        archive.writestr("top/trainer/task.py", HELLO)
    name = submit(yard, pool(str(path)))
    job = yard.wait(name, seconds=60)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, service_lines(yard, name))


def test_archive_that_is_none(packages_yard, tmp_path):
    yard = packages_yard
    (tmp_path / "x.tar.gz").write_text("hello")
    job = yard.wait(submit(yard, pool(str(tmp_path / "x.tar.gz"))), seconds=60)
    assert job["state"] == "JOB_STATE_FAILED" and "is no Python package" in job["error"]["message"]
    errors = [e["textPayload"] for e in yard.entries(job["name"], " AND severity=ERROR")]
    assert len(errors) == 2 and "is no Python package" in errors[0] and errors[1].startswith("Job failed: "), errors


def test_refused_at_submit(packages_yard, tmp_path):
    yard = packages_yard
    package = sdist(tmp_path / "x.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": HELLO})
    for bad, field, words in ((pool("gs://cloud-samples-data/x.tar.gz"), "packageUris[0]", "storage buckets create gs://cloud-samples-data"),
                              (pool("gs://b/x.tar.gz"), "packageUris[0]", "gs://BUCKET/NAME"),
                              (pool(str(tmp_path / "y.tar.gz")), "packageUris[0]", "No such file"),
                              (pool(package, image="gcr.io/me/mine:1"), "executorImageUri", "tf-cpu.2-N"),
                              (pool(package, module="a b"), "pythonModule", "dotted name")):
        reply = yard.call("POST", f"/v1/{PARENT}/customJobs", yard.job(pools=[bad]))
        assert reply.status == 400 and field in str(reply.json) and words in str(reply.json), reply


@pytest.mark.parametrize("folder", [False, True])
def test_offline_without_the_runtime_is_refused_at_submit(tmp_path, wheels, folder):
    """Also where the wheel folder has other wheels only."""
    with Yard(tmp_path, settings={"runtimes_offline": 1, **({"wheel_folder": wheels} if folder else {})}) as yard:
        package = sdist(tmp_path / "x.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": HELLO})
        reply = yard.call("POST", f"/v1/{PARENT}/customJobs", yard.job(pools=[pool(package, image="us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-15:latest")]))
        assert reply.status == 400 and "trainyard runtimes add tf-cpu.2-15" in str(reply.json), reply
        assert "tensorflow-cpu 2.15.1" in str(reply.json)


def test_no_python_is_refused_at_submit(tmp_path):
    with Yard(tmp_path, settings={"python": "/nowhere/python3"}) as yard:
        package = sdist(tmp_path / "x.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": HELLO})
        reply = yard.call("POST", f"/v1/{PARENT}/customJobs", yard.job(pools=[pool(package)]))
        assert reply.status == 400 and "/nowhere/python3" in str(reply.json), reply


def test_jobs_at_once_build_once(packages_yard, tmp_path):
    yard = packages_yard
    package = sdist(tmp_path / "x.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": HELLO}, setup=HELD_SETUP.format(gate=str(tmp_path)))
    names = [submit(yard, pool(package)) for _ in range(4)]
    yard.wait_for(lambda: any("waiting for it" in line for name in names for line in service_lines(yard, name)), 60, "one that waits for another's build")
    (tmp_path / "go").touch()
    for name in names:
        job = yard.wait(name, seconds=120)
        assert job["state"] == "JOB_STATE_SUCCEEDED", (job, service_lines(yard, name))
    said = [service_lines(yard, name) for name in names]
    assert sum(any("Installing 1 package" in line for line in lines) for lines in said) == 1
    assert sum(any("waiting for it" in line for line in lines) for lines in said) >= 1


def test_others_start_while_one_prepares(tmp_path, wheels):
    with Yard(tmp_path / "yard", settings={**settings(wheels), "start_burst": 1}) as yard:
        name = preparing(yard, tmp_path)
        assert yard.wait(yard.create("true"))["state"] == "JOB_STATE_SUCCEEDED"
        assert yard.describe(name)["state"] == "JOB_STATE_PENDING"


def test_cancel_while_preparing(packages_yard, tmp_path):
    yard = packages_yard
    name = preparing(yard, tmp_path)  # it would build for ever
    yard.cancel(name)
    assert yard.wait(name)["state"] == "JOB_STATE_CANCELLED"
    assert yard.lines(name) == []
    yard.wait_for(lambda: not [p for p in processes_of(tmp_path) if p != os.getpid()], 30, "pip to be gone")


def test_timeout_while_preparing(packages_yard, tmp_path):
    yard = packages_yard
    package = sdist(tmp_path / "x.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": HELLO}, setup=HELD_SETUP.format(gate=str(tmp_path)))
    job = yard.wait(submit(yard, pool(package), scheduling={"timeout": "2s"}), seconds=60)
    assert job["state"] == "JOB_STATE_FAILED" and job["error"]["code"] == 4


def test_runtimes_command(packages_yard, tmp_path, wheels):
    yard = packages_yard
    done = yard.trainyard("runtimes", "add", "host", f"--data={yard.data}", f"--wheels={wheels}", timeout=120)
    assert done.returncode == 0 and "asked for host" in done.stdout, done
    listed = yard.trainyard("runtimes", "list", f"--data={yard.data}")
    assert "this machine's Python 3." in listed.stdout, listed
    key = yard.trainyard("runtimes", "list", f"--data={yard.data}", "--format=value(key)").stdout.split()[0]
    assert yard.trainyard("runtimes", "remove", "000000", f"--data={yard.data}").returncode == 1
    assert yard.trainyard("runtimes", "remove", key[:12], f"--data={yard.data}").returncode == 0
    assert "Python 3." not in yard.trainyard("runtimes", "list", f"--data={yard.data}").stdout
    refused = yard.trainyard("runtimes", "add", "ubuntu", f"--data={yard.data}")
    assert refused.returncode == 1 and "tf-cpu.2-N" in refused.stderr


def test_doctor_tells_of_python(packages_yard, tmp_path):
    yard = packages_yard
    (row,) = [r for r in yard.trainyard("doctor", f"--data={yard.data}").stdout.splitlines() if " python " in r]
    assert row.startswith("ok ") and "makes virtual environments; runtimes: " in row
    # One without ensurepip, as Debian's is without python3-venv.
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nfor w; do [ "$w" = "import venv, ensurepip" ] && exit 1; done\n'
                    f'case "$*" in *_base_executable*) printf "11 3.11.2\\n{bare}\\n";; esac\n')
    bare.chmod(0o755)
    for python, words in ((bare, "apt install python3-venv"), ("/nowhere/python", "there is no '/nowhere/python'")):
        (tmp_path / "trainyard.conf").write_text(f"python = {python}\n")
        done = yard.trainyard("doctor", f"--data={tmp_path}")
        (row,) = [r for r in done.stdout.splitlines() if " python " in r]
        assert row.startswith("note ") and words in row, row


def test_our_command_submits_a_package(packages_yard, tmp_path):
    yard = packages_yard
    package = sdist(tmp_path / "trainer-0.1.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": HELLO})
    done = yard.trainyard("ai", "custom-jobs", "create", "--display-name=p", f"--python-package-uris={package}", "--args=--a=1",
                          "--worker-pool-spec=machine-type=n1-standard-4,replica-count=1,executor-image-uri=host,python-module=trainer.task")
    assert done.returncode == 0, done
    job = yard.wait(yard.list()[0]["name"], seconds=120)
    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    assert yard.lines(job["name"]) == ["hello from __main__ ['--a=1'] "]
