"""AI Platform jobs: the older API through real gcloud, our own command, and as the other half of Vertex's view.

Trainers here are small (they print what they were given); the estimator of examples/chicago-taxi-tf is in test_chicago.py."""
import ast
import json
import os
import pathlib
import re
import shlex
import shutil

import pytest
from test_containers import engine, images, podman  # noqa: F401 - fixtures
from yard import BINARY

SCRIPTS = pathlib.Path(__file__).parent / "scripts"
JOBS = "/v1/projects/trainyard/jobs"
SAY = ("import json, os, sys\nc = json.loads(os.environ['TF_CONFIG'])\n"
       "who = ['task', c['task'], 'of', {k: len(v) for k, v in c['cluster'].items()}, sys.argv[1:], os.environ.get('CLOUD_ML_JOB_ID')]\n"
       "sys.stdout.write(' '.join(map(str, who)) + '\\n')\nsys.stdout.flush()\n")  # at once: others write to the same pipe
CUSTOM = """
trainingInput:
  scaleTier: CUSTOM
  masterType: n1-highcpu-16
  workerType: n1-highcpu-16
  parameterServerType: n1-highmem-8
  workerCount: 4
  parameterServerCount: 1
  masterConfig:
    imageUri: host
    containerCommand: [python3, FOLDER/role.py]
"""
# Says who it is; the master, whose end stops the others, waits until all six have.
ROLE = """
import json, os, pathlib, time
task = json.loads(os.environ['TF_CONFIG'])['task']
print(task, flush=True)
said = pathlib.Path(__file__).parent / 'said'
(said / f"{task['type']}-{task['index']}").touch()
while task['type'] == 'master' and len(list(said.iterdir())) < 6:
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    """A folder with the package `trainer`, whose task says who it is."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "trainer").mkdir()
    (folder / "trainer" / "__init__.py").write_text("")
    (folder / "trainer" / "task.py").write_text(SAY)
    (folder / "config.yaml").write_text("trainingInput:\n  scaleTier: BASIC\n")
    (folder / "config-ps.yaml").write_text(CUSTOM.split("  masterConfig")[0])
    (folder / "config-gpu.yaml").write_text("trainingInput:\n  scaleTier: CUSTOM\n  masterType: n1-standard-8\n  masterConfig:\n"
                                            "    acceleratorConfig: {count: 1, type: NVIDIA_TESLA_T4}\n")
    return folder


def bucket(yard, name):
    reply = yard.call("POST", "/storage/v1/b?project=trainyard", {"name": name})
    assert reply.status in (200, 409), reply
    return f"gs://{name}"


def body(job_id, command=("true",), **rest):
    return {"jobId": job_id, "trainingInput": {"region": "us-central1", "masterConfig": {"imageUri": "host", "containerCommand": list(command)}, **rest}}


def submit(yard, *args, **rest):
    reply = yard.call("POST", JOBS, body(*args, **rest))
    assert reply.status == 200, reply
    return reply.json


def wait(yard, job_id, states=("SUCCEEDED", "FAILED", "CANCELLED"), seconds=120):
    def there():
        job.update(yard.get(f"{JOBS}/{job_id}").json)
        return job["state"] in states
    job = {}
    yard.wait_for(there, seconds, f"{job_id} to be {states}")
    return job


def entries(yard, job_id):
    """(task, text) of a job's log, asked for as gcloud's stream-logs does."""
    asked, found, token = {
        "resourceNames": ["projects/trainyard"], "orderBy": "timestamp asc", "pageSize": 1000,
        "filter": f'(resource.type="ml_job" OR resource.type="cloudml_job") AND resource.labels.job_id="{job_id}"'}, [], ""
    while token is not None:
        reply = yard.call("POST", "/v2/entries:list", {**asked, **({"pageToken": token} if token else {})}).json
        found += [(e["resource"]["labels"]["task_name"], e.get("textPayload", "")) for e in reply.get("entries", [])]
        token = reply.get("nextPageToken") or None
    return found


# ---- real gcloud ----


@pytest.fixture
def real(tf_yard, gcloud):
    def run(*words, expect=0, cwd=None, timeout=300):
        result = tf_yard.run(gcloud, *words, timeout=timeout, cwd=cwd)
        assert result.returncode == expect, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result
    return run


@pytest.mark.slow
def test_gcloud_submits_a_package_and_follows(real, tf_yard, trainer):
    """gcloud builds the sdist and uploads it by itself; --stream-logs ends with the job, and well."""
    ran = real("ai-platform", "jobs", "submit", "training", "from_gcloud", "--package-path=trainer", "--module-name=trainer.task",
               f"--staging-bucket={bucket(tf_yard, 'staging')}", "--job-dir=gs://staging/out dir", "--region=us-central1", "--runtime-version=2.11",
               "--python-version=3.7", "--scale-tier=basic", "--labels=team=a", "--stream-logs", "--", "--a=b", "c d", cwd=trainer)
    assert "Job [from_gcloud] submitted successfully." in ran.stderr and "state: SUCCEEDED" in ran.stdout
    said = [line.split("\t") for line in ran.stderr.splitlines() if line.count("\t") == 4]
    assert ["task {'type': 'chief', 'index': 0} of {'chief': 1} ['--a=b', 'c d', '--job-dir', 'gs://staging/out dir'] from_gcloud"] == \
        [message for _, _, task, _, message in said if task == "master-replica-0" and message.startswith("task")]
    assert [(task, message) for _, _, task, _, message in said][-3:] == [
        ("master-replica-0", "Clean up finished."), ("master-replica-0", "Finished tearing down training program."), ("service", "Job completed successfully.")]
    job = tf_yard.get(f"{JOBS}/from_gcloud").json
    assert re.fullmatch(r"gs://staging/from_gcloud/[0-9a-f]{64}/trainer-0.0.0.tar.gz", job["trainingInput"]["packageUris"][0])
    assert job["labels"] == {"team": "a"}


@pytest.mark.slow
def test_gcloud_stream_logs_exits_1_for_a_job_that_failed(real, tf_yard, trainer, tmp_path):
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").write_text("")
    (tmp_path / "trainer" / "task.py").write_text("raise SystemExit(3)\n")
    ran = real("ai-platform", "jobs", "submit", "training", "fails", "--package-path=trainer", "--module-name=trainer.task",
               f"--staging-bucket={bucket(tf_yard, 'staging')}", "--region=us-central1", "--runtime-version=2.11", "--stream-logs", cwd=tmp_path, expect=1)
    assert "state: FAILED" in ran.stdout
    assert "The replica master 0 exited with a non-zero status of 3" in tf_yard.get(f"{JOBS}/fails").json["errorMessage"]


def test_gcloud_workers_and_a_parameter_server(warm_gcloud, shared_yard, tmp_path):
    (tmp_path / "said").mkdir()
    (tmp_path / "role.py").write_text(ROLE)
    (tmp_path / "config.yaml").write_text(CUSTOM.replace("FOLDER", str(tmp_path)))
    made = warm_gcloud("ai-platform", "jobs", "submit", "training", "gang", "--region=europe-west2", f"--config={tmp_path}/config.yaml")
    assert made.returncode == 0 and "state: QUEUED" in made.stdout, made
    assert wait(shared_yard, "gang")["state"] == "SUCCEEDED"
    log = entries(shared_yard, "gang")
    replicas = ["master-replica-0", *(f"worker-replica-{i}" for i in range(4)), "ps-replica-0"]
    roles = {task: text for task, text in log if text.startswith("{")}
    assert roles == {r: str({"type": {"parameter": "ps"}.get(kind, kind), "index": int(i)}) for r in replicas for kind, _, i in [r.partition("-replica-")]}
    for replica in replicas:
        assert [text for task, text in log if task == replica][-2:] == ["Clean up finished.", "Finished tearing down training program."]
    assert log[-1] == ("service", "Job completed successfully.")
    described = warm_gcloud("ai-platform", "jobs", "describe", "gang")
    assert "workerCount: '4'" in described.stdout and "state: SUCCEEDED" in described.stdout
    summary = warm_gcloud("ai-platform", "jobs", "describe", "gang", "--summarize")
    assert summary.returncode == 0 and "n1-highmem-8" in summary.stdout
    ours = shared_yard.trainyard("ai-platform", "jobs", "describe", "gang", "--summarize")
    assert [line.split() for line in ours.stdout.splitlines()] == [line.split() for line in summary.stdout.splitlines()]
    only = warm_gcloud("ai-platform", "jobs", "stream-logs", "gang", "--task-name=ps-replica-0")
    assert only.returncode == 0 and {line.split("\t")[2] for line in only.stdout.splitlines() if line} == {"ps-replica-0"}


def test_gcloud_lists_cancels_and_labels(warm_gcloud, shared_yard):
    yard = shared_yard
    submit(yard, "endless", ["sleep", "600"])
    wait(yard, "endless", ("RUNNING",))
    listed = warm_gcloud("ai-platform", "jobs", "list", "--filter=jobId=endless")
    assert listed.stdout.splitlines()[0].split() == ["JOB_ID", "STATUS", "CREATED"]
    assert listed.stdout.splitlines()[1].split()[:2] == ["endless", "RUNNING"]
    updated = warm_gcloud("ai-platform", "jobs", "update", "endless", "--update-labels=a=b,c=d")
    assert updated.returncode == 0, updated
    assert yard.get(f"{JOBS}/endless").json["labels"] == {"a": "b", "c": "d"}
    cancelled = warm_gcloud("ai-platform", "jobs", "cancel", "endless")
    assert cancelled.returncode == 0, cancelled
    assert wait(yard, "endless")["state"] == "CANCELLED"
    again = warm_gcloud("ai-platform", "jobs", "submit", "training", "endless", "--region=us-central1", "--master-image-uri=host", "--", "true")
    assert again.returncode == 1 and "conflict" in again.stderr and "endless" in again.stderr, again
    missing = warm_gcloud("ai-platform", "jobs", "describe", "no_such_job")
    assert missing.returncode == 1 and "NOT_FOUND" in missing.stderr


@pytest.mark.parametrize("words, field", [
    (["--scale-tier=custom", "--master-machine-type=n1-standard-3"], "trainingInput.masterType"),
    (["--config=trainingInput: {scaleTier: CUSTOM, masterType: n1-standard-4, workerCount: 2}"], "trainingInput.workerType"),
    (["--config=trainingInput: {scaleTier: CUSTOM}"], "trainingInput.masterType"),
    (["--config=trainingInput: {workerCount: 2}"], "trainingInput.workerCount"),
    (["--config=trainingInput: {hyperparameters: {maxTrials: 4}}"], "trainingInput.hyperparameters"),
    (["--scale-tier=custom", "--master-machine-type=n1-standard-4", "--worker-machine-type=n1-standard-4", "--worker-count=500"],
     "trainingInput.workerCount"),
    (["--config=trainingInput: {scaleTier: CUSTOM, masterType: n1-standard-4, parameterServerCount: 1}"], "trainingInput.parameterServerType"),
    (["--scale-tier=standard-1", "--worker-machine-type=n1-standard-4", "--worker-count=2"], "trainingInput.workerType"),
    (["--scale-tier=basic", "--job-dir=gs://no-such-bucket/x"], "trainingInput.jobDir"),
], ids=lambda value: value if isinstance(value, str) else None)
def test_gcloud_is_told_the_field(warm_gcloud, shared_yard, tmp_path, words, field):
    if words[0].startswith("--config="):
        (tmp_path / "job.yaml").write_text(words[0].partition("=")[2])
        words = [f"--config={tmp_path}/job.yaml"]
    ran = warm_gcloud("ai-platform", "jobs", "submit", "training", "wrong", "--region=us-central1", "--master-image-uri=host", *words, "--", "true")
    assert ran.returncode == 1 and "INVALID_ARGUMENT" in ran.stderr and field in ran.stderr, ran
    assert shared_yard.get(f"{JOBS}/wrong").status == 404
    ours = shared_yard.trainyard("ai-platform", "jobs", "submit", "training", "wrong", "--region=us-central1", "--master-image-uri=host", *words, "--", "true")
    assert ours.returncode == 1 and field in ours.stderr, ours


def test_gcloud_with_a_container_image(warm_gcloud, shared_yard, images):
    made = warm_gcloud("ai-platform", "jobs", "submit", "training", "contained", "--region=us-central1", f"--master-image-uri={images['entry']}",
                       "--scale-tier=custom", "--master-machine-type=n1-standard-4", "--master-accelerator=count=1,type=nvidia-tesla-t4",
                       "--use-chief-in-tf-config=true", "--", "one", "--two=3")
    assert made.returncode == 0, made
    job = wait(shared_yard, "contained", seconds=120)
    assert job["state"] == "SUCCEEDED", (job, entries(shared_yard, "contained"))
    assert job["trainingInput"]["masterConfig"]["acceleratorConfig"] == {"count": "1", "type": "NVIDIA_TESLA_T4"}
    assert ("master-replica-0", "entry one --two=3") in entries(shared_yard, "contained")


# ---- one job, two views ----


def test_each_api_sees_the_others_jobs(shared_yard):
    submit(shared_yard, "seen_by_both", ["echo", "hi"], args=[])
    (custom,) = [j for j in shared_yard.list() if j["displayName"] == "seen_by_both"]
    assert shared_yard.wait(custom["name"])["state"] == "JOB_STATE_SUCCEEDED"
    assert shared_yard.lines(custom["name"], "workerpool0-0")[0] == "hi"
    assert ("master-replica-0", "hi") in entries(shared_yard, "seen_by_both")
    name = shared_yard.create("echo", "hello", display_name="newer")
    old = "customjob_" + name.rsplit("/", 1)[1]
    shared_yard.wait(name)
    job = shared_yard.get(f"{JOBS}/{old}").json
    assert job["state"] == "SUCCEEDED" and job["trainingInput"]["masterConfig"]["containerCommand"] == ["echo", "hello"]
    assert ("master-replica-0", "hello") in entries(shared_yard, old)
    assert "Clean up finished." not in [text for _, text in entries(shared_yard, old)]
    assert {old, "seen_by_both"} <= {j["jobId"] for j in shared_yard.get(JOBS).json["jobs"]}
    assert shared_yard.call("DELETE", f"/v1/{custom['name']}").status == 200
    assert shared_yard.get(f"{JOBS}/seen_by_both").status == 404
    submit(shared_yard, "seen_by_both")  # the id is free again
    wait(shared_yard, "seen_by_both")


def test_chief_or_master(shared_yard):
    show = ["sh", "-c", "echo $TF_CONFIG"]
    for name, extra, role in (("a_master", {}, "master"), ("a_chief", {"useChiefInTfConfig": True}, "chief")):
        submit(shared_yard, name, show, **extra)
        assert wait(shared_yard, name)["state"] == "SUCCEEDED"
        config = json.loads(next(text for task, text in entries(shared_yard, name) if task == "master-replica-0"))
        assert config["task"] == {"type": role, "index": 0} and list(config["cluster"]) == [role]
        assert config["environment"] == "cloud" and config["job"]["region"] == "us-central1"


def test_nobody_makes_or_removes_the_job_dir(shared_yard, tmp_path):
    there = tmp_path / "kept"
    there.mkdir()
    (there / "old").write_text("x")
    submit(shared_yard, "dir_kept", ["sh", "-c", 'echo "$@"', "sh"], jobDir=str(there))
    submit(shared_yard, "dir_absent", ["sh", "-c", 'echo "$@"', "sh"], jobDir=str(tmp_path / "absent"))
    for name in ("dir_kept", "dir_absent"):
        assert wait(shared_yard, name)["state"] == "SUCCEEDED"
    assert ("master-replica-0", f"--job-dir {there}") in entries(shared_yard, "dir_kept")
    assert (there / "old").read_text() == "x" and not (tmp_path / "absent").exists()


# ---- our own command ----


@pytest.fixture
def ours(shared_yard):
    def run(*words, expect=0, **rest):
        result = shared_yard.trainyard("ai-platform", *words, **rest)
        assert result.returncode == expect, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result
    return run


def test_command_follows_a_job(ours, shared_yard):
    ran = ours("jobs", "submit", "training", "by_us", "--region=us-central1", "--master-image-uri=host", "--stream-logs", "--", "sh", "-c", "echo out; exit 4",
               expect=1)
    assert "state: FAILED" in ran.stdout and "jobId: by_us" in ran.stdout
    assert re.search(r"^INFO\t\S+ \S+ \S+\tmaster-replica-0\t\tout$", ran.stderr, re.M), ran.stderr
    again = ours("jobs", "stream-logs", "by_us", expect=1)
    assert "Job by_us ended: FAILED" in again.stderr and "\tmaster-replica-0\t\tout\n" in again.stdout
    listed = ours("jobs", "list", "--filter=jobId:by_us")
    assert [line.split()[:2] for line in listed.stdout.splitlines() if line] == [["JOB_ID", "STATUS"], ["by_us", "FAILED"]]
    assert ours("jobs", "list", "--filter=jobId:nothing").stderr == "Listed 0 items.\n"
    assert ours("jobs", "list", "--filter=jobId:by_us", "--uri").stdout == f"{shared_yard.url}/v1/projects/trainyard/jobs/by_us\n"
    assert ours("jobs", "describe", "by_us", "--format=value(state)").stdout == "FAILED\n"


def test_command_cancels(ours, shared_yard):
    submit(shared_yard, "to_stop", ["sleep", "600"])
    wait(shared_yard, "to_stop", ("RUNNING",))
    assert ours("jobs", "cancel", "to_stop").stdout == ""
    assert wait(shared_yard, "to_stop")["state"] == "CANCELLED"
    assert "NOT_FOUND" in ours("jobs", "cancel", "nothing", expect=1).stderr


@pytest.mark.parametrize("words, expect, text", [
    (["--stream-logs", "--async", "--master-image-uri=host"], 2, "At most one of"),
    (["--master-image-uri=host", "--runtime-version=2.1"], 1, "Only one of --master-image-uri, --runtime-version"),
    (["--scale-tier=huge", "--master-image-uri=host"], 2, "is none of basic"),
    (["--scale-tier=custom", "--master-image-uri=host"], 1, "--master-machine-type is required"),
    (["--job-dir=somewhere", "--master-image-uri=host"], 2, "gs://bucket/folder"),
    (["--package-path=/nowhere/trainer", "--module-name=trainer.task"], 1, "__init__.py"),
    (["--packages=/nowhere/x.tar.gz", "--module-name=trainer.task"], 1, "is no file"),
    (["--master-image-uri=host", "--master-accelerator=number=1"], 2, "'type' (required)"),
    (["--master-image-uri=host", "--config=/nowhere.yaml"], 1, "cannot open"),
    ([], 1, "trainingInput.runtimeVersion"),
])
def test_command_says_what_is_wrong(ours, shared_yard, words, expect, text):
    assert text in ours("jobs", "submit", "training", "wrong_words", *words, expect=expect).stderr
    assert shared_yard.get(f"{JOBS}/wrong_words").status == 404


def test_command_flags_win_over_the_file(ours, shared_yard, tmp_path):
    (tmp_path / "job.yaml").write_text("jobId: other\nlabels: {a: b}\ntrainingInput:\n  scaleTier: CUSTOM\n  masterType: n1-standard-4\n  region: nowhere\n"
                                       "  master_config: {imageUri: other}\n  args: [x]\n  workerCount: 1\n")
    ours("jobs", "submit", "training", "flags_win", f"--config={tmp_path}/job.yaml", "--region=europe-west1", "--master-image-uri=host",
         "--worker-count=0", "--labels=c=d", "--", "echo", "yes")
    job = wait(shared_yard, "flags_win")
    assert job["trainingInput"] == {"scaleTier": "CUSTOM", "masterType": "n1-standard-4", "masterConfig": {"imageUri": "host"}, "workerCount": "0",
                                    "args": ["echo", "yes"], "region": "europe-west1"}
    assert job["labels"] == {"c": "d"}


def test_other_commands_find_it_by_its_id(shared_yard):
    """why, usage and the newer describe know the job by the id its user gave, whatever region it is in."""
    submit(shared_yard, "in_asia", region="asia-east1")
    wait(shared_yard, "in_asia")
    for words in (["why", "in_asia"], ["usage", "in_asia"], ["ai", "custom-jobs", "describe", "in_asia"]):
        ran = shared_yard.trainyard(*words)
        assert ran.returncode == 0, ran
    assert "displayName: in_asia" in ran.stdout
    assert "no job has" in shared_yard.trainyard("why", "in_nowhere").stderr


def test_completion_knows_the_jobs(shared_yard):
    submit(shared_yard, "complete_me")
    for verb in ("describe", "cancel", "stream-logs"):
        assert shared_yard.trainyard("completion", "words", "--", "ai-platform", "jobs", verb, "comp").stdout == "complete_me\n"
    wait(shared_yard, "complete_me")


def local(run, *words, cwd, **rest):
    return run("local", "train", "--module-name=trainer.task", "--package-path=trainer", *words, cwd=cwd, **rest)


def test_local_train(ours, trainer, gcloud, shared_yard):
    """Ours and gcloud's: the same TF_CONFIG, arguments and exit status."""
    def both(*words, expect=0):
        mine = local(ours, *words, cwd=trainer, expect=expect)
        real = shared_yard.run(gcloud, "ai-platform", "local", "train", "--module-name=trainer.task", "--package-path=trainer", *words, cwd=trainer)
        assert real.returncode == expect, real
        return sorted(mine.stdout.splitlines()), sorted(real.stdout.splitlines())
    mine, real = both("--job-dir=/tmp/x y", "--", "--a", "b c")
    assert mine == real == ["task {} of {} ['--a', 'b c', '--job-dir', '/tmp/x y'] None"]
    mine, real = both("--distributed", "--worker-count=2", "--parameter-server-count=1", "--evaluator-count=1", "--start-port=27300")
    chief = "task {'type': 'chief', 'index': 0} of {'chief': 1, 'ps': 1, 'worker': 2} [] None"
    assert chief in mine and chief in real  # the others may have been stopped before they said a word
    warned = local(ours, "--worker-count=2", cwd=trainer)
    assert "--worker-count is ignored if --distributed is not provided" in warned.stderr


def test_local_train_ends_with_the_chief(ours, tmp_path):
    """Its status is ours, and what would run for ever is stopped with it."""
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").write_text("")
    (tmp_path / "trainer" / "task.py").write_text(
        "import json, os, sys, time\nrole = json.loads(os.environ['TF_CONFIG'])['task'].get('type')\nopen(f'{role}.new', 'w').write(str(os.getpid()))\n"
        "os.rename(f'{role}.new', f'{role}.pid')\n"  # whole, or not there
        "if role == 'chief':\n    while not (os.path.exists('ps.pid') and os.path.exists('worker.pid')): time.sleep(0.01)\n    sys.exit(3)\ntime.sleep(600)\n")
    local(ours, "--distributed", "--worker-count=1", "--parameter-server-count=1", cwd=tmp_path, expect=3)
    for role in ("ps", "worker"):
        assert not os.path.exists(f"/proc/{(tmp_path / f'{role}.pid').read_text()}")
    assert "must be from 1 to 65535" in local(ours, "--distributed", "--start-port=99999", cwd=tmp_path, expect=2).stderr
    assert "--module-name" in ours("local", "train", expect=2).stderr


SAME = [
    "jobs list --filter=jobId=same_a", "jobs list --filter='jobId:same_*' --sort-by=~jobId", "jobs list --filter=jobId=nobody",
    "jobs list --filter=jobId=same_a --format=json", "jobs list --filter='jobId:same_*' --format='value(jobId,state)' --limit=1", "jobs describe same_a",
    "jobs describe same_a --format=json", "jobs describe same_a --summarize", "jobs describe same_b --format='value(errorMessage)'", "jobs describe nobody",
    "jobs cancel nobody", "jobs cancel same_a", "jobs submit training same_a --region=us-central1 --master-image-uri=host -- true",
    "jobs submit training 1st --region=us-central1 --master-image-uri=host -- true", "jobs submit training", "local train",
    "jobs submit training x --region=us-central1 --scale-tier=huge", "jobs submit training x --region=us-central1 --master-image-uri=a --runtime-version=2.1",
    "jobs submit training x --region=us-central1 --package-path=/nowhere --module-name=a.b --staging-bucket=gs://abc",
]


def test_same_as_gcloud(warm_gcloud, shared_yard, tmp_path):
    """The same lines for real gcloud and for us under its name: the same exit status and stdout."""
    (tmp_path / "gcloud").symlink_to(BINARY)
    submit(shared_yard, "same_a", ["true"], args=["x"], jobDir="/tmp/x")
    submit(shared_yard, "same_b", ["false"])
    wait(shared_yard, "same_a"), wait(shared_yard, "same_b")
    wrong = []
    for line in SAME:
        words = ["ai-platform", *shlex.split(line)]
        theirs, ours = warm_gcloud(*words), shared_yard.run(tmp_path / "gcloud", *words)
        if (theirs.returncode, theirs.stdout.split()) != (ours.returncode, ours.stdout.split()):
            wrong.append(f"{line}:\n{theirs.returncode} {theirs.stdout}{theirs.stderr}\n{ours.returncode} {ours.stdout}{ours.stderr}")
    assert not wrong, "\n".join(wrong)


# ---- the published scripts ----


@pytest.fixture(params=["gcloud", "trainyard"])
def shell(request, tf_yard, gcloud, tmp_path):
    """Run a script with real gcloud, and with ours in its place."""
    if request.param == "trainyard":
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "gcloud").symlink_to(BINARY)
    tools = f"{tmp_path}/bin:{pathlib.Path(gcloud).parent}"

    def run(script, cwd, **variables):
        path = f"{variables.pop('tools', '')}:{tools}:{tf_yard.client_environment()['PATH']}"
        ran = tf_yard.run("bash", SCRIPTS / script, cwd=cwd, timeout=600, environment={**variables, "PATH": path})
        assert ran.returncode == 0, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran
    return run


@pytest.mark.slow
@pytest.mark.parametrize("config, version, region, size, epochs, roles", [
    ("config.yaml", "2.1", "us-central1", "80000", "10", {"chief": 1}),
    ("config-gpu.yaml", "2.1", "us-central1", "80000", "10", {"chief": 1}),
    ("config-ps.yaml", "1.15", "europe-west2", "800", "1", {"master": 1, "ps": 1, "worker": 4}),
], ids=["base", "gpu", "ST446"])
def test_taxi_train_cloud(shell, tf_yard, trainer, config, version, region, size, epochs, roles):
    place = bucket(tf_yard, "taxi-scripts")
    ran = shell("taxi_train_cloud.sh", trainer, JOB_DIR=f"{place}/taxi/model/tensorflow_taxi", RUNTIME_VERSION=version, PYTHON_VERSION="3.7", REGION=region,
                CONFIG=f"./{config}", TRAIN_FILES=f"{place}/taxi_trips_train.csv", EVAL_FILES=f"{place}/taxi_trips_eval.csv", TRAIN_SIZE=size,
                NUM_EPOCHS=epochs)
    assert "state: SUCCEEDED" in ran.stdout and ran.stdout.splitlines()[-1] == "SUCCEEDED"
    first = next(r for r in roles)
    want = f"task {{'type': '{first}', 'index': 0}} of "
    (line,) = [line for line in ran.stderr.splitlines() if want in line]
    assert ast.literal_eval(line.partition(want)[2].partition("}")[0] + "}") == roles
    assert "'--hidden-units=128,0,0', '--layer-sizes-scale-factor=0.5', '--num-layers=3', '--job-dir', 'gs://taxi-scripts/taxi/model/tensorflow_taxi'" in line


@pytest.mark.slow
def test_cats_dogs_train_cloud(shell, tf_yard, images, tmp_path):
    bucket(tf_yard, "cats-and-dogs")
    (tmp_path / "work").mkdir(), (tmp_path / "tools").mkdir()
    (tmp_path / "work" / "config.yaml").write_text("trainingInput:\n  scaleTier: CUSTOM\n  masterType: n1-standard-8\n  masterConfig:\n    acceleratorConfig:\n"
                                                   "      count: 2\n      type: NVIDIA_TESLA_V100\n")
    (tmp_path / "tools" / "docker").write_text(f'#!/bin/sh\n[ "$1" = push ] || exec podman tag {images["entry"]} "$5"\n')
    (tmp_path / "tools" / "docker").chmod(0o755)
    try:
        ran = shell("cats_dogs_train_cloud.sh", tmp_path / "work", tools=str(tmp_path / "tools"), PROJECT_ID="trainyard", BUCKET_NAME="cats-and-dogs")
    finally:
        podman("rmi", "gcr.io/trainyard/tensorflow_gpu_cats_dogs:catsdogs_tf_gpu", check=False)
    assert "entry trainer/task.py --bucket cats-and-dogs --train-pattern gs://cats-and-dogs/train_tfr/*.tfrec" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "SUCCEEDED"


@pytest.mark.slow
def test_taxifare_ai_platform(shell, tf_yard, trainer, images, tmp_path):
    bucket(tf_yard, "taxifare-old")
    shutil.copytree(trainer / "trainer", tmp_path / "taxifare" / "trainer")
    ran = shell("taxifare_ai_platform.sh", tmp_path, BUCKET="taxifare-old", REGION="us-central1", IMAGE=images["entry"])
    names = re.findall(r"^jobId: (\w+)", ran.stdout, re.M)
    assert [wait(tf_yard, name, seconds=300)["state"] for name in names] == ["SUCCEEDED", "SUCCEEDED"]
    assert [line.split()[0] for line in ran.stdout.splitlines()[-2:]] == names[::-1]
    assert ("master-replica-0", "entry --output_dir gs://taxifare-old/out") in entries(tf_yard, names[1])


def test_fresh_configuration_keeps_gcloud_from_a_regional_host(shared_yard):
    text = (shared_yard.data / "client" / "gcloud" / "configurations" / "config_default").read_text()
    assert "[ai_platform]\nregion = global" in text and "[ml_engine]\npolling_interval = 1" in text


def test_gcloud_through_us_as_its_proxy(shared_yard, gcloud):
    """With a region of its own gcloud asks us-central1-127.0.0.1, which nobody can look up, unless we are its proxy."""
    host, port = shared_yard.address
    proxy = {"CLOUDSDK_PROXY_TYPE": "http", "CLOUDSDK_PROXY_ADDRESS": host, "CLOUDSDK_PROXY_PORT": str(port)}
    listed = shared_yard.run(gcloud, "ai-platform", "jobs", "list", "--limit=1", environment=proxy)
    assert listed.returncode == 0, listed
    models = shared_yard.run(gcloud, "ai-platform", "models", "list", "--region=us-central1", environment=proxy)
    assert models.returncode == 1 and "not found" in models.stderr and "crashed" not in models.stderr, models
