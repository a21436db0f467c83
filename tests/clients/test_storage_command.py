"""trainyard storage and gsutil (a link to trainyard): what they do, and that they say it as the originals do.

The judges of what they say are Google's own, in test_same_as_storage.py; hostile use is in test_storage_hostile.py."""
import fcntl
import gzip
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import termios
import threading

import pytest
from proxy import Counting, Proxy, address
from yard import BINARY

SCRIPTS = pathlib.Path(__file__).parent / "scripts"


# ---- helpers ----

def client(yard, *command, environment=None, timeout=60, text=True, **rest):
    """As yard.run, with standard input, and bytes for text=False."""
    if "input" not in rest:
        rest["stdin"] = subprocess.DEVNULL
    return subprocess.run([str(c) for c in command], env={**yard.client_environment(), **(environment or {})},
                          capture_output=True, text=text, timeout=timeout, **rest)


def trainyard(yard, *words, **rest):
    return client(yard, BINARY, *words, **rest)


@pytest.fixture(scope="module")
def links(tmp_path_factory):
    """gcloud and gsutil that are trainyard."""
    folder = tmp_path_factory.mktemp("links")
    for name in ("gcloud", "gsutil"):
        (folder / name).symlink_to(BINARY)
    return folder


@pytest.fixture
def place(tmp_path_factory):
    """A folder with a few files."""
    tmp_path = tmp_path_factory.mktemp("place")
    for name, text in {"f.txt": "hi\n", "d/a.txt": "a\n", "d/b.txt": "bb\n", "d/sub/c.txt": "ccc\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def run(shared_yard, place):
    def run(*words, expect=0, **rest):
        rest.setdefault("cwd", place)
        result = trainyard(shared_yard, "storage", *words, **rest)
        assert result.returncode == expect, f"{words}: exit {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result
    return run


@pytest.fixture
def bucket(run, request):
    name = "b-" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]
    run("buckets", "create", f"gs://{name}")
    return f"gs://{name}"


def names(run, url):
    return run("ls", url).stdout.split()


def pattern_file(path, size, seed=7):
    path.write_bytes(random.Random(seed).randbytes(size))
    return path


# ---- what it does ----

def test_copies_follow_the_rules_of_cp(run, bucket):
    run("cp", "f.txt", f"{bucket}/one.txt")
    run("cp", "f.txt", f"{bucket}/x/")
    run("cp", "-r", "d", bucket)            # to what is there: keeps its name
    run("cp", "-r", "d", f"{bucket}/new")   # to what is not: takes the new one
    run("cp", "-r", "d", f"{bucket}/new")   # now it is there
    assert names(run, f"{bucket}/**") == [f"{bucket}/{n}" for n in (
        "d/a.txt", "d/b.txt", "d/sub/c.txt", "new/a.txt", "new/b.txt", "new/d/a.txt", "new/d/b.txt",
        "new/d/sub/c.txt", "new/sub/c.txt", "one.txt", "x/f.txt")]


def test_wildcards_on_both_sides(run, bucket, place):
    run("cp", "d/*.txt", f"{bucket}/up/")
    assert names(run, f"{bucket}/up/") == [f"{bucket}/up/a.txt", f"{bucket}/up/b.txt"]
    run("cp", "d/**", f"{bucket}/flat/")
    assert names(run, f"{bucket}/flat/[bc].txt") == [f"{bucket}/flat/b.txt", f"{bucket}/flat/c.txt"]
    (place / "out").mkdir()
    run("cp", f"{bucket}/*/?.txt", "out")
    assert sorted(p.name for p in (place / "out").iterdir()) == ["a.txt", "b.txt", "c.txt"]
    assert names(run, f"{bucket}/**/c.txt") == [f"{bucket}/flat/c.txt"]


def test_standard_input_and_output(run, bucket):
    data = random.Random(1).randbytes(20_000_000)
    run("cp", "-", f"{bucket}/stream", input=data, text=False)
    assert run("cp", f"{bucket}/stream", "-", text=False).stdout == data
    assert run("cat", "-r", "10-19", f"{bucket}/stream", text=False).stdout == data[10:20]
    assert run("cat", "-r", "-5", f"{bucket}/stream", text=False).stdout == data[-5:]
    for size in (0, 8 << 20):  # nothing, and nothing behind a whole piece
        run("cp", "-", f"{bucket}/edge", input=data[:size], text=False)
        assert run("cat", f"{bucket}/edge", text=False).stdout == data[:size]


def test_no_clobber_leaves_what_is_there(run, bucket, place):
    run("cp", "f.txt", f"{bucket}/f.txt")
    (place / "f.txt").write_text("other")
    result = run("cp", "-n", "f.txt", f"{bucket}/f.txt")
    assert "Skipping existing destination item (no-clobber)" in result.stderr
    assert run("cat", f"{bucket}/f.txt").stdout == "hi\n"
    run("cp", "-n", f"{bucket}/f.txt", "f.txt")
    assert (place / "f.txt").read_text() == "other"


def test_gzip_is_stored_packed_and_comes_unpacked(run, bucket, place):
    (place / "long.txt").write_text("all work and no play\n" * 1000)
    run("cp", "-z", "txt,html", "long.txt", f"{bucket}/long.txt")
    described = json.loads(run("objects", "describe", f"{bucket}/long.txt", "--format=json").stdout)
    assert described["content_encoding"] == "gzip" and described["size"] < 1000
    run("cp", f"{bucket}/long.txt", "back.txt")
    assert (place / "back.txt").read_bytes() == (place / "long.txt").read_bytes()
    assert gzip.decompress(run("cat", f"{bucket}/long.txt", text=False).stdout) == (place / "long.txt").read_bytes()


def test_many_files_at_once(run, bucket, place):
    (place / "many").mkdir()
    for i in range(200):
        (place / "many" / f"f{i}").write_bytes(b"x" * i)
    run("cp", "-r", "many", bucket)
    (place / "out").mkdir()
    run("cp", "-r", f"{bucket}/many", "out")
    assert {p.name: p.stat().st_size for p in (place / "out" / "many").iterdir()} == {f"f{i}": i for i in range(200)}
    assert run("du", "-s", bucket).stdout.split()[0] == str(sum(range(200)))
    assert len(list((place / "out" / "many").glob("*_.gstmp"))) == 0


def test_moving(run, bucket, place):
    run("mv", "d", bucket)
    assert not list((place / "d").rglob("*.txt"))
    run("mv", f"{bucket}/d/a.txt", f"{bucket}/z.txt")
    assert names(run, f"{bucket}/**") == [f"{bucket}/d/b.txt", f"{bucket}/d/sub/c.txt", f"{bucket}/z.txt"]


def test_rsync_makes_both_sides_equal(run, bucket, place):
    run("rsync", "-r", "d", f"{bucket}/d")
    assert "Copying" not in run("rsync", "-r", "d", f"{bucket}/d").stderr
    (place / "d" / "b.txt").write_text("XX\n")  # the same size
    os.utime(place / "d" / "b.txt", (1, 1_000_000_000))
    (place / "d" / "a.txt").unlink()
    dry = run("rsync", "-r", "--delete-unmatched-destination-objects", "--dry-run", "d", f"{bucket}/d").stderr
    assert f"Would remove {bucket}/d/a.txt" in dry and "Would copy file://d/b.txt" in dry
    run("rsync", "-r", "--delete-unmatched-destination-objects", "d", f"{bucket}/d")
    assert names(run, f"{bucket}/d/**") == [f"{bucket}/d/b.txt", f"{bucket}/d/sub/c.txt"]
    run("rsync", "-r", f"{bucket}/d", "back")
    assert (place / "back" / "b.txt").read_text() == "XX\n"
    assert int((place / "back" / "b.txt").stat().st_mtime) == 1_000_000_000
    assert "Copying" not in run("rsync", "-r", f"{bucket}/d", "back").stderr


def test_a_name_that_leads_out_is_not_followed(run, bucket, place, shared_yard):
    name = bucket.removeprefix("gs://")
    reply = shared_yard.call("POST", f"/upload/storage/v1/b/{name}/o?uploadType=media&name=d/../../../evil", b"x")
    assert reply.status == 200, reply
    (place / "deep" / "out").mkdir(parents=True)
    result = run("cp", "-r", f"{bucket}/d", "deep/out")
    assert "outside the expected destination directory" in result.stderr
    assert not (place / "evil").exists() and not (place.parent / "evil").exists()


def test_a_bucket_that_is_not_here_says_how_to_bring_its_data_in(run):
    for words in (("ls", "gs://cloud-samples-data/ai-platform"), ("cp", "gs://cloud-samples-data/x.csv", "."),
                  ("cp", "f.txt", "gs://cloud-samples-data/x"), ("cat", "gs://cloud-samples-data/x")):
        result = run(*words, expect=1)
        assert "gs://cloud-samples-data not found: 404." in result.stderr
        assert "gcloud storage cp -r gs://cloud-samples-data/FOLDER ." in result.stderr
        assert "trainyard storage buckets create gs://cloud-samples-data" in result.stderr


def test_without_a_server(tmp_path, links):
    environment = {"PATH": os.environ["PATH"], "TRAINYARD_DATA": str(tmp_path), "TRAINYARD_URL": "http://127.0.0.1:9"}
    for command in ([BINARY, "storage", "ls"], [links / "gsutil", "ls"]):
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert result.returncode == 1 and "http://127.0.0.1:9" in result.stderr and "trainyard serve" in result.stderr


@pytest.mark.parametrize("words", [("cp",), ("cp", "--bogus", "a", "b"), ("cp", "-Q", "a", "b"), ("rsync", "a"), ("rm",)],
                         ids=" ".join)
def test_wrong_use_is_status_2_or_1_and_named(run, shared_yard, words):
    result = trainyard(shared_yard, "storage", *words)
    assert result.returncode in (1, 2) and "ERROR: (trainyard.storage." in result.stderr


def test_wrong_use_names_the_level_and_the_flag(shared_yard):
    result = trainyard(shared_yard, "storage", "buckets", "frobnicate")
    assert result.returncode == 2 and "storage buckets describe" in result.stderr and "storage cat" not in result.stderr, result.stderr
    result = trainyard(shared_yard, "storage", "rsync", "-d", "a", "gs://b")
    assert result.returncode == 2 and "--delete-unmatched-destination-objects" in result.stderr


def test_a_link_that_leads_nowhere_stops_no_copy(run, bucket, place):
    (place / "d" / "aa").symlink_to("nothing")
    assert "WARNING: Skipping symlink d/aa" in run("cp", "-r", "d", bucket).stderr
    assert names(run, f"{bucket}/d/**") == [f"{bucket}/d/{n}" for n in ("a.txt", "b.txt", "sub/c.txt")]


def test_a_listing_of_nothing_has_no_heading(run):
    assert run("ls", "-r", "gs://not-here-at-all", expect=1).stdout == ""


def test_unknown_classes_and_actions_are_named(run, bucket, shared_yard):
    assert "storageClass: 'FROZEN' is none of STANDARD" in run("buckets", "create", "-c", "FROZEN", "gs://of-no-class", expect=1).stderr
    assert "storageClass: 'frozen'" in run("cp", "-s", "frozen", "f.txt", bucket, expect=1).stderr.replace("FROZEN", "frozen")
    reply = shared_yard.call("PATCH", f"/storage/v1/b/{bucket[5:]}", {"lifecycle": {"rule": [{"action": {"type": "Melt"}, "condition": {"age": 1}}]}})
    assert reply.status == 400 and "Delete or AbortIncompleteMultipartUpload" in reply.json["error"]["message"], reply


def test_gsutils_words(run, place):
    run("mb", "-l", "us-central1", "gs://words-of-gsutil")
    run("cp", "f.txt", "d/a.txt", "gs://words-of-gsutil")
    run("compose", "gs://words-of-gsutil/f.txt", "gs://words-of-gsutil/a.txt", "gs://words-of-gsutil/both")
    run("setmeta", "--content-type=text/x", "--custom-metadata=k=v", "gs://words-of-gsutil/both")
    shown = run("stat", "gs://words-of-gsutil/both").stdout
    assert re.search(r"Content-Type: +text/x\n", shown) and '"k": "v"' in shown
    assert "No URLs matched" in run("stat", "gs://words-of-gsutil/none", expect=1).stderr
    assert "needs something to set" in run("setmeta", "gs://words-of-gsutil/both", expect=1).stderr
    assert "not empty" in run("rb", "gs://words-of-gsutil", expect=1).stderr
    run("rm", "gs://words-of-gsutil/*")
    run("rb", "gs://words-of-gsutil")


def test_json_for_programs(run, bucket):
    run("cp", "-r", "d", bucket)
    found = json.loads(run("ls", "--format=json", f"{bucket}/d").stdout)
    assert [i["type"] for i in found] == ["cloud_object", "cloud_object", "prefix"]
    assert found[0]["metadata"]["size"] == "2" and found[2]["url"] == f"{bucket}/d/sub/"
    hashes = json.loads(run("hash", "f.txt", f"{bucket}/d/a.txt", "--format=json").stdout)
    assert hashes[0]["md5_hash"] == "dk76iD3aHhHbR2ccSju9ng=="
    assert run("buckets", "describe", bucket, "--format=value(name)").stdout.strip() == bucket.removeprefix("gs://")


def on_terminal(yard, columns, *words, **rest):
    """Status, and what came on a terminal of that width."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    text = b""

    def drain():
        nonlocal text
        try:
            while data := os.read(ours, 65536):
                text += data
        except OSError:
            pass
    reader = threading.Thread(target=drain)
    reader.start()
    result = subprocess.run([BINARY, "storage", *words], env=yard.client_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=theirs, timeout=60, **rest)
    os.close(theirs)
    reader.join(60)
    os.close(ours)
    assert result.stdout == b""
    return result.returncode, text


def test_a_bar_on_a_terminal_and_none_in_a_log(run, bucket, place, shared_yard):
    pattern_file(place / "big.bin", 30_000_000)
    status, text = on_terminal(shared_yard, 100, "cp", "big.bin", bucket, cwd=place)
    assert status == 0 and re.search(rb"\[1/1 files\]\[ *28\.6 MiB/ *28\.6 MiB\] 100% Done  [\d.]+ MiB/s", text), text[-300:]
    assert "Done" not in run("cp", "big.bin", f"{bucket}/again").stderr


def test_a_bar_on_a_narrow_terminal_stays_on_its_line(bucket, place, shared_yard):
    pattern_file(place / "big.bin", 30_000_000)
    status, text = on_terminal(shared_yard, 40, "cp", "big.bin", bucket, cwd=place)
    bars = [bar.partition(b"\x1b")[0] for bar in text.split(b"\r") if bar.startswith(b"[")]
    assert status == 0 and bars and all(len(bar) <= 39 for bar in bars), text


def test_an_error_has_a_line_of_its_own(bucket, run, place, shared_yard):
    pattern_file(place / "big.bin", 30_000_000)
    run("cp", "big.bin", f"{bucket}/d/big.bin")
    status, text = on_terminal(shared_yard, 100, "cp", f"{bucket}/d/big.bin", "/dev/full", cwd=place)
    assert status == 1 and re.search(rb"(^|\n)ERROR: cannot write '/dev/full'", text), text


def test_sums(run, bucket):
    run("cp", "-r", "d", bucket)
    lines = [line.split() for line in run("du", "-s", "-c", f"{bucket}/d", f"{bucket}/d/sub").stdout.splitlines()]
    assert lines == [["9", f"{bucket}/d"], ["4", f"{bucket}/d/sub"], ["13", "total"]]


# ---- large files and interruptions ----

def test_a_large_file_goes_and_comes(run, bucket, place):
    big = place / "big.bin"
    with open(big, "wb") as file:  # zeros but for a mark at every 7 MB
        file.truncate(200_000_000)
        for i in range(0, 200, 7):
            file.seek(i * 1_000_000)
            file.write(b"%d" % i)
    run("cp", "big.bin", bucket, timeout=120)
    run("cp", f"{bucket}/big.bin", "back.bin", timeout=120)
    assert subprocess.run(["cmp", big, place / "back.bin"]).returncode == 0


def test_cut_connections_are_taken_up_again(run, bucket, place, shared_yard):
    big = pattern_file(place / "big.bin", 40_000_000)
    proxy = Proxy(address(shared_yard), up=15_000_000)
    run("cp", "big.bin", f"{bucket}/big.bin", environment={"TRAINYARD_URL": proxy.url}, timeout=120)
    assert proxy.connections >= 3
    proxy.close()
    proxy = Proxy(address(shared_yard), down=15_000_000)
    run("cp", f"{bucket}/big.bin", "back.bin", environment={"TRAINYARD_URL": proxy.url}, timeout=120)
    assert proxy.connections >= 3
    proxy.close()
    assert subprocess.run(["cmp", big, place / "back.bin"]).returncode == 0


def test_stdin_survives_a_cut_connection(run, bucket, shared_yard):
    data = random.Random(3).randbytes(30_000_000)
    proxy = Proxy(address(shared_yard), up=12_000_000)
    run("cp", "-", f"{bucket}/s", input=data, text=False, environment={"TRAINYARD_URL": proxy.url}, timeout=120)
    proxy.close()
    assert run("cat", f"{bucket}/s", text=False).stdout == data


def test_the_next_run_goes_on_where_a_killed_one_stopped(shared_yard, bucket, place, links, run):
    pattern_file(place / "big.bin", 60_000_000)
    environment = {**shared_yard.client_environment()}
    proxy = Proxy(address(shared_yard), up=30_000_000, once=True)
    slow = subprocess.Popen([links / "gsutil", "cp", "big.bin", f"{bucket}/big.bin"], cwd=place,
                            env={**environment, "TRAINYARD_URL": proxy.url}, stderr=subprocess.PIPE, text=True)
    uploads = shared_yard.data / "client" / "transfers" / "uploads"
    shared_yard.wait_for(lambda: proxy.over, 30, "an upload")
    slow.send_signal(signal.SIGKILL)
    slow.communicate()
    proxy.close()
    assert "matched no objects" in run("ls", f"{bucket}/big.bin", expect=1).stderr

    def received():  # the server notices the cut connection, and writes down how far it is
        reply = shared_yard.call("PUT", next(uploads.iterdir()).read_text().split()[0], b"", {"Content-Range": "bytes */60000000"})
        return int(reply.headers.get("range", "0-0").rpartition("-")[2])
    shared_yard.wait_for(lambda: received() > 25_000_000, 30, "the bytes of the killed one")
    sent = Counting(address(shared_yard))
    result = subprocess.run([links / "gsutil", "cp", "big.bin", f"{bucket}/big.bin"], cwd=place, timeout=120,
                            env={**environment, "TRAINYARD_URL": sent.url}, capture_output=True, text=True)
    assert result.returncode == 0 and "Resuming upload for big.bin" in result.stderr, result.stderr
    assert sent.up_bytes < 40_000_000
    sent.close()
    assert not any(uploads.iterdir())
    assert run("cat", f"{bucket}/big.bin", text=False).stdout == (place / "big.bin").read_bytes()


def test_a_changed_file_ends_the_session_of_the_old_one(shared_yard, bucket, place, links, run):
    pattern_file(place / "big.bin", 40_000_000)
    proxy = Proxy(address(shared_yard), up=20_000_000, once=True)
    slow = subprocess.Popen([links / "gsutil", "cp", "big.bin", f"{bucket}/changed"], cwd=place,
                            env={**shared_yard.client_environment(), "TRAINYARD_URL": proxy.url}, stderr=subprocess.DEVNULL)
    uploads = shared_yard.data / "client" / "transfers" / "uploads"
    shared_yard.wait_for(lambda: proxy.over, 30, "an upload")
    slow.send_signal(signal.SIGKILL)
    slow.wait()
    proxy.close()
    session = next(uploads.iterdir()).read_text().split()[0]
    (place / "big.bin").write_bytes(b"x" * 9_000_000)
    assert "Resuming" not in run("cp", "big.bin", f"{bucket}/changed").stderr
    assert not any(uploads.iterdir())
    assert shared_yard.call("PUT", session, b"", {"Content-Range": "bytes */40000000"}).status == 404


def test_an_upload_outlives_a_restart_of_the_server(yard, tmp_path):
    """The server is killed in the middle; the client waits and goes on."""
    big = pattern_file(tmp_path / "big.bin", 150_000_000)
    assert trainyard(yard, "storage", "buckets", "create", "gs://restart").returncode == 0
    client = subprocess.Popen([BINARY, "storage", "cp", big, "gs://restart/big"], env=yard.client_environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    uploads = yard.data / "client" / "transfers" / "uploads"
    yard.wait_for(lambda: (uploads.exists() and any(uploads.iterdir())) or client.poll() is not None, 30, "an upload")
    yard.restart()
    out, err = client.communicate(timeout=120)
    assert client.returncode == 0, err
    assert trainyard(yard, "storage", "cat", "gs://restart/big", text=False, timeout=60).stdout == big.read_bytes()


def test_bytes_that_changed_on_the_way_are_noticed(run, bucket, place, shared_yard):
    (place / "x.bin").write_bytes(b"A" * 100_000)
    run("cp", "x.bin", bucket)
    proxy = Proxy(address(shared_yard), change=lambda data: data.replace(b"AAAA", b"AAAB", 1))
    result = run("cp", f"{bucket}/x.bin", "y.bin", environment={"TRAINYARD_URL": proxy.url}, expect=1)
    proxy.close()
    assert "the MD5 of what was moved" in result.stderr
    assert sorted(p.name for p in place.iterdir() if p.name.startswith("y.bin")) == []


# ---- the lines of the reference trainers: through the links that env --shims makes, and with Google's own ----

@pytest.fixture(params=["ours", "google's"])
def script(request, shared_yard, place, tmp_path):
    if request.param == "ours":
        path = f'eval "$("{BINARY}" env --shims --data "{shared_yard.data}")"'
    else:
        for name in ("gsutil", "storage"):
            warm = request.getfixturevalue(f"warm_{name}")
            warm.program_file(tmp_path / {"storage": "gcloud"}.get(name, name))
        path = f'PATH="{tmp_path}:$PATH"'

    def run(name, **variables):
        result = subprocess.run(["bash", "-c", f'{path}; exec "{SCRIPTS / name}"'], cwd=place, capture_output=True, text=True, timeout=120,
                                env={**shared_yard.client_environment(), **variables})
        assert result.returncode == 0, f"{name}: exit {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result.stdout
    run.bucket = "s-" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]
    return run


def test_script_of_taxifare(script, run, place):
    (place / "taxifare" / "dist").mkdir(parents=True)
    (place / "taxifare" / "dist" / "taxifare_trainer-0.1.tar.gz").write_bytes(b"package")
    url = f"gs://{script.bucket}"
    run("buckets", "create", url)
    for name in ("saved_model.pb", "variables/variables.index"):
        run("cp", "-", f"{url}/taxifare/trained_model/savedmodel/{name}", input="x")
    out = script("taxifare.sh", BUCKET=script.bucket, REGION="us-central1")
    assert out.splitlines() == [
        "Bucket exists, let's not recreate it.",
        f"{url}/taxifare/taxifare_trainer-0.1.tar.gz",
        f"{url}/taxifare/trained_model/",
        f"{url}/taxifare/trained_model/savedmodel/saved_model.pb",
        f"{url}/taxifare/trained_model/savedmodel/variables/"]
    run("rm", "-r", url)
    with pytest.raises(AssertionError, match="No such file|matched no objects"):  # the last line lists a model that is not there
        script("taxifare.sh", BUCKET=script.bucket, REGION="us-central1")
    assert run("buckets", "describe", url, "--format=value(location)").stdout == "US-CENTRAL1\n"


def test_script_of_the_taxi_samples(script, run):
    url = f"gs://{script.bucket}"
    run("buckets", "create", url)
    for name in ("1700000001", "1700000002"):
        run("cp", "-", f"{url}/m/export/estimate/{name}/saved_model.pb", input="x")
    out = script("taxi_deploy.sh", JOB_DIR=f"{url}/m")
    assert out.splitlines()[-1] == f"model: {url}/m/export/estimate/1700000002/"


def test_script_of_cats_and_dogs(script, shared_yard, place):
    for part, count in (("train_tfr", 12), ("validation_tfr", 3)):
        (place / part).mkdir()
        for i in range(count):
            pattern_file(place / part / f"catsdogs-{i:02d}-128.tfrec", 100_000, i)
    out = script("upload_tfr.sh", PROJECT_ID="trainyard", BUCKET_NAME=script.bucket)
    assert out.splitlines() == [f"gs://{script.bucket}/train_tfr/catsdogs-{i:02d}-128.tfrec" for i in range(12)]
    made = shared_yard.get(f"/storage/v1/b/{script.bucket}").json
    assert made["location"] == "ASIA-EAST1" and {"enabled": True} in made["iamConfiguration"].values()  # gsutil has an old name for it


def test_script_of_sentiment(script, run, place):
    (place / "package" / "trainer").mkdir(parents=True)
    (place / "package" / "trainer" / "task.py").write_text("print('hello')\n")
    url = f"gs://{script.bucket}"
    run("buckets", "create", url)
    out = script("package-trainer.sh", GCS_BUCKET_URI=url)
    assert f"{url}/ragdetective-app-trainer.tar.gz:" in out and "Content-Type:           application/x-tar" in out


def test_script_in_the_words_of_gcloud(script, place):
    for name in ("data/a.csv", "data/b.csv", "data/sub/c.txt", "out/x"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)
    out = script("gcloud_storage.sh", BUCKET=script.bucket, REGION="us-central1")
    assert f"gs://{script.bucket}/data/sub/c.txt" in out
    assert (place / "out" / "a.csv").read_text() == "data/a.csv"


# ---- tensorboard ----

def test_tensorboard_is_given_the_folder(yard, tmp_path):
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "tensorboard"
    program.write_text('#!/bin/sh\nfor w; do echo "$w"; done\n')
    program.chmod(0o755)
    assert trainyard(yard, "storage", "buckets", "create", "gs://tb-logs").returncode == 0
    assert trainyard(yard, "storage", "cp", "-", "gs://tb-logs/run/logs/events.out.tfevents.1", input="x").returncode == 0
    path = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    result = trainyard(yard, "tensorboard", "gs://tb-logs/run/logs", "--port=6007", environment=path)
    folder, port = result.stdout.splitlines()
    assert port == "--port=6007"
    assert (pathlib.Path(folder.removeprefix("--logdir=")) / "events.out.tfevents.1").read_text() == "x"
    assert "not a bucket" in trainyard(yard, "tensorboard", "gs://nowhere/x", environment=path).stderr
    assert "leads out" in trainyard(yard, "tensorboard", "gs://tb-logs/../x", environment=path).stderr


def test_tensorboard_that_is_not_installed(yard, tmp_path):
    assert trainyard(yard, "storage", "buckets", "create", "gs://tb-none").returncode == 0
    result = trainyard(yard, "tensorboard", "gs://tb-none/x", environment={"PATH": str(tmp_path)})
    assert result.returncode == 1 and "no tensorboard on PATH" in result.stderr
