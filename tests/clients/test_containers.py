"""test_containers.py -- worker pools with an image, run by a real podman.

The images are made here of a static busybox; nothing is pulled. Where podman is not there, or cannot start a
container (trainyard doctor says why), these tests are skipped with that reason.
"""
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tarfile
import time

import pytest
from yard import BINARY, Yard, clean_environment, command_line

BUSYBOX = pathlib.Path("/bin/busybox")
NAMES = "sh echo sleep env cat kill nc ls touch head sed grep tr true false test printf id mkdir dd wget".split()
PREFIX = f"localhost/trainyard-test-{os.getpid()}"


def podman(*words, check=True, stdin=None):
    result = subprocess.run(["podman", *words], capture_output=True, input=stdin, timeout=300)
    assert not check or result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


def root_tar():
    """busybox with its names, as a root file system."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("bin", "etc", "tmp"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(folder)
        tar.add(BUSYBOX, "bin/busybox")
        for name in NAMES:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        plain = tarfile.TarInfo("etc/plain")
        plain.mode = 0o644
        tar.addfile(plain, io.BytesIO())
    return out.getvalue()


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    if not shutil.which("podman"):
        pytest.skip("podman is not on this machine (apt install podman)")
    if not BUSYBOX.exists() or subprocess.run(["ldd", BUSYBOX], capture_output=True).returncode == 0:
        pytest.skip("no static /bin/busybox to make an image of (apt install busybox-static)")
    folder = tmp_path_factory.mktemp("doctor")
    text = subprocess.run([BINARY, "doctor", "--format=json"], capture_output=True, text=True, timeout=300,
                          env={**clean_environment(), "TRAINYARD_DATA": str(folder)}).stdout
    row = next(row for row in json.loads(text) if row["check"] == "containers")
    if "podman" not in row["detail"] or "starts containers" not in row["detail"]:
        pytest.skip(f"podman cannot start containers here: {row['detail']}")
    return row["detail"]


@pytest.fixture(scope="session")
def images(engine):
    """plain: no entry point; entry: ENTRYPOINT echo entry, CMD cmd; pythonpath: ENV PYTHONPATH=/app."""
    changes = {
        "plain": [],
        "entry": ['ENTRYPOINT ["/bin/echo", "entry"]', 'CMD ["cmd"]'],
        "pythonpath": ["ENV PYTHONPATH=/app", "ENV PATH=/bin", 'CMD ["/bin/env"]'],
    }
    tar, names = root_tar(), {}
    for name, lines in changes.items():
        names[name] = f"{PREFIX}/{name}:1"
        podman("import", *[word for line in lines for word in ("--change", line)], "-", names[name], stdin=tar)
    yield names
    podman("rmi", "--force", *names.values(), check=False)


@pytest.fixture(scope="module")
def container_yard(tmp_path_factory, images):
    settings = {"grace_ms": 1500, "image_replace": f"gcr.io/base/tf2-cpu.*={PREFIX}/plain:1 gcr.io/none={PREFIX}/gone:1"}
    with Yard(tmp_path_factory.mktemp("yard"), settings=settings) as started:
        yield started


def pool(image, command=None, args=None, replicas=1, env=None):
    spec = {"imageUri": image}
    if command is not None:
        spec["command"] = command
    if args is not None:
        spec["args"] = args
    if env:
        spec["env"] = [{"name": k, "value": v} for k, v in env.items()]
    return {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": replicas, "containerSpec": spec}


def shell(images, script, **rest):
    return pool(images["plain"], ["/bin/sh", "-c", script], **rest)


def containers_of(yard, name=None):
    """Ids of this yard's (of this job's) containers, running or not."""
    words = [f"--filter=label=trainyard.data={yard.data}"]
    if name:
        words.append(f"--filter=label=trainyard.job={name.rsplit('/', 1)[1]}")
    return podman("ps", "--all", "--quiet", "--no-trunc", *words).split()


def run(yard, *pools, state="JOB_STATE_SUCCEEDED", **rest):
    name = yard.create(pools=list(pools), **rest)
    job = yard.wait(name, seconds=240)
    assert job["state"] == state, (job, yard.lines(name), yard.lines(name, "service"))
    assert containers_of(yard, name) == []
    return name, job


def wait_for_line(yard, name, wanted, count=1):
    yard.wait_for(lambda: sum(wanted in line for line in yard.lines(name)) >= count, 180, f"the line '{wanted}'")


@pytest.mark.parametrize("command, args, said", [
    (None, None, "entry cmd"),
    (None, ["other", "two words"], "entry other two words"),
    (["/bin/echo", "mine"], None, "mine"),
    (["/bin/echo", "mine"], ["args"], "mine args"),
    (["echo"], ["by PATH", "--flag=x"], "by PATH --flag=x"),
])
def test_command_args_and_entry_point(container_yard, images, command, args, said):
    name, _ = run(container_yard, pool(images["entry"], command, args))
    assert container_yard.lines(name) == [said]


def test_both_streams_and_their_order(container_yard, images):
    name, _ = run(container_yard, shell(images, "for i in 1 2 3; do echo out $i; echo err $i >&2; done; printf 'no newline'"))
    lines = container_yard.lines(name)
    assert [line for line in lines if line.startswith("out")] == ["out 1", "out 2", "out 3"]
    assert [line for line in lines if line.startswith("err")] == ["err 1", "err 2", "err 3"]
    assert "no newline" in lines
    severities = {e["textPayload"]: e["severity"] for e in container_yard.entries(name) if "textPayload" in e}
    assert severities.get("out 1") != severities.get("err 1"), severities


def test_environment(container_yard, images):
    yard = container_yard
    name, _ = run(yard, shell(images, "env; cat $GOOGLE_APPLICATION_CREDENTIALS | grep -c token_uri; echo x > $GOOGLE_APPLICATION_CREDENTIALS "
                                      "|| echo read-only; echo y > $TRAINYARD_FOLDER/mine",
                              env={"WHO": "me and you", "LINES_OF": "one\ntwo"}))
    lines = yard.lines(name)
    env = dict(line.split("=", 1) for line in lines if "=" in line)
    job_id = name.rsplit("/", 1)[1]
    assert env["WHO"] == "me and you" and env["LINES_OF"] == "one" and "two" in lines
    assert env["CLOUD_ML_JOB_ID"] == job_id and env["RANK"] == "0" and env["WORLD_SIZE"] == "1"
    assert json.loads(env["CLUSTER_SPEC"])["task"] == {"type": "workerpool0", "index": 0}
    assert env["GOOGLE_APPLICATION_CREDENTIALS"].startswith(str(yard.data)) and "read-only" in lines
    assert "1" in lines and env["GOOGLE_AUTH_TOKEN_FOR_TESTING"] and env["STORAGE_EMULATOR_HOST"] == yard.url
    assert env["PYTHONPATH"].startswith(str(yard.data))
    assert not {"YARD_FOLDER", "VIRTUAL_ENV", "OLDPWD"} & env.keys(), "the server's own environment is inside"
    assert env["HOME"] != os.environ["HOME"] or env["HOME"] == "/root"
    assert (yard.data / "jobs" / job_id / "1" / "0-0" / "mine").read_text() == "y\n"


def test_no_value_of_the_environment_is_on_a_command_line(container_yard, images):
    """Everybody on this machine can read those."""
    yard = container_yard
    values = {"PLAIN": "sekret-plain-77", "QUOTED": 'sekret "quoted" $77 # \\n', "TWO": "sekret-one\nsekret-two"}
    name = yard.create(pools=[shell(images, 'echo "<$PLAIN|$QUOTED|$TWO>"; echo ready; sleep 1000', env=values)])
    wait_for_line(yard, name, "ready")
    lines = [command_line(pid) for pid in filter(str.isdigit, os.listdir("/proc"))]
    assert any("--env-file=" in line for line in lines) and not any("sekret-plain" in line or "sekret-two" in line for line in lines)
    assert "\n".join(yard.lines(name)[:2]) == f"<{values['PLAIN']}|{values['QUOTED']}|{values['TWO']}>"
    yard.cancel(name)
    yard.wait(name, seconds=180)
    assert not list((yard.data / "jobs" / name.rsplit("/", 1)[1] / "1").glob("*.env"))


def test_out_of_memory(container_yard, images):
    """As with image 'host': the job fails at once, and says the limit."""
    hungry = pool(images["plain"], ["/bin/busybox", "tail", "/dev/zero"])
    hungry["machineSpec"]["machineType"] = "n1-highcpu-2"
    name, job = run(container_yard, hungry, state="JOB_STATE_FAILED")
    assert job["error"]["code"] == 8 and "ran out of memory" in job["error"]["message"], job
    assert "Its limit is 1.8 GB of memory" in job["error"]["message"]
    assert not any("Restarting" in line for line in container_yard.lines(name, "service"))


def test_usage_is_the_containers(container_yard, images):
    """Not that of the engine's client, which has no work to do."""
    yard = container_yard
    name, _ = run(yard, shell(images, "i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done"))
    journal = (yard.data / "jobs" / name.rsplit("/", 1)[1] / "1" / "journal").read_text()
    (used,) = [dict(word.split("=", 1) for word in line.split(" used ", 1)[1].split()) for line in journal.splitlines()
               if " used pool=0 " in line]  # pool -1 is the preparation
    assert int(used["cpu_us"]) > 1000000 and 0 < int(used["peak"]) < 8 << 20, used
    assert used["method"].startswith("cgroup") and used["enforced"] == "1", used


def test_python_path_of_the_image_stays(container_yard, images):
    name, _ = run(container_yard, pool(images["pythonpath"]))
    env = dict(line.split("=", 1) for line in container_yard.lines(name) if "=" in line)
    assert env["PYTHONPATH"] == f"{container_yard.data}/client/python:/app" and env["PATH"] == "/bin"
    name, _ = run(container_yard, pool(images["pythonpath"], env={"PYTHONPATH": "/users"}))
    assert "PYTHONPATH=/users" in container_yard.lines(name)


def test_output_folder(container_yard, images, tmp_path):
    run(container_yard, shell(images, "echo weights > $AIP_MODEL_DIR/model"),
        baseOutputDirectory={"outputUriPrefix": str(tmp_path / "out:put")})
    assert (tmp_path / "out:put" / "model" / "model").read_text() == "weights\n"


def test_buckets_are_at_gcs(container_yard, images):
    """The chief has the model's folder, a worker one of its own in its place."""
    yard = container_yard
    assert yard.call("POST", "/storage/v1/b?project=p", {"name": "in-containers"}).status == 200
    script = "echo $TRAINYARD_REPLICA >/gcs/in-containers/out/model/who; cat /gcs/in-containers/out/model/who; echo $AIP_MODEL_DIR; "
    name, _ = run(yard, shell(images, script + "until [ -e /gcs/in-containers/out/model/workertemp_1/said ]; do sleep 0.2; done"),
                  shell(images, script + "touch /gcs/in-containers/out/model/said; sleep 600"), baseOutputDirectory={"outputUriPrefix": "gs://in-containers/out"})
    assert "gs://in-containers/out/model/" in yard.lines(name) and "1-0" in yard.lines(name), yard.lines(name)
    assert (yard.data / "buckets" / "in-containers" / "out" / "model" / "who").read_text() == "0-0\n"


def test_exit_status_is_the_programs(container_yard, images):
    name, job = run(container_yard, shell(images, "echo reason; exit 3"), state="JOB_STATE_FAILED")
    assert job["error"]["code"] == 3 and "non-zero status of 3" in job["error"]["message"] and "reason" in job["error"]["message"]


@pytest.mark.parametrize("status", [125, 126, 127])
def test_status_of_the_program_is_not_taken_for_the_engines(container_yard, images, status):
    name, job = run(container_yard, shell(images, f"echo mine; exit {status}"), state="JOB_STATE_FAILED")
    assert f"status of {status}" in job["error"]["message"] and "trainyard:" not in job["error"]["message"]


def test_program_that_is_not_in_the_image(container_yard, images):
    name, job = run(container_yard, pool(images["plain"], ["/bin/nothere", "x"]), state="JOB_STATE_FAILED")
    assert job["error"]["code"] == 3 and "status of 127" in job["error"]["message"]
    assert f"command not found in image: '/bin/nothere' is not in {images['plain']}" in job["error"]["message"]
    assert "Give the path that '/bin/nothere' has inside the image" in job["error"]["message"] and "'host'" not in job["error"]["message"]


def test_program_that_cannot_be_run(container_yard, images):
    name, job = run(container_yard, pool(images["plain"], ["/etc/plain"]), state="JOB_STATE_FAILED")
    assert "status of 126" in job["error"]["message"] and "'/etc/plain' of image" in job["error"]["message"]
    assert "'/etc/plain' must be a program inside the image" in job["error"]["message"]


def test_image_without_anything_to_run(container_yard, images):
    name, job = run(container_yard, pool(images["plain"]), state="JOB_STATE_FAILED")
    assert "status of 125" in job["error"]["message"] and "could not start a container" in job["error"]["message"]
    assert "the status is the engine's" in job["error"]["message"] and "program's own" not in job["error"]["message"]


def test_two_pools_talk_over_the_hosts_network(container_yard, images):
    chief = 'echo "$TF_CONFIG" | grep -c \'"type":"chief"\'; nc -l -p $MASTER_PORT </dev/zero; echo chief is done'
    worker = 'echo "rank $RANK"; until echo "hello from $RANK" | nc 127.0.0.1 $MASTER_PORT >/dev/null 2>&1; do sleep 0.2; done; sleep 60'
    name, _ = run(container_yard, shell(images, chief), shell(images, worker))
    assert container_yard.lines(name, "workerpool0-0") == ["1", "hello from 1", "chief is done"]
    assert container_yard.lines(name, "workerpool1-0") == ["rank 1"]


def test_cancel_reaches_the_first_process_once(tmp_path, images):
    """A yard of its own, whose grace is not over before the program's last word is heard."""
    with Yard(tmp_path, settings={"grace_ms": 120_000}) as yard:
        name = yard.create(pools=[shell(images, "trap 'echo got it; sleep 0.5; echo saved; exit 0' TERM; echo ready; while true; do sleep 0.1; done")])
        wait_for_line(yard, name, "ready")
        yard.cancel(name)
        assert yard.wait(name, seconds=180)["state"] == "JOB_STATE_CANCELLED"
        assert yard.lines(name) == ["ready", "got it", "saved"]
        assert not any("is killed" in line for line in yard.lines(name, "service"))
        assert containers_of(yard, name) == []


def test_program_that_ignores_sigterm_is_killed(container_yard, images):
    yard = container_yard
    name = yard.create(pools=[shell(images, "trap '' TERM; echo ready; while true; do sleep 1; done")])
    wait_for_line(yard, name, "ready")
    yard.cancel(name)
    assert yard.wait(name, seconds=180)["state"] == "JOB_STATE_CANCELLED"
    assert any("is killed" in line for line in yard.lines(name, "service"))
    assert containers_of(yard, name) == []


def test_cancel_while_it_starts(container_yard, images):
    """A container that is not there yet when the cancel comes does not come later."""
    yard = container_yard
    for delay in (0, 0.15, 0.3, 0.45):
        name = yard.create(pools=[shell(images, "echo ready; sleep 1000")])
        yard.wait(name, ("JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_QUEUED"))
        time.sleep(delay)
        yard.cancel(name)
        assert yard.wait(name, seconds=180)["state"] == "JOB_STATE_CANCELLED"
        assert containers_of(yard, name) == []
    time.sleep(1)
    assert containers_of(yard) == []


def test_timeout(container_yard, images):
    name, job = run(container_yard, shell(images, "echo ready; while true; do sleep 0.1; done"), state="JOB_STATE_FAILED",
                    scheduling={"timeout": "2s"})
    assert job["error"]["code"] == 4


def test_replica_ended_by_a_signal_is_restarted(container_yard, images):
    yard = container_yard
    script = 'if [ -e $TRAINYARD_FOLDER/second ]; then echo second life; exit 0; fi; touch $TRAINYARD_FOLDER/second; echo ready; sleep 1000'
    name = yard.create(pools=[shell(images, script)])
    wait_for_line(yard, name, "ready")
    (cid,) = containers_of(yard, name)
    podman("kill", "--signal=KILL", cid)
    assert yard.wait(name, seconds=180)["state"] == "JOB_STATE_SUCCEEDED"
    assert yard.lines(name) == ["ready", "second life"]
    assert any("Restarting it (1 of 5)" in line for line in yard.lines(name, "service"))
    assert containers_of(yard, name) == []


def test_image_replaced_by_pattern(container_yard, images):
    yard = container_yard
    asked = "gcr.io/base/tf2-cpu.2-12:latest"
    name, _ = run(yard, pool(asked, ["/bin/echo", "replaced"]))
    assert yard.lines(name) == ["replaced"]
    assert f"Image: asked for {asked}, using {images['plain']} (setting image_replace)." in yard.lines(name, "service")


def test_image_that_is_nowhere(container_yard):
    """`localhost/` is no registry that answers: the pull fails at once, without leaving the machine."""
    name, job = run(container_yard, pool("gcr.io/none", ["/bin/true"]), state="JOB_STATE_FAILED")
    message = job["error"]["message"]
    assert job["error"]["code"] == 3 and message.startswith("The container could not be prepared."), message
    assert f"podman build -t {PREFIX}/gone:1 ." in message
    assert any("pulling it" in line for line in container_yard.lines(name, "service"))
    assert "All replicas are running" not in " ".join(container_yard.lines(name, "service"))


@pytest.mark.parametrize("image", ["", "-v", "has space", "--privileged"])
def test_what_is_no_image_name(container_yard, image):
    reply = container_yard.call("POST", "/v1/projects/trainyard/locations/us-central1/customJobs",
                                container_yard.job(pools=[pool(image, ["/bin/true"])]))
    assert reply.status == 400 and "containerSpec.imageUri" in reply.body.decode(), reply


@pytest.mark.parametrize("setting, why", [("none", "is 'none'"), ("/nowhere/docker", "is not installed"), ("x", "not auto, podman")])
def test_no_engine_is_a_refusal_that_says_what_to_do(tmp_path, setting, why):
    with Yard(tmp_path, settings={"container_engine": setting}) as yard:
        reply = yard.call("POST", "/v1/projects/trainyard/locations/us-central1/customJobs",
                          yard.job(pools=[pool("gcr.io/p/x:1", ["/bin/true"])]))
        assert reply.status == 400, reply
        (violation,) = reply.json["error"]["details"][0]["fieldViolations"]
        assert violation["field"] == "jobSpec.workerPoolSpecs[0].containerSpec.imageUri"
        for words in (why, "apt install podman", "image 'host'"):
            assert words in violation["description"], violation
        assert yard.wait(yard.create("true"))["state"] == "JOB_STATE_SUCCEEDED"


def test_usage_that_cannot_be_seen_is_not_the_clients(tmp_path):
    """An engine whose containers are elsewhere, as a docker with a remote daemon has them."""
    engine = tmp_path / "docker"
    engine.write_text('#!/bin/sh\nfor w; do case $w in --cidfile=*) echo c0ffee >"${w#--cidfile=}";; esac; done\n'
                      'case "$1" in version) echo 1;; info) echo true true;; run) echo ran; sleep 0.5;; esac\nexit 0\n')
    engine.chmod(0o755)
    with Yard(tmp_path, settings={"container_engine": engine}) as yard:
        name = yard.create(pools=[pool("gcr.io/p/x:1", ["/bin/true"])])
        assert yard.wait(name, seconds=180)["state"] == "JOB_STATE_SUCCEEDED", yard.lines(name, "service")
        assert yard.lines(name) == ["ran"]
        assert any(line.startswith("Used: not measured") for line in yard.lines(name, "service")), yard.lines(name, "service")


def conductor_of(yard, name):
    record = (yard.data / "jobs" / name.rsplit("/", 1)[1] / "1" / "journal").read_text()
    return int(record.split("pid=", 1)[1].split()[0])


def test_killed_conductor_leaves_no_container(container_yard, images):
    yard = container_yard
    name = yard.create(pools=[shell(images, "trap '' TERM; echo ready; while true; do sleep 1; done")] * 2,
                       scheduling={"disableRetries": True})
    wait_for_line(yard, name, "ready", 2)
    assert len(containers_of(yard, name)) == 2
    os.kill(conductor_of(yard, name), signal.SIGKILL)
    assert yard.wait(name, seconds=180)["state"] in ("JOB_STATE_FAILED", "JOB_STATE_SUCCEEDED")
    yard.wait_for(lambda: containers_of(yard, name) == [], 90, "containers to be removed")


def test_killed_server_finds_its_containers_again(container_yard, images):
    yard = container_yard
    lives = yard.create(pools=[shell(images, "echo ready; while [ ! -e $TRAINYARD_FOLDER/go ]; do sleep 0.1; done; echo done")])
    dies = yard.create(pools=[shell(images, "echo ready; sleep 1000")], scheduling={"disableRetries": True})
    for name in (lives, dies):
        wait_for_line(yard, name, "ready")
    yard.stop(signal.SIGKILL)
    os.kill(conductor_of(yard, dies), signal.SIGKILL)
    yard.restart()
    assert yard.wait(dies, seconds=180)["state"] == "JOB_STATE_FAILED"
    assert containers_of(yard, dies) == [] and len(containers_of(yard, lives)) == 1
    (yard.data / "jobs" / lives.rsplit("/", 1)[1] / "1" / "0-0" / "go").touch()
    assert yard.wait(lives, seconds=180)["state"] == "JOB_STATE_SUCCEEDED"
    assert yard.lines(lives) == ["ready", "done"] and containers_of(yard) == []


def test_another_yards_containers_are_left_alone(container_yard, images, tmp_path):
    with Yard(tmp_path, settings={"grace_ms": 500}) as other:
        name = other.create(pools=[shell(images, "echo ready; sleep 1000")])
        wait_for_line(other, name, "ready")
        run(container_yard, shell(images, "true"))
        assert len(containers_of(other)) == 1
        other.cancel(name)
        other.wait(name, seconds=180)
        assert containers_of(other) == []


def test_doctor_names_the_engine(container_yard, engine):
    assert "podman" in engine and "starts containers" in engine
    text = container_yard.trainyard("doctor", timeout=300).stdout
    assert re.search(r"^ok +containers +podman ", text, re.M), text
