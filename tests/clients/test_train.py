"""trainyard train, predict and model show at the command line; TensorFlow loads and TensorBoard reads what they write."""
import fcntl
import gzip
import json
import math
import os
import pathlib
import pty
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = TOP / "build" / "trainyard"


def trainyard(*arguments, ok=True, stdin=None):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=120, input=stdin)
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout if ok else done.stderr


@pytest.fixture(scope="module")
def tensorflow(tf_python):
    """Run a piece of Python in the TensorFlow venv -> what it prints, as JSON."""
    def call(code, *arguments):
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run([tf_python, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=300, env=env)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return call


def taxifare(rides, out, *more, ok=True):
    """The reference trainer's command line, word by word."""
    return trainyard("train", "taxifare", "--eval_data_path", f"{rides}/taxi-valid*", "--output_dir", out, "--train_data_path",
                     f"{rides}/taxi-train*", "--batch_size", 32, "--num_examples_to_train_on", 6400, "--num_evals", 2, "--nbuckets", 10,
                     "--lr", 0.001, "--nnsize", "32 8", *more, ok=ok)


def exported(out):
    return max((out / "export" / "savedmodel").iterdir())


def variables(out):
    return (exported(out) / "variables" / "variables.data-00000-of-00001").read_bytes()


def test_the_reference_command_line_trains(rides, tmp_path):
    log = taxifare(rides, tmp_path / "out", "--job-dir", "junk")
    lines = re.findall(r"^100/100 - \d+s - loss: ([\d.]+) - rmse: ([\d.]+) - mse: \S+ - val_loss: ([\d.]+) - val_rmse: ", log, re.M)
    assert len(lines) == 2 and float(lines[1][0]) < float(lines[0][0]) and "Epoch 2/2" in log
    assert "1004465 parameters" in log
    shown = trainyard("model", "show", exported(tmp_path / "out"))
    assert re.search(r"inputs +pickup_datetime +STRING", shown) and re.search(r"outputs +fare +FLOAT +\(batch, 1\)", shown)
    assert not pathlib.Path("junk").exists()


def test_words_after_a_list_flag(rides, tmp_path):
    files = sorted(map(str, rides.glob("taxi-train*")))
    out = trainyard("train", "taxifare", "--train_data_path", *files, "--nnsize", 16, 4, "--num_evals=1", "--output-dir", tmp_path / "out")
    assert "20000 rows to train, 2 files" in out and f"{1_000_000 + 131 * 16 + 17 * 4 + 5} parameters" in out


def test_mistakes_are_told(rides, tmp_path):
    assert "no parameter 'bogus'; its parameters are --batch_size" in taxifare(rides, tmp_path / "out", "--bogus", 3, ok=False)
    assert "--lr: 'fast': not a number" in taxifare(rides, tmp_path / "out", "--lr", "fast", ok=False).replace("there is no parameter 'fast'", "'fast': not a number")
    assert "there is no model 'nobody'" in trainyard("train", "nobody", "--train_data_path", "x", ok=False)
    assert "no file matches" in trainyard("train", "taxifare", "--train_data_path", "/nowhere*", ok=False)
    assert "needs a value" in trainyard("train", "taxifare", "--output_dir", ok=False)
    assert "is no SavedModel" in trainyard("predict", "--model", tmp_path, "-", ok=False, stdin="x\n")


@pytest.mark.parametrize("words", [["train", "taxifare", "--help"], ["train", "taxifare", "--lr", "3", "-h"], ["train", "--help", "x"],
                                   ["predict", "--model", "x", "--help", "y"], ["model", "show", "x", "--help"]])
def test_help_comes_after_any_words(words):
    assert {"train": "--train_data_path", "predict": "predict --model out", "model": "signature, layers"}[words[0]] in trainyard(*words)


def test_what_is_not_kept_and_not_used_is_told(rides, tmp_path):
    """A run that keeps nothing, one of a small part of the rows, one whose steps are rounded: a line of the log each."""
    log = trainyard("train", "taxifare", "--train_data_path", f"{rides}/taxi-train*")
    assert "There is no --output_dir: nothing will be kept" in log
    assert "training.examples asks for 3 steps; 5 epochs of 1 steps are 5\n160 of 20000 rows will be trained on: training.examples " in log
    log = taxifare(rides, tmp_path / "out", "--num_examples_to_train_on", 32000)
    assert "nothing will be kept" not in log and "will be trained on" not in log and "asks for" not in log
    assert trainyard("train", "taxifare", "--train_data_path", f"{rides}/taxi-train*", "--quiet", "--plot") == ""
    for words, message in ((["--resume"], "--resume needs the --output_dir"), (["--output_dir="], "--output_dir needs a value")):
        done = subprocess.run([BINARY, "train", "taxifare", "--train_data_path", f"{rides}/taxi-train*", *words], capture_output=True, text=True)
        assert done.returncode == 2 and message in done.stderr
    assert "there is no model 'nosuch'" in trainyard("train", "nosuch", ok=False)


def test_passes_are_over_all_rows(trips, tmp_path):
    """--num-epochs of the reference trainer is passes; without --train-size over the rows there are."""
    log = trainyard("train", "chicago_taxi", "--train-files", trips / "train.csv", "--num-epochs", 20, "--job-dir", tmp_path / "out")
    rows = int(re.search(r"^(\d+) rows to train", log, re.M)[1])
    steps = rows * 20 // 128 // 5
    assert log.count(f"\n{steps}/{steps} - ") == 5
    log = trainyard("train", "chicago_taxi", "--train-files", trips / "train.csv", "--train-steps", 10)
    assert log.count("\n2/2 - ") == 5


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_the_bar_fits_the_terminal(rides, columns):
    own, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([BINARY, "train", "taxifare", "--train_data_path", f"{rides}/taxi-train*", "--num_examples_to_train_on", "400000",
                                "--num_evals", "1"], stdout=theirs)
    os.close(theirs)
    text = b""
    while True:
        try:
            if not (more := os.read(own, 65536)):
                break
        except OSError:  # the other side is closed
            break
        text += more
    os.close(own)
    assert process.wait(timeout=60) == 0
    lines = [line.split(b"\x1b")[0] for line in text.split(b"\r") if b"examples/s, " in line]
    assert lines and max(map(len, lines)) < columns
    assert any(b" - loss: " in line for line in lines) == (columns > 60)


@pytest.fixture(scope="module")
def tips(trips, tmp_path_factory):
    """A small exported model with columns of numbers, of whole numbers and of texts."""
    out = tmp_path_factory.mktemp("tips")
    trainyard("train", "chicago_taxi", "--train-files", trips / "train.csv", "--train-steps", 5, "--job-dir", out)
    return exported(out)


@pytest.mark.parametrize("text, message", [
    ('{"fare": 3}\n{"fair": 3}\n', "the input: line 2: the model has no column 'fair'; it reads trip_miles, trip_seconds, fare, payment_type, company"),
    ('{"fare": 2.5}', "the input: line 1: 'fare' must be a whole number"),
    ('{"fare": 1e300}', "'fare' must be a whole number"),
    ('{"fare": "3"}', "'fare' must be a whole number"),
    ('{"trip_miles": "far"}', "'trip_miles' must be a number"),
    ('{"company": 3}', "'company' must be a text"),
    ('[{"fare": 3}]', "a list of objects: write each on a line of its own"),
    ('[1, 2]', "line 1 has 2 fields"),
    (" \n", "the input is empty"),
    ("trip_miles,trip_seconds,fare,payment_type,company,fare\n1,2,3,Cash,x,3\n", "line 1: the header names 'fare' twice"),
])
def test_mistakes_of_what_is_to_be_predicted(tips, text, message):
    assert message in trainyard("predict", "--model", tips, "-", stdin=text, ok=False)


def test_predict_takes_what_means_the_same(tips):
    wanted = trainyard("predict", "--model", tips, "-", stdin='{"fare": 3, "company": "x"}\n')
    for text in ('{"fare": 3.0, "company": "x"}', '{"fare": [3], "company": ["x"], "tip": 1, "trip_start_month": 4}', '\ufeff{"fare": 3, "company": "x"}',
                 "\ufefftrip_miles,trip_seconds,fare,payment_type,company\n0,0,3,,x\n", "0,0,0,3,,,,,,,,,,,,,x\n", "\ufeff0,0,3,,,,,,,,,,,,,x\n"):
        assert trainyard("predict", "--model", tips, "-", stdin=text) == wanted


def test_what_is_no_table_is_told(rides, tips, tmp_path):
    """Packed files and FIFOs; a byte order mark before numbers is no part of them."""
    rows = (rides / "taxi-valid-000000000000.csv").read_text()
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(rows.encode()))
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("packed.csv.gz", "is packed by gzip: unpack it first"), ("pipe", "is not a regular file")):
        assert message in trainyard("train", "taxifare", "--train_data_path", tmp_path / name, ok=False)
        assert message in trainyard("predict", "--model", tips, tmp_path / name, ok=False)
    (tmp_path / "marked.csv").write_text("\ufeff" + rows)
    assert "rows to train" in trainyard("train", "taxifare", "--train_data_path", tmp_path / "marked.csv")


def test_a_small_window_over_large_data_is_told(rides, tmp_path):
    """With rows that do not stay in memory each block of a window is read with its whole piece."""
    model = (TOP / "examples" / "taxifare" / "model.yaml").read_text() + "  shuffle_window: 160\n"
    (tmp_path / "model.yaml").write_text(model)
    with open(tmp_path / "large.csv", "w") as out:
        rows = (rides / "taxi-valid-000000000000.csv").read_text()
        for _ in range(40):
            out.write(rows)
    log = trainyard("train", tmp_path / "model.yaml", "--train_data_path", tmp_path / "large.csv", "--cache_mb", 1)
    assert re.search(r"a shuffle_window of 160 rows reads each row about \d+ times a pass; one of \d+ reads it once", log), log
    assert "shuffle_window" not in trainyard("train", tmp_path / "model.yaml", "--train_data_path", tmp_path / "large.csv")


def test_a_finished_run_is_not_exported_again(rides, tmp_path):
    first = taxifare(rides, tmp_path / "out")
    assert "The model is in" in first
    model = exported(tmp_path / "out")
    again = taxifare(rides, tmp_path / "out", "--resume")
    assert "The run had finished after step 200: there is nothing to go on with" in again
    assert f"Its model is there: export/savedmodel/{model.name}" in again and "Epoch" not in again
    assert [p.name for p in model.parent.iterdir()] == [model.name]
    told = taxifare(rides, tmp_path / "out", "--resume", "--lr", 0.5, "--seed", 9, ok=False)
    assert "it is of another run, which differs in parameters, seed: leave out --resume" in told and "--init_from" in told


def test_help_lists_the_flags_that_are_taken():
    source = (TOP / "src" / "train" / "command.c").read_text()
    taken = set(re.findall(r'^    \{"(\w+)", (?:true|false), set_|\{"(\w+)", (?:true|false), set_', source, re.M))
    taken = {(a or b).replace("-", "_") for a, b in taken} | {"list"}
    table = (TOP / "src" / "cli" / "commands.def").read_text().split('ELSEWHERE(train,')[1].split("END")[0]
    assert {name.replace("-", "_") for name in re.findall(r'FLAG\("([\w-]+)"', table)} == taken


def test_tensorflow_predicts_what_we_predict(tensorflow, rides, tmp_path):
    taxifare(rides, tmp_path / "out")
    model = exported(tmp_path / "out")
    rows = [line.split(",") for line in (rides / "taxi-valid-000000000000.csv").read_text().splitlines()[:300]]
    names = ["fare_amount", "pickup_datetime", "pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude", "passenger_count"]
    objects = [dict(zip(names, [float(row[0]), row[1], *map(float, row[2:7])])) for row in rows]
    bare = "\n".join(",".join(row[1:]) for row in rows)  # no label
    headed = ",".join([*names[::-1], "more"]) + "\n" + "\n".join(",".join([*row[6::-1], "x"]) for row in rows)
    ours = trainyard("predict", "--model", model, "-", stdin="\n".join(json.dumps(o) for o in objects))
    assert ours == trainyard("predict", "--model", model, "-", stdin=bare) == trainyard("predict", "--model", model, "-", stdin=headed)
    (tmp_path / "objects.json").write_text(json.dumps(objects))
    theirs = tensorflow("""
import json, sys, tensorflow as tf
rows = json.load(open(sys.argv[2]))
f = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
wanted = f.structured_input_signature[1]
out = f(**{n: tf.constant([r[n] for r in rows]) for n in wanted})
print(json.dumps(out["fare"].numpy().ravel().tolist()))""", model, tmp_path / "objects.json")
    ours = [json.loads(line)["fare"][0] for line in ours.splitlines()]
    assert len(ours) == 300 and max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 1e-5


def chicago(trips, out, *more):
    return trainyard("train", "chicago_taxi", "--train-files", trips / "train.csv", "--eval-files", trips / "eval.csv", "--job-dir", out,
                     "--learning-rate", 0.001, "--hidden-units", "128,0,0", "--layer-sizes-scale-factor", 0.5, "--num-layers", 3, "--num-epochs", 10,
                     "--train-size", 2000, "--eval-steps", 5, "--reuse-job-dir", *more)


def test_a_classifier_and_its_metrics(tensorflow, trips, tmp_path):
    """What TensorFlow says of the exported model, and Keras of its metrics, is what we say."""
    chicago(trips, tmp_path / "out", "--histograms")
    model = exported(tmp_path / "out")
    ours = [json.loads(line) for line in trainyard("predict", "--model", model, trips / "eval.csv").splitlines()]
    theirs = tensorflow("""
import csv, glob, json, sys, tensorflow as tf
rows = list(csv.DictReader(open(sys.argv[2])))
f = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
kinds = {tf.float32: float, tf.int64: int, tf.string: str}
inputs = {n: tf.constant([kinds[s.dtype](r[n]) for r in rows], s.dtype) for n, s in f.structured_input_signature[1].items()}
out = {n: v.numpy().tolist() for n, v in f(**inputs).items()}
out["classes"] = [[c.decode() for c in row] for row in out["classes"]]
y, p = [float(r["tip"]) for r in rows], [q[0] for q in out["logistic"]]
metrics = {"accuracy": tf.keras.metrics.BinaryAccuracy(), "auc": tf.keras.metrics.AUC(), "auc_precision_recall": tf.keras.metrics.AUC(curve="PR"),
           "precision": tf.keras.metrics.Precision(), "recall": tf.keras.metrics.Recall(), "loss": tf.keras.metrics.BinaryCrossentropy()}
for m in metrics.values():
    m.update_state(y, p)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
logged = {}
for part in ("train", "validation"):
    events = EventAccumulator(sys.argv[3] + "/" + part)
    events.Reload()
    tags = events.Tags()["tensors"]
    logged[part] = {t: [float(tf.make_ndarray(e.tensor_proto)) for e in events.Tensors(t)] for t in tags if "histogram" not in t}
    if part == "train":
        shapes = {t: tf.make_ndarray(events.Tensors(t)[-1].tensor_proto).shape for t in tags if "histogram" in t}
        has_graph = events.Tags()["graph"]
print(json.dumps({"out": out, "metrics": {n: float(m.result()) for n, m in metrics.items()}, "logged": logged, "shapes": shapes, "graph": has_graph}))
""", model, trips / "eval.csv", tmp_path / "out" / "tensorboard")
    assert len(ours) == 2000
    for key in ("logits", "logistic", "probabilities"):
        assert max(abs(a - b) / max(1, abs(b)) for x, y in zip(ours, theirs["out"][key]) for a, b in zip(x[key], y, strict=True)) < 1e-5
    assert all(x["class_ids"] == y and x["classes"] == [str(y[0])] for x, y in zip(ours, theirs["out"]["class_ids"]))
    logged = theirs["logged"]["validation"]
    for name, value in theirs["metrics"].items():
        assert len(logged[f"epoch_{name}"]) == 5
        assert math.isclose(logged[f"epoch_{name}"][-1], value, abs_tol=2e-6 if name != "loss" else 1e-5), name
    assert set(theirs["logged"]["train"]) == set(logged)
    assert theirs["shapes"]["hidden1/kernel/histogram"] == [30, 3] and theirs["graph"]


def test_sigterm_writes_a_checkpoint_and_resume_is_exact(rides, tmp_path):
    taxifare(rides, tmp_path / "whole")
    command = [BINARY, "train", "taxifare", "--train_data_path", f"{rides}/taxi-train*", "--eval_data_path", f"{rides}/taxi-valid*", "--batch_size", "32",
               "--num_examples_to_train_on", "6400", "--num_evals", "2", "--output_dir", tmp_path / "parts", "--resume"]
    for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while "Epoch" not in (line := process.stdout.readline()) and line:
            pass
        time.sleep(random.Random(how).uniform(0, 0.01))
        process.send_signal(how)
        out, err = process.communicate(timeout=60)
        assert process.returncode in (0, -how if how == signal.SIGKILL else 128 + how), err
        if process.returncode == 128 + how:
            assert "--resume goes on from there" in err
            assert (tmp_path / "parts" / "checkpoints" / "checkpoint").exists()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert variables(tmp_path / "whole") == variables(tmp_path / "parts")


def test_a_crash_at_any_write_resumes_to_the_same_bits(rides, tmp_path):
    """TY_CRASH ends the process at its Nth write, sync or rename: in event files, checkpoints, the list of them, the export."""
    def command(out):
        return [BINARY, "train", "taxifare", "--nbuckets", "3", "--train_data_path", f"{rides}/taxi-train*", "--num_evals", "2", "--batch_size", "32",
                "--num_examples_to_train_on", "640", "--output_dir", tmp_path / out, "--resume", "--quiet"]
    subprocess.run(command("whole"), check=True)
    whole, crashes = variables(tmp_path / "whole"), 0
    for step in range(1, 400, 6):
        out = f"crash{step}"
        crashed = subprocess.run(command(out), env={**os.environ, "TY_CRASH": f"train:{step}"}).returncode == -signal.SIGKILL
        crashes += crashed
        if crashed:
            subprocess.run(command(out), check=True)
        assert variables(tmp_path / out) == whole, step
        if not crashed:
            break
    assert crashes > 5 and not crashed


def test_curves_are_drawn(rides, tmp_path):
    log = taxifare(rides, tmp_path / "out", "--plot")
    assert "rmse  (* training, o validation)" in log and "epoch 1 to 2" in log


@pytest.mark.parametrize("name, output", [("taxifare", "fare"), ("chicago_taxi", "probabilities"), ("flowers", "classes")])
def test_the_examples_run(name, output, tmp_path):
    env = {**os.environ, "PATH": f"{BINARY.parent}:{os.environ['PATH']}"}
    done = subprocess.run([TOP / "examples" / name / "run.sh", tmp_path], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stdout.splitlines() if line.startswith("{") and output in json.loads(line)]) == 3


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flowers")
    subprocess.run([sys.executable, TOP / "examples" / "flowers" / "make_images.py", folder], check=True)
    return folder


def test_tensorflow_sees_in_images_what_we_see(tensorflow, flowers, tmp_path):
    """JPEG and PNG of any size: the exported graph resizes, and gives what predict gives."""
    shutil.copy(TOP / "tests" / "golden" / "images" / "full.jpg", flowers / "roses" / "colour.jpg")
    printed = trainyard("train", "flowers", "--train_data_path", flowers, "--output_dir", tmp_path, "--epochs", 2, "--img_height", 40, "--img-width=56")
    assert "193 images to train" in printed and "48 images to evaluate" in printed and "val_accuracy" in printed
    assert "(batch, any, any, 3)" in trainyard("model", "show", exported(tmp_path))
    files = [flowers / "daisy" / "000.png", flowers / "tulips" / "001.png", flowers / "roses" / "colour.jpg"]
    ours = [json.loads(line) for line in trainyard("predict", "--model", exported(tmp_path), *files).splitlines()]
    assert [o["file"] for o in ours] == [str(f) for f in files]
    folder = trainyard("predict", "--model", exported(tmp_path), flowers / "daisy").splitlines()
    assert len(folder) == 48 and json.loads(folder[0])["logits"] == pytest.approx(ours[0]["logits"], abs=1e-5)
    theirs = tensorflow("""
import json, sys, tensorflow as tf
f, results = tf.saved_model.load(sys.argv[1]).signatures["serving_default"], []
for path in sys.argv[2:]:
    pixels = tf.cast(tf.io.decode_image(tf.io.read_file(path), channels=3, expand_animations=False), tf.float32)
    out = f(image=pixels[None])
    results.append({k: [v.decode() if isinstance(v, bytes) else v for v in out[k].numpy()[0].tolist()] for k in out})
print(json.dumps(results))""", exported(tmp_path), *files)
    for a, b in zip(ours, theirs, strict=True):
        assert b["classes"] == a["classes"] and b["class_ids"] == a["class_ids"]
        for key in ("logits", "probabilities"):
            assert all(math.isclose(x, y, rel_tol=1e-5, abs_tol=1e-5) for x, y in zip(a[key], b[key], strict=True))


def test_images_that_cannot_be_read_are_named(flowers, tmp_path):
    trainyard("train", "flowers", "--train_data_path", flowers, "--output_dir", tmp_path / "out", "--epochs", 1, "--img_height", 16, "--img_width", 16)
    broken = tmp_path / "broken.jpg"
    broken.write_bytes((TOP / "tests" / "golden" / "images" / "full.jpg").read_bytes()[:200])
    for path in (broken, tmp_path / "none.png", TOP / "README.md"):
        assert str(path) in trainyard("predict", "--model", exported(tmp_path / "out"), path, ok=False)
    assert "has no images" in trainyard("predict", "--model", exported(tmp_path / "out"), TOP / "docs", ok=False)
    assert "'/nowhere'" in trainyard("train", "flowers", "--train_data_path", "/nowhere", ok=False)


def test_the_document_has_every_field():
    """docs/model-file.md and the tables in the code name the same kinds."""
    text = (TOP / "docs" / "model-file.md").read_text()
    for path, pattern in (("nn/layers.def", r"^LAYER\((\w+)\)"), ("nn/features.def", r"^FEATURE\((\w+)\)"), ("nn/optimizers.def", r"^OPTIMIZER\((\w+),"),
                          ("nn/metrics.def", r"^METRIC\((\w+),")):
        for name in re.findall(pattern, (TOP / "src" / path).read_text(), re.M):
            assert f"`{name}`" in text, name
    for name, fields in re.findall(r'^OPTIMIZER\((\w+), \S+, \S+, \w+, \w+, (.*)\)', (TOP / "src" / "nn" / "optimizers.def").read_text(), re.M):
        row = re.search(rf"^\| `{name}` \|(.*)$", text, re.M)[1]
        assert set(re.findall(r"`(\w+)`", row)) == set(re.findall(r'"(\w+)"', fields)), name
    keys = set()
    for source in (TOP / "src" / "nn").glob("*.c"):
        for table in re.findall(r"keys\[\] = \{(.*?)\}", source.read_text(), re.S):
            keys |= set(re.findall(r'"(\w+)"', table))
    assert not {k for k in keys if f"`{k}`" not in text and f"{k}" not in text}


HEADS = """
name: heads
input:
  columns: [{name: fare}, {name: kind, type: string}, {name: paid, type: int}, {name: a}, {name: b}]
features:
  - {name: a1, normalise: a}
  - {name: b1, normalise: b}
  - {name: group, bucketize: b1, edges: [-1, 0, 1]}
network:
  input: [a1, b1, {indicator: group}]
  layers:
    - {dense: 16, activation: relu, name: h}
    - {dense: 1, name: fare_out, input: h}
    - {dense: 3, name: kind_out, input: h}
    - {dense: 1, name: paid_out, input: h}
heads:
  - {name: fare, input: fare_out, label: fare, metrics: [mae], output: price}
  - {name: kind, input: kind_out, type: multiclass, classes: [low, middle, high], label: kind, weight: 2, class_weights: [1, 2, 1]}
  - {name: paid, input: paid_out, type: binary, label: paid, metrics: [auc]}
training: {batch_size: 32, epochs: 3, optimizer: {type: adam, learning_rate: 0.01}}
"""


def heads_files(folder, shift=0):
    rng = random.Random(3)
    rows = []
    for _ in range(2000):
        a, b = rng.gauss(500 + shift, 20), rng.uniform(1, 3)
        rows.append(f"{(a - 500) / 10 + b:.4f},{['low', 'middle', 'high'][int(b - 0.001)]},{int(a > 500)},{a:.3f},{b:.4f}\n")
    (folder / "model.yaml").write_text(HEADS)
    (folder / "data.csv").write_text("".join(rows))
    return [row.strip().split(",") for row in rows]


def test_several_heads_and_measured_inputs(tensorflow, tmp_path):
    """Losses and metrics by head; means and deviations travel with checkpoints and the export; TensorFlow gives all outputs."""
    rows = heads_files(tmp_path)
    command = ["train", "--model-file", tmp_path / "model.yaml", "--train_data_path", tmp_path / "data.csv", "--eval_data_path", tmp_path / "data.csv",
               "--output_dir", tmp_path / "out"]
    log = trainyard(*command)
    last = dict(re.findall(r" - (\w+): ([\d.e+-]+)", log.splitlines()[-3]))
    assert set(last) >= {"loss", "fare_loss", "fare_mae", "kind_loss", "kind_accuracy", "paid_loss", "paid_auc", "val_paid_auc"}
    assert math.isclose(float(last["val_loss"]), float(last["val_fare_loss"]) + 2 * float(last["val_kind_loss"]) + float(last["val_paid_loss"]), rel_tol=1e-3)
    assert float(last["val_kind_accuracy"]) > 0.8 and float(last["val_paid_auc"]) > 0.9
    model = exported(tmp_path / "out")
    measured = json.loads((model / "assets.extra" / "trainyard.json").read_text())["measured"]
    values = [float(r[3]) for r in rows]
    mean = sum(values) / len(values)
    assert math.isclose(measured["a1"][0], mean, rel_tol=1e-6)
    assert math.isclose(measured["a1"][1], math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)), rel_tol=1e-5)
    ours = [json.loads(line) for line in trainyard("predict", "--model", model, tmp_path / "data.csv").splitlines()]
    bare = trainyard("predict", "--model", model, "-", stdin="\n".join(",".join(r[3:]) for r in rows))
    assert [json.loads(line) for line in bare.splitlines()] == ours
    theirs = tensorflow("""
import csv, json, sys, tensorflow as tf
rows = [[float(v) for v in r[3:]] for r in csv.reader(open(sys.argv[2]))]
f = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
out = f(a=tf.constant([r[0] for r in rows]), b=tf.constant([r[1] for r in rows]))
reader = tf.train.load_checkpoint(sys.argv[3])
print(json.dumps({"out": {n: v.numpy().astype(str if v.dtype == tf.string else float).tolist() for n, v in out.items()},
                  "measured": reader.get_tensor("trainyard/measured/a1").tolist()}))""", model, tmp_path / "data.csv", tmp_path / "out" / "checkpoints")
    assert set(theirs["out"]) == set(ours[0]) == {"price", *(f"kind_{n}" for n in ("logits", "probabilities", "class_ids", "classes")),
                                                  *(f"paid_{n}" for n in ("logits", "logistic", "probabilities", "class_ids", "classes"))}
    for name in ("price", "kind_logits", "kind_probabilities", "paid_logistic"):
        assert max(abs(a - b) for x, y in zip(ours, theirs["out"][name]) for a, b in zip(x[name], y, strict=True)) < 2e-5, name
    assert all(x["kind_classes"][0] in str(y) for x, y in zip(ours, theirs["out"]["kind_classes"]))
    assert [round(v, 3) for v in theirs["measured"]] == [round(v, 3) for v in measured["a1"]]
    heads_files(tmp_path, shift=1)  # other data, other means
    assert "another" in trainyard(*command, "--resume", ok=False)


def test_a_layer_of_ones_own(tensorflow, tmp_path):
    """examples/own_layer: a C program with its own layer; TensorFlow runs what it exported, our binary says what it lacks."""
    done = subprocess.run([TOP / "build" / "own_layer", tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"gradient: off by (\S+) at most", done.stdout)[1]) < 1e-3
    assert float(re.search(r"^loss (\S+) after 1890 steps", done.stdout, re.M)[1]) < 0.01
    ours = [json.loads(line)["y"][0] for line in done.stdout.splitlines()[-5:]]
    theirs = tensorflow("""
import csv, json, sys, tensorflow as tf
rows = [[float(v) for v in r] for r in csv.reader(open(sys.argv[2]))]
f = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
print(json.dumps(f(a=tf.constant([r[1] for r in rows]), b=tf.constant([r[2] for r in rows]))["y"].numpy().ravel().tolist()))
""", exported(tmp_path), tmp_path / "ask.csv")
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 1e-5
    assert "names no kind of layer" in trainyard("predict", "--model", exported(tmp_path), tmp_path / "ask.csv", ok=False)


CLASSES = """
name: classes
parameters: {lr: 0.1}
input: {header: true, columns: [{name: kind, type: int}, {name: x}]}
network: {input: [x], layers: [{dense: 3, name: out}]}
head: {type: multiclass, classes: 3, label: kind}
training: {batch_size: 2, epochs: 2, bad_rows: %s, optimizer: {type: sgd, learning_rate: lr}}
"""


@pytest.mark.parametrize("text, message, skipped", [
    ("", "there is no header", None),
    ("kind,x\n", "has no rows", None),
    ("kind,x,x\n1,2,3\n", "data.csv: the header names 'x' twice, columns 2 and 3", None),
    ("kind,y\n1,2\n", "column 'x' is not in the header, which has: kind, y", None),
    ("kind,x\n1,2\n0,1\n2,ten\n1,1\n", "data.csv: line 4, column 2 (x): ", 1),
    ("kind,x\n1,2\n0,1,5\n1,1\n", "data.csv: line 3", 1),
    ("kind,x\n1,2\n3,1\n0,1\n", "data.csv: line 3: label 'kind' is 3, not a class from 0 to 2", 1),
    ("kind,x\n1,2\n-1,1\n0,0\n5,1\n", "data.csv: line 3: label 'kind' is -1, not a class", 2),
    ("kind,x\n1,2\n0.5,1\n0,0\n", "data.csv: line 3, column 1 (kind): '0.5' is not a whole number", 1),
    ("kind,x\n1,nan\n0,1\n2,2\n", "data.csv: line 2: 'x' is not finite", 1),
    ("kind,x\n1,1e38\n0,-1e38\n2,1e38\n", "is not finite: a smaller learning rate", None),
])
def test_mistakes_of_the_data(tmp_path, text, message, skipped):
    """Each has a clear error with file and line, exit status 1; rows are skipped and counted if the model file says so."""
    (tmp_path / "data.csv").write_text(text)
    for bad_rows in ("error", "skip"):
        (tmp_path / "model.yaml").write_text(CLASSES % bad_rows)
        done = subprocess.run([BINARY, "train", tmp_path / "model.yaml", "--train_data_path", tmp_path / "data.csv"], capture_output=True, text=True,
                              timeout=60)
        if bad_rows == "error" or skipped is None:
            assert done.returncode == 1 and message in done.stderr and "Epoch 2" not in done.stdout, done.stderr
        else:
            assert done.returncode == 0 and f"{skipped} bad rows were skipped; the first: " in done.stderr and message in done.stderr, done.stderr


# ---- the output folder ----

def test_two_runs_do_not_share_an_output_folder(rides, tmp_path):
    """The second one is told who is there, at once, and touches nothing; a run that was killed holds nothing."""
    out = tmp_path / "out"
    command = [BINARY, "train", "taxifare", "--train_data_path", f"{rides}/taxi-train*", "--num_examples_to_train_on", "100000000", "--num_evals", "1000",
               "--nnsize", "8", "--nbuckets", "3", "--output_dir", out]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        while "Epoch 2/" not in (line := first.stdout.readline()) and line:
            pass
        told = trainyard("train", "taxifare", "--train_data_path", "/nowhere", "--output_dir", out, ok=False)
        assert re.search(rf"'{out}' is in use by process {first.pid} on \S+ \(since \d+-", told), told
        assert list((out / "checkpoints").glob("ckpt-*.index"))
    finally:
        first.kill()
        first.communicate()
    assert (out / ".trainyard.lock").exists()
    taxifare(rides, out)
    assert not (out / ".trainyard.lock").exists() and len(list((out / "export" / "savedmodel").iterdir())) == 1


def test_an_output_folder_that_is_removed_is_made_again(rides, tmp_path):
    """While the run goes on: one warning, then curves, checkpoints, the lock and the model are there as ever."""
    out = tmp_path / "out"
    command = [BINARY, "train", "taxifare", "--train_data_path", f"{rides}/taxi-train*", "--num_examples_to_train_on", "4000000", "--num_evals", "8",
               "--nnsize", "8", "--nbuckets", "3", "--output_dir", out]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for line in run.stdout:
            if "Epoch 3/" in line:  # the second one's files are written, the third is at work
                out.rename(tmp_path / "gone")
                shutil.rmtree(tmp_path / "gone")
            if "Epoch 5/" in line:
                told = trainyard("train", "taxifare", "--train_data_path", "/nowhere", "--output_dir", out, ok=False)
                assert f"is in use by process {run.pid} on " in told, told
                break
    finally:
        _, errors = run.communicate()
    assert run.returncode == 0 and errors.count("was removed or moved while the run writes there") == 1, errors
    assert len(list((out / "tensorboard" / "train").glob("events.out.tfevents.*"))) == 1
    assert list((out / "checkpoints").glob("ckpt-*.index")) and exported(out)
    assert not (out / ".trainyard.lock").exists()


def test_a_write_that_fails_takes_nothing_away_and_leaves_nothing(rides, tmp_path):
    """TY_FAULT: from the Nth write on the disk is full: what is there is whole, and the model of the run before is still there."""
    out = tmp_path / "out"
    command = ["train", "taxifare", "--nbuckets", "3", "--train_data_path", f"{rides}/taxi-train*", "--num_evals", "2", "--batch_size", "32",
               "--num_examples_to_train_on", "640", "--output_dir", out, "--quiet"]
    trainyard(*command)
    failures = 0
    for n in range(1, 400, 5):
        done = subprocess.run([BINARY, *map(str, command)], capture_output=True, text=True, timeout=60, env={**os.environ, "TY_FAULT": f"enospc-write:{n}+"})
        assert done.returncode in (0, 1), done.stderr
        models = list((out / "export" / "savedmodel").iterdir())
        assert len(models) == 1 and (models[0] / "saved_model.pb").exists(), (n, models)
        files = {file.name for file in (out / "checkpoints").iterdir()}
        whole = {name[:-6] for name in files if name.endswith(".index")}
        assert not [name for name in files if name.endswith(".tmp")] and whole, (n, files)
        assert {name.split(".")[0] for name in files if ".data-" in name} == whole, (n, files)
        assert "checkpoint" in files, (n, files)
        if done.returncode == 0:
            break
        failures += 1
        assert "No space left on device" in done.stderr, done.stderr
    assert failures > 5 and done.returncode == 0


def test_data_that_is_cut_off_while_it_is_read_is_told(rides, tmp_path):
    """Truncated while a run reads it again and again: a sentence, never a signal."""
    data = tmp_path / "data.csv"
    data.write_bytes(b"".join(path.read_bytes() for path in sorted(rides.glob("taxi-train*"))) * 20)
    text = (TOP / "examples" / "taxifare" / "model.yaml").read_text()
    (tmp_path / "model.yaml").write_text(text.replace("\ntraining:\n", "\ntraining:\n  shuffle_window: 4000\n"))
    process = subprocess.Popen([BINARY, "train", tmp_path / "model.yaml", "--train_data_path", data, "--cache_mb", "1", "--num_examples_to_train_on", "100000000",
                                "--num_evals", "1000", "--nnsize", "8", "--nbuckets", "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while "Epoch 1/" not in (line := process.stdout.readline()) and line:
            pass
        os.truncate(data, 100_000)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1 and f"'{data}' " in err and "while it was in use" in err, err


def test_the_best_epoch_is_the_model(rides, tmp_path):
    text = (TOP / "examples" / "taxifare" / "model.yaml").read_text()
    assert "\ntraining:\n" in text
    (tmp_path / "model.yaml").write_text(text.replace("\ntraining:\n", "\ntraining:\n  keep_best: true\n  patience: 1\n"))
    log = trainyard("train", tmp_path / "model.yaml", "--train_data_path", f"{rides}/taxi-train*", "--eval_data_path", f"{rides}/taxi-valid*",
                    "--output_dir", tmp_path / "out", "--num_examples_to_train_on", 64000, "--num_evals", 20, "--lr", 0.05)
    losses = [float(x) for x in re.findall(r" val_loss: ([\d.]+)", log)]
    best = min(range(len(losses)), key=losses.__getitem__)
    assert best < len(losses) - 1, losses  # else this test shows nothing
    assert f"The best epoch was {best + 1}, with a loss of " in log
