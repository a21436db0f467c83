"""objects_history.py -- clients that remember what they did to a bucket and were told, and one check of J6 after faults.

J6 an object read is the last acknowledged write of that generation

A value is made from its id alone (no two are alike in any slice worth reading), so nothing but small records is kept.
Every call is noted before it is sent. Its outcome is `acked`, `refused`, or `unknown`: the connection ended first. An unknown
one may have been done, but only by the server it was sent to: it cannot take effect after the next start.

Held against each other afterwards, for each name:
  - what is read is whole, is some write's value, never that of a refused one, and its hashes are its own
  - a generation has one value for ever, and generations grow with time
  - a read sees no generation older than one acknowledged, or read, before it began
  - what was acknowledged is absent only if a delete or move can have taken it since; what was deleted stays so
  - at most one write succeeds for one ifGenerationMatch; one with 0 saw a name that was absent
  - a resumable upload never has fewer bytes than its client was told
  - old generations of a bucket with versions are all there
"""
import base64
import collections
import hashlib
import http.client
import json
import math
import pathlib
import sqlite3
import threading
import time
import urllib.parse

from yard import Reply

BOUNDARY = "a-line-between-parts"
CHUNK = 256 * 1024  # the least a resumable chunk may be, as there


def quote(name):
    return urllib.parse.quote(name, safe="")


class Value:
    """Bytes known by a recipe: pieces (id, size), one after the other."""

    def __init__(self, *pieces):
        self.pieces = pieces
        self.size = sum(size for _, size in pieces)

    def __add__(self, other):
        return Value(*self.pieces, *other.pieces)

    def bytes(self):
        return b"".join(hashlib.shake_128(str(piece).encode()).digest(size) for piece, size in self.pieces)


class Call:
    """One call on a name, from just before it was sent to just after it was answered."""

    def __init__(self, kind, name, value=None, match=None):
        self.kind, self.name, self.value = kind, name, value
        self.match = match  # ifGenerationMatch, or None
        self.generation = None  # of what was written or read; 0: absent
        self.outcome = "unknown"
        self.start, self.end, self.born = time.monotonic(), math.inf, 0

    def __repr__(self):
        size = self.value.size if self.value else "-"
        return (f"<{self.kind} {self.name} match={self.match} generation={self.generation} {self.outcome} size={size}"
                f" {self.start:.4f}..{self.end:.4f}>")


class History:
    """All calls of all clients on one bucket, in memory. Thread-safe."""

    def __init__(self, bucket, versions=False, faulty=False):
        self.bucket, self.versions = bucket, versions
        self.faulty = faulty  # the disk is failing: 500 is an answer, and says nothing of what was done
        self.lock = threading.Lock()
        self.calls = []
        self.restarts = []  # when a server was dead for sure, before the next one was started
        self.bound = {}  # (name, generation) -> Call that wrote it
        self.by_hash = collections.defaultdict(dict)  # name -> {sha256: Call}
        self.trouble = []
        self.next_id = 0

    def value(self, size):
        with self.lock:
            self.next_id += 1
            return Value((f"{self.bucket}/{self.next_id}", size))

    def begin(self, call, body=None):
        with self.lock:
            self.calls.append(call)
            if call.value is not None:
                digest = hashlib.sha256(call.value.bytes() if body is None else body).digest()
                assert self.by_hash[call.name].setdefault(digest, call) is call, f"{call.name} was given this value before"
        return call

    def restarted(self):
        with self.lock:
            self.restarts.append(time.monotonic())

    def complain(self, text):
        with self.lock:
            self.trouble.append(text)

    def bind(self, name, generation, call):
        """A generation has one value, for ever."""
        with self.lock:
            first = self.bound.setdefault((name, generation), call)
            if first is not call:
                self.trouble.append(f"generation {generation} has two values: {first} and {call}")
            if call.generation is None:
                call.generation = generation
            elif call.generation != generation:
                self.trouble.append(f"{call} was acknowledged as {call.generation} and read as {generation}")

    def saw(self, name, generation, body):
        """A whole read: find who wrote it."""
        call = self.by_hash[name].get(hashlib.sha256(body).digest())
        if call is None:
            self.complain(f"torn, or never written: {name} generation {generation}: {len(body)} bytes {body[:40]!r};"
                          f" known of it: {self.bound.get((name, generation))}")
        else:
            self.bind(name, generation, call)

    def saw_part(self, name, generation, first, part):
        """A ranged read: a slice of that generation, or of a write that was never answered."""
        known = self.bound.get((name, generation))
        calls = [known] if known else [c for c in tuple(self.by_hash[name].values()) if c.generation is None]
        if not any(c.value.bytes()[first:first + len(part)] == part for c in calls):
            self.complain(f"torn range: {name} generation {generation} bytes {first}+{len(part)}, of {calls}")

    # ---- the check ----

    def ended(self, call):
        """When it can no longer take effect."""
        if call.outcome != "unknown":
            return call.end
        return self.restarts[call.born] if call.born < len(self.restarts) else math.inf

    def check(self):
        with self.lock:
            calls, trouble = list(self.calls), list(self.trouble)
        by_name = collections.defaultdict(list)
        for call in calls:
            by_name[call.name].append(call)
        for name, list_ in by_name.items():
            self._check_name(name, list_, trouble)
        assert not trouble, f"J6: {len(trouble)} violations, the first:\n" + "\n".join(trouble[:5])

    def _check_name(self, name, calls, trouble):
        writes = {c.generation: c for c in calls if c.kind == "write" and c.generation}
        removals = [c for c in calls if c.kind == "delete" and c.outcome != "refused"]
        for write in writes.values():
            if write.outcome == "refused":
                trouble.append(f"was refused, and is there: {write}")
        matches = collections.Counter(w.match for w in writes.values() if w.match)
        trouble += [f"{n} writes of {name} succeeded for ifGenerationMatch={match}" for match, n in matches.items() if n > 1]

        # What each call saw live, at some moment between its start and its end.
        looks = [(c, c.generation) for c in calls if c.kind == "read" and c.outcome == "acked"]
        looks += [(w, w.match) for w in writes.values() if w.match is not None and w.outcome == "acked"]
        done = sorted([(w.end, g) for g, w in writes.items() if w.outcome == "acked"] + [(c.end, g) for c, g in looks if g])
        looks += [(w, None) for w in writes.values() if w.match is None and w.outcome == "acked"]
        newest, i = 0, 0
        for call, seen in sorted(looks, key=lambda look: look[0].start):
            while i < len(done) and done[i][0] < call.start:
                newest = max(newest, done[i][1])
                i += 1
            if call.kind == "write" and call.generation <= newest:
                trouble.append(f"generations go back: {call} after {newest}")
            if seen and seen < newest:
                trouble.append(f"an older one is back: {call} saw {seen} after {writes.get(newest) or newest}")
            if seen == 0 and newest and not self._can_be_gone(writes.get(newest), newest, call, removals):
                trouble.append(f"lost: {call} found nothing after {writes.get(newest) or newest}")
            if seen:
                trouble += [f"deleted and back: {call} saw {seen} after {d}" for d in removals
                            if d.outcome == "acked" and d.end < call.start and
                            (d.match == seen or (not d.match and seen in writes and writes[seen].end < d.start))]

    def _can_be_gone(self, write, generation, call, removals):
        start = write.start if write else 0
        return any(d.start < call.end and self.ended(d) > start and (not d.match or d.match >= generation) for d in removals)


class Client:
    """Speaks to one bucket and notes everything. One thread each."""

    def __init__(self, yard, history, timeout=60):
        self.yard, self.history, self.timeout = yard, history, timeout
        self.base = f"/storage/v1/b/{history.bucket}/o"
        self.upload = f"/upload/storage/v1/b/{history.bucket}/o"

    def send(self, method, path, body=None, headers=None, call=None):
        """The reply, or None: nothing is known."""
        connection = http.client.HTTPConnection(*self.yard.address, timeout=self.timeout)
        if call:
            call.born = math.inf
        try:
            connection.connect()
            if call:
                call.born = len(self.history.restarts)  # read late at worst, which allows more
            connection.request(method, path, body, {"Content-Type": "application/octet-stream", **(headers or {})})
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        except (OSError, http.client.HTTPException):
            if call and call.born == math.inf:  # it was never sent
                call.outcome, call.end = "refused", time.monotonic()
            return None
        finally:
            connection.close()

    def answered(self, call, reply):
        """Note what a change was answered with."""
        if reply is None or (reply.status == 500 and self.history.faulty):
            call.outcome = "refused" if call.outcome == "refused" else "unknown"
            return
        call.end = time.monotonic()
        if reply.status in (200, 204):
            call.outcome = "acked"
        else:
            call.outcome = "refused"
            if reply.status not in (404, 409, 412, 429, 503):  # 409: a move whose source was replaced meanwhile
                self.history.complain(f"{call} was answered {reply}")
        if call.outcome == "acked" and call.kind == "write":
            made = reply.json.get("resource", reply.json)
            self.history.bind(call.name, int(made["generation"]), call)
            if int(made["size"]) != call.value.size:
                self.history.complain(f"{call} was acknowledged with {made['size']} bytes")

    @staticmethod
    def query(match=None, **rest):
        if match is not None:
            rest["ifGenerationMatch"] = match
        return urllib.parse.urlencode({k: v for k, v in rest.items() if v is not None})

    # ---- writes: the call, once answered or given up ----

    def put(self, name, value, match=None):
        body = value.bytes()
        call = self.history.begin(Call("write", name, value, match), body)
        path = f"{self.upload}?{self.query(match, uploadType='media', name=name)}"
        self.answered(call, self.send("POST", path, body, call=call))
        return call

    def put_multipart(self, name, value, match=None):
        body = value.bytes()
        call = self.history.begin(Call("write", name, value, match), body)
        about = json.dumps({"name": name, "md5Hash": base64.b64encode(hashlib.md5(body).digest()).decode()})
        whole = (f"--{BOUNDARY}\r\nContent-Type: application/json\r\n\r\n{about}\r\n"
                 f"--{BOUNDARY}\r\nContent-Type: application/octet-stream\r\n\r\n").encode() + body + f"\r\n--{BOUNDARY}--\r\n".encode()
        path = f"{self.upload}?{self.query(match, uploadType='multipart')}"
        headers = {"Content-Type": f'multipart/related; boundary="{BOUNDARY}"'}
        self.answered(call, self.send("POST", path, whole, headers, call=call))
        return call

    def put_resumable(self, name, value, match=None, tries=30, wait_s=0.1):
        """In chunks; after a lost connection asks how much is there and goes on, as clients do."""
        body = value.bytes()
        call = self.history.begin(Call("write", name, value, match), body)
        path = f"{self.upload}?{self.query(match, uploadType='resumable', name=name)}"
        reply = self.send("POST", path, b"", call=call)
        if reply is None or reply.status != 200:
            if reply is not None and reply.status not in (412, 429, 503) and not self.history.faulty:
                self.history.complain(f"{call}: its start was answered {reply}")
            call.outcome, call.end = "refused", time.monotonic()  # a session that was never heard of writes nothing
            return call
        parts = urllib.parse.urlsplit(reply.headers["location"])
        session, sure, offset = f"{parts.path}?{parts.query}", 0, 0
        for _ in range(tries):
            if offset is None:
                reply = self.send("PUT", session, b"", {"Content-Range": f"bytes */{value.size}"}, call=call)
            else:
                end = min(offset + CHUNK, value.size)
                headers = {"Content-Range": f"bytes {offset}-{end - 1}/{value.size}"}
                reply = self.send("PUT", session, body[offset:end], headers, call=call)
            if reply is None or reply.status in (429, 500, 503):
                call.outcome, call.end, offset = "unknown", math.inf, None
                time.sleep(wait_s)
                continue
            if reply.status != 308:
                if reply.status == 404:
                    self.history.complain(f"{call}: its session is gone: {reply}")
                self.answered(call, reply)
                return call
            told = int(reply.headers["range"].rpartition("-")[2]) + 1 if "range" in reply.headers else 0
            if told < sure:
                self.history.complain(f"{call}: {sure} bytes were acknowledged, and {told} are there")
            sure = offset = told
        return call

    def compose(self, name, parts, match=None):
        """parts: acknowledged writes; their generations are named, so the result is known."""
        value = parts[0].value
        for part in parts[1:]:
            value = value + part.value
        call = self.history.begin(Call("write", name, value, match))
        body = {"sourceObjects": [{"name": p.name, "generation": str(p.generation)} for p in parts]}
        path = f"{self.base}/{quote(name)}/compose?{self.query(match)}"
        self.answered(call, self.send("POST", path, json.dumps(body), {"Content-Type": "application/json"}, call=call))
        return call

    def copy(self, source, name, match=None):
        call = self.history.begin(Call("write", name, source.value, match))
        path = (f"{self.base}/{quote(source.name)}/rewriteTo/b/{self.history.bucket}/o/{quote(name)}"
                f"?{self.query(match, sourceGeneration=source.generation)}")
        self.answered(call, self.send("POST", path, b"", call=call))
        return call

    def move(self, source, name, match=None):
        """Both at once: a write there, a delete here."""
        write = self.history.begin(Call("write", name, source.value, match))
        away = self.history.begin(Call("delete", source.name, match=source.generation))
        path = (f"{self.base}/{quote(source.name)}/moveTo/o/{quote(name)}"
                f"?{self.query(match, ifSourceGenerationMatch=source.generation)}")
        self.answered(write, self.send("POST", path, b"", call=write))
        away.born, away.end, away.outcome = write.born, write.end, write.outcome
        return write

    def delete(self, name, match=None):
        call = self.history.begin(Call("delete", name, match=match))
        self.answered(call, self.send("DELETE", f"{self.base}/{quote(name)}?{self.query(match)}", call=call))
        return call

    # ---- reads: the body, or None ----

    def read(self, name, generation=None):
        """The whole object; its hashes are held against its bytes. One generation, or the live one."""
        call = Call("read" if generation is None else "read-old", name)
        path = f"{self.base}/{quote(name)}?{self.query(alt='media', generation=generation)}"
        reply = self.send("GET", path, call=call)
        if reply is None or reply.status not in (200, 404):
            if reply is not None and reply.status != 503 and not self.history.faulty:
                self.history.complain(f"{call} was answered {reply}")
            return None
        call.end, call.outcome, call.generation = time.monotonic(), "acked", 0
        if reply.status == 200:
            call.generation = int(reply.headers["x-goog-generation"])
            hashes = dict(item.split("=", 1) for item in reply.headers["x-goog-hash"].split(","))
            told = hashes.get("md5")
            if told and told != base64.b64encode(hashlib.md5(reply.body).digest()).decode():
                self.history.complain(f"{call}: the md5 told is not that of the bytes")
            if int(reply.headers["x-goog-stored-content-length"]) != len(reply.body):
                self.history.complain(f"{call}: {len(reply.body)} bytes came")
            self.history.saw(name, call.generation, reply.body)
        self.history.begin(call)
        return reply.body if reply.status == 200 else None

    def read_part(self, name, first, last):
        call = Call("read", name)
        reply = self.send("GET", f"{self.base}/{quote(name)}?alt=media", headers={"Range": f"bytes={first}-{last}"}, call=call)
        if reply is None or reply.status in (416, 503):
            return
        if reply.status not in (206, 404):
            self.history.complain(f"{call} was answered {reply}")
            return
        call.end, call.outcome, call.generation = time.monotonic(), "acked", 0
        if reply.status == 206:
            call.generation = int(reply.headers["x-goog-generation"])
            self.history.saw_part(name, call.generation, first, reply.body)
        self.history.begin(call)

    def list(self, **rest):
        items, token = [], None
        while True:
            reply = self.send("GET", f"{self.base}?{self.query(pageToken=token, **rest)}")
            assert reply is not None and reply.status == 200, reply
            items += reply.json.get("items", [])
            token = reply.json.get("nextPageToken")
            if not token:
                return items


def make_bucket(yard, history):
    reply = yard.call("POST", "/storage/v1/b?project=faults",
                      {"name": history.bucket, "versioning": {"enabled": history.versions}, "softDeletePolicy": {"retentionDurationSeconds": "0"}})
    assert reply.status == 200, reply


def rows(yard, sql):
    database = sqlite3.connect(f"file:{yard.data}/objects.db?mode=ro", uri=True)
    try:
        return database.execute(sql).fetchall()
    finally:
        database.close()


def strays(yard):
    """Files of staging/ that neither a row nor an open session names."""
    named = {row[0] for row in rows(yard, "SELECT stage FROM object UNION SELECT stage FROM old UNION SELECT id FROM session WHERE done = 0")}
    return sorted(path.name for path in (yard.data / "staging").iterdir() if path.name not in named)


def check_disk(yard):
    """After a start, with nobody writing: no stray file, every row's file in its place once it has settled."""
    assert not (left := strays(yard)), f"stray files in staging/: {left}"
    waiting = ("SELECT (SELECT count(*) FROM removal) + (SELECT count(*) FROM object WHERE stage <> '')"
               " + (SELECT count(*) FROM old WHERE stage <> '')")
    yard.wait_for(lambda: rows(yard, waiting) == [(0,)], 60, "the objects to settle")
    assert rows(yard, "PRAGMA integrity_check") == [("ok",)]


def check(yard, histories):
    """J6 of everything, and of the disk. The server is up and nobody else is writing."""
    check_disk(yard)
    for history in histories:
        client = Client(yard, history)
        folder = pathlib.Path(yard.data, "buckets", history.bucket)
        listed = {item["name"]: item for item in client.list()}
        plain = {row[0] for row in rows(yard, f"SELECT o.name FROM object o JOIN bucket b ON b.id = o.bucket WHERE b.name = '{history.bucket}'"
                                              " AND o.place = 0")}
        for name in sorted({call.name for call in history.calls} | set(listed)):
            body = client.read(name)
            item = listed.get(name)
            assert (body is None) == (item is None), f"{name}: listed is {item}, read is {body and len(body)}"
            if body is not None:
                assert int(item["size"]) == len(body), item
                assert name not in plain or (folder / name).read_bytes() == body, f"{name}: its plain file is another"
        if history.versions:
            there = {(item["name"], int(item["generation"])) for item in client.list(versions="true")}
            for (name, generation), call in list(history.bound.items()):
                assert (name, generation) in there, f"J6: {call} is not among the old generations"
                assert client.read(name, generation) is not None, f"J6: {call} cannot be read"
        on_disk = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        assert on_disk == plain, f"files of no object, or objects without their file: {on_disk ^ plain}"
        history.check()
