"""What src/formats writes, real TensorFlow 2.15 and TensorBoard read; what they write, we read (build/formats_tool)."""
import json
import pathlib
import random
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = TOP / "build" / "formats_tool"


def tool(*arguments, stdin=b"", ok=True):
    done = subprocess.run([TOOL, *arguments], input=stdin, capture_output=True, timeout=120)
    assert (done.returncode == 0) == ok, done.stderr.decode()
    return done.stdout if ok else done.stderr.decode()


@pytest.fixture(scope="module")
def judge(tf_python):
    """TensorFlow in a process of its own: judge("call", argument=...) -> its answer."""
    process = subprocess.Popen([tf_python, TOP / "tests" / "golden" / "judge.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)

    def call(name, **arguments):
        process.stdin.write(json.dumps({"call": name, **arguments}) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline() or json.dumps({"error": process.stderr.read()[-2000:]}))
        assert "error" not in answer, answer["error"]
        return answer["ok"]

    yield call
    process.stdin.close()
    process.wait(60)
    process.stdout.close()
    process.stderr.close()


def test_tfrecords_both_ways(judge, tmp_path):
    theirs, ours, packed = tmp_path / "theirs", tmp_path / "ours", tmp_path / "packed.gz"
    judge("write_records", path=str(theirs), count=200, seed=1)
    judge("write_records", path=str(packed), count=200, seed=1, gzip=True)
    ours.write_bytes(tool("tfrecord-copy", stdin=theirs.read_bytes()))
    assert judge("same_records", a=[str(theirs), ""], b=[str(ours), ""]) == {"count": 200, "same": True}
    assert tool("gunzip", stdin=packed.read_bytes()) == theirs.read_bytes()
    damaged = bytearray(theirs.read_bytes())
    damaged[5000] ^= 4
    assert "checksum" in tool("tfrecord-copy", stdin=bytes(damaged), ok=False)


def test_examples_both_ways(judge, tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    judge("write_records", path=str(theirs), count=300, seed=2)
    ours.write_bytes(tool("example-copy", stdin=theirs.read_bytes()))
    assert judge("same_examples", a=str(theirs), b=str(ours)) == {"count": 300, "same": True}


def some_number(r):
    """Not below 1e-38: TensorFlow computes with subnormal numbers as zero."""
    kind = r.randrange(6)
    if kind == 0:
        return f"{r.uniform(-180, 180):.{r.randrange(18)}f}"
    if kind == 1:
        return repr(r.uniform(-1000, 1000))
    if kind == 2:
        return f"{r.uniform(-10, 10):.{r.randrange(10)}e}"
    if kind == 3:  # halfway between two floats, and a hair off it
        middle = r.randrange(2**23, 2**24) * 2 + 1
        return r.choice([f"{middle}", f"{middle}.00000000001", f"{middle - 1}.9999999", f"{middle / 2**20:.30f}"[:30]])
    if kind == 4:
        return str(r.randrange(-10**12, 10**12))
    return r.choice(["0", "-0", "5.", ".5", "+3", " 7", "8 ", "1e40", "-1e-46", "inf", "nan", "NaN", "2e-38", "3.4028235e38", "3.4028236e38"])


def test_csv_rows_are_decode_csvs(judge):
    r = random.Random(3)
    lines = [",".join([some_number(r), str(r.randrange(-2**63, 2**63)), r.choice(["", "a b", '"x,y"', '"say ""hi"""', '""', "é"])])
             for _ in range(3000)]
    lines += [",,", ",5,", '"1.5","7","z"']
    ours = [json.loads(line) for line in tool("csv", "fis", stdin="\n".join(lines).encode()).decode().splitlines()]
    theirs = judge("decode_csv", lines=lines, types="fis")
    for row in (*ours, *theirs):  # which of the many NaNs it is means nothing
        row[0] = "nan" if row[0] & 0x7FFFFFFF > 0x7F800000 else row[0]
    wrong = [(line, a, b) for line, a, b in zip(lines, ours, theirs) if a != b]
    assert len(ours) == len(theirs) and not wrong, wrong[:10]


def test_csv_refuses_what_decode_csv_refuses(judge):
    lines = ["x,1,a", "1.5.2,1,a", "1,2.5,a", "1,99999999999999999999,a", "1,2", "1,2,3,4", '1,2,a"b', '1,2,"a"b', '1,2,"a', "1e,1,a", "--1,1,a",
             "0x10,1,a,b"]
    assert judge("decode_csv", lines=lines, types="fis") == [None] * len(lines)
    for line in lines:
        assert "line 2" in tool("csv", "fis", stdin=b"1,1,a\n" + line.encode() + b"\n1,1,b\n", ok=False)


def test_csv_files_with_quoted_line_ends(judge, tmp_path):
    r = random.Random(4)
    words = ["plain", '"two\nlines"', '"a,b"', '"q""q"', "", '"\r\n"']
    path = tmp_path / "rows.csv"
    rows = [(f"{r.uniform(0, 9):.4f}", r.choice(words), str(r.randrange(100))) for _ in range(5000)]
    path.write_bytes("".join(",".join(row) + r.choice(["\n", "\r\n"]) for row in rows).encode())
    ours = [json.loads(line) for line in tool("csv", "fsi", stdin=path.read_bytes()).decode().splitlines()]
    assert ours == judge("decode_csv_file", path=str(path), types="fsi")


def test_hashes_are_tensorflows(judge):
    r = random.Random(5)
    lines = ["".join(r.choice("abcdefghij 0123456789é") for _ in range(n)) for n in [*range(1, 300), 1000, 4096]]
    ours = [line.split() for line in tool("hash", stdin=("\n".join(lines) + "\n").encode()).decode().splitlines()]
    assert ours == [[p, str(b)] for p, b in judge("hashes", lines=lines)]


@pytest.mark.parametrize("buckets", [100, 10000, 10**12])
def test_crosses_are_tensorflows(judge, buckets):
    r = random.Random(6)
    rows = [[r.randrange(-50, 50), r.choice(["Flash Cab", "", "Ärger", "x" * 70]), r.randrange(2**40)] for _ in range(200)]
    text = "".join("\t".join(f"s:{v}" if isinstance(v, str) else f"i:{v}" for v in row) + "\n" for row in rows)
    ours = [int(line) for line in tool("cross", str(buckets), stdin=text.encode()).split()]
    assert ours == judge("crosses", rows=rows, buckets=buckets)


def test_checkpoints_both_ways(judge, tmp_path):
    judge("write_checkpoint", folder=str(tmp_path))
    for name in ("weights", "mixed", "keras_model/variables/variables"):
        theirs, ours = tmp_path / name, tmp_path / "copy"
        tool("bundle-copy", str(theirs), str(ours))
        answer = judge("same_checkpoints", a=str(theirs), b=str(ours))
        assert answer["same"] and answer["names"]
        listed = [line.split()[0] for line in tool("bundle", f"{ours}.index").decode().splitlines()]
        assert listed == answer["names"]
        if name == "mixed":  # written in one go, in the order of names: then all bytes are TensorFlow's
            for end in (".index", ".data-00000-of-00001"):
                assert pathlib.Path(f"{theirs}{end}").read_bytes() == pathlib.Path(f"{ours}{end}").read_bytes()
    shown = tool("model", str(tmp_path / "keras_model" / "saved_model.pb")).decode()
    assert "signature serving_default tensorflow/serving/predict" in shown and "object_graph 1" in shown and "dense_input" in shown


def test_checkpoint_of_many_blocks(judge, tmp_path):
    tool("bundle-many", "30000", str(tmp_path / "many"))
    assert (tmp_path / "many.index").stat().st_size > 600_000  # several blocks
    values = judge("checkpoint_values", prefix=str(tmp_path / "many"))
    assert len(values) == 30000
    assert all(values[f"layer_{i * 7919 % 30000}/a_rather_long_name/kernel"] == i for i in range(0, 30000, 997))
    assert len(tool("bundle", str(tmp_path / "many.index")).splitlines()) == 30000


def test_tensorflow_runs_our_saved_model(judge, tmp_path):
    r = random.Random(8)
    n = 50
    inputs = {"lat": [round(r.uniform(-0.2, 1.2), 4) for _ in range(n)], "lon": [r.choice([0.0, 0.25, 0.5, 1.0]) for _ in range(n)],
              "when": [f"2011-01-28 {r.randrange(24):02d}:42:59 UTC" for _ in range(n)],
              "company": [r.choice(["Flash Cab", "", "Taxi Affiliation Services", "Ä"]) for _ in range(n)]}
    tool("saved-model", str(tmp_path / "model"))
    got = judge("run_model", folder=str(tmp_path / "model"), inputs=inputs)
    want = judge("expect_model", folder=str(tmp_path / "model"), **inputs)
    for key in ("crossed", "bucket", "hour"):
        assert got["out"][key] == got["again"][key] == want[key]
    for a, b, c in zip(got["out"]["fare"], got["again"]["fare"], want["fare"]):
        assert a == b and a == pytest.approx(c, rel=1e-5, abs=1e-6)
    assert got["shapes"]["fare"] == "(None, 1)"
    shown = tool("model", str(tmp_path / "model" / "saved_model.pb")).decode()
    assert "restore save/restore_all" in shown and "output fare fare/BiasAdd:0 DT_FLOAT rank 2" in shown


def test_tensorflow_runs_our_image_net(judge, tmp_path):
    r = random.Random(9)
    image = [[[[r.random() for _ in range(3)] for _ in range(8)] for _ in range(8)] for _ in range(6)]
    tool("saved-cnn", str(tmp_path / "model"))
    got = judge("run_model", folder=str(tmp_path / "model"), inputs={"image": image})["out"]
    want = judge("expect_cnn", folder=str(tmp_path / "model"), image=image)
    assert got["class_ids"] == want["class_ids"]
    for a, b in zip(got["probabilities"], want["probabilities"]):
        assert a == pytest.approx(b, rel=1e-5, abs=1e-6)


def test_saved_model_cli_runs_it(tf_python, tmp_path):
    tool("saved-model", str(tmp_path / "model"))
    done = subprocess.run([tf_python, "-m", "tensorflow.python.tools.saved_model_cli", "run", "--dir", tmp_path / "model", "--tag_set", "serve",
                           "--signature_def", "serving_default", "--input_exprs",
                           "lat=[0.3];lon=[0.6];when=['2011-01-28 20:42:59 UTC'];company=['Flash Cab']"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Result for output key fare" in done.stdout


def test_tensorboard_reads_our_events(judge, tmp_path):
    (tmp_path / "events.out.tfevents.1700000000.host.1.0.v2").write_bytes(tool("events-write"))
    got = judge("load_events", folder=str(tmp_path))
    assert got["version"] == 2.0 and got["nodes"] == ["x", "hidden/relu"]
    assert got["plugins"] == {"epoch_loss": "scalars", "dense/kernel": "histograms", "model": "text"}
    losses = got["tensors"]["epoch_loss"]
    assert [s for s, _, _ in losses] == list(range(100)) and losses[3][1:] == [1700000004.0, 0.25]
    assert got["tensors"]["model"][0][2] == "a *small* net"
    values = [(i * 7919) % 1000 / 100 - 3 for i in range(1000)]
    for (_, _, ours), given in zip(got["tensors"]["dense/kernel"], (values, [2.0] * 5)):
        theirs = judge("histogram", values=given)
        assert [row[2] for row in ours] == [row[2] for row in theirs]
        assert [row[0] for row in ours] == pytest.approx([row[0] for row in theirs], abs=1e-5)


def test_we_read_tensorflows_events(judge, tmp_path):
    lines = b"".join(tool("events", stdin=pathlib.Path(p).read_bytes()) for p in judge("write_events", folder=str(tmp_path))).decode()
    assert "version brain.Event:2" in lines and "7 rmse [] scalar 2.5" in lines
    assert "3 epoch_loss [scalars] scalar 0.25" in lines and "1 w [histograms] other" in lines and "2 note [text] other" in lines
