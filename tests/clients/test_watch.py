"""list --watch, and --flags-file."""
import os
import pty
import re
import signal
import subprocess

from yard import BINARY


def test_flags_file(shared_yard, tmp_path):
    (tmp_path / "flags.yaml").write_text("""
--display-name: from a file
--command: [sh, -c]
--args: ['echo "$0"', "a,b c"]
--labels: {k: v}
--worker-pool-spec:
- {machine-type: n1-standard-4, container-image-uri: host}
- {machine-type: n1-standard-4, container-image-uri: host, replica-count: 2}
""")
    result = shared_yard.trainyard("ai", "custom-jobs", "create", f"--flags-file={tmp_path}/flags.yaml", "--format=value(name)", "--quiet")
    assert result.returncode == 0, result.stderr
    job = shared_yard.wait(result.stdout.strip())
    assert job["state"] == "JOB_STATE_SUCCEEDED" and job["displayName"] == "from a file" and job["labels"] == {"k": "v"}
    assert shared_yard.lines(job["name"], "workerpool0-0") == ["a,b c"]
    assert [p["replicaCount"] for p in job["jobSpec"]["workerPoolSpecs"]] == ["1", "2"]
    wrong = shared_yard.trainyard("ai", "custom-jobs", "list", "--flags-file", tmp_path / "none.yaml")
    assert wrong.returncode == 2 and "none.yaml" in wrong.stderr


def test_watch_in_a_pipe_prints_changes(shared_yard):
    process = subprocess.Popen([BINARY, "ai", "custom-jobs", "list", "--watch"], env=shared_yard.client_environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    name = shared_yard.create("sleep", "600", display_name="watched")
    number = name.rsplit("/", 1)[1]
    try:
        for state, act in (("RUNNING", lambda: shared_yard.cancel(name)), ("CANCELLED", lambda: None)):
            while True:
                line = process.stdout.readline().rstrip("\n").split("\t")
                if line[1] == number and line[2] == f"JOB_STATE_{state}":
                    break
            assert line[3] == "watched"
            act()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait()


def test_watch_on_a_terminal_redraws(shared_yard):
    shared_yard.wait(shared_yard.create("true", display_name="drawn"))
    ours, theirs = pty.openpty()
    process = subprocess.Popen([BINARY, "ai", "custom-jobs", "list", "--watch", "--filter=displayName=drawn"],
                               env=shared_yard.client_environment(), stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    os.close(theirs)
    text = b""
    try:
        while len(re.findall(rb"\x1b\[H\x1b\[J[^\x1b]*drawn +SUCCEEDED", text)) < 2:
            text += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_watch_has_its_own_format(shared_yard):
    result = shared_yard.trainyard("ai", "custom-jobs", "list", "--watch", "--format=json")
    assert result.returncode == 2 and "--watch" in result.stderr
