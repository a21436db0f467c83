#!/usr/bin/env python3
"""check_docs.py -- the documents say true things, as far as a program can tell.

In README.md, CONTRIBUTING.md and docs/*.md: every path of ours that is named exists, every link leads somewhere, every
`./check NAME` is a part, module or test, every `trainyard WORDS` is a command, and every setting in etc/trainyard.conf
is one (and the other way round).
"""
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
OURS = ("src/", "tests/", "tools/", "docs/", "fuzz/", "bench/", "etc/", "examples/", "web/", ".ci/", "build/")
DOCUMENTS = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").glob("*.md"))]
# Named as examples or made on request; everything else under build/ must be there after a build.
PLACEHOLDER = re.compile(r"[<>{}*…]|NAME|MODULE|\bX\b")


def paths_in(text):
    for word in re.findall(r"(?<![\w/.:$~-])(?:\./)?([\w.][\w./<>{}*…-]*)", text):
        if word.startswith(OURS) and not PLACEHOLDER.search(word):
            yield word.rstrip(".")


def commands_of_binary():
    result = subprocess.run([TOP / "build" / "trainyard", "--help"], capture_output=True, text=True, timeout=10)
    return result.stdout + result.stderr


def check_words(known):
    parts = subprocess.run([TOP / "check", "--list"], capture_output=True, text=True).stdout.split()
    tests = [p.stem[5:] for p in (TOP / "tests").glob("*/test_*.py")]
    modules = [p.name for p in (TOP / "src").iterdir() if p.is_dir()]
    return {*parts, *tests, *modules, *known}


def main():
    wrong = []
    help_text = commands_of_binary()
    names = check_words({"NAME"})
    for document in DOCUMENTS:
        text = document.read_text()
        where = document.relative_to(TOP)
        for path in sorted(set(paths_in(text))):
            if path.startswith("build/") and not path.startswith(("build/trainyard", "build/asan/test_", "build/test_")):
                continue
            found = (TOP / path).exists() or (TOP / path.replace("build/test_", "build/asan/test_")).exists()
            if not found and not path.startswith("build/asan/"):
                wrong.append(f"{where}: '{path}' does not exist")
        for link in re.findall(r"\]\(([^)#\s]+)", text):
            if "://" not in link and not (document.parent / link).exists():
                wrong.append(f"{where}: the link '{link}' leads nowhere")
        for script in re.findall(r"(?<![\w/])\./([a-z]+)\b", text):
            if not (TOP / script).exists():
                wrong.append(f"{where}: './{script}' does not exist")
        for name in re.findall(r"\./check ([\w]+)", text):
            if name not in names:
                wrong.append(f"{where}: './check {name}' runs nothing")
        for words in re.findall(r"(?:^|[`\s(/])trainyard ((?:ai [a-z-]+ [a-z-]+(?:\|[a-z-]+)*)|serve|env|why|doctor|train|predict|gc|backup|restore|launch|conduct)\b", text, re.M):
            first, _, rest = words.partition("|")
            stem = first.rsplit(" ", 1)[0]
            for command in [first, *(f"{stem} {w}" for w in rest.split("|") if w)]:
                if command not in help_text and command not in ("launch", "conduct"):
                    wrong.append(f"{where}: 'trainyard {command}' is no command")
    settings = set(re.findall(r"^SETTING_\w+\((\w+),", (TOP / "src/base/config.def").read_text(), re.M))
    conf = TOP / "etc" / "trainyard.conf"
    documented = set(re.findall(r"^#?\s*(\w+) =(?: |$)", conf.read_text(), re.M)) if conf.exists() else set()
    for name in sorted(settings ^ documented):
        wrong.append(f"etc/trainyard.conf: '{name}' is {'missing' if name in settings else 'no setting'}")
    print("\n".join(wrong) if wrong else f"{len(DOCUMENTS)} documents, {len(settings)} settings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
