"""packages.py -- Python packages for tests, made without any build tool: an sdist is a tar file, a wheel a zip file."""
import io
import tarfile
import zipfile

SETUP = "from setuptools import find_packages, setup\nsetup(name={name!r}, version={version!r}, packages=find_packages(), install_requires={requires!r})\n"
# Builds until it is let go: {gate} is a folder; `begun` in it says that it builds, `go` lets it go on.
HELD_SETUP = ("import pathlib, time\ngate = pathlib.Path({gate!r})\n(gate / 'begun').touch()\nwhile not (gate / 'go').exists():\n    time.sleep(0.05)\n"
              "from setuptools import setup\nsetup(name='trainer', version='0.1', packages=['trainer'])\n")
HELLO = "import os, sys\nprint('hello from', __name__, sys.argv[1:], os.environ.get('WHO', ''), flush=True)\n"


def sdist(path, files, name="trainer", version="0.1", requires=(), top="odd folder", setup=None):
    """A source archive at `path`; `files` is {path in it: text}."""
    everything = {"setup.py": setup or SETUP.format(name=name, version=version, requires=list(requires)), **files}
    with tarfile.open(path, "w:gz") as archive:
        for file, text in everything.items():
            data = text.encode()
            info = tarfile.TarInfo(f"{top}/{file}")
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
    return str(path)


def wheel(folder, files, name="trainer", version="0.1", requires=(), file_name=None, extras=()):
    info = f"{name}-{version}.dist-info"
    everything = {**files,
                  f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {r}\n" for r in requires)
                  + "".join(f"Provides-Extra: {e}\n" for e in extras),
                  f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    path = folder / (file_name or f"{name}-{version}-py3-none-any.whl")
    with zipfile.ZipFile(path, "w") as archive:
        record = ""
        for file, text in everything.items():
            archive.writestr(file, text)
            record += f"{file},,{len(text.encode())}\n"
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return str(path)


def pool(package, module="trainer.task", image="host", args=(), env=None, replicas=1):
    spec = {"executorImageUri": image, "packageUris": [package] if isinstance(package, str) else list(package), "pythonModule": module}
    if args:
        spec["args"] = list(args)
    if env:
        spec["env"] = [{"name": k, "value": v} for k, v in env.items()]
    return {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": replicas, "pythonPackageSpec": spec}


def settings(wheels):
    """Of a yard that needs no network: all it installs is in the folder `wheels`."""
    return {"wheel_folder": wheels, "runtimes_offline": 1, "grace_ms": 500}


def preparing(yard, gate):
    """A job in the middle of its preparation, which goes on when there is a file `go` in the folder `gate`."""
    archive = sdist(gate / "held.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": HELLO + f"# {gate}\n"},
                    setup=HELD_SETUP.format(gate=str(gate)))
    name = yard.create(pools=[pool(archive)])
    yard.wait_for((gate / "begun").exists, 120, "the build of the package")
    yard.wait_for(lambda: any("Installing 1 package" in line for line in yard.lines(name, "service")), 30, "its line in the log")
    assert yard.describe(name)["state"] == "JOB_STATE_PENDING"
    return name
