"""packages.py -- Python packages for tests, made without any build tool: an sdist is a tar file, a wheel a zip file."""
import hashlib
import io
import tarfile
import zipfile

SETUP = "from setuptools import find_packages, setup\nsetup(name={name!r}, version={version!r}, packages=find_packages(), install_requires={requires!r})\n"
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


def wheel(folder, files, name="trainer", version="0.1", requires=(), file_name=None):
    info = f"{name}-{version}.dist-info"
    everything = {**files,
                  f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {r}\n" for r in requires),
                  f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    path = folder / (file_name or f"{name}-{version}-py3-none-any.whl")
    with zipfile.ZipFile(path, "w") as archive:
        record = ""
        for file, text in everything.items():
            archive.writestr(file, text)
            record += f"{file},,{len(text.encode())}\n"
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return str(path)


def digest(path):
    return hashlib.sha256(open(path, "rb").read()).hexdigest()


def pool(package, module="trainer.task", image="host", args=(), env=None, replicas=1):
    spec = {"executorImageUri": image, "packageUris": [package] if isinstance(package, str) else list(package), "pythonModule": module}
    if args:
        spec["args"] = list(args)
    if env:
        spec["env"] = [{"name": k, "value": v} for k, v in env.items()]
    return {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": replicas, "pythonPackageSpec": spec}
