"""test_kill_preparation.py -- kill -9 while a job's packages are being installed: by hand, and at each step of it."""
import os
import signal
import subprocess

import invariants
import pytest
from packages import HELLO, preparing, sdist, settings
from test_kill_conductor import conductors
from yard import BINARY, Yard, clean_environment


@pytest.fixture(scope="module")
def prepared_data(tmp_path_factory, wheels):
    """A folder in which the host's runtime is made already; each yard links to it."""
    folder = tmp_path_factory.mktemp("runtime")
    done = subprocess.run([BINARY, "runtimes", "add", "host", f"--data={folder}", f"--wheels={wheels}"], env=clean_environment(),
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    return folder


@pytest.fixture
def prepared_yard(tmp_path, wheels, prepared_data):
    (tmp_path / "yard" / "data").mkdir(parents=True)
    (tmp_path / "yard" / "data" / "python").symlink_to(prepared_data / "python")
    with Yard(tmp_path / "yard", settings=settings(wheels)) as started:
        yield started


def succeeds_once(yard, name):
    job = yard.wait(name, seconds=120)
    said = yard.lines(name, "service")
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, said)
    assert len(yard.lines(name)) == 1
    job_id = name.rsplit("/", 1)[1]
    assert not [pid for job, pid in invariants.marks_alive() if job == job_id]
    return sum("Installing 1 package" in line for line in said)


def test_server_killed(prepared_yard, tmp_path):
    """The conductor goes on without it: nothing is installed twice."""
    name = preparing(prepared_yard, tmp_path)
    prepared_yard.restart(signal.SIGKILL)
    (tmp_path / "go").touch()
    assert succeeds_once(prepared_yard, name) == 1


def test_conductor_killed(prepared_yard, tmp_path):
    """pip goes with it; what the first attempt left half made is made again from nothing."""
    yard = prepared_yard
    name = preparing(yard, tmp_path)
    job_id = name.rsplit("/", 1)[1]
    before = {pid for job, pid in invariants.marks_alive() if job == job_id}
    assert before
    (pid,) = conductors(yard, job_id)
    os.kill(pid, signal.SIGKILL)
    yard.wait_for(lambda: not before & {p for j, p in invariants.marks_alive() if j == job_id}, 30, "pip to be gone")
    (tmp_path / "go").touch()
    assert succeeds_once(yard, name) == 2


def test_both_killed(prepared_yard, tmp_path):
    yard = prepared_yard
    name = preparing(yard, tmp_path)
    (pid,) = conductors(yard, name.rsplit("/", 1)[1])
    yard.process.kill()
    os.kill(pid, signal.SIGKILL)
    yard.restart(signal.SIGKILL)
    (tmp_path / "go").touch()
    assert succeeds_once(yard, name) == 2


@pytest.mark.slow
def test_killed_at_each_step(tmp_path, wheels, prepared_data):
    """TY_CRASH ends the preparation at its nth step; whatever it left, the next one makes a good environment."""
    ends, n = [], 0
    while not ends or ends[-1] != 0:
        n += 1
        assert n < 60
        archive = sdist(tmp_path / f"{n}.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": HELLO + f"# {n}\n"})
        into = tmp_path / str(n)
        into.mkdir()
        words = [BINARY, "prepare", f"--data={prepared_data}", f"--into={into}", "--python=python3", f"--wheels={wheels}", "--offline=1", "--pool=0",
                 "--image=host", "--module=trainer.task", f"--package={archive}"]
        ends.append(subprocess.run(words, env={**clean_environment(), "TY_CRASH": f"prepare:{n}"}, capture_output=True, timeout=120).returncode)
        linked = (into / "python-0").exists()
        assert linked == (ends[-1] == 0), (n, ends)
        if n % 3 == 1:  # each leaves another folder: a third of them is enough to see that it is made anew
            again = subprocess.run(words, env=clean_environment(), capture_output=True, text=True, timeout=120)
            assert again.returncode == 0, (n, again)
            run = subprocess.run([into / "python-0" / "bin" / "python", "-m", "trainer.task"], env=clean_environment(), capture_output=True, text=True)
            assert run.stdout.startswith("hello from __main__"), (n, run)
    assert set(ends[:-1]) == {-signal.SIGKILL} and len(ends) > 5, ends
