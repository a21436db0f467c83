"""Buckets inside jobs, without TensorFlow: /gcs, gs:// packages and output, google-cloud-storage, who may write the model."""
import os
import pathlib
import socket
import ssl
import subprocess

import pytest
from packages import HELLO, pool, sdist, settings
from yard import PARENT, Yard, clean_environment


def make_bucket(yard, name="bkt"):
    reply = yard.call("POST", "/storage/v1/b?project=trainyard", {"name": name})
    assert reply.status == 200, reply
    return name


def put(yard, bucket, name, data):
    reply = yard.call("POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}", data, {"Content-Type": "text/plain"})
    assert reply.status == 200, reply


def get(yard, bucket, name):
    return yard.call("GET", f"/storage/v1/b/{bucket}/o/{name.replace('/', '%2F')}?alt=media").body


def test_folder_and_api_see_the_same_objects(yard):
    make_bucket(yard)
    put(yard, "bkt", "in/data.txt", b"from the API\n")
    before = sorted(os.listdir("/"))
    name = yard.create("sh", "-c", "cat /gcs/bkt/in/data.txt; mkdir -p /gcs/bkt/out; echo from the job >/gcs/bkt/out/x; pwd; ls -d /gcs/*; "
                       "echo pid $$; touch /no-such || echo refused; head -c9 /proc/self/status")
    assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
    lines = yard.lines(name)
    assert lines[0] == "from the API" and "/gcs/bkt" in lines and "pid 2" in lines and "refused" in lines, lines
    assert any(line.startswith(str(yard.data)) and line.endswith("/0-0") for line in lines), lines
    assert get(yard, "bkt", "out/x") == b"from the job\n"
    assert [i["name"] for i in yard.call("GET", "/storage/v1/b/bkt/o?prefix=out/").json["items"]] == ["out/x"]
    assert sorted(os.listdir("/")) == before, "something was created on the machine's own root"


def test_without_namespaces_only_the_api_is_there(tmp_path):
    with Yard(tmp_path, environment={"TY_ISOLATION": "sweep"}) as yard:
        make_bucket(yard)
        name = yard.create("sh", "-c", "[ -e /gcs ] || echo none; echo $STORAGE_EMULATOR_HOST; "
                           "echo hello | trainyard storage cp - gs://bkt/x 2>up; trainyard storage cat gs://bkt/x")
        assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED", yard.lines(name)
        assert yard.lines(name) == ["none", yard.url, "hello"]
        said = yard.trainyard("doctor", environment={"TY_ISOLATION": "sweep"}).stdout
        assert "namespaces are refused here" in said and "gs://BUCKET works" in said, said
    assert "jobs see every bucket as a folder" in yard.trainyard("doctor").stdout


def test_only_the_chief_has_the_model_s_folder(yard, tmp_path):
    make_bucket(yard)
    script = ('d=$(echo ${AIP_MODEL_DIR} | sed s,gs://,/gcs/,); echo $AIP_MODEL_DIR; echo $TRAINYARD_REPLICA > "$d/saved_model.pb"; '
              'echo $TRAINYARD_REPLICA sees $(ls "$d") $(cat "$d/saved_model.pb"); ')
    chief = f"until [ -e {tmp_path}/1-0 ] && [ -e {tmp_path}/1-1 ]; do sleep 0.05; done"  # its end stops the others
    worker = f"touch {tmp_path}/$TRAINYARD_REPLICA; sleep 600"
    name = yard.create(pools=[yard.pool("sh", "-c", script + chief), yard.pool("sh", "-c", script + worker, replicas=2)],
                       baseOutputDirectory={"outputUriPrefix": "gs://bkt/run 1/"})
    assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
    model = yard.data / "buckets" / "bkt" / "run 1" / "model"
    assert (model / "saved_model.pb").read_text() == "0-0\n"
    assert {"gs://bkt/run 1/model/", "1-0 sees saved_model.pb 1-0", "1-1 sees saved_model.pb 1-1"} <= set(yard.lines(name)), yard.lines(name)


def test_package_in_a_bucket(tmp_path, wheels):
    with Yard(tmp_path / "yard", settings=settings(wheels)) as yard:
        make_bucket(yard)
        package = sdist(tmp_path / "t.tar.gz", {"trainer/__init__.py": "", "trainer/task.py": HELLO})
        uri = "gs://bkt/some where/trainer-0.1.tar.gz"
        refused = yard.call("POST", f"/v1/{PARENT}/customJobs", yard.job(pools=[pool(uri)]))
        assert refused.status == 400 and f"there is no object '{uri}'" in str(refused.json) and "packageUris[0]" in str(refused.json), refused
        put(yard, "bkt", "some%20where/trainer-0.1.tar.gz", pathlib.Path(package).read_bytes())
        name = yard.create(pools=[pool(uri, args=["--output_dir=gs://bkt/x"])])
        job = yard.wait(name, seconds=300)
        assert job["state"] == "JOB_STATE_SUCCEEDED", (job, yard.lines(name, "service"))
        assert any("hello from __main__ ['--output_dir=gs://bkt/x']" in line for line in yard.lines(name)), yard.lines(name)
        bad = yard.call("POST", f"/v1/{PARENT}/customJobs", yard.job(pools=[pool("gs://bkt/a//b.tar.gz")]))
        assert bad.status == 400 and "copy it to another name" in str(bad.json), bad


def test_output_below_an_object_is_refused(yard):
    make_bucket(yard)
    put(yard, "bkt", "taken", b"x")
    reply = yard.call("POST", f"/v1/{PARENT}/customJobs", yard.job("true", baseOutputDirectory={"outputUriPrefix": "gs://bkt/taken"}))
    assert reply.status == 400 and "outputUriPrefix" in str(reply.json) and "is an object" in str(reply.json), reply


CLIENT = """
from google.cloud import storage
client = storage.Client()
blob = client.bucket("bkt").blob("by/client.txt")
blob.upload_from_string("hello")
print("read", client.bucket("bkt").blob("by/client.txt").download_as_text(), [b.name for b in client.list_blobs("bkt")])
print("folder", open("/gcs/bkt/by/client.txt").read())
"""


def test_google_cloud_storage_in_a_job(yard, sdk_python):
    make_bucket(yard)
    name = yard.create(str(sdk_python), "-c", CLIENT)
    job = yard.wait(name, seconds=300)
    assert job["state"] == "JOB_STATE_SUCCEEDED", (job, yard.lines(name))
    assert "read hello ['by/client.txt']" in yard.lines(name) and "folder hello" in yard.lines(name)


# A program in the place of TensorFlow: what decides who is sent here is the name of the library that asks.
ASKER = r"""
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>
void ask(const char *who, const char *host, const char *port)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *list;
    char text[64] = "nothing";
    if (getaddrinfo(host, port, &hints, &list) != 0) { printf("%s %s unknown\n", who, host); return; }
    struct sockaddr_in *in = (struct sockaddr_in *)list->ai_addr, peer;
    inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
    printf("%s %s %s\n", who, host, text);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof peer;
    if (strcmp(text, "127.84.89.1") == 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0 && getpeername(fd, (struct sockaddr *)&peer, &len) == 0)
        printf("%s connected to %s:%d\n", who, inet_ntoa(peer.sin_addr), ntohs(peer.sin_port));
    close(fd);
    freeaddrinfo(list);
}
"""
MAIN = r"""
extern void ask(const char *, const char *, const char *);
int main(int argc, char **argv) { (void)argc; ask(argv[1], "storage.googleapis.com", "443"); ask(argv[1], "www.googleapis.com", "443");
    ask(argv[1], "localhost", "443"); ask(argv[1], "127.84.89.1", "444"); return 0; }
"""


def test_only_tensorflow_s_look_ups_come_here(yard, tmp_path):
    """Python, curl and every other library get what they always got, and other hosts are left alone."""
    (tmp_path / "asker.c").write_text(ASKER)
    (tmp_path / "main.c").write_text(MAIN)
    for library in ("tensorflow_framework", "other"):
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / f"lib{library}.so", tmp_path / "asker.c"], check=True)
        subprocess.run(["gcc", "-o", tmp_path / library, tmp_path / "main.c", f"-L{tmp_path}", f"-l{library}", f"-Wl,-rpath,{tmp_path}"], check=True)
    name = yard.create("sh", "-c", f"{tmp_path}/tensorflow_framework tf; {tmp_path}/other other; echo $LD_PRELOAD")
    assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
    lines = yard.lines(name)
    port = yard.address[1]
    assert "tf storage.googleapis.com 127.84.89.1" in lines and "tf www.googleapis.com 127.84.89.1" in lines and "tf localhost 127.0.0.1" in lines, lines
    assert lines.count(f"tf connected to 127.0.0.1:{port}") == 2, lines
    assert not any(line.startswith("other ") and "127.84.89.1" in line and "127.84.89.1 127.84.89.1" not in line for line in lines), lines
    assert not any(line.startswith("other connected") for line in lines), lines
    assert lines[-1] == f"{yard.data}/client/lib/trainyard-gs.so"


def test_google_s_hosts_are_ours_by_tls_only(yard):
    """As TensorFlow sends it: chunks with a Content-Length beside them, which is refused from everybody else."""
    make_bucket(yard)
    request = ("POST /upload/storage/v1/b/bkt/o?uploadType=media&name=x HTTP/1.1\r\nHost: {}\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n"
               "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    context = ssl.create_default_context(cafile=yard.data / "tls" / "ca.pem")
    for host, tls, status in (("storage.googleapis.com", True, b"200"), ("www.googleapis.com", True, b"200"), ("localhost", True, b"400"),
                              ("storage.googleapis.com", False, b"400")):
        with socket.create_connection(yard.address, timeout=30) as plain:
            connection = context.wrap_socket(plain, server_hostname=host) if tls else plain
            connection.sendall(request.format(host).encode())
            reply = b"".join(iter(lambda: connection.recv(65536), b""))
            assert reply.split()[1] == status, (host, tls, reply)
            connection.close()
    assert get(yard, "bkt", "x") == b"hello"
    with socket.create_connection(yard.address, timeout=30) as plain, pytest.raises(ssl.SSLCertVerificationError):
        context.wrap_socket(plain, server_hostname="aiplatform.googleapis.com")


def test_a_user_s_own_preload_is_kept(yard, tmp_path):
    (tmp_path / "empty.c").write_text("int nothing_here;\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "mine.so", tmp_path / "empty.c"], check=True)
    name = yard.create(pools=[yard.pool("sh", "-c", "echo $LD_PRELOAD", env={"LD_PRELOAD": str(tmp_path / "mine.so")})])
    assert yard.wait(name)["state"] == "JOB_STATE_SUCCEEDED"
    assert yard.lines(name) == [f"{tmp_path}/mine.so:{yard.data}/client/lib/trainyard-gs.so"]


def test_bundle_has_the_machine_s_authorities_and_ours(yard):
    bundle, ours = yard.data / "client" / "bundle.pem", yard.data / "tls" / "ca.pem"
    text = bundle.read_text()
    assert text.count("BEGIN CERTIFICATE") > 20 and text.endswith(ours.read_text())
    for path in (ours, yard.data / "tls" / "key.pem"):
        assert path.stat().st_mode & 0o777 == 0o600
    assert bundle.stat().st_mode & 0o777 == 0o644, "a container's user may be another"
    shown = subprocess.run(["openssl", "x509", "-in", ours, "-noout", "-text"], capture_output=True, text=True).stdout
    constraint = shown[shown.index("Name Constraints: critical"):]
    assert "DNS:googleapis.com" in constraint and "DNS:localhost" in constraint and "pathlen:0" in shown
    assert "CURL_CA_BUNDLE" not in (yard.client_environment().keys() - clean_environment().keys()), "a shell's programs keep their own"
