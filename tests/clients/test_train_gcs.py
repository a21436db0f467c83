"""trainyard train and predict on gs:// paths: in a job, where buckets are folders of /gcs, and outside of one."""
import json
import subprocess
import sys

import pytest
from yard import BINARY


@pytest.fixture
def bucket(yard):
    """Rides in gs://rides/in, put there through the API."""
    assert yard.call("POST", "/storage/v1/b?project=trainyard", {"name": "rides"}).status == 200
    folder = yard.data.parent / "rides"
    subprocess.run([sys.executable, BINARY.parent.parent / "examples" / "taxifare-tf" / "make_data.py", folder], check=True)
    for path in folder.glob("*.csv"):
        reply = yard.call("POST", f"/upload/storage/v1/b/rides/o?uploadType=media&name=in/{path.name}", path.read_bytes(), {"Content-Type": "text/csv"})
        assert reply.status == 200, reply
    return "gs://rides"


def flags(bucket, out):
    return ["train", "taxifare", "--train_data_path", f"{bucket}/in/taxi-train*", "--eval_data_path", f"{bucket}/in/taxi-valid*",
            "--num_examples_to_train_on", "320", "--num_evals", "1", *(["--output_dir", f"{bucket}/{out}"] if out else [])]


def objects(yard, prefix):
    return [i["name"] for i in yard.call("GET", f"/storage/v1/b/rides/o?prefix={prefix}").json.get("items", [])]


def exported(yard, prefix):
    """gs:// of the exported model: the API sees its files as objects."""
    names = objects(yard, f"{prefix}/export/")
    assert {name.split("/", prefix.count("/") + 4)[-1] for name in names} >= {"saved_model.pb", "variables/variables.index"}, names
    return "gs://rides/" + names[0].split("/saved_model.pb")[0].split("/assets")[0].split("/fingerprint")[0]


def local(yard, *words, ok=True):
    done = yard.run(str(BINARY), *words, timeout=120, environment={"TRAINYARD_DATA": str(yard.data)})
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout if ok else done.stderr


def test_outside_of_a_job(yard, bucket):
    printed = local(yard, *flags(bucket, "out/"))
    assert "The model is in gs://rides/out/export/" in printed
    model = exported(yard, "out")
    assert "fare" in local(yard, "model", "show", model)
    lines = local(yard, "predict", "--model", model, f"{bucket}/in/taxi-valid-000000000000.csv").splitlines()
    assert len(lines) > 100 and all("fare" in json.loads(line) for line in lines)
    assert "there is no bucket 'nowhere'" in local(yard, *flags("gs://nowhere", "out"), ok=False)
    assert "names no object that is a file" in local(yard, *flags("gs://rides/..", "out"), ok=False)
    for words in (flags("gs://rides/else", "out"), ["predict", "--model", "gs://rides/else", "-"], ["predict", "--model", model, "gs://rides/else"]):
        told = local(yard, *words, ok=False)
        assert "'gs://rides/else" in told and str(yard.data) not in told
    assert "no file matches 'gs://rides/else/in/taxi-train*'" in local(yard, *flags("gs://rides/else", "out"), ok=False)


def test_in_a_job(yard, bucket):
    name = yard.create(str(BINARY), *flags(bucket, None), baseOutputDirectory={"outputUriPrefix": f"{bucket}/run"})
    assert yard.wait(name, seconds=120)["state"] == "JOB_STATE_SUCCEEDED", yard.lines(name)
    assert any("The model is in gs://rides/run/model/" in line for line in yard.lines(name)), yard.lines(name)
    inside, outside = exported(yard, "run/model"), local(yard, *flags(bucket, "again"))
    assert "The model is in" in outside
    row = "2013-07-05 12:11:59 UTC,-73.9,40.7,-73.8,40.8,1.0,unused\n"
    models = [inside, exported(yard, "again")]
    (yard.data.parent / "row.csv").write_text(row)
    assert len({local(yard, "predict", "--model", model, str(yard.data.parent / "row.csv")) for model in models}) == 1
