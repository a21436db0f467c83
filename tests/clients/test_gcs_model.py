"""Who may write a job's model (J7), on /gcs and through the API; and what a job's end leaves in the buckets."""
import json
import os
import pathlib
import signal
import sqlite3

import pytest
from test_gcs_jobs import make_bucket, put

PYTHON = "/usr/bin/python3"

# A replica's program: ask the API, with the replica's token or without, and print the status of each. No framework is needed.
ASK = '''
import json, os, sys, time, urllib.error, urllib.request
url, me = os.environ["TRAINYARD_URL"], os.environ["TRAINYARD_REPLICA"]
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
def call(method, path, body=b"", token=True, **headers):
    if token:
        headers["Authorization"] = "Bearer " + os.environ["TRAINYARD_TOKEN"]
    try:
        with opener.open(urllib.request.Request(url + path, data=body, method=method, headers=headers), timeout=30) as reply:
            return reply.status, reply.read().decode(), dict(reply.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), {}
def upload(name, token=True, kind="media"):
    return call("POST", "/upload/storage/v1/b/bkt/o?uploadType=%s&name=%s" % (kind, name), me.encode() if kind == "media" else b"", token)
def say(what, reply):
    print(me, what, reply[0], flush=True)
    return reply
def others(name):
    while not os.path.exists(name):
        time.sleep(0.02)
'''

WRITES = ASK + '''
model = "out%2Fmodel%2F"
refused = say("token", upload(model + "a-" + me))
say("mark", upload(model + "b-" + me, token=False))
say("session", upload(model + "c", kind="resumable"))
say("folder", upload(model))
say("temp", upload(model + "workertemp_" + me + "%2Fx"))
say("logs", upload("out%2Flogs%2F" + me))
say("checkpoint", upload("out%2Fcheckpoints%2F" + me, token=False))
say("elsewhere", upload("other%2Fmodel%2F" + me))
put = "/storage/v1/b/bkt/o/"
say("copy", call("POST", put + "in/rewriteTo/b/bkt/o/" + model + "d"))
say("compose", call("POST", put + model + "e/compose", json.dumps({"sourceObjects": [{"name": "in"}]}).encode(), **{"Content-Type": "application/json"}))
say("patch", call("PATCH", put + model + "old", b'{"contentType": "text/x"}', **{"Content-Type": "application/json"}))
say("move", call("POST", put + model + "old/moveTo/o/stolen-" + me))
say("delete", call("DELETE", put + model + "old2"))
batch = "--x\\r\\nContent-Type: application/http\\r\\n\\r\\nDELETE %s%sold3 HTTP/1.1\\r\\n\\r\\n\\r\\n--x--\\r\\n" % (put, model)
answer = call("POST", "/batch/storage/v1", batch.encode(), **{"Content-Type": "multipart/mixed; boundary=x"})
print(me, "batch", answer[1].split("HTTP/1.1 ")[1].split()[0], flush=True)
if refused[0] != 200:
    print(me, "said", json.loads(refused[1])["error"]["message"], flush=True)
upload("done-" + me)
'''

ALL = ("token", "mark", "session", "copy", "compose", "patch", "move", "delete", "batch")
OPEN = ("folder", "temp", "logs", "checkpoint", "elsewhere")


def test_through_the_api_only_the_chief_writes_the_model(yard):
    make_bucket(yard)
    for name in ("in", "out%2Fmodel%2Fold", "out%2Fmodel%2Fold2", "out%2Fmodel%2Fold3"):
        put(yard, "bkt", name, b"x")
    wait = ASK.replace("'''", "") + '\nwhile any(call("GET", "/storage/v1/b/bkt/o/done-" + w)[0] != 200 for w in ("1-0", "1-1")):\n    time.sleep(0.05)\n'
    name = yard.create(pools=[yard.pool(PYTHON, "-I", "-c", wait + WRITES), yard.pool(PYTHON, "-I", "-c", WRITES + "\ntime.sleep(60)", replicas=2)],
                       baseOutputDirectory={"outputUriPrefix": "gs://bkt/out/"})
    assert yard.wait(name, seconds=180)["state"] == "JOB_STATE_SUCCEEDED", yard.lines(name)
    lines = yard.lines(name)
    for replica in ("1-0", "1-1"):
        assert [line for line in lines if line.startswith(replica) and line.split()[1] in ALL] == [f"{replica} {what} 403" for what in ALL], lines
        assert all(f"{replica} {what} 200" in lines for what in OPEN), lines
        said = next(line for line in lines if line.startswith(f"{replica} said"))
        assert f"gs://bkt/out/model/a-{replica}" in said and "only its chief writes there" in said and "workertemp_" in said, said
    assert all(f"0-0 {what} {204 if what in ('delete', 'batch') else 200}" in lines for what in ALL + OPEN), lines
    found = {item["name"] for item in yard.get("/storage/v1/b/bkt/o?prefix=out/model/").json["items"]}
    assert {"out/model/a-0-0", "out/model/b-0-0"} <= found and not any("1-" in n for n in found if "workertemp" not in n), found
    # The job is over, and the user writes where he likes.
    put(yard, "bkt", "out%2Fmodel%2Fmine", b"x")


def test_a_user_may_write_there_while_the_job_runs(yard, tmp_path):
    make_bucket(yard)
    script = f"while ! test -e {tmp_path}/end; do sleep 0.05; done"
    name = yard.create(pools=[yard.pool("sh", "-c", script), yard.pool("sh", "-c", script)], baseOutputDirectory={"outputUriPrefix": "gs://bkt/out"})
    yard.wait(name, states=("JOB_STATE_RUNNING",))
    put(yard, "bkt", "out%2Fmodel%2Fmine", b"x")
    (tmp_path / "x").write_text("x")
    local = yard.trainyard("storage", "cp", tmp_path / "x", "gs://bkt/out/model/by-command")
    assert local.returncode == 0, local
    (tmp_path / "end").touch()
    assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"


def test_a_model_that_is_being_written_is_not_there(yard, tmp_path):
    """An upload that has not ended is no object, nor a file of /gcs; killed with its job it leaves nothing."""
    make_bucket(yard)
    script = ASK + f'''
import http.client
host = url.split("//")[1]
slow = http.client.HTTPConnection(host)
slow.putrequest("POST", "/upload/storage/v1/b/bkt/o?uploadType=media&name=out%2Fmodel%2Fsaved_model.pb")
slow.putheader("Content-Length", "2000000")
slow.endheaders()
slow.send(b"x" * 1000000)
print("listed", "saved_model.pb" in call("GET", "/storage/v1/b/bkt/o?prefix=out/model/", None)[1])
print("got", call("GET", "/storage/v1/b/bkt/o/out%2Fmodel%2Fsaved_model.pb", None)[0], os.path.exists("/gcs/bkt/out/model/saved_model.pb"), flush=True)
open("{tmp_path}/half", "w").close()
time.sleep(600)
'''
    name = yard.create(PYTHON, "-I", "-c", script, baseOutputDirectory={"outputUriPrefix": "gs://bkt/out"})
    yard.wait_for((tmp_path / "half").exists, 90, "half a model")
    yard.cancel(name)
    assert yard.wait(name)["state"] == "JOB_STATE_CANCELLED"
    assert "listed False" in yard.lines(name) and "got 404 False" in yard.lines(name), yard.lines(name)
    assert yard.get("/storage/v1/b/bkt/o/out%2Fmodel%2Fsaved_model.pb").status == 404
    assert list((yard.data / "buckets" / "bkt" / "out" / "model").iterdir()) == []
    yard.wait_for(lambda: not list((yard.data / "staging").iterdir()), 90, "the staged half to go")


def rows(yard, column="name"):
    with sqlite3.connect(f"file:{yard.data}/objects.db?mode=ro", uri=True) as db:
        return {name for name, in db.execute(f"SELECT {column} FROM object")}


def test_a_job_s_end_shows_what_it_wrote_and_removed(yard, tmp_path):
    """No list, no get: the rows themselves follow."""
    make_bucket(yard)
    put(yard, "bkt", "there", b"x")
    put(yard, "bkt", "stays", b"x")
    assert rows(yard) == {"there", "stays"}
    name = yard.create("sh", "-c", "mkdir -p /gcs/bkt/a/b; echo new >/gcs/bkt/a/b/new; rm /gcs/bkt/there")
    assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
    yard.wait_for(lambda: rows(yard) == {"a/b/new", "stays"}, 90, "the rows")
    name = yard.create("sh", "-c", f"touch {tmp_path}/up; while ! test -e {tmp_path}/down; do sleep 0.05; done; echo x >/gcs/bkt/while-down")
    yard.wait_for((tmp_path / "up").exists, 90, "the job")
    yard.stop(signal.SIGKILL)
    (tmp_path / "down").touch()
    yard.wait_for((yard.data / "buckets" / "bkt" / "while-down").exists, 90, "what it writes while there is no server")
    yard.start()
    assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
    yard.wait_for(lambda: "while-down" in rows(yard), 90, "the rows after a start")


PUBLISH = 'd=$(echo ${AIP_MODEL_DIR} | sed s,gs://,/gcs/,); echo $TRAINYARD_REPLICA > $d/saved_model.pb; touch %s/$TRAINYARD_REPLICA; sleep %s'


def conductor(yard, name):
    """Who holds the lock of the job's first attempt."""
    inode = str((yard.data / "jobs" / name.rsplit("/", 1)[1] / "1" / "lock").stat().st_ino)
    locks = (line.split() for line in pathlib.Path("/proc/locks").read_text().splitlines())
    return next(int(fields[4]) for fields in locks if fields[1] == "POSIX" and fields[5].split(":")[2] == inode)


@pytest.mark.parametrize("how", ["succeeded", "cancelled", "conductor killed"])
def test_folders_of_the_others_go_with_the_job(yard, tmp_path, how):
    make_bucket(yard)
    chief = PUBLISH % (tmp_path, 600) if how != "succeeded" else PUBLISH % (tmp_path, 0) + f"; until test -e {tmp_path}/1-0 -a -e {tmp_path}/1-1; do sleep 0.05; done"
    name = yard.create(pools=[yard.pool("sh", "-c", chief), yard.pool("sh", "-c", PUBLISH % (tmp_path, 600), replicas=2)],
                       baseOutputDirectory={"outputUriPrefix": "gs://bkt/out"}, scheduling={"disableRetries": True})
    for replica in ("0-0", "1-0", "1-1"):
        yard.wait_for((tmp_path / replica).exists, 90, replica)
    model = yard.data / "buckets" / "bkt" / "out" / "model"
    if how == "cancelled":
        yard.cancel(name)
    elif how == "conductor killed":
        os.kill(conductor(yard, name), signal.SIGKILL)
    state = {"succeeded": "SUCCEEDED", "cancelled": "CANCELLED", "conductor killed": "FAILED"}[how]
    assert yard.wait(name)["state"] == f"JOB_STATE_{state}", json.dumps(yard.describe(name))
    if how == "conductor killed":  # nobody was left to do it at once
        yard.wait_for(lambda: not list(model.glob("workertemp_*")), 90, "the folders to go")
    assert [path.name for path in model.iterdir()] == ["saved_model.pb"]
    assert (model / "saved_model.pb").read_text() == "0-0\n"
