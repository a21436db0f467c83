"""trainyard storage against absurd names, full disks, kills and Ctrl-C: the error names the file, the status is right,
nothing half done is left."""
import hashlib
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest
from files import sizes
from proxy import Proxy, address
from yard import BINARY


def hears_ctrl_c():
    """A shell's job in the background, and so a check that runs in one, is deaf to it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)



@pytest.fixture
def run(shared_yard, tmp_path):
    def run(*words, expect=0, **rest):
        result = subprocess.run([BINARY, "storage", *words], cwd=tmp_path, env=shared_yard.client_environment(), stdin=subprocess.DEVNULL,
                                capture_output=True, timeout=120, **rest)
        assert result.returncode == expect, result
        result.text = (result.stdout + result.stderr).decode(errors="replace")
        return result
    return run


@pytest.fixture
def bucket(run, request):
    name = "gs://h-" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]
    run("buckets", "create", name)
    return name


def names(run, url):
    return run("ls", f"{url}/**").stdout.decode().split("\n")[:-1]


def left_overs(folder):
    return [p.name for p in pathlib.Path(folder).rglob("*") if p.name.endswith(("_.gstmp", "_.gztmp"))]


def test_names_no_object_can_have(run, bucket, tmp_path):
    (tmp_path / "f").write_text("x")
    assert "has 1025 bytes" in run("cp", "f", f"{bucket}/{'n' * 1025}", expect=1).text
    for name in (b"bad\xff", b"two\nlines"):
        folder = os.path.join(os.fsencode(tmp_path), b"d" + name)
        os.mkdir(folder)
        for file in (b"a", name):
            with open(os.path.join(folder, file), "w") as opened:
                opened.write("y")
        for command in ("cp", "rsync"):
            text = run(command, "-r", folder, f"{bucket}/x", expect=1).text
            assert "is not valid UTF-8 on one line" in text and name.decode(errors="replace") in text
    assert "matched no objects" in run("ls", f"{bucket}/**", expect=1).text, "nothing is copied when one cannot be"


@pytest.mark.parametrize("name", ["\x1b[31mred\x07", "tab\there", "ü/日本/😀", "a//b", " ", "#5x", "%2F%41", "q?x*y", "-r"], ids=ascii)
def test_odd_names_go_and_come(run, bucket, tmp_path, name):
    path = tmp_path / "in" / name
    path.parent.mkdir(parents=True)
    path.write_text(name)
    run("cp", "-r", "in", bucket)
    (tmp_path / "out").mkdir()
    run("cp", "-r", f"{bucket}/in", "out")
    assert [(p.relative_to(tmp_path / "out" / "in"), p.read_text()) for p in (tmp_path / "out").rglob("*") if p.is_file()] == [
        (path.relative_to(tmp_path / "in"), name)]


def test_a_name_as_long_as_the_disk_has(run, bucket, tmp_path):
    """What is written beside it meanwhile would have a longer one."""
    data = b"zip " * 1000
    (tmp_path / "f").write_bytes(data)
    (tmp_path / "big").write_bytes(b"x" * (9 << 20))
    run("cp", "f", f"{bucket}/{'n' * 255}")
    run("cp", "-Z", "f", f"{bucket}/{'z' * 255}")
    run("cp", "big", f"{bucket}/{'b' * 255}")
    (tmp_path / "out").mkdir()
    run("cp", f"{bucket}/*", "out")
    assert (tmp_path / "out" / ("n" * 255)).read_bytes() == (tmp_path / "out" / ("z" * 255)).read_bytes() == data
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_a_pipe_is_written_not_replaced(run, bucket, tmp_path):
    (tmp_path / "f").write_text("through a pipe")
    run("cp", "f", bucket)
    os.mkfifo(tmp_path / "pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_text()))
    reader.start()
    run("cp", f"{bucket}/f", "pipe")
    reader.join(60)
    assert got == ["through a pipe"] and (tmp_path / "pipe").is_fifo()
    assert "No space left on device" in run("cp", f"{bucket}/f", "/dev/full", expect=1).text
    assert pathlib.Path("/dev/full").is_char_device()
    run("cp", "-Z", "f", f"{bucket}/z")
    assert "'/dev/full' is no regular file" in run("cp", f"{bucket}/z", "/dev/full", expect=1).text


@pytest.fixture
def mounted(tmp_path):
    """Mount 1 MB of memory in the test's folder."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder, done = tmp_path / "small", []
    folder.mkdir()

    def mount(options):
        result = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=1m,{options}", "none", folder], capture_output=True, text=True)
        if result.returncode != 0:
            pytest.skip(f"this machine refuses to mount: {result.stderr}")
        done.append(folder)
        return folder
    yield mount
    for folder in done:
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk(run, bucket, tmp_path, mounted, shared_yard):
    folder = mounted("rw")
    for name, size in (("two", 2 << 20), ("big", 20 << 20)):
        (tmp_path / name).write_bytes(os.urandom(size))
        run("cp", name, bucket)
        (folder / name).write_text("the old one")
        text = run("cp", f"{bucket}/{name}", "small/", expect=1).text
        assert f"small/{name}" in text and "No space left on device" in text
        assert (folder / name).read_text() == "the old one" and not left_overs(folder)
    assert not any((shared_yard.data / "client" / "transfers" / "downloads").iterdir()), "the next one begins anew"
    result = subprocess.run(f"{BINARY} storage cat {bucket}/two >{folder}/x", shell=True, env=shared_yard.client_environment(),
                            stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1 and "cannot write the output: No space left on device" in result.stderr


def test_a_disk_that_cannot_be_written(run, bucket, tmp_path, mounted):
    mounted("ro")
    (tmp_path / "f").write_text("x")
    run("cp", "f", f"{bucket}/d/f")
    assert "small/f" in (text := run("cp", f"{bucket}/d/f", "small/", expect=1).text) and "Read-only file system" in text
    assert "'small/d': Read-only file system" in run("cp", "-r", f"{bucket}/d", "small/", expect=1).text


def test_a_reader_that_goes_away(bucket, run, tmp_path, shared_yard):
    (tmp_path / "big").write_bytes(b"x" * (20 << 20))
    run("cp", "big", bucket)
    result = subprocess.run(["bash", "-c", f"'{BINARY}' storage cat {bucket}/big | head -c 3; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True,
                            env=shared_yard.client_environment(), timeout=60)
    status = int(result.stdout.removeprefix("xxx"))
    assert status in (1, 128 + signal.SIGPIPE), result


class Slow(Proxy):
    def __init__(self, yard):
        super().__init__(address(yard), change=self.wait)

    @staticmethod
    def wait(data):
        time.sleep(0.02)
        return data


@pytest.mark.parametrize("size, kept", [(6 << 20, 0), (40 << 20, 1)], ids=["small", "large"])
def test_ctrl_c_in_a_download(run, bucket, tmp_path, shared_yard, size, kept):
    """A small one leaves nothing; a large one what the next run goes on from."""
    (tmp_path / "big").write_bytes(os.urandom(size))
    run("cp", "big", bucket)
    slow = Slow(shared_yard)
    client = subprocess.Popen([BINARY, "storage", "cp", f"{bucket}/big", "back"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
                              env={**shared_yard.client_environment(), "TRAINYARD_URL": slow.url}, preexec_fn=hears_ctrl_c)
    shared_yard.wait_for(lambda: any(sizes(tmp_path, "back*")), 60, "a download")
    client.send_signal(signal.SIGINT)
    _, text = client.communicate(timeout=30)
    slow.close()
    assert client.returncode == -signal.SIGINT and "Command killed by keyboard interrupt" in text
    assert not (tmp_path / "back").exists() and len(left_overs(tmp_path)) == kept
    run("cp", f"{bucket}/big", "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "big").read_bytes() and not left_overs(tmp_path)


def test_ctrl_c_in_an_upload(run, bucket, tmp_path, shared_yard):
    (tmp_path / "d").mkdir()
    for i in range(500):
        (tmp_path / "d" / f"f{i}").write_text("x" * i)
    held = Held(shared_yard, 100_000)  # of the 125,000 that they have: it cannot end before it hears of it
    client = subprocess.Popen([BINARY, "storage", "cp", "-r", "d", bucket], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
                              env={**shared_yard.client_environment(), "TRAINYARD_URL": held.url}, preexec_fn=hears_ctrl_c)
    client.stderr.readline()  # the first is being copied
    client.send_signal(signal.SIGINT)
    client.communicate(timeout=30)
    held.close()
    assert client.returncode == -signal.SIGINT
    folder = shared_yard.data / "buckets" / bucket.removeprefix("gs://") / "d"
    found = {p.name: p.stat().st_size for p in folder.iterdir()} if folder.exists() else {}
    assert len(found) < 500 and all(name == f"f{size}" for name, size in found.items()), "each is whole or not there"


def test_many_small_files_outlive_a_restart(yard, tmp_path, long):
    """The server is killed in the middle of many uploads and started again."""
    count = 10_000 if long else 1_000
    (tmp_path / "many").mkdir()
    for i in range(count):
        (tmp_path / "many" / f"f{i:05d}").write_text(str(i))
    yard.trainyard("storage", "buckets", "create", "gs://restarted")
    client = subprocess.Popen([BINARY, "storage", "cp", "-r", "many", "gs://restarted"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
                              env=yard.client_environment())
    folder = yard.data / "buckets" / "restarted" / "many"
    yard.wait_for(lambda: folder.exists() and len(os.listdir(folder)) > 50, 60, "some of the uploads")
    yard.restart()
    text = client.communicate(timeout=120)[1]
    assert client.returncode == 0, text[-2000:]
    assert {p.name: p.read_text() for p in folder.iterdir()} == {f"f{i:05d}": str(i) for i in range(count)}


def test_a_file_that_shrinks_while_it_is_sent(run, bucket, tmp_path, shared_yard):
    """Its announced length cannot be kept: an error that names it, and no object."""
    path = tmp_path / "shrinking"
    path.write_bytes(b"x" * (40 << 20))
    slow = SlowUp(shared_yard)
    client = subprocess.Popen([BINARY, "storage", "cp", path, f"{bucket}/o"], stderr=subprocess.PIPE, text=True,
                              env={**shared_yard.client_environment(), "TRAINYARD_URL": slow.url})
    shared_yard.wait_for(lambda: slow.passed > 1 << 20, 30, "an upload")
    os.truncate(path, 100)
    text = client.communicate(timeout=60)[1]
    slow.close()
    assert client.returncode == 1 and "shrinking" in text.splitlines()[-1], text
    assert "matched no objects" in run("ls", f"{bucket}/o", expect=1).text


class Held(Proxy):
    """Lets so many bytes of the client's through, and no more."""

    def __init__(self, yard, most):
        self.left, self.gate = most, threading.Event()
        super().__init__(address(yard))

    def pump(self, source, sink, limit, change):
        if source.getsockname()[1] == self.port:
            def change(data):
                self.left -= len(data)
                if self.left < 0:
                    self.gate.wait()
                return data
        super().pump(source, sink, limit, change)

    def close(self):
        self.gate.set()
        super().close()


class SlowUp(Proxy):
    def __init__(self, yard):
        self.passed = 0
        super().__init__(address(yard))

    def pump(self, source, sink, limit, change):
        if source.getsockname()[1] == self.port:
            def change(data):
                self.passed += len(data)
                time.sleep(0.01)
                return data
        super().pump(source, sink, limit, change)
