"""Lifecycle rules really delete, by a clock that the test turns; and answers cut down by ?fields=."""
import json
import struct

from yard import Yard

DAY_NS = 86400 * 10**9


def upload(yard, name, data=b"x", **headers):
    reply = yard.call("POST", f"/upload/storage/v1/b/old/o?uploadType=media&name={name}", data, {"Content-Type": "text/plain", **headers})
    assert reply.status == 200, reply


def test_age_deletes(tmp_path):
    clock = tmp_path / "clock"
    clock.write_bytes(struct.pack("=q", 0))

    def turn(days):
        with open(clock, "r+b") as file:
            file.write(struct.pack("=q", days * DAY_NS))
    with Yard(tmp_path, environment={"TY_CLOCK": str(clock)}) as yard:
        rules = {"rule": [{"action": {"type": "Delete"}, "condition": {"age": 30, "matchesPrefix": ["tmp/"]}},
                          {"action": {"type": "Delete"}, "condition": {"age": 365}}]}
        assert yard.call("POST", "/storage/v1/b?project=p", {"name": "old", "lifecycle": rules}).status == 200
        folder = yard.data / "buckets" / "old"
        for name in ("tmp/a", "kept"):
            upload(yard, name)
        turn(29)
        upload(yard, "tmp/young")  # any write wakes who looks at the clock
        upload(yard, "probe")
        yard.wait_for(lambda: (folder / "probe").exists(), 30, "the probe")
        assert (folder / "tmp" / "a").exists()
        turn(31)
        upload(yard, "probe")
        yard.wait_for(lambda: not (folder / "tmp" / "a").exists(), 60, "the rule of 30 days")
        assert yard.get("/storage/v1/b/old/o/tmp%2Fa").status == 404
        assert (folder / "tmp" / "young").exists() and (folder / "kept").exists()
        turn(366)
        upload(yard, "probe")
        yard.wait_for(lambda: not (folder / "kept").exists() and not (folder / "tmp").exists(), 60, "the rule of a year")
        assert [item["name"] for item in yard.get("/storage/v1/b/old/o").json["items"]] == ["probe"]


def test_partial_responses(shared_yard):
    """As gsutil, TensorFlow and people ask for them."""
    yard = shared_yard
    assert yard.call("POST", "/storage/v1/b?project=p", {"name": "old"}).status == 200
    for name in ("a", "d/b", "d/c"):
        upload(yard, name)
    yard.call("PATCH", "/storage/v1/b/old/o/a", {"metadata": {"goog-reserved-file-mtime": "7", "other": "x"}})

    def fields(path, text):
        reply = yard.get(f"/storage/v1/b{path}fields={text}")
        assert reply.status == 200, reply
        return reply.json
    assert fields("/old/o?maxResults=1&", "items(name,size),nextPageToken").keys() == {"items", "nextPageToken"}
    assert fields("/old/o?", "items(name,size),nextPageToken") == {"items": [{"name": n, "size": "1"} for n in ("a", "d/b", "d/c")]}
    assert fields("/old/o?delimiter=/&", "items/name,prefixes,nextPageToken") == {"prefixes": ["d/"], "items": [{"name": "a"}]}
    assert fields("/old/o/a?", "name,metadata/goog-reserved-file-mtime") == {"name": "a", "metadata": {"goog-reserved-file-mtime": "7"}}
    assert fields("/old/o/a?", "size,generation,updated").keys() == {"size", "generation", "updated"}
    assert fields("/old?", "name,iamConfiguration(uniformBucketLevelAccess/enabled)") == {
        "name": "old", "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": False}}}
    assert {"name": "old"} in fields("?project=p&", "items/name")["items"]
    assert fields("/old/o/a?", "*") == yard.get("/storage/v1/b/old/o/a").json
    for bad in ("items(name", "a,,b", "a b", "%22x%22"):
        reply = yard.get(f"/storage/v1/b/old/o?fields={bad}".replace(" ", "%20"))
        assert reply.status == 400 and "invalid field selection" in json.loads(reply.body)["error"]["message"], reply
    # What changes something is answered in full, whatever is asked.
    assert "name" in yard.call("PATCH", "/storage/v1/b/old/o/a?fields=a(", {}).json
