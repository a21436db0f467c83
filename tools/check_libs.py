#!/usr/bin/env python3
"""check_libs.py -- which shared libraries each start path of build/trainyard loads.

Every library costs a start: linking them all took 10 ms and 18 MB before main. So the program is linked to libc alone,
a client's command loads nothing more, and the server opens what it needs when it needs it. The loader itself is asked
(LD_DEBUG=files), so what dlopen brings is seen too.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))
from yard import BINARY, Yard  # noqa: E402

LIBC = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "linux-vdso.so.1"}
# libmicrohttpd and what Debian's is linked to; libcrypto makes the local key, once.
SERVE = LIBC | {"libmicrohttpd.so.12", "libcrypto.so.3", "libgnutls.so.30", "libp11-kit.so.0", "libidn2.so.0", "libunistring.so.2",
                "libtasn1.so.6", "libnettle.so.8", "libhogweed.so.6", "libgmp.so.10", "libffi.so.8", "libgcc_s.so.1"}
# command word -> what it may load
PATHS = {"serve": SERVE, "launch": LIBC, "ai": LIBC, "env": LIBC, "--version": LIBC, "--help": LIBC}


def linked():
    text = subprocess.run(["ldd", BINARY], capture_output=True, text=True, check=True).stdout
    return {line.split()[0].rsplit("/", 1)[-1] for line in text.splitlines() if line.strip()}


def loaded(folder):
    """command word -> libraries, over all of our processes that left a loader's log."""
    found = {}
    for path in folder.glob("ld.*"):
        text = path.read_text(errors="replace")
        started = re.search(r"initialize program: (\S+)", text)
        if not started or pathlib.Path(started[1]).name != BINARY.name:  # a replica's own program
            continue
        libraries = {pathlib.Path(p).name for p in re.findall(r"calling init: (\S+)", text)}
        found[path.name] = libraries
    return found


def run(word, *arguments, yard, folder):
    """One client command; the libraries it loaded."""
    here = folder / word.strip("-")
    here.mkdir()
    yard.trainyard(word, *arguments, environment={"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(here / "ld")})
    every = set().union(*loaded(here).values())
    assert every, f"{word}: the loader wrote nothing"
    return every


def main():
    wrong = []

    def compare(what, libraries, allowed):
        extra = sorted(libraries - allowed)
        print(f"{what}: {', '.join(sorted(libraries))}")
        if extra:
            wrong.append(f"{what} loads {', '.join(extra)}")
    compare("linked", linked(), LIBC)
    with tempfile.TemporaryDirectory(prefix="ty-libs-") as name:
        folder = pathlib.Path(name)
        (folder / "yard").mkdir()
        with Yard(folder / "yard", environment={"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(folder / "ld")}) as yard:
            job = yard.create("true")
            yard.wait(job)
            compare("ai custom-jobs list", run("ai", "custom-jobs", "list", yard=yard, folder=folder), PATHS["ai"])
            compare("env", run("env", "--data", yard.data, yard=yard, folder=folder), PATHS["env"])
            compare("--help", run("--help", yard=yard, folder=folder), PATHS["--help"])
            server = f"ld.{yard.process.pid}"
        logs = loaded(folder)
        compare("serve", logs.pop(server), PATHS["serve"])
        if not logs:
            wrong.append("no launcher was seen")
        for libraries in logs.values():
            compare("launch", libraries, PATHS["launch"])
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
