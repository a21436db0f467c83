#!/usr/bin/env python3
"""check_layers.py -- the rules between modules that the compiler does not know.

1. A module includes only modules of lower rows of src/LAYERS, and itself. main.c may include all.
2. Nobody includes another module's private header (*_int.h), or another's .c file.
3. Every module has its row, its public header and a test beside it (or its header names the one in tests/).
4. The bare calls that base/banned.h refuses stay refused: only base's seam and tests define TY_SEAM,
   and nobody takes a ban back with #undef or by leaving out base.h.

Prints one line a broken rule, file:line first. Exit status 1 if there is any.
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
SRC = TOP / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def rows():
    """module -> row number, 0 the lowest."""
    found, row = {}, 0
    for line in (SRC / "LAYERS").read_text().splitlines():
        names = line.split("#")[0].split()
        for name in names:
            found[name] = row
        row += bool(names)
    return found


# No part of the program: a library of its own, which runs in other people's processes.
APART = {"auth/preload.c"}


def module_of(path):
    parts = path.relative_to(SRC).parts
    return parts[0] if len(parts) > 1 else "main"


def banned_names():
    text = (SRC / "base" / "banned.h").read_text()
    return set(re.findall(r"^#undef (\w+)", text, re.M))


def check_file(path, layers, banned, report):
    module = module_of(path)
    is_test = path.name.startswith("test_")
    includes = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        where = f"{path.relative_to(TOP)}:{number}"
        if re.match(r"\s*#\s*define\s+TY_SEAM\b", line) and module != "base" and not is_test:
            report(f"{where}: TY_SEAM is for base's seam and for tests: use ty_write_all, ty_fork, ...")
        undef = re.match(r"\s*#\s*undef\s+(\w+)", line)
        if undef and undef[1] in banned and path.name != "banned.h":
            report(f"{where}: takes back the ban on {undef[1]}")
        include = INCLUDE.match(line)
        if not include:
            continue
        target = include[2]
        includes.append(target)
        if target.endswith(".c"):
            report(f"{where}: includes a .c file")
        if include[1] != '"' or "/" not in target:
            continue
        other = target.split("/")[0]
        if other not in layers:
            report(f"{where}: '{other}' has no row in src/LAYERS")
        elif other != module and target.endswith("_int.h"):
            report(f"{where}: '{target}' is private to {other}")
        elif other != module and layers[other] >= layers.get(module, -1):
            report(f"{where}: {module} (row {layers.get(module)}) may not include {other} (row {layers[other]})")
    if path.relative_to(SRC).as_posix() not in APART and path.suffix == ".c" and not any(t.split("/")[0] in layers and t.endswith((".h",)) for t in includes):
        report(f"{path.relative_to(TOP)}:1: includes no header of ours, so base/banned.h does not hold here")


def main():
    layers, banned, broken = rows(), banned_names(), []
    files = sorted(p for p in SRC.rglob("*.[ch]"))
    for path in files:
        check_file(path, layers, banned, broken.append)
    for folder in sorted(p for p in SRC.iterdir() if p.is_dir()):
        if folder.name not in layers:
            broken.append(f"src/{folder.name}: has no row in src/LAYERS")
        header = folder / f"{folder.name}.h"
        if not header.exists():
            broken.append(f"src/{folder.name}: has no {folder.name}.h")
        tested_outside = header.exists() and re.search(r"One test:[\s*]*tests/", header.read_text())
        if not list(folder.glob("test_*.c")) and not tested_outside:
            broken.append(f"src/{folder.name}: has no test_*.c beside the code")
    for name in layers:
        if name != "main" and not (SRC / name).is_dir():
            broken.append(f"src/LAYERS: there is no module '{name}'")
    print("\n".join(broken) if broken else f"{len(files)} files, {len(layers)} modules, {len(banned)} banned calls")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
