# prepare.py -- what pip has to do for a job: make a runtime, make an environment, look for a module.
#
# Part of the binary; prepare.c runs it as `python -I -c TEXT MODE WHEELS OFFLINE ...` and decides by the exit
# status. Everything printed goes to the job's log, so the last lines of a failure must say what is wrong.
# Standard library only, and pip where it says so. Python 3.7+.
import os
import subprocess
import sys


def say(text):
    print(text, flush=True)


def fail(text):
    say(text)
    sys.exit(1)


def pip(python, command, *words, quiet=False):
    """Run pip; True if it did what it was told."""
    wheels, offline = sys.argv[2], sys.argv[3] == "1"
    line = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", command, "--progress-bar", "off", "--retries", "2"]
    if wheels:
        line += ["--find-links", wheels]
    if offline:
        line += ["--no-index"]
    environment = {k: v for k, v in os.environ.items() if k not in ("PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV", "PIP_CONSTRAINT")}
    environment["PIP_USER"] = "0"
    where = subprocess.DEVNULL if quiet else None
    return subprocess.run(line + list(words), env=environment, stdout=where, stderr=where).returncode == 0


def site_packages(folder):
    return os.path.join(folder, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")


def make_venv(folder, with_pip, system):
    import venv

    try:
        venv.EnvBuilder(system_site_packages=system, symlinks=True, with_pip=with_pip).create(folder)
    except (Exception, SystemExit) as error:
        say("%s: %s" % (type(error).__name__, error))
        fail("Python %s cannot make a virtual environment. On Debian: apt install python3-venv" % sys.version.split()[0])


# TensorFlow for CPU is a distribution of another name. These tell pip that a package which asks for one of them has it.
ALIASES = {"tensorflow-cpu": ("tensorflow", "tensorflow-gpu")}


def add_aliases(folder, requirement):
    name, _, version = requirement.partition("==")
    for alias in ALIASES.get(name, ()):
        info = os.path.join(site_packages(folder), "%s-%s.dist-info" % (alias.replace("-", "_"), version))
        os.makedirs(info, exist_ok=True)
        for file, text in (("METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: provided by %s\n" % (alias, version, name)),
                           ("INSTALLER", "trainyard\n"), ("RECORD", "")):
            with open(os.path.join(info, file), "w") as out:
                out.write(text)


def runtime(folder, family, *requirements):
    """Run by the host's Python."""
    make_venv(folder, True, family == "host")
    python = os.path.join(folder, "bin", "python")
    if not pip(python, "install", "--prefer-binary", *requirements):
        if family == "host":
            say("Warning: %s could not be installed: packages that are not wheels may fail to build." % ", ".join(requirements))
        else:
            fail("The runtime could not be made: see pip's words above. Without internet access, collect the wheels of %s in a folder "
                 "and run: trainyard runtimes add IMAGE --wheels=FOLDER" % " ".join(requirements))
    for requirement in requirements:
        add_aliases(folder, requirement)


def environment(folder, base, family):
    """Run by the host's Python: a virtual environment that sees the runtime's packages behind its own."""
    make_venv(folder, False, family == "host")
    with open(os.path.join(site_packages(folder), "trainyard_runtime.pth"), "w", encoding="utf-8") as out:
        out.write("import site; site.addsitedir(%a)\n" % site_packages(base))


# ---- packages ----

SUFFIXES = (".tar.gz", ".tgz", ".tar", ".zip", ".tar.bz2", ".tbz", ".tar.xz", ".txz", ".tar.lzma")


def stage(folder, number, path, digest):
    """A copy that cannot change any more, under a name pip takes."""
    import hashlib
    import shutil
    import tarfile
    import zipfile

    name = os.path.basename(path)
    place = os.path.join(folder, str(number))
    os.makedirs(place)
    copy = os.path.join(place, "archive")
    shutil.copyfile(path, copy)
    with open(copy, "rb") as file:
        whole = hashlib.sha256()
        for part in iter(lambda: file.read(1 << 20), b""):
            whole.update(part)
    if whole.hexdigest() != digest:
        fail("'%s' changed while it was being read: submit the job again" % path)
    if zipfile.is_zipfile(copy):
        name = wheel_name(copy) or (name if name.endswith(".zip") else "package.zip")
    elif tarfile.is_tarfile(copy):
        name = name if name.endswith(SUFFIXES) and not name.endswith(".zip") else "package.tar"
    else:
        fail("'%s' is no Python package: neither a wheel nor a tar or zip archive" % path)
    os.rename(copy, os.path.join(place, name))
    return os.path.join(place, name)


def wheel_name(path):
    """The name a wheel should have, by what is in it; None for another zip file. The name it was given may have been
    changed on its way (gs://bucket/aiplatform-2026-01-02-03:04:05-x-1.0-py3-none-any.whl)."""
    import email
    import zipfile

    with zipfile.ZipFile(path) as archive:
        info = [n for n in archive.namelist() if n.endswith(".dist-info/WHEEL") and n.count("/") == 1]
        if not info:
            return None
        tags = email.message_from_bytes(archive.read(info[0])).get_all("Tag") or ["py3-none-any"]
    parts = [sorted({tag.strip().split("-")[i] for tag in tags}) for i in range(3)]
    return "%s-%s.whl" % (info[0].split(".dist-info/")[0], "-".join(".".join(p) for p in parts))


def pyproject(path):
    """The text of pyproject.toml at the top of a source archive, or ''."""
    import tarfile
    import zipfile

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if n.split("/")[-1] == "pyproject.toml" and n.count("/") <= 1]
            return archive.read(min(names, key=len)).decode("utf-8", "replace") if names else ""
    with tarfile.open(path) as archive:
        names = [m for m in archive if m.isfile() and m.name.split("/")[-1] == "pyproject.toml" and m.name.count("/") <= 2]
        return archive.extractfile(min(names, key=lambda m: len(m.name))).read().decode("utf-8", "replace") if names else ""


def builds_here(path):
    """True if the runtime's own setuptools can build it: nothing needs to be fetched for that."""
    import re

    section = re.search(r"^\[build-system\](.*?)(?=^\[|\Z)", pyproject(path), re.M | re.S)
    listed = re.search(r"requires\s*=\s*\[(.*?)\]", section[1], re.S) if section else None
    words = re.findall(r"[\"']\s*([A-Za-z0-9._-]+)", listed[1]) if listed else []
    return all(word.lower() in ("setuptools", "wheel") for word in words)


def requirements_of(wheels):
    """What the packages ask for beside each other."""
    import email
    import zipfile

    from pip._vendor.packaging.requirements import Requirement
    from pip._vendor.packaging.utils import canonicalize_name

    found, own = [], set()
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA") and n.count("/") == 1)
            message = email.message_from_bytes(archive.read(name))
        own.add(canonicalize_name(message["Name"]))
        found += [Requirement(text) for text in message.get_all("Requires-Dist") or []]
    return [r for r in found if canonicalize_name(r.name) not in own and (r.marker is None or r.marker.evaluate({"extra": ""}))]


def sort_requirements(wanted):
    """(what pip is to install, versions of the runtime that stay)."""
    from importlib import metadata

    from pip._vendor.packaging.utils import canonicalize_name

    have = {}
    for dist in metadata.distributions():
        if dist.metadata["Name"]:
            have.setdefault(canonicalize_name(dist.metadata["Name"]), dist.version)
    install = []
    for requirement in wanted:
        name = canonicalize_name(requirement.name)
        version = have.get(name)
        if version is None or requirement.url or requirement.extras:
            install.append(str(requirement).partition(";")[0].strip())
        elif not requirement.specifier.contains(version, prereleases=True):
            text = "%s%s" % (requirement.name, requirement.specifier)
            if pip(sys.executable, "install", "--dry-run", "--no-deps", "--ignore-installed", "--only-binary=:all:", text, quiet=True):
                say("The package asks for %s: it is used instead of the runtime's %s." % (text, version))
                install.append(text)
                del have[name]
            else:
                say("Warning: the package asks for %s, of which there is no wheel to be had for Python %d.%d: the runtime's %s is used."
                    % (text, *sys.version_info[:2], version))
    return install, have


def install(folder, *pairs):
    """Run by the environment's Python, which sees the runtime's pip. pairs: path, sha256, path, ..."""
    import glob
    import shutil

    staged, built = os.path.join(folder, "staged"), os.path.join(folder, "wheels")
    os.makedirs(built)
    archives = [stage(staged, i, *pairs[2 * i:2 * i + 2]) for i in range(len(pairs) // 2)]
    for archive in archives:
        name = os.path.basename(archive)
        if name.endswith(".whl"):
            shutil.move(archive, os.path.join(built, name))
            continue
        here = ["--no-build-isolation"] if builds_here(archive) else []
        if not pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", built, *here, archive):
            sys.exit(1)
    wheels = sorted(glob.glob(os.path.join(built, "*.whl")))
    wanted = requirements_of(wheels)
    if not pip(sys.executable, "install", "--no-deps", "--ignore-installed", *wheels):
        sys.exit(1)
    add, stay = sort_requirements(wanted)
    if add:
        constraints = os.path.join(folder, "constraints.txt")
        with open(constraints, "w") as out:
            out.writelines("%s==%s\n" % item for item in sorted(stay.items()))
        say("Installing what the packages need: %s" % ", ".join(add))
        if not pip(sys.executable, "install", "--prefer-binary", "--constraint", constraints, *add):
            say("That does not go together with the runtime's own versions: trying without holding to them.")
            if not pip(sys.executable, "install", "--prefer-binary", *add):
                fail("The packages need %s, which could not be installed." % ", ".join(add))
    shutil.rmtree(staged)
    shutil.rmtree(built)


# ---- the module ----

def modules_of(folder):
    """What the packages of an environment have, as names for python -m."""
    found = set()
    top = site_packages(folder)
    for where, folders, files in os.walk(top):
        folders[:] = [f for f in folders if not f.endswith((".dist-info", "__pycache__"))]
        for file in files:
            if file.endswith(".py") and len(found) < 200:
                found.add(os.path.relpath(os.path.join(where, file), top)[:-3].replace(os.sep, ".").replace(".__init__", ""))
    return sorted(found)


def check(folder, module):
    """Run by the environment's Python: can `python -m module` find it? It is compiled, not run; what is above it is imported."""
    import importlib.util
    import traceback

    def missing():
        names = modules_of(folder)
        fail("There is no module '%s' in the packages. They have: %s" % (module, ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") or "none"))
    try:
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(module + ".__main__")
            if spec is None:
                fail("'%s' is a package without __main__.py, so it cannot be run; name a module in it" % module)
        if spec is not None and hasattr(spec.loader, "get_code"):
            spec.loader.get_code(spec.name)
    except ModuleNotFoundError as error:
        if error.name and (module + ".").startswith(error.name + "."):
            missing()
        traceback.print_exc(file=sys.stdout)
        fail("The module '%s' cannot be imported: %s" % (module, error))
    except BaseException as error:
        traceback.print_exc(file=sys.stdout)
        fail("The module '%s' cannot be imported: %s: %s" % (module, type(error).__name__, error))
    if spec is None:
        missing()


{"runtime": runtime, "environment": environment, "install": install, "check": check}[sys.argv[1]](*sys.argv[4:])
