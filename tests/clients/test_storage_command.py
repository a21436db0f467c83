"""trainyard storage and gsutil (a link to trainyard): what they do, and that they say it as the originals do.

Google's own gcloud and gsutil, where this machine has them, are the judges: the same lines are run by both sides,
each on a bucket of its own, and status, output and messages are compared. gsutil insists on TLS, so the real one
talks through a small proxy of this test."""
import gzip
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest
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


class Proxy:
    """Forwards connections to the server. `limit`: each connection ends after so many bytes from the client (up) or
    from the server (down). `once`: the first connection that ends is the last one. `change` may alter what comes from
    the server."""

    def __init__(self, target, context=None, up=None, down=None, change=None, once=False):
        self.target, self.context, self.up, self.down, self.change = target, context, up, down, change
        self.once, self.over = once, False
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(client, self.connections), daemon=True).start()

    def serve(self, client, number):
        try:
            if self.context:
                client = self.context.wrap_socket(client, server_side=True)
            server = socket.create_connection(self.target)
        except OSError:
            client.close()
            return
        other = threading.Thread(target=self.pump, args=(server, client, self.down, self.change), daemon=True)
        other.start()
        self.pump(client, server, self.up, None)
        if self.once and not self.over:
            self.over = True
            self.close()
        other.join(5)
        for s in (client, server):
            s.close()

    def pump(self, source, sink, limit, change):
        left = limit if limit else None
        own, true = (f"{host}:{port}".encode() for host, port in (("127.0.0.1", self.port), self.target))
        try:
            while data := source.recv(65536):
                if source.getsockname()[1] == self.port:
                    data = data.replace(own, true)  # in Host, which the server checks
                if left is not None:
                    data = data[:left]
                    left -= len(data)
                sink.sendall(change(data) if change else data)
                if left == 0:
                    break
        except OSError:
            pass
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        except OSError:
            pass
        self.listener.close()


def address(yard):
    host, _, port = yard.url.removeprefix("http://").rpartition(":")
    return host, int(port)


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


def test_json_for_programs(run, bucket):
    run("cp", "-r", "d", bucket)
    found = json.loads(run("ls", "--format=json", f"{bucket}/d").stdout)
    assert [i["type"] for i in found] == ["cloud_object", "cloud_object", "prefix"]
    assert found[0]["metadata"]["size"] == "2" and found[2]["url"] == f"{bucket}/d/sub/"
    hashes = json.loads(run("hash", "f.txt", f"{bucket}/d/a.txt", "--format=json").stdout)
    assert hashes[0]["md5_hash"] == "dk76iD3aHhHbR2ccSju9ng=="
    assert run("buckets", "describe", bucket, "--format=value(name)").stdout.strip() == bucket.removeprefix("gs://")


def test_a_bar_on_a_terminal_and_none_in_a_log(run, bucket, place, shared_yard):
    pattern_file(place / "big.bin", 30_000_000)
    ours, theirs = os.openpty()
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
    result = subprocess.run([BINARY, "storage", "cp", "big.bin", bucket], cwd=place, env=shared_yard.client_environment(),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, timeout=60)
    os.close(theirs)
    reader.join(10)
    os.close(ours)
    assert result.returncode == 0 and result.stdout == b""
    assert re.search(rb"\[1/1 files\]\[ *28\.6 MiB/ *28\.6 MiB\] 100% Done  [\d.]+ MiB/s", text), text[-300:]
    assert "Done" not in run("cp", "big.bin", f"{bucket}/again").stderr


def test_sums(run, bucket):
    run("cp", "-r", "d", bucket)
    lines = [line.split() for line in run("du", "-s", "-c", f"{bucket}/d", f"{bucket}/d/sub").stdout.splitlines()]
    assert lines == [["9", f"{bucket}/d"], ["4", f"{bucket}/d/sub"], ["13", "total"]]


# ---- large files and interruptions ----

def test_a_large_file_goes_and_comes(run, bucket, place):
    big = pattern_file(place / "big.bin", 200_000_000)
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
        reply = shared_yard.call("PUT", next(uploads.iterdir()).read_text(), b"", {"Content-Range": "bytes */60000000"})
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


class Counting(Proxy):
    def __init__(self, target):
        self.up_bytes = 0
        super().__init__(target)

    def pump(self, source, sink, limit, change):
        if source.getsockname()[1] == self.port:
            def count(data):
                self.up_bytes += len(data)
                return data
            change = count
        super().pump(source, sink, limit, change)


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


# ---- the originals as judges ----

def normal(text):
    """Without what differs by nature: bars, times, generations, order of parallel lines, throughput, progress dots."""
    text = re.sub(r"\x1b\[K", "", text.replace("\r", "\n"))
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+(Z|\+0000)", "TIME", text)
    text = re.sub(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]+ GMT", "DATE", text)
    text = re.sub(r"#\d{16}", "#G", text)
    text = re.sub(r"(?i)(generation:\s+'?|etag:\s+)[\w=+/]+", r"\1X", text)
    text = re.sub(r"(real|ours)-(gcloud|gsutil)", "BUCKET", text)
    lines = [line.rstrip() for line in text.split("\n")]
    drop = (r"\.*$|[-/|\\]$|[-/|\\] \[\d|Average throughput|At .*worker process|.*InsecureRequestWarning|warnings\.warn|"
            r"==> NOTE: You are|run significantly faster|see the -m section|about when gsutil|"
            r"Would set mtime|Copying mtime|gs://\S+ is not a bucket of this machine|To bring data of Google's|failed\.$|.*urllib3")
    return sorted(line for line in lines if not re.match(drop, line.strip()))


def compare(lines, real, ours, folder, real_bucket, our_bucket):
    """Run each line on both sides; collect all differences, so that one run shows them all."""
    wrong = []
    for line in lines:
        results = []
        for run_it, bucket in ((real, real_bucket), (ours, our_bucket)):
            place = folder / bucket
            place.mkdir(exist_ok=True)
            words = [w.replace("BUCKET", bucket) for w in line.split()]
            results.append(run_it(words, place))
        a, b = results
        for what, left, right in (("status", a.returncode, b.returncode), ("stdout", normal(a.stdout), normal(b.stdout)),
                                  ("stderr", normal(a.stderr), normal(b.stderr))):
            if left != right:
                wrong.append(f"{line}\n  {what}\n    original: {left}\n    ours:     {right}")
    assert not wrong, "\n".join(wrong)


def seed_files(folder, bucket):
    for name, text in {"f.txt": "hi\n", "d/a.txt": "a\n", "d/b.txt": "bb\n", "d/sub/c.txt": "ccc\n"}.items():
        path = folder / bucket / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_700_000_000, 1_700_000_000))


GCLOUD = """\
buckets create gs://BUCKET --location=us-central1
cp f.txt gs://BUCKET/f.txt
cp f.txt gs://BUCKET/x/
cp -r d gs://BUCKET
cp -n f.txt gs://BUCKET/f.txt
ls gs://BUCKET
ls -l gs://BUCKET
ls -r gs://BUCKET
ls -L gs://BUCKET/f.txt
ls gs://BUCKET/d/*
ls gs://BUCKET/nope
ls gs://not-here-at-all
du gs://BUCKET
du -s gs://BUCKET
hash f.txt
hash gs://BUCKET/f.txt
hash --hex gs://BUCKET/f.txt
cat gs://BUCKET/f.txt
cat -d gs://BUCKET/f.txt
cat -r 0-0 gs://BUCKET/f.txt
cat gs://BUCKET/nope
cp gs://BUCKET/f.txt -
cp gs://BUCKET/nope .
cp nope.txt gs://BUCKET/
cp f.txt gs://not-here-at-all/f
cp -r gs://BUCKET/d out
cp gs://BUCKET/d out2
mv gs://BUCKET/f.txt gs://BUCKET/g.txt
objects list gs://BUCKET
objects describe gs://BUCKET/g.txt
objects describe gs://BUCKET/nope
buckets describe gs://BUCKET
buckets describe gs://not-here-at-all
rsync -r d gs://BUCKET/rs
rsync -r d gs://BUCKET/rs
rsync -r gs://BUCKET/rs back
rm gs://BUCKET/g.txt
rm gs://BUCKET/nope
rm -r gs://BUCKET/d
buckets delete gs://BUCKET
rm -r gs://BUCKET
buckets delete gs://BUCKET
""".splitlines()


def test_as_gcloud_storage(shared_yard, gcloud, links, tmp_path):
    for bucket in ("real-gcloud", "ours-gcloud"):
        seed_files(tmp_path, bucket)

    def runner(program):
        return lambda words, place: client(shared_yard, program, "storage", *words, cwd=place, timeout=300)
    compare(GCLOUD, runner(gcloud), runner(links / "gcloud"), tmp_path, "real-gcloud", "ours-gcloud")


GSUTIL = """\
mb -l us-central1 -c STANDARD -p trainyard -b on gs://BUCKET
mb gs://BUCKET
cp f.txt gs://BUCKET/f.txt
cp f.txt gs://BUCKET/x/
cp -r d gs://BUCKET
-q cp f.txt gs://BUCKET/q.txt
cp -n f.txt gs://BUCKET/f.txt
ls gs://BUCKET
ls -l gs://BUCKET
ls -lh gs://BUCKET
ls -r gs://BUCKET
ls -R gs://BUCKET/d
ls -a gs://BUCKET/f.txt
ls -L gs://BUCKET/f.txt
ls -d gs://BUCKET/d
ls gs://BUCKET/d/*
ls gs://BUCKET/d/**
ls gs://BUCKET/d
ls gs://BUCKET/nope
ls gs://not-here-at-all
du gs://BUCKET
du -s gs://BUCKET
du -h gs://BUCKET/d
hash f.txt
hash gs://BUCKET/f.txt
hash -h f.txt
hash nope.txt
stat gs://BUCKET/f.txt
stat gs://BUCKET/nope
cat gs://BUCKET/f.txt
cat -h gs://BUCKET/f.txt gs://BUCKET/q.txt
cat gs://BUCKET/nope
cp gs://BUCKET/f.txt -
cp gs://BUCKET/nope .
cp nope.txt gs://BUCKET/
cp f.txt gs://not-here-at-all/f
cp d gs://BUCKET/dd
cp -r gs://BUCKET/d out
cp gs://BUCKET/f.txt gs://BUCKET/g.txt
mv gs://BUCKET/f.txt gs://BUCKET/h.txt
mv gs://BUCKET/d gs://BUCKET/e
mv gs://BUCKET/h.txt .
compose gs://BUCKET/e/a.txt gs://BUCKET/e/b.txt gs://BUCKET/comp
setmeta -h Content-Type:text/html -h x-goog-meta-k:v gs://BUCKET/comp
stat gs://BUCKET/comp
setmeta -h Foo:bar gs://BUCKET/comp
rsync -r d gs://BUCKET/rs
rsync -r d gs://BUCKET/rs
rsync -r gs://BUCKET/rs nowhere
rsync -d -r -n d gs://BUCKET/e
rsync -d -r d gs://BUCKET/e
rm gs://BUCKET/q.txt
rm gs://BUCKET/nope
rm -f gs://BUCKET/nope
rm gs://BUCKET/x
rm -r gs://BUCKET/e
rb gs://BUCKET
rb gs://not-here-at-all
rb -f gs://not-here-at-all
rm -r gs://BUCKET/*
rb gs://BUCKET
cp
ls -Q
rsync a
cat -r x gs://BUCKET/f.txt
""".splitlines()


@pytest.fixture
def tls(shared_yard, tmp_path):
    """The server behind TLS, which gsutil insists on."""
    if not shutil.which("openssl"):
        pytest.skip("openssl, which makes a certificate for gsutil, is not on this machine")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                    "-subj", "/CN=127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    proxy = Proxy(address(shared_yard), context)
    yield proxy
    proxy.close()


def test_as_gsutil(shared_yard, gsutil, links, tls, tmp_path):
    for bucket in ("real-gsutil", "ours-gsutil"):
        seed_files(tmp_path, bucket)
    boto = tmp_path / "boto"
    boto.write_text(f"[Credentials]\ngs_json_host = 127.0.0.1\ngs_json_port = {tls.port}\n"
                    "[Boto]\nhttps_validate_certificates = False\n[GSUtil]\ndefault_project_id = trainyard\n"
                    f"state_dir = {tmp_path}/state\n")
    environment = {"BOTO_CONFIG": str(boto), "BOTO_PATH": str(boto), "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
                   "CLOUDSDK_STORAGE_USE_GCLOUD_STORAGE": "false"}
    compare(GSUTIL, lambda words, place: client(shared_yard, gsutil, *words, cwd=place, environment=environment, timeout=300),
            lambda words, place: client(shared_yard, links / "gsutil", *words, cwd=place, timeout=60),
            tmp_path, "real-gsutil", "ours-gsutil")


# ---- the lines of the reference trainers, through the links that env --shims makes ----

def script(yard, name, folder, **variables):
    line = f'eval "$("{BINARY}" env --shims --data "{yard.data}")"; exec "{SCRIPTS / name}"'
    environment = {**yard.client_environment(), **variables}
    result = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, f"{name}: exit {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def test_script_of_taxifare(yard, place):
    (place / "taxifare" / "dist").mkdir(parents=True)
    (place / "taxifare" / "dist" / "taxifare_trainer-0.1.tar.gz").write_bytes(b"package")
    assert trainyard(yard, "storage", "buckets", "create", "gs://taxi-bucket").returncode == 0
    for name in ("saved_model.pb", "variables/variables.index"):
        trainyard(yard, "storage", "cp", "-", f"gs://taxi-bucket/taxifare/trained_model/savedmodel/{name}", input="x")
    out = script(yard, "taxifare.sh", place, BUCKET="taxi-bucket", REGION="us-central1")
    assert out.splitlines() == [
        "Bucket exists, let's not recreate it.",
        "gs://taxi-bucket/taxifare/taxifare_trainer-0.1.tar.gz",
        "gs://taxi-bucket/taxifare/trained_model/",
        "gs://taxi-bucket/taxifare/trained_model/savedmodel/saved_model.pb",
        "gs://taxi-bucket/taxifare/trained_model/savedmodel/variables/"]
    for name in ("1700000001", "1700000002"):
        trainyard(yard, "storage", "cp", "-", f"gs://taxi-bucket/m/export/estimate/{name}/saved_model.pb", input="x")
    out = script(yard, "taxi_deploy.sh", place, JOB_DIR="gs://taxi-bucket/m")
    assert out.splitlines()[-1] == "model: gs://taxi-bucket/m/export/estimate/1700000002/"


def test_script_of_cats_and_dogs(yard, place):
    for part, count in (("train_tfr", 12), ("validation_tfr", 3)):
        (place / part).mkdir()
        for i in range(count):
            pattern_file(place / part / f"catsdogs-{i:02d}-128.tfrec", 100_000, i)
    out = script(yard, "upload_tfr.sh", place, PROJECT_ID="trainyard", BUCKET_NAME="cats-dogs")
    assert out.splitlines() == [f"gs://cats-dogs/train_tfr/catsdogs-{i:02d}-128.tfrec" for i in range(12)]
    described = json.loads(trainyard(yard, "storage", "buckets", "describe", "gs://cats-dogs", "--format=json").stdout)
    assert described["location"].lower() == "asia-east1" and described["uniform_bucket_level_access"] is True


def test_script_of_sentiment(yard, place):
    (place / "package" / "trainer").mkdir(parents=True)
    (place / "package" / "trainer" / "task.py").write_text("print('hello')\n")
    assert trainyard(yard, "storage", "buckets", "create", "gs://rag-bucket").returncode == 0
    out = script(yard, "package-trainer.sh", place, GCS_BUCKET_URI="gs://rag-bucket")
    assert "gs://rag-bucket/ragdetective-app-trainer.tar.gz:" in out and "Content-Type:           application/x-tar" in out


def test_script_in_the_words_of_gcloud(yard, place):
    for name in ("data/a.csv", "data/b.csv", "data/sub/c.txt", "out/x"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)
    out = script(yard, "gcloud_storage.sh", place, BUCKET="words-of-gcloud", REGION="us-central1")
    assert "gs://words-of-gcloud/data/sub/c.txt" in out
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
