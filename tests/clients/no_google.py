"""no_google.py -- run Google's clients where all of the internet is a recording fake; used by test_no_google.py.

Runs as root in network and mount namespaces of its own (unshare -n -m). Every host name leads to FAKE, by a name server
that writes down what was asked; every connection to FAKE (and to the metadata address) is written down and dropped.
Prints one JSON object: what was recorded without `env` (it must be something) and after it (nothing).
"""
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from yard import TOP, Yard, clean_environment  # noqa: E402

FAKE, METADATA = "198.51.100.1", "169.254.169.254"
lookups, connections = [], []


def sh(*words):
    subprocess.run(words, check=True)


def name_server(server):
    while True:
        query, client = server.recvfrom(4096)
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
            at += 1 + query[at]
        kind = struct.unpack(">H", query[at + 1:at + 3])[0]
        lookups.append(".".join(labels))
        question = query[12:at + 5]
        answer = b""
        if kind == 1:
            answer = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 5, 4) + socket.inet_aton(FAKE)
        server.sendto(query[:2] + struct.pack(">HHHHH", 0x8180, 1, 1 if answer else 0, 0, 0) + question + answer, client)


def listener(server, address, port):
    while True:
        client, _ = server.accept()
        connections.append(f"{address}:{port}")
        client.close()


def network(folder):
    sh("ip", "link", "set", "lo", "up")
    for address in (FAKE, METADATA):
        sh("ip", "address", "add", f"{address}/32", "dev", "lo")
    # Everything else is reachable too, as far as a client can tell: it lands on lo and is refused.
    subprocess.run(["ip", "route", "add", "local", "default", "dev", "lo"], check=False)
    (folder / "resolv.conf").write_text(f"nameserver {FAKE}\noptions timeout:1 attempts:1\n")
    (folder / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    (folder / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    for name in ("resolv.conf", "hosts", "nsswitch.conf"):
        target = pathlib.Path("/etc", name)
        if not target.exists():
            target.touch()
        sh("mount", "--bind", str(folder / name), str(target.resolve()))
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind((FAKE, 53))
    threading.Thread(target=name_server, args=(names,), daemon=True).start()
    for address in (FAKE, METADATA):
        for port in (80, 443):
            server = socket.create_server((address, port), backlog=64)
            threading.Thread(target=listener, args=(server, address, port), daemon=True).start()


PYTHON = {
    "sdk init and list": "from google.cloud import aiplatform as a; a.init(project='demo', location='us-central1'); print(a.CustomJob.list())",
    "sdk without init": "from google.cloud import aiplatform as a; print(a.CustomJob.list(project='demo', location='us-central1'))",
    "sdk without a project": "from google.cloud import aiplatform as a; a.init(location='us-central1'); print(a.CustomJob.list())",
    "sdk models": "from google.cloud import aiplatform as a; a.init(project='demo', location='us-central1'); print(a.Model.list())",
    "gapic client": "from google.cloud import aiplatform_v1 as a; print(list(a.JobServiceClient().list_custom_jobs(parent='projects/demo/locations/us-central1', timeout=8)))",
    "storage client": "from google.cloud import storage; print(list(storage.Client().list_buckets(timeout=8, retry=None)))",
    "google.auth refresh": "import google.auth, google.auth.transport.requests as r; c, p = google.auth.default(scopes=['https://www.googleapis.com/auth/cloud-platform']); c.refresh(r.Request()); print(p)",
    "bigquery client": "from google.cloud import bigquery; print(list(bigquery.Client().list_datasets(timeout=8, retry=None)))",
}


def clients():
    """label -> command."""
    found = {}
    if gcloud := shutil.which("gcloud"):
        for words in ("ai custom-jobs list --region=us-central1", "ai models list --region=us-central1", "compute instances list",
                      "storage ls", "projects list", "auth print-access-token", "auth application-default print-access-token",
                      "logging read x", "iam service-accounts list", "container clusters list", "run services list --region=us-central1",
                      "functions list", "config set project another"):
            found["gcloud " + words] = [gcloud, *words.split(), "--quiet"]
    if gsutil := shutil.which("gsutil"):
        found["gsutil ls"] = [gsutil, "ls"]
        found["gsutil cat"] = [gsutil, "cat", "gs://bucket/object"]
    if bq := shutil.which("bq"):
        found["bq ls"] = [bq, "ls"]
    python = TOP / "build" / "venv-sdk" / "bin" / "python"
    if python.exists():
        found.update({label: [str(python), "-c", code] for label, code in PYTHON.items()})
    return found


SERVED = ("gcloud ai custom-jobs list --region=us-central1", "sdk init and list", "gcloud auth print-access-token",
          "gcloud config set project another", "google.auth refresh")
ENDING = ("probe", *SERVED)  # these end, however slow the machine is


def run_all(commands, environment, seconds):
    """One after the other, so that a connection has a culprit. One that still retries after `seconds` has shown where to."""
    outcome = {}
    for label, command in commands.items():
        del lookups[:], connections[:]
        start = time.monotonic()
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            text, _ = process.communicate(timeout=120 if label in ENDING else seconds)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            text, _ = process.communicate()
            status = "still trying"
        outcome[label] = {"status": status, "lookups": sorted(set(lookups)), "connections": sorted(set(connections)),
                          "seconds": round(time.monotonic() - start, 1), "tail": text[-400:]}
    return outcome


def main(folder):
    network(folder)
    home = folder / "home"
    home.mkdir()
    # Without env a client reaches the fake: the recorder works, and so would a leak be seen.
    plain = {**clean_environment(), "HOME": str(home), "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true", "CLOUDSDK_CORE_PROJECT": "demo"}
    first = dict(list(clients().items())[:1])
    probe = [sys.executable, "-c", "import urllib.request as u; u.urlopen('https://storage.googleapis.com/', timeout=5)"]
    before = run_all({"probe": probe, **first}, plain, 8)
    with Yard(folder / "yard") as yard:
        environment = {**yard.client_environment(), "HOME": str(home)}
        after = run_all(clients(), environment, 12)
        version = yard.get("/healthz").status
    print("RESULT " + json.dumps({"before": before, "after": after, "served": SERVED, "healthz": version}))


main(pathlib.Path(sys.argv[1]))
