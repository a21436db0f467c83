"""sdk_storage.py -- google-cloud-storage from PyPI as a user's program has it; run by test_storage_python.py.

    python sdk_storage.py SCENARIO BUCKET FOLDER

Each scenario is a function that fails by raising. Nothing here names the server: `trainyard env` does.
"""
import base64
import datetime
import gzip
import hashlib
import io
import os
import pathlib
import sys
import time

from google.api_core import exceptions
from google.cloud import storage
from google.cloud.storage import transfer_manager

MEGA = 1 << 20


def raises(kind, call, *words, **named):
    try:
        call(*words, **named)
    except kind as error:
        return str(error)
    raise AssertionError(f"{call} did not raise {kind}")


def buckets(client, bucket, folder):
    name = bucket.name + "-second"
    made = client.create_bucket(name, location="us-central1")
    assert made.location == "US-CENTRAL1" and made.storage_class == "STANDARD"
    assert name in raises(exceptions.Conflict, client.create_bucket, name)
    assert {name, bucket.name} <= {b.name for b in client.list_buckets()}
    made.labels = {"team": "a", "env": "test"}
    made.versioning_enabled = True
    made.patch()
    again = client.get_bucket(name)
    assert again.labels == {"team": "a", "env": "test"} and again.versioning_enabled and again.metageneration == 2
    again.add_lifecycle_delete_rule(age=30)
    again.update()
    assert [rule["condition"]["age"] for rule in client.get_bucket(name).lifecycle_rules] == [30]
    policy = made.get_iam_policy(requested_policy_version=3)
    policy.bindings.append({"role": "roles/storage.objectViewer", "members": {"allUsers"}})
    made.set_iam_policy(policy)
    assert made.get_iam_policy().bindings[0]["role"] == "roles/storage.objectViewer"
    assert made.test_iam_permissions(["storage.objects.get"]) == ["storage.objects.get"]
    made.blob("x").upload_from_string("1")
    assert "not empty" in raises(exceptions.Conflict, made.delete)
    made.delete(force=True)
    assert client.lookup_bucket(name) is None
    assert "bucket" in raises(exceptions.BadRequest, client.create_bucket, "UPPER_case")


def objects(client, bucket, folder):
    blob = bucket.blob("dir/ünï cödé #?%.txt")
    blob.metadata, blob.cache_control = {"key": "value"}, "no-cache"
    blob.upload_from_string("hello", content_type="text/plain; charset=utf-8")
    got = bucket.get_blob(blob.name)
    assert got.size == 5 and got.metadata == {"key": "value"} and got.cache_control == "no-cache"
    assert got.md5_hash == base64.b64encode(hashlib.md5(b"hello").digest()).decode() and got.crc32c == "mnG7TA=="
    assert got.content_type == "text/plain; charset=utf-8" and got.generation > 0 and got.metageneration == 1
    assert got.media_link.startswith(os.environ["STORAGE_EMULATOR_HOST"]) and got.etag
    assert abs(got.time_created - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(minutes=5)
    assert got.download_as_bytes() == b"hello" and got.download_as_text() == "hello"
    got.metadata, got.content_disposition = {"key": None, "other": "x"}, "attachment"
    got.patch()
    again = bucket.get_blob(blob.name)
    assert again.metadata == {"other": "x"} and again.content_disposition == "attachment" and again.metageneration == 2
    again.delete()
    assert bucket.get_blob(blob.name) is None and not blob.exists()
    assert "404" in raises(exceptions.NotFound, blob.delete)
    bucket.blob("empty").upload_from_string(b"")
    assert bucket.blob("empty").download_as_bytes() == b""
    (folder / "file").write_bytes(b"z" * 100000)
    bucket.blob("file").upload_from_filename(folder / "file", checksum="md5")
    bucket.blob("file").download_to_filename(folder / "back", checksum="md5")
    assert (folder / "back").read_bytes() == b"z" * 100000


def large(client, bucket, folder):
    """200 MB in one request and in chunks, back whole and in ranges."""
    size = 200 * MEGA
    with open(folder / "large", "wb") as file:
        for _ in range(200):
            file.write(os.urandom(MEGA))
    with open(folder / "large", "rb") as file:
        want = hashlib.file_digest(file, "md5").digest() if hasattr(hashlib, "file_digest") else None
    if want is None:
        want = hashlib.md5((folder / "large").read_bytes()).digest()
    one = bucket.blob("large")
    one.upload_from_filename(folder / "large")
    assert one.size == size and base64.b64decode(one.md5_hash) == want
    chunked = bucket.blob("chunked", chunk_size=8 * MEGA)
    chunked.upload_from_filename(folder / "large")
    assert base64.b64decode(chunked.md5_hash) == want and chunked.crc32c == one.crc32c
    one.download_to_filename(folder / "back")
    assert hashlib.md5((folder / "back").read_bytes()).digest() == want
    by_chunks = bucket.blob("large", chunk_size=32 * MEGA)
    with open(folder / "back", "wb") as file:
        by_chunks.download_to_file(file)
    assert hashlib.md5((folder / "back").read_bytes()).digest() == want
    transfer_manager.download_chunks_concurrently(one, folder / "back", chunk_size=32 * MEGA, max_workers=4,
                                                  worker_type=transfer_manager.THREAD)
    assert hashlib.md5((folder / "back").read_bytes()).digest() == want


def ranges(client, bucket, folder):
    data = os.urandom(300000)
    blob = bucket.blob("ranges")
    blob.upload_from_string(data)
    for start, end in ((0, 0), (0, 99), (100, None), (299999, 299999), (1000, 10 ** 9), (65535, 65537)):
        want = data[start:] if end is None else data[start:end + 1]
        assert blob.download_as_bytes(start=start, end=end) == want, (start, end)
    assert blob.download_as_bytes(start=-5) == data[-5:]
    raises(exceptions.RequestRangeNotSatisfiable, blob.download_as_bytes, start=300000)
    with blob.open("rb", chunk_size=256 * 1024) as file:
        file.seek(250000)
        assert file.read(100) == data[250000:250100]
    with bucket.blob("written").open("wb", chunk_size=256 * 1024) as file:
        for at in range(0, len(data), 7777):
            file.write(data[at:at + 7777])
    assert bucket.blob("written").download_as_bytes() == data


def lists(client, bucket, folder):
    names = [f"l/{a}/{b}" for a in "abc" for b in range(5)] + ["l/top"]
    for name in names:
        bucket.blob(name).upload_from_string(name)
    listed = [b.name for b in bucket.list_blobs(prefix="l/")]
    assert listed == sorted(names)
    pages = bucket.list_blobs(prefix="l/", delimiter="/")
    assert [b.name for b in pages] == ["l/top"] and pages.prefixes == {"l/a/", "l/b/", "l/c/"}
    paged = bucket.list_blobs(prefix="l/", page_size=4)
    assert [len(list(page)) for page in paged.pages] == [4, 4, 4, 4]
    found = bucket.list_blobs(start_offset="l/b/", end_offset="l/b/3")
    assert [b.name for b in found] == ["l/b/0", "l/b/1", "l/b/2"]
    assert [b.name for b in bucket.list_blobs(match_glob="l/*/4")] == ["l/a/4", "l/b/4", "l/c/4"]
    assert [b.name for b in bucket.list_blobs(prefix="l/", max_results=2)] == ["l/a/0", "l/a/1"]


def derived(client, bucket, folder):
    source = bucket.blob("source")
    source.metadata = {"kept": "yes"}
    source.upload_from_string("abc", content_type="text/x")
    copy = bucket.copy_blob(source, bucket, "copy")
    assert copy.download_as_bytes() == b"abc" and copy.content_type == "text/x" and copy.metadata == {"kept": "yes"}
    token, rewritten, total = bucket.blob("rewritten").rewrite(source)
    assert token is None and rewritten == total == 3
    moved = bucket.rename_blob(copy, "renamed")
    assert moved.download_as_bytes() == b"abc" and not copy.exists()
    if hasattr(bucket, "move_blob"):
        assert bucket.move_blob(moved, "moved").download_as_bytes() == b"abc" and not moved.exists()
    composed = bucket.blob("composed")
    composed.content_type = "text/y"
    composed.compose([source, bucket.blob("rewritten"), source])
    assert composed.download_as_bytes() == b"abcabcabc" and composed.component_count == 3
    assert composed.crc32c and composed.md5_hash is None and bucket.get_blob("composed").content_type == "text/y"
    composed.compose([composed, source], if_generation_match=composed.generation)
    assert composed.download_as_bytes() == b"abc" * 4
    other = client.create_bucket(bucket.name + "-other")
    bucket.copy_blob(source, other)
    assert other.blob("source").download_as_bytes() == b"abc"
    other.delete(force=True)
    raises(exceptions.NotFound, bucket.copy_blob, bucket.blob("no such"), bucket, "x")
    with client.batch():
        bucket.blob("source").delete()
        bucket.blob("rewritten").delete()
    assert not source.exists()
    kept = [bucket.blob("composed")]
    with client.batch():
        kept[0].metadata = {"in": "batch"}
        kept[0].patch()
    assert bucket.get_blob("composed").metadata == {"in": "batch"}


def conditions(client, bucket, folder):
    blob = bucket.blob("conditions")
    blob.upload_from_string("1", if_generation_match=0)
    first = blob.generation
    assert "412" in raises(exceptions.PreconditionFailed, blob.upload_from_string, "2", if_generation_match=0)
    blob.upload_from_string("2", if_generation_match=first)
    assert blob.generation > first and blob.download_as_bytes() == b"2"
    raises(exceptions.PreconditionFailed, blob.upload_from_string, "3", if_generation_match=first)
    raises(exceptions.PreconditionFailed, bucket.delete_blob, "conditions", if_generation_match=first)
    raises(exceptions.PreconditionFailed, blob.reload, if_metageneration_match=9)
    raises(exceptions.PreconditionFailed, blob.patch, if_metageneration_match=9)
    raises(exceptions.PreconditionFailed, blob.download_as_bytes, if_generation_match=first)
    large_one = bucket.blob("conditions", chunk_size=256 * 1024)
    raises(exceptions.PreconditionFailed, large_one.upload_from_string, b"x" * MEGA, if_generation_match=0)
    assert bucket.blob("conditions").download_as_bytes() == b"2"
    bucket.delete_blob("conditions", if_generation_match=blob.generation)


def versions(client, bucket, folder):
    bucket.versioning_enabled = True
    bucket.patch()
    blob = bucket.blob("v")
    blob.upload_from_string("one")
    first = blob.generation
    blob.upload_from_string("two")
    assert [b.generation for b in bucket.list_blobs(prefix="v", versions=True)] == [first, blob.generation]
    assert bucket.blob("v", generation=first).download_as_bytes() == b"one"
    bucket.delete_blob("v")
    assert not bucket.blob("v").exists() and bucket.blob("v", generation=first).download_as_bytes() == b"one"
    for each in list(bucket.list_blobs(prefix="v", versions=True)):
        each.delete()
    bucket.versioning_enabled = False
    bucket.soft_delete_policy.retention_duration_seconds = 86400 * 7
    bucket.patch()
    soft = bucket.blob("soft")
    soft.upload_from_string("back")
    soft.delete()
    gone = list(bucket.list_blobs(prefix="soft", soft_deleted=True))
    assert [b.name for b in gone] == ["soft"] and not soft.exists()
    assert (gone[0].hard_delete_time - gone[0].soft_delete_time).total_seconds() == 86400 * 7
    assert bucket.restore_blob("soft", generation=gone[0].generation).download_as_bytes() == b"back"


def zipped(client, bucket, folder):
    plain = b"plain text " * 50000
    blob = bucket.blob("zipped")
    blob.content_encoding = "gzip"
    blob.upload_from_string(gzip.compress(plain), content_type="text/plain")
    assert blob.download_as_bytes() == plain
    assert gzip.decompress(blob.download_as_bytes(raw_download=True)) == plain


class Slow(io.RawIOBase):
    """A file that, when half of it has been read, says so and waits for the test."""

    def __init__(self, data, folder):
        self.data, self.at, self.folder, self.told = data, 0, folder, False

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=0):
        self.at = offset + (0, self.at, len(self.data))[whence]
        return self.at

    def read(self, size=-1):
        if self.at >= len(self.data) // 2 and not self.told:
            self.told = True
            (self.folder / "half").touch()
            while not (self.folder / "go").exists():
                time.sleep(0.01)
        piece = self.data[self.at:] if size is None or size < 0 else self.data[self.at:self.at + size]
        self.at += len(piece)
        return piece


def interrupted(client, bucket, folder):
    """The test kills the server between two chunks and starts it again."""
    data = os.urandom(12 * MEGA)  # above 8 MB it is resumable
    blob = bucket.blob("interrupted", chunk_size=MEGA)
    blob.upload_from_file(Slow(data, folder), size=len(data), rewind=False)
    assert base64.b64decode(blob.md5_hash) == hashlib.md5(data).digest()
    assert bucket.blob("interrupted").download_as_bytes() == data


if __name__ == "__main__":
    the_client = storage.Client()
    the_bucket = the_client.lookup_bucket(sys.argv[2]) or the_client.create_bucket(sys.argv[2])
    globals()[sys.argv[1]](the_client, the_bucket, pathlib.Path(sys.argv[3]))
    print("DONE")
