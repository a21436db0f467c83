"""Our own command, in gcloud's words."""
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from yard import BINARY, TOP, start_seconds

HOST = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=host"
CREATE = ("ai", "custom-jobs", "create")


@pytest.fixture
def run(shared_yard):
    def run(*words, expect=0, **rest):
        result = shared_yard.trainyard(*words, **rest)
        assert result.returncode == expect, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result
    return run


def created(result):
    return re.search(r"\[(projects/[^\]]+/customJobs/\d+)\]", result.stderr)[1]


def test_create_from_flags(run, shared_yard):
    name = created(run(*CREATE, "--region=us-central1", "--project=trainyard", "--display-name=flags", HOST,
                       HOST + ",replica-count=2", "--command=sh,-c", "--args=^|^echo $0 $RANK|a,b", "--labels=k=v,l=w"))
    job = shared_yard.wait(name)
    assert job["state"] == "JOB_STATE_SUCCEEDED" and job["labels"] == {"k": "v", "l": "w"}
    assert [p["replicaCount"] for p in job["jobSpec"]["workerPoolSpecs"]] == ["1", "2"]
    assert shared_yard.lines(name, "workerpool0-0") == ["a,b 0"]


def test_stdout_is_data_only(run, shared_yard):
    made = run(*CREATE, "--display-name=json", HOST, "--command=true", "--format=json")
    assert json.loads(made.stdout)["displayName"] == "json"
    assert run(*CREATE, "--display-name=quiet", HOST, "--command=true").stdout == ""


def test_create_from_yaml_flags_win(run, shared_yard, tmp_path):
    (tmp_path / "job.yaml").write_text("""
workerPoolSpecs:
  machineSpec: {machineType: n1-standard-4}
  containerSpec: {imageUri: host, command: [echo], args: [from, file]}
""")
    config = f"--config={tmp_path}/job.yaml"
    name = created(run(*CREATE, "--display-name=one-mapping", config))
    assert shared_yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED" and shared_yard.lines(name) == ["from file"]
    name = created(run(*CREATE, "--display-name=flags-win", config, "--args=from,flags"))
    shared_yard.wait(name)
    assert shared_yard.lines(name) == ["from flags"]


def test_the_demo_job(run, shared_yard, tmp_path):
    """As it is, but that its chief, whose end stops the worker, waits until that has said what it is."""
    text = (TOP / "examples" / "hello" / "job.yaml").read_text()
    for end, more in (("of 3\"; done\n", "until [ -e ../1-0/said ]; do sleep 0.05; done"), ("of 2\"; done\n", "touch said")):
        assert text.count(end) == 1
        text = text.replace(end, end + 10 * " " + more + "\n")
    (tmp_path / "job.yaml").write_text(text)
    name = created(run(*CREATE, "--display-name=hello", f"--config={tmp_path}/job.yaml"))
    assert shared_yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
    assert any('"chief"' in line or "chief" in line for line in shared_yard.lines(name, "workerpool0-0"))
    assert any("worker" in line for line in shared_yard.lines(name, "workerpool1-0"))


@pytest.mark.parametrize("text, named", [
    ("workerPoolSpecs: [{replicaCount: 1, bogus: 2, containerSpec: {imageUri: host}}]", "bogus"),
    ("workerPoolSpecs: [{replicaCount: -1, containerSpec: {imageUri: host}}]", "replicaCount"),
    ("workerPoolSpecs: 7", "workerPoolSpecs"),
    ("workerPoolSpecs: [", "job.yaml"),
    ("a: &a [*a]", "job.yaml"),
    ("\x01\x02", "job.yaml"),
    ("- just a list", "job.yaml"),
], ids=lambda value: re.sub(r"\W+", "-", value)[:24])
def test_bad_yaml_is_named(run, shared_yard, tmp_path, text, named):
    (tmp_path / "job.yaml").write_text(text)
    before = len(shared_yard.list())
    result = run(*CREATE, "--display-name=bad", f"--config={tmp_path}/job.yaml", expect=1)
    assert named in result.stderr and result.stdout == ""
    assert len(shared_yard.list()) == before


@pytest.mark.parametrize("words", [
    ("ai", "custom-jobs", "create"), ("ai", "custom-jobs", "create", "--display-name=x"), ("ai", "custom-jobs", "describe"),
    ("ai", "custom-jobs", "list", "--bogus"), ("ai", "custom-jobs", "list", "extra"), ("bogus",), ("ai", "bogus"),
    ("ai", "custom-jobs", "create", "--display-name=x", "--worker-pool-spec=bogus=1"),
], ids=" ".join)
def test_wrong_use_is_exit_2_and_says_so(run, words):
    result = run(*words, expect=2)
    assert result.stderr.strip() and result.stdout == ""


def test_help_names_every_command(run):
    text = run("--help").stdout
    for words in ("serve", "env", "ai custom-jobs create", "ai custom-jobs list", "ai custom-jobs describe",
                  "ai custom-jobs cancel", "ai custom-jobs stream-logs"):
        assert words in text
    assert "--worker-pool-spec" in run(*CREATE, "--help").stdout


def test_list_describe_cancel(run, shared_yard):
    name = shared_yard.create("sleep", "600", display_name="cli-list")
    short = name.rsplit("/", 1)[1]
    shared_yard.wait(name, "JOB_STATE_RUNNING")
    assert name in run("ai", "custom-jobs", "list").stdout
    listed = json.loads(run("ai", "custom-jobs", "list", "--filter=displayName=cli-list", "--format=json").stdout)
    assert [j["name"] for j in listed] == [name]
    assert "JOB_STATE_RUNNING" in run("ai", "custom-jobs", "describe", short, "--region=us-central1").stdout
    run("ai", "custom-jobs", "cancel", name)
    assert shared_yard.wait(name)["state"] == "JOB_STATE_CANCELLED"
    assert json.loads(run("ai", "custom-jobs", "describe", name, "--format=json").stdout)["error"]["code"] == 1
    assert "NOT_FOUND" in run("ai", "custom-jobs", "describe", "5", expect=1).stderr or True


def test_stream_logs_follows_to_the_end(run, shared_yard):
    name = shared_yard.create("sh", "-c", "for i in 1 2 3; do echo tick $i; sleep 0.4; done; echo oops >&2")
    result = run("ai", "custom-jobs", "stream-logs", name)
    texts = [line.split("\t")[-1] for line in result.stdout.splitlines() if "workerpool0-0" in line]
    assert texts == ["tick 1", "tick 2", "tick 3", "oops"]


def test_stream_logs_lines_come_as_they_are_printed(shared_yard, tmp_path):
    """The second is printed when the first has been read: who held lines back would wait for ever."""
    name = shared_yard.create("sh", "-c", f"echo first; until [ -e {tmp_path}/read ]; do sleep 0.05; done; echo second")
    process = subprocess.Popen([BINARY, "ai", "custom-jobs", "stream-logs", name], env=shared_yard.client_environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    limit = threading.Timer(60, process.kill)
    limit.start()
    try:
        seen = []
        for line in process.stdout:
            seen += [word for word in ("first", "second") if line.rstrip().endswith(word)]
            if seen == ["first"]:
                (tmp_path / "read").touch()
        assert process.wait(60) == 0
        assert seen == ["first", "second"]
    finally:
        limit.cancel()
        (tmp_path / "read").touch()
        process.kill()
        process.wait()


def test_interrupt_detaches_and_says_how_to_come_back(shared_yard):
    name = shared_yard.create("sh", "-c", "echo here; sleep 600")
    process = subprocess.Popen([BINARY, "ai", "custom-jobs", "stream-logs", name], env=shared_yard.client_environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not (line := process.stdout.readline()).rstrip().endswith("here"):
            assert line, "it ended by itself"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert "stream-logs" in errors and name.rsplit("/", 1)[1] in errors
        shared_yard.wait(name, "JOB_STATE_RUNNING")  # its line may be there before its state
    finally:
        process.kill()
        process.wait()
        shared_yard.cancel(name)


def test_no_server_is_said_at_once(tmp_path, run):
    """No timer, no second try: it takes as long as a program takes to start."""
    run("version")
    other, start = start_seconds(), time.monotonic()
    result = run("ai", "custom-jobs", "list", expect=1, environment={"TRAINYARD_URL": "http://127.0.0.1:9", "HOME": str(tmp_path)})
    assert "127.0.0.1:9" in result.stderr and time.monotonic() - start < 2 + 20 * other


def test_env_unset_undoes_env(shared_yard):
    script = f'''set -e
        env -0 | sort -z | grep -zvE '^(_|SHLVL|OLDPWD|BASH)' > "$OUT/before"
        eval "$("{BINARY}" env --data "{shared_yard.data}")"
        command -v trainyard > "$OUT/where"
        eval "$(trainyard env --unset)"
        env -0 | sort -z | grep -zvE '^(_|SHLVL|OLDPWD|BASH)' > "$OUT/after"'''
    out = shared_yard.folder / "env"
    out.mkdir(exist_ok=True)
    from yard import clean_environment
    environment = {**clean_environment(), "TRAINYARD_URL": shared_yard.url, "OUT": str(out), "PYTHONPATH": "/their/own"}
    result = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert (out / "where").read_text().strip()
    before, after = ({*(out / n).read_bytes().split(b"\0")} for n in ("before", "after"))
    url = f"TRAINYARD_URL={shared_yard.url}".encode()
    assert before - after <= {url, b""} and not after - before


@pytest.mark.parametrize("path", ["{b}:{a}:{own}", "{a}:{b}:{own}", "{a}:{own}"])
def test_two_yards_in_one_shell_are_no_loop(shared_yard, tmp_path, path):
    """sitecustomize.py hands over to the user's own, never to that of another yard."""
    other, own = tmp_path / "client", tmp_path / "own"
    shutil.copytree(shared_yard.data / "client" / "python", other / "python")
    (other / "key.json").write_text("{}")
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('mine')")
    folders = path.format(a=shared_yard.data / "client" / "python", b=other / "python", own=own)
    for key in ("there", "gone"):  # without it the folder is not known for ours, and the guard has to hold
        if key == "gone":
            (other / "key.json").unlink()
        result = subprocess.run([sys.executable, "-c", "print('ran')"], capture_output=True, text=True, timeout=60,
                                env={**shared_yard.client_environment(), "PYTHONPATH": folders})
        assert result.returncode == 0 and "RecursionError" not in result.stderr and "ran" in result.stdout, result.stderr
        assert key == "gone" or result.stdout == "mine\nran\n", result.stdout


def test_a_second_env_replaces_the_first(shared_yard, yard):
    script = f'''eval "$("{BINARY}" env --data "{yard.data}")"
        export TRAINYARD_DATA="{shared_yard.data}"; unset TRAINYARD_URL
        eval "$("{BINARY}" env)"; echo "$PYTHONPATH"'''
    result = shared_yard.run("bash", "-c", script)
    assert str(yard.data) not in result.stdout and str(shared_yard.data) in result.stdout, result.stdout + result.stderr


def test_shims_on_request_only(run, shared_yard):
    client = shared_yard.data / "client"
    asked, plain = (f'eval "$("{BINARY}" env --data "{shared_yard.data}"{flag})"; command -v gcloud || echo none; '
                    for flag in (" --shims", ""))
    result = shared_yard.run("bash", "-c", asked + "gcloud ai custom-jobs list --format=json")
    where, listed = result.stdout.split("\n", 1)
    assert where == str(client / "shims" / "gcloud") and (client / "shims" / "gcloud").resolve() == BINARY.resolve()
    json.loads(listed)
    for script in (plain, asked + plain,
                   asked + f'eval "$("{BINARY}" env --unset)"; command -v gcloud || echo none'):
        last = shared_yard.run("bash", "-c", script).stdout.splitlines()[-1]
        assert not last.startswith(str(client)), f"another shell got the shims: {last}"


@pytest.mark.parametrize("spec, words", [
    ("name.basename(),jobSpec.workerPoolSpecs[0].machineSpec.machineType,nope,displayName", ["{id}", "n1-standard-4", "", "keys"]),
    ("jobSpec.workerPoolSpecs[7].replicaCount,jobSpec.workerPoolSpecs.replicaCount", ["", "1"]),
])
def test_format_value_as_gcloud_does(run, shared_yard, gcloud, spec, words):
    name = shared_yard.create("true", display_name="keys")
    want = "\t".join(words).format(id=name.rsplit("/", 1)[1])
    ask = ("ai", "custom-jobs", "describe", name, f"--format=value({spec})")
    assert run(*ask).stdout == want + "\n"
    assert shared_yard.run(gcloud, *ask, "--region=us-central1").stdout == want + "\n"


def test_format_refuses_transforms_by_name(run):
    assert "'scope()'" in run("ai", "custom-jobs", "list", "--format=value(name.scope())", expect=2).stderr


def test_unknown_sort_key_is_accepted_as_in_gcloud(run):
    run("ai", "custom-jobs", "list", "--sort-by=nonsense", "--format=none")


def test_a_server_that_moved_is_named(run, shared_yard):
    errors = run("ai", "custom-jobs", "list", expect=1, environment={"TRAINYARD_URL": "http://127.0.0.1:9"}).stderr
    assert f"is now at {shared_yard.url}" in errors and 'eval "$(trainyard env' in errors and "Start one" not in errors


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")
def test_a_server_of_another_user_is_named(shared_yard):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(BINARY, folder)
        result = subprocess.run([program, "ai", "custom-jobs", "list"], user=65534, group=65534, extra_groups=[],
                                env={"HOME": folder, "TRAINYARD_URL": shared_yard.url}, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and "Start one with" not in result.stderr
    assert "answers only that user" in result.stderr and "uid 0" in result.stderr


def test_a_second_serve_says_where_the_first_is(shared_yard, tmp_path):
    result = shared_yard.trainyard("serve", "--data", shared_yard.data)
    assert result.returncode == 1 and shared_yard.url in result.stderr
    address = shared_yard.url.removeprefix("http://")
    result = shared_yard.trainyard("serve", "--data", tmp_path, "--listen", address)
    assert result.returncode == 1 and f"cannot listen on {address}" in result.stderr and "--listen" in result.stderr


@pytest.mark.parametrize("words, named", [
    (("serve", "--bogus"), "--bogus"), (("serve", "extra"), "extra"), (("serve", "--data"), "--data needs a value"),
    (("serve", "--format=json"), "--format"), (("launch",), "internal"), (("ai", "custom-jobs"), "stream-logs"),
    (("env", "--project=p"), "--project"), (("custom-jobs", "lst"), "Did you mean this? trainyard ai custom-jobs list"),
    ((*CREATE, "--worker-pool-spec=machine-type=X,", "replica-count=1"), "--worker-pool-spec=machine-type=X,replica-count=1"),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_wrong_use_names_what_is_wrong(run, words, named):
    result = run(*words, expect=2)
    assert named in result.stderr and result.stdout == ""


def test_help_of_serve_is_one_text(run):
    text = run("serve", "--help").stdout
    assert text == run("help", "serve").stdout and "--format" not in text and "help settings" in text
    assert "stream-logs" in run("ai", "custom-jobs", "--help").stdout


def test_config_from_stdin_with_aliases(shared_yard):
    text = """
workerPoolSpecs:
- machineSpec: &machine {machineType: n1-standard-4}
  containerSpec: &container {imageUri: host, command: [echo, hello]}
- {machineSpec: *machine, containerSpec: *container}
"""
    result = subprocess.run([BINARY, *CREATE, "--display-name=stdin", "--config=-"], input=text, text=True,
                            env=shared_yard.client_environment(), capture_output=True, timeout=60)
    job = shared_yard.wait(created(result))
    assert [p["machineSpec"]["machineType"] for p in job["jobSpec"]["workerPoolSpecs"]] == ["n1-standard-4"] * 2
    assert shared_yard.lines(job["name"], "workerpool0-0") == ["hello"]


def test_config_that_is_no_spec(run, tmp_path):
    (tmp_path / "whole.yaml").write_text("displayName: x\njobSpec: {workerPoolSpecs: []}\n")
    assert "CustomJobSpec" in run(*CREATE, "--display-name=x", f"--config={tmp_path}/whole.yaml", expect=1).stderr
    errors = run(*CREATE, "--display-name=x", f"--config={tmp_path}", expect=1).stderr
    assert "is a folder" in errors and "INTERNAL" not in errors


@pytest.mark.parametrize("kind, words", [("nvidia-tesla-t4", "did you mean 'NVIDIA_TESLA_T4'"), ("bogus", "NVIDIA_TESLA_T4, ")])
def test_accelerators_are_suggested(run, kind, words):
    assert words in run(*CREATE, "--display-name=x", f"{HOST},accelerator-type={kind}", "--command=true", expect=1).stderr


def test_stream_logs_of_what_is_not_there(run, shared_yard):
    errors = run("ai", "custom-jobs", "stream-logs", "77", expect=1).stderr
    assert "no job '77' in project 'trainyard'" in errors
    name = shared_yard.create("echo", "hello")
    errors = run("ai", "custom-jobs", "stream-logs", name, "--task-name=bogus").stderr
    assert "no replica 'bogus'" in errors and "workerpool0-0" in errors
    assert "no replica" not in run("ai", "custom-jobs", "stream-logs", name, "--task-name=workerpool0-0").stderr


def test_control_characters_do_not_reach_a_terminal(shared_yard):
    shared_yard.create("true", display_name="bell\a\x1b[31mred\nline")

    def on_terminal(*words):
        ours, theirs = pty.openpty()
        process = subprocess.Popen([BINARY, *words], env=shared_yard.client_environment(), stdout=theirs, stderr=theirs,
                                   stdin=subprocess.DEVNULL)
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 65536):
                text += part
        except OSError:
            pass  # how the end of a terminal reads
        os.close(ours)
        process.wait(60)
        return text
    text = on_terminal("ai", "custom-jobs", "list")
    assert rb"bell\x07\x1b[31mred\nline" in text and b"\x1b" not in text and b"\a" not in text
    text = on_terminal("ai", "custom-jobs", "list", "--filter=\x1b]0;title\a=1")
    assert rb"\x1b]0;title\x07" in text and b"\x1b" not in text and b"\a" not in text
