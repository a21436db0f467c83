"""trainyard storage and gsutil against the originals: the same lines, by Google's gcloud storage and gsutil and by links to
trainyard of these names, each on a bucket of its own; status, output, messages and the files that are left must be equal.

A scene is lines that belong together; BUCKET stands for the side's bucket, `<<< word` gives standard input. One run of a
scene shows all that differs in it. Where the originals are not installed the scenes skip and say so."""
import os
import pathlib
import re
import shlex
import subprocess

import pytest
from yard import BINARY

FILES = {"f.txt": "hi\n", "d/a.txt": "a\n", "d/b.txt": "bb\n", "d/sub/c.txt": "ccc\n", "empty": "", "t/train-0.csv": "1,2\n",
         "t/train-1.csv": "3,4\n", "t/x/eval.csv": "5\n", "sp ace/ü.txt": "u\n", "long.txt": "all work and no play\n" * 200}

GCLOUD = {
    "buckets": """
        buckets create gs://BUCKET --location=us-central1
        buckets create gs://BUCKET --location=us-central1
        buckets create gs://BUCKET-2 -l eu -c nearline -b
        buckets create gs://Bad_Name! --location=us
        buckets create gs://BUCKET/x --location=us
        buckets create nothing --location=us
        buckets describe gs://BUCKET
        buckets describe gs://BUCKET-2 --format=json
        buckets describe gs://BUCKET-2 --format=value(name,location)
        buckets describe gs://not-here-at-all
        buckets list gs://BUCKET* --format=value(name)
        ls -b gs://BUCKET
        ls gs://BUCKET
        ls -b -l gs://BUCKET
        buckets delete gs://BUCKET gs://BUCKET-2
        buckets delete gs://BUCKET
        buckets delete gs://BUCKET/x
        """,
    "copies": """
        buckets create gs://BUCKET --location=us-central1
        cp f.txt gs://BUCKET/f.txt
        cp f.txt gs://BUCKET/x/
        cp -r d gs://BUCKET
        cp -r d gs://BUCKET/new
        cp -r d gs://BUCKET/new
        cp -r d/ gs://BUCKET/slash/
        cp -n f.txt gs://BUCKET/f.txt
        cp --no-clobber f.txt gs://BUCKET/n.txt
        cp d/* gs://BUCKET/star/
        cp d/** gs://BUCKET/stars/
        cp t/train-?.csv gs://BUCKET/q/
        cp f.txt d/a.txt gs://BUCKET/two/
        cp f.txt d/a.txt gs://BUCKET/two
        cp empty gs://BUCKET/empty
        cp 'sp ace/ü.txt' gs://BUCKET/
        cp - gs://BUCKET/stdin <<< word
        cp - gs://BUCKET <<< word
        cp gs://BUCKET/f.txt -
        cp gs://BUCKET/f.txt gs://BUCKET/new/a.txt -
        cp gs://BUCKET/f.txt down.txt
        cp gs://BUCKET/f.txt .
        cp -n gs://BUCKET/f.txt down.txt
        cp gs://BUCKET/new/*.txt .
        cp gs://BUCKET/new/** t
        cp gs://BUCKET/?.txt out-none
        cp -r gs://BUCKET/d out
        cp -r gs://BUCKET/d out
        cp -r gs://BUCKET/new/ out3
        cp -r gs://BUCKET/d gs://BUCKET/copy
        cp gs://BUCKET/f.txt gs://BUCKET/g.txt
        cp gs://BUCKET/f.txt gs://BUCKET/f.txt
        cp f.txt f.txt
        cp f.txt local.txt
        cp -r d local-d
        cp -z txt long.txt gs://BUCKET/z.txt
        cp -Z long.txt gs://BUCKET/zz.txt
        cp gs://BUCKET/zz.txt unpacked.txt
        cp --content-type=text/x --cache-control=no-cache --custom-metadata=k=v,l=w f.txt gs://BUCKET/meta.txt
        objects describe gs://BUCKET/meta.txt
        cp -s nearline f.txt gs://BUCKET/near.txt
        ls -L gs://BUCKET/near.txt
        cp -I gs://BUCKET/from-stdin/ <<< f.txt
        cp -v f.txt gs://BUCKET/v.txt
        cp -c f.txt nope.txt gs://BUCKET/c/
        ls -r gs://BUCKET
        """,
    "copies that cannot be": """
        buckets create gs://BUCKET --location=us-central1
        cp f.txt gs://BUCKET/f.txt
        cp -r d gs://BUCKET/d
        cp gs://BUCKET/nope .
        cp gs://BUCKET/nope gs://BUCKET/x
        cp gs://BUCKET/no* .
        cp nope.txt gs://BUCKET/
        cp no* gs://BUCKET/
        cp f.txt gs://not-here-at-all/f
        cp f.txt gs://not-here-at-all
        cp --if-generation-match=7 f.txt gs://BUCKET/f.txt
        cp --if-generation-match=0 f.txt gs://BUCKET/if.txt
        rm --if-generation-match=7 gs://BUCKET/f.txt
        cp gs://not-here-at-all/f .
        cp d gs://BUCKET/dd
        cp gs://BUCKET/d out2
        cp gs://BUCKET/d/a.txt gs://BUCKET/d/b.txt nodir
        cp gs://BUCKET/f.txt nodir2/
        cp gs://BUCKET/d/*.txt nodir3/
        cp -r gs://BUCKET/d nodir4/
        cp gs://BUCKET/f.txt nodir/deep/f.txt
        cp f.txt
        cp f.txt gs://
        cp gs:// .
        cp
        cp --nonsense a b
        cp -r gs://BUCKET/nothing out
        """,
    "links": """
        buckets create gs://BUCKET --location=us-central1
        cp -r links gs://BUCKET
        ls -r gs://BUCKET
        cp -r --ignore-symlinks links gs://BUCKET/files
        cp links/** gs://BUCKET/stars/
        ls -r gs://BUCKET
        ls -r gs://not-here-at-all
        """,
    "lists": """
        buckets create gs://BUCKET --location=us-central1
        ls gs://BUCKET
        cp -r d f.txt gs://BUCKET
        cp -r t gs://BUCKET/deep/
        ls gs://BUCKET
        ls gs://BUCKET/
        ls -l gs://BUCKET
        ls -l --readable-sizes gs://BUCKET/**
        ls -r gs://BUCKET
        ls -R gs://BUCKET/deep
        ls --recursive gs://BUCKET/deep/t/
        ls -a gs://BUCKET/f.txt
        ls -L gs://BUCKET/f.txt
        ls -e gs://BUCKET/f.txt
        ls -l -a gs://BUCKET/f.txt
        ls gs://BUCKET/d
        ls gs://BUCKET/d/
        ls gs://BUCKET/d/*
        ls gs://BUCKET/*
        ls gs://BUCKET/**
        ls gs://BUCKET/**/*.csv
        ls gs://BUCKET/d/?.txt
        ls gs://BUCKET/d/[ab].txt
        ls gs://BUCKET/d/a.txt gs://BUCKET/d/b.txt
        ls gs://BUCKET/d gs://BUCKET/deep
        ls gs://BUCKET/nope
        ls gs://BUCKET/nope gs://BUCKET/f.txt
        ls gs://BUCKET/no*
        ls gs://not-here-at-all
        ls d
        ls -j gs://BUCKET/nope
        objects list gs://BUCKET
        objects list gs://BUCKET/** --format=value(name,size)
        objects describe gs://BUCKET/f.txt --format=value(md5_hash,crc32c_hash,size)
        objects describe gs://BUCKET/nope
        objects describe gs://BUCKET
        du gs://BUCKET
        du -s gs://BUCKET
        du -s -c gs://BUCKET/d gs://BUCKET/deep
        du -r gs://BUCKET/deep
        du gs://BUCKET/f.txt
        du gs://BUCKET/nope
        """,
    "contents": """
        buckets create gs://BUCKET --location=us-central1
        cp f.txt d/b.txt empty long.txt gs://BUCKET
        hash f.txt
        hash d/*
        hash nope.txt
        hash gs://BUCKET/f.txt
        hash gs://BUCKET/nope
        hash --hex f.txt gs://BUCKET/f.txt
        hash --skip-md5 f.txt
        hash --skip-crc32c f.txt
        cat gs://BUCKET/f.txt
        cat gs://BUCKET/f.txt gs://BUCKET/b.txt
        cat -d gs://BUCKET/f.txt gs://BUCKET/b.txt
        cat gs://BUCKET/*.txt
        cat -r 0-0 gs://BUCKET/f.txt
        cat -r 1- gs://BUCKET/f.txt
        cat -r -2 gs://BUCKET/f.txt
        cat gs://BUCKET/empty
        cat gs://BUCKET/nope
        cat f.txt
        objects compose gs://BUCKET/f.txt gs://BUCKET/b.txt gs://BUCKET/both
        cat gs://BUCKET/both
        objects compose gs://BUCKET/f.txt gs://BUCKET/nope gs://BUCKET/both
        objects compose gs://BUCKET/f.txt gs://not-here-at-all/x gs://BUCKET/both
        """,
    "moves and removals": """
        buckets create gs://BUCKET --location=us-central1
        cp -r d f.txt t long.txt gs://BUCKET
        mv gs://BUCKET/f.txt gs://BUCKET/g.txt
        mv gs://BUCKET/d gs://BUCKET/e
        mv long.txt gs://BUCKET/moved/
        mv gs://BUCKET/moved/long.txt back.txt
        mv gs://BUCKET/nope gs://BUCKET/x
        mv gs://BUCKET/g.txt gs://BUCKET/g.txt
        mv gs://BUCKET/e/*.txt gs://BUCKET/f/
        ls gs://BUCKET/**
        rm gs://BUCKET/g.txt
        rm gs://BUCKET/nope
        rm gs://BUCKET/nope gs://BUCKET/f/a.txt
        rm gs://BUCKET/no*
        rm gs://BUCKET/t
        rm gs://BUCKET/t/*
        rm gs://BUCKET
        rm -r gs://BUCKET/t
        rm -r gs://BUCKET/nope
        rm gs://BUCKET/**
        cp f.txt gs://BUCKET/again
        buckets delete gs://BUCKET
        rm -r gs://BUCKET
        rm -r gs://BUCKET
        """,
    "rsync": """
        buckets create gs://BUCKET --location=us-central1
        rsync d gs://BUCKET/flat
        rsync -r d gs://BUCKET/rs
        rsync -r d gs://BUCKET/rs
        rsync -r gs://BUCKET/rs back
        rsync -r gs://BUCKET/rs back
        rsync -r gs://BUCKET/rs gs://BUCKET/rs2
        rsync -r t gs://BUCKET/rs --dry-run
        rsync -r t gs://BUCKET/rs --delete-unmatched-destination-objects
        rsync -r -x .*csv$ t gs://BUCKET/ex
        rsync -r nope gs://BUCKET/x
        rsync -r gs://not-here-at-all back
        rsync -r d gs://not-here-at-all
        rsync f.txt gs://BUCKET/x
        rsync d
        """,
}

GSUTIL = {
    "buckets": """
        mb -l us-central1 -c STANDARD -p trainyard -b on gs://BUCKET
        mb gs://BUCKET
        mb -c nearline -l EU gs://BUCKET-2
        mb gs://Bad_Name!
        mb gs://BUCKET/x
        mb nothing
        mb
        ls -L -b gs://BUCKET
        ls -Lb gs://BUCKET-2
        ls -b gs://BUCKET gs://BUCKET-2
        ls -d gs://BUCKET
        ls gs://BUCKET
        cp f.txt gs://BUCKET
        rb gs://BUCKET
        rb -f gs://BUCKET
        rm gs://BUCKET/f.txt
        rb gs://BUCKET gs://BUCKET-2
        rb gs://not-here-at-all
        rb -f gs://not-here-at-all
        rb gs://BUCKET/x
        """,
    "copies": """
        mb gs://BUCKET
        cp f.txt gs://BUCKET/f.txt
        cp f.txt gs://BUCKET/x/
        cp -r d gs://BUCKET
        cp -R d gs://BUCKET/new
        cp -r d gs://BUCKET/new
        -q cp f.txt gs://BUCKET/q.txt
        -m cp -r t gs://BUCKET/tfr
        -o GSUtil:parallel_thread_count=2 -m cp t/*.csv gs://BUCKET/o/
        cp -n f.txt gs://BUCKET/f.txt
        cp d/* gs://BUCKET/star/
        cp d/** gs://BUCKET/stars/
        cp t/train-?.csv gs://BUCKET/qm/
        cp f.txt d/a.txt gs://BUCKET/two/
        cp empty gs://BUCKET/empty
        cp 'sp ace/ü.txt' gs://BUCKET/
        cp - gs://BUCKET/stdin <<< word
        cp - gs://BUCKET <<< word
        cp gs://BUCKET/f.txt -
        cp gs://BUCKET/f.txt down.txt
        cp gs://BUCKET/f.txt .
        cp -n gs://BUCKET/f.txt down.txt
        cp gs://BUCKET/new/*.txt t
        cp -r gs://BUCKET/d out
        cp -r gs://BUCKET/d .
        cp -r gs://BUCKET/d gs://BUCKET/copy
        cp gs://BUCKET/f.txt gs://BUCKET/g.txt
        cp gs://BUCKET/f.txt gs://BUCKET/f.txt
        cp f.txt f.txt
        cp f.txt local.txt
        cp -z txt long.txt gs://BUCKET/z.txt
        cp -Z long.txt gs://BUCKET/zz.txt
        cp gs://BUCKET/zz.txt unpacked.txt
        -h Content-Type:text/x -h x-goog-meta-k:v cp f.txt gs://BUCKET/meta.txt
        stat gs://BUCKET/meta.txt
        -h x-goog-if-generation-match:0 cp f.txt gs://BUCKET/meta.txt
        -h x-goog-if-generation-match:0 cp f.txt gs://BUCKET/meta2.txt
        cp -I gs://BUCKET/from-stdin/ <<< f.txt
        cp -v f.txt gs://BUCKET/v.txt
        cp -v gs://BUCKET/v.txt gs://BUCKET/v2.txt
        cp -s nearline f.txt gs://BUCKET/near.txt
        stat gs://BUCKET/near.txt
        cp -c f.txt nope.txt gs://BUCKET/c/
        ls -r gs://BUCKET
        """,
    "copies that cannot be": """
        mb gs://BUCKET
        cp f.txt gs://BUCKET/f.txt
        cp -r d gs://BUCKET/d
        cp gs://BUCKET/nope .
        cp gs://BUCKET/no* .
        cp nope.txt gs://BUCKET/
        cp f.txt gs://not-here-at-all/f
        cp f.txt gs://not-here-at-all
        cp -c nope.txt gs://BUCKET/
        -h x-goog-if-generation-match:7 rm gs://BUCKET/f.txt
        -h x-goog-if-generation-match:x rm gs://BUCKET/f.txt
        cp gs://not-here-at-all/f .
        cp d gs://BUCKET/dd
        cp gs://BUCKET/d out2
        cp gs://BUCKET/d/a.txt gs://BUCKET/d/b.txt nodir
        cp gs://BUCKET/f.txt nodir2/
        cp gs://BUCKET/d/*.txt nodir3/
        cp -r gs://BUCKET/d nodir4/
        cp f.txt
        cp f.txt gs://
        cp
        cp -Q f.txt gs://BUCKET
        -m cp f.txt nope.txt gs://BUCKET/m/
        """,
    "lists": """
        mb gs://BUCKET
        cp -r d f.txt t gs://BUCKET
        ls gs://BUCKET
        ls gs://BUCKET/
        ls -l gs://BUCKET
        ls -lh gs://BUCKET
        ls -lh gs://BUCKET/**
        ls -r gs://BUCKET
        ls -R gs://BUCKET/d
        ls -lr gs://BUCKET
        ls -a gs://BUCKET/f.txt
        ls -la gs://BUCKET/f.txt
        ls -L gs://BUCKET/f.txt
        ls -le gs://BUCKET/f.txt
        ls -d gs://BUCKET/d
        ls -d gs://BUCKET/*
        ls gs://BUCKET/d/*
        ls gs://BUCKET/d/**
        ls gs://BUCKET/**/*.csv
        ls gs://BUCKET/d/?.txt
        ls gs://BUCKET/d/[ab].txt
        ls gs://BUCKET/*
        ls gs://BUCKET/d
        ls gs://BUCKET/d gs://BUCKET/t
        ls gs://BUCKET/f.txt gs://BUCKET/d/a.txt
        ls gs://BUCKET/nope
        ls gs://BUCKET/nope gs://BUCKET/f.txt
        ls gs://not-here-at-all
        ls d
        ls -Q
        du gs://BUCKET
        du -s gs://BUCKET
        du -h gs://BUCKET/d
        du -sc gs://BUCKET/d gs://BUCKET/t
        du gs://BUCKET/nope
        """,
    "contents": """
        mb gs://BUCKET
        cp f.txt d/b.txt empty long.txt gs://BUCKET
        hash f.txt
        hash -h f.txt
        hash -c f.txt
        hash -m f.txt
        hash gs://BUCKET/f.txt
        hash -h gs://BUCKET/f.txt
        hash nope.txt
        hash gs://BUCKET/nope
        stat gs://BUCKET/f.txt
        stat gs://BUCKET/*.txt
        stat gs://BUCKET/nope
        stat gs://BUCKET
        stat f.txt
        -q stat gs://BUCKET/f.txt
        -q stat gs://BUCKET/nope
        cat gs://BUCKET/f.txt
        cat -h gs://BUCKET/f.txt gs://BUCKET/b.txt
        cat -r 0-0 gs://BUCKET/f.txt
        cat -r 1- gs://BUCKET/f.txt
        cat -r -2 gs://BUCKET/f.txt
        cat -r x gs://BUCKET/f.txt
        cat gs://BUCKET/empty
        cat gs://BUCKET/nope
        cat f.txt
        compose gs://BUCKET/f.txt gs://BUCKET/b.txt gs://BUCKET/comp
        cat gs://BUCKET/comp
        compose gs://BUCKET/f.txt gs://BUCKET/nope gs://BUCKET/comp
        compose gs://BUCKET/nope gs://BUCKET/f.txt gs://BUCKET/comp
        compose gs://BUCKET/?.txt gs://BUCKET/comp2
        compose gs://BUCKET/f.txt gs://other-than/f gs://BUCKET/comp
        compose gs://BUCKET/f.txt
        setmeta -h Content-Type:text/html -h x-goog-meta-k:v gs://BUCKET/comp
        stat gs://BUCKET/comp
        setmeta -h x-goog-meta-k gs://BUCKET/comp
        stat gs://BUCKET/comp
        setmeta -h Foo:bar gs://BUCKET/comp
        setmeta gs://BUCKET/comp
        setmeta -h Content-Type:text/html gs://BUCKET/nope
        setmeta -r -h Cache-Control:no-store gs://BUCKET
        """,
    "moves and removals": """
        mb gs://BUCKET
        cp -r d f.txt t long.txt gs://BUCKET
        mv gs://BUCKET/f.txt gs://BUCKET/g.txt
        mv gs://BUCKET/d gs://BUCKET/e
        mv long.txt gs://BUCKET/moved/
        mv gs://BUCKET/moved/long.txt back.txt
        mv gs://BUCKET/nope gs://BUCKET/x
        mv gs://BUCKET/e/*.txt gs://BUCKET/f/
        -m mv gs://BUCKET/f gs://BUCKET/h
        ls gs://BUCKET/**
        rm gs://BUCKET/g.txt
        rm gs://BUCKET/nope
        rm -f gs://BUCKET/nope
        rm -f gs://BUCKET/nope gs://BUCKET/h/a.txt
        rm gs://BUCKET/t
        rm gs://BUCKET/t/*
        rm gs://BUCKET
        rm f.txt
        rm -r gs://BUCKET/t
        -m rm -r gs://BUCKET/h
        rm -r gs://BUCKET/nope
        -q rm gs://BUCKET/**
        cp f.txt gs://BUCKET/again
        rm -r gs://BUCKET
        rm -r gs://BUCKET
        """,
    "rsync": """
        mb gs://BUCKET
        rsync d gs://BUCKET/flat
        rsync -r d gs://BUCKET/rs
        rsync -r d gs://BUCKET/rs
        rsync -r gs://BUCKET/rs nowhere
        rsync -r gs://BUCKET/rs t
        rsync -r gs://BUCKET/rs t
        -m rsync -r gs://BUCKET/rs gs://BUCKET/rs2
        rsync -d -r -n d gs://BUCKET/flat
        rsync -d -r d gs://BUCKET/rs2
        rsync -r -x .*csv$ t gs://BUCKET/ex
        rsync -r nope gs://BUCKET/x
        rsync -r gs://not-here-at-all t
        rsync -r t gs://not-here-at-all
        rsync f.txt gs://BUCKET/x
        rsync a
        """,
}


def normal(text):
    """Without what differs by nature: bars, times, generations, order of parallel lines, throughput, progress dots."""
    text = re.sub(r"\x1b\[K", "", text.replace("\r", "\n"))
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+(Z|\+0000)", "TIME", text)
    text = re.sub(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]+ GMT", "DATE", text)
    text = re.sub(r"#\d{16}", "#G", text)
    text = re.sub(r"(?i)(generation: +'?|etag[:=] *|\"generation\": \"?|and it is )[\w=+/]+", r"\1X", text)
    text = re.sub(r"(real|ours)-[0-9a-z-]+", "BUCKET", text)
    # gcloud writes a dot every 0.2 s that it takes, and so in front of whatever line comes next.
    lines = [re.sub(r"^\.+(?=[A-Za-z])", "", line.rstrip()) for line in text.split("\n")]
    drop = (r"\.*$|[-/|\\]$|[-/|\\] \[\d|Average throughput|At .*worker process|.*InsecureRequestWarning|warnings\.warn|"
            r"==> NOTE: You are|run significantly faster|.*see the -m section|.*about when gsutil|"
            r"Would set mtime|Copying mtime|gs://\S+ is not a bucket of this machine|To bring data of Google's|failed\.$|.*urllib3")
    return sorted(line for line in lines if not re.match(drop, line.strip()))


def files_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def ours(tmp_path_factory, shared_yard):
    """Links to trainyard by the originals' names."""
    folder = tmp_path_factory.mktemp("links")
    for name in ("gcloud", "gsutil"):
        (folder / name).symlink_to(BINARY)

    def run(name):
        def run(*words, cwd, stdin):
            with open(stdin, "rb") as file:
                return subprocess.run([folder / name, *words], cwd=cwd, stdin=file, env=shared_yard.client_environment(),
                                      capture_output=True, text=True, errors="replace", timeout=60)
        return run
    return run


def seed(folder):
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    (folder / "links").mkdir()
    for name, target in (("gone", "nothing"), ("to-file", "../f.txt"), ("to-folder", "../d")):
        (folder / "links" / name).symlink_to(target)
    (folder / "links" / "z.txt").write_text("z\n")
    os.utime(folder / "links" / "z.txt", (1_700_000_000, 1_700_000_000))


@pytest.fixture
def same(tmp_path, request):
    """Run each line on both sides; collect all differences, so that one run shows them all."""
    def same(scene, original, ours, *prefix):
        wrong, word = [], re.sub("[^a-z]", "", request.node.callspec.id) + prefix_name(prefix)
        sides = [(run, f"{side}-{word}", tmp_path / side) for run, side in ((original, "real"), (ours, "ours"))]
        for _, _, place in sides:
            seed(place)
        for line in filter(None, map(str.strip, scene.splitlines())):
            command, _, text = line.partition(" <<< ")
            stdin = pathlib.Path(os.devnull)
            if text:
                stdin = tmp_path / "stdin"
                stdin.write_text(text + "\n")
            results = [run(*prefix, *shlex.split(command.replace("BUCKET", bucket)), cwd=place, stdin=stdin) for run, bucket, place in sides]
            if results[0].returncode == results[1].returncode == 2:
                continue  # wrong use: our usage texts are our own
            if re.search(r"-m rm| -[zZ] |zz", line):  # sizes that are theirs: of gzip, of removals that were counted ahead
                results = [subprocess.CompletedProcess(line, r.returncode, r.stdout, re.sub(r"objects/[\d.]+ \w+", "objects", r.stderr)) for r in results]
            for what, of in (("status", lambda r: r.returncode), ("stdout", lambda r: normal(r.stdout)), ("stderr", lambda r: normal(r.stderr))):
                left, right = map(of, results)
                if left != right:
                    wrong.append(f"{line}\n  {what}\n    original: {left}\n    ours:     {right}")
        if files_of(sides[0][2]) != files_of(sides[1][2]):
            wrong.append(f"files\n    original: {sorted(files_of(sides[0][2]))}\n    ours:     {sorted(files_of(sides[1][2]))}")
        assert not wrong, "\n".join(wrong)
    return same


def prefix_name(prefix):
    return "gc" if prefix else "gs"


@pytest.mark.parametrize("scene", GCLOUD)
def test_as_gcloud_storage(same, warm_storage, ours, scene):
    same(GCLOUD[scene], warm_storage, ours("gcloud"), "storage")


@pytest.mark.parametrize("scene", GSUTIL)
def test_as_gsutil(same, warm_gsutil, ours, scene):
    same(GSUTIL[scene], warm_gsutil, ours("gsutil"))
