"""A trainer's folder as it is: local-run, and local-package-path of a job. No container engine, no setup.py needed."""
import os
import signal
import subprocess

import pytest
from yard import BINARY, clean_environment

TASK = """
import os, sys
from trainer import helper
print("runs", helper.WORD, sys.argv[1:], "rank", os.environ["RANK"], os.path.exists(os.path.join(os.path.dirname(__file__), "names.txt")))
print("on stderr", file=sys.stderr)
sys.exit(int(os.environ.get("STATUS", 0)))
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder whose runtime all tests of the file share; there is no server."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "my code"
    (folder / "trainer").mkdir(parents=True)
    (folder / "trainer" / "task.py").write_text(TASK)
    (folder / "trainer" / "helper.py").write_text("WORD = 'helped'\n")
    (folder / "trainer" / "names.txt").write_text("data of the package\n")
    return folder


def local_run(data, *words, cwd=None, **environment):
    return subprocess.run([BINARY, "ai", "custom-jobs", "local-run", f"--data={data}", "--executor-image-uri=host", *words], cwd=cwd,
                          capture_output=True, text=True, timeout=300, env={**clean_environment(), **environment})


def test_module_script_and_exit_status(data, source):
    ran = local_run(data, f"--local-package-path={source}", "--python-module=trainer.task", "--", "--lr=0.1", "two words", STATUS="7")
    assert ran.returncode == 7, ran
    assert ran.stdout == "runs helped ['--lr=0.1', 'two words'] rank 0 True\n"  # nothing of pip's
    assert "on stderr" in ran.stderr and "ended with status 7" in ran.stderr
    ran = local_run(data, "--script=trainer/task.py", cwd=source)  # the current folder is the default
    assert (ran.returncode, ran.stdout) == (0, "runs helped [] rank 0 True\n"), ran
    assert "Installing" not in ran.stderr, "the same sources are the same package"
    assert not any((data / "local").iterdir())


def test_other_sources_are_another_package(data, source):
    before = set((data / "packages").iterdir()) if (data / "packages").exists() else set()
    (source / "trainer" / "helper.py").write_text("WORD = 'changed'\n")
    (source / "venv").mkdir()
    (source / "venv" / "pyvenv.cfg").write_text("")
    (source / "venv" / "huge.bin").write_bytes(b"x" * 100_000)
    ran = local_run(data, f"--local-package-path={source}", "--python-module=trainer.task")
    assert ran.stdout.startswith("runs changed"), ran
    (made,) = set((data / "packages").iterdir()) - before
    assert made.stat().st_size < 50_000, "a virtual environment is no part of the sources"
    (source / "venv" / "pyvenv.cfg").touch()
    os.utime(source / "trainer" / "task.py", (1, 1))
    assert local_run(data, f"--local-package-path={source}", "--python-module=trainer.task").returncode == 0
    assert set((data / "packages").iterdir()) - before == {made}, "times do not matter"


def test_setup_py_requirements_and_extra_folder(data, source, tmp_path):
    (source / "setup.py").write_text("from setuptools import setup\nsetup(name='t', version='1', packages=['trainer'], package_data={'': ['*']})\n")
    (source / "requirements.txt").write_text("# what it needs\nsetuptools  # there already\n")
    ran = local_run(data, f"--local-package-path={source}", "--python-module=trainer.task", "--requirements=pip>=1")
    assert ran.returncode == 0 and ran.stdout.startswith("runs helped"), ran
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "__init__.py").write_text("SAYS = 'extra'\n")
    (source / "setup.py").unlink()
    (source / "trainer" / "task.py").write_text("import extra\nprint(extra.SAYS)\n")
    ran = local_run(data, f"--local-package-path={source}", "--python-module=trainer.task", f"--extra-dirs={extra}")
    assert (ran.returncode, ran.stdout) == (0, "extra\n"), ran


@pytest.mark.parametrize("words, said", [
    (["--python-module=trainer.nope"], "module 'trainer.nope': there is neither trainer/nope.py nor"),
    (["--script=trainer/nope.py"], "script 'trainer/nope.py': there is no such file"),
    (["--script=run.sh"], "only Python scripts"),
    (["--python-module=trainer.task", "--script=trainer/task.py"], "exactly one of python-module and script"),
    ([], "exactly one of python-module and script"),
    (["--python-module=trainer.task", "--requirements=--index-url=x"], "is an option of pip's"),
    (["--python-module=trainer.task", "--extra-packages=/none.whl"], "extra-packages: '/none.whl' is no file"),
    (["--python-module=trainer.task", "--local-package-path=/none"], "local-package-path: '/none' is no folder"),
    (["--python-module=trainer.task", "--executor-image-uri=gcr.io/x/y:z"], "y:z"),
])
def test_wrong_use_is_named(data, source, words, said):
    ran = local_run(data, *words, cwd=source)
    assert ran.returncode == 2 and said in ran.stderr and ran.stdout == "", ran
    assert not [p for p in (data / "packages").glob(".*")]


def test_terminated_with_the_command(data, source):
    (source / "trainer" / "task.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen([BINARY, "ai", "custom-jobs", "local-run", f"--data={data}", "--executor-image-uri=host",
                                "--python-module=trainer.task"], cwd=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env=clean_environment())
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM


# The job ends with its chief, which waits until all three have had their say.
ALL_SAID = """
import pathlib, time
said = pathlib.Path({folder!r})
(said / os.environ["RANK"]).touch()
while os.environ["RANK"] == "0" and len(list(said.iterdir())) < 3:
    time.sleep(0.05)
"""


def test_job_from_a_folder(yard, source, tmp_path):
    """local-package-path: the package runs in all pools."""
    (tmp_path / "said").mkdir()
    (source / "trainer" / "task.py").write_text(TASK.replace("sys.exit", ALL_SAID.format(folder=str(tmp_path / "said")) + "sys.exit"))
    spec = f"machine-type=n1-standard-4,executor-image-uri=host,local-package-path={source},python-module=trainer.task"
    made = yard.trainyard("ai", "custom-jobs", "create", "--display-name=local", f"--worker-pool-spec={spec}",
                    "--worker-pool-spec=machine-type=n1-standard-4,replica-count=2", "--args=--lr=0.1", "--format=value(name)")
    assert made.returncode == 0, made
    name = made.stdout.strip()
    job = yard.wait(name, seconds=300)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, yard.lines(name))
    assert sorted(line for line in yard.lines(name) if line.startswith("runs")) == [f"runs helped ['--lr=0.1'] rank {rank} True" for rank in range(3)]
    (uri,) = job["jobSpec"]["workerPoolSpecs"][1]["pythonPackageSpec"]["packageUris"]
    assert uri.startswith(str(yard.data / "packages"))


@pytest.mark.parametrize("pools, said", [
    (["local-package-path={s},python-module=trainer.task"], "needs [executor-image-uri]"),
    (["executor-image-uri=host,local-package-path={s}"], "exactly one of keys [python-module, script]"),
    (["executor-image-uri=host,script=trainer/task.py"], "need [local-package-path]"),
    (["executor-image-uri=host,python-module=a.b", "executor-image-uri=host,local-package-path={s},python-module=a.b"], "belongs to the first pool"),
    (["executor-image-uri=host,local-package-path={s},python-module=trainer.task", "container-image-uri=host"], "no image and no module"),
])
def test_keys_that_do_not_go_together(shared_yard, source, pools, said):
    words = [f"--worker-pool-spec=machine-type=n1-standard-4,{pool.format(s=source)}" for pool in pools]
    ran = shared_yard.trainyard("ai", "custom-jobs", "create", "--display-name=local", *words)
    assert ran.returncode == 1 and said in ran.stderr, ran


def test_a_name_of_pythons_own_is_refused(data, source):
    (source / "calendar.py").write_text("print('mine')\n")
    ran = local_run(data, "--script=calendar.py", cwd=source)
    assert ran.returncode == 1 and ran.stdout == "" and "'calendar' is also a name of Python's own" in ran.stderr, ran


def test_links_that_lead_nowhere_are_no_hindrance(data, source):
    (source / "trainer" / "lost").symlink_to("/nowhere/at/all")
    (source / ".#task.py").symlink_to("me@host.123")
    ran = local_run(data, f"--local-package-path={source}", "--python-module=trainer.task")
    assert ran.returncode == 0 and ran.stdout.startswith("runs helped"), ran
