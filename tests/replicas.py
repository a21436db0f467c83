"""replicas.py -- a job of our trainer as processes of this machine, with TF_CONFIG and without a yard: chief, workers, ps, evaluator.

    with Replicas(folder, ["taxifare", ...flags], workers=2, ps=1) as job:
        job.start_all()
        job.wait_all()

Without ps tasks chief and workers compute each step together.
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

from yard import BINARY


HELD = []  # a socket for each port that was given out: as long as it is bound, the kernel gives the port to nobody else


def free_ports(count):
    """Ports that a replica can listen on, whenever it comes to it: it sets SO_REUSEADDR, as these sockets do, which never listen."""
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", 0))
    HELD.extend(sockets)
    return [s.getsockname()[1] for s in sockets]


class Replicas:
    def __init__(self, folder, arguments, workers=2, ps=1, evaluator=False, addresses=None, environment=None, prefixes=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.out = self.folder / "out"
        self.arguments = [str(a) for a in arguments]
        ports = iter(free_ports(1 + workers + ps))
        self.cluster = {"chief": [f"127.0.0.1:{next(ports)}"],
                        "worker": [f"127.0.0.1:{next(ports)}" for _ in range(workers)],
                        "ps": [f"127.0.0.1:{next(ports)}" for _ in range(ps)]}
        self.cluster = {role: list_ for role, list_ in self.cluster.items() if list_}
        self.names = [("ps", i) for i in range(ps)] + [("chief", 0)] + [("worker", i) for i in range(workers)]
        self.names += [("evaluator", 0)] if evaluator else []
        self.addresses = addresses or {}  # (role, index) -> the cluster as that replica is told it
        self.environment = environment or {}
        self.prefixes = prefixes or {}  # (role, index) -> the command that its own is run by
        self.running = {}

    def start(self, role, index=0, more=(), before=None, cluster=None):
        """A replica; again, if it was there before. Its output is added to its log."""
        cluster = cluster or self.addresses.get((role, index), self.cluster)
        environment = {**os.environ, **self.environment, "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index},
                                                                                  "environment": "cloud"})}
        with open(self.log_path(role, index), "ab") as log:
            self.running[role, index] = subprocess.Popen(
                [*self.prefixes.get((role, index), ()), BINARY, "train", *self.arguments, "--output_dir", str(self.out), *map(str, more)], env=environment, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, preexec_fn=before)
        return self.running[role, index]

    def start_all(self, more=()):
        for role, index in self.names:
            self.start(role, index, more)

    def log_path(self, role, index=0):
        return self.folder / f"{role}-{index}.log"

    def log(self, role, index=0):
        path = self.log_path(role, index)
        return path.read_text() if path.exists() else ""

    def logs(self):
        return "\n".join(f"== {role} {index}\n{self.log(role, index)}" for role, index in self.names)

    def send(self, number, role, index=0):
        self.running[role, index].send_signal(number)

    def stand_still(self, role, index):
        """For a moment, as one on a busy machine does. Again and again it is slow."""
        self.send(signal.SIGSTOP, role, index)
        time.sleep(0.05)
        self.send(signal.SIGCONT, role, index)
        time.sleep(0.01)

    def kill(self, role, index=0):
        self.send(signal.SIGKILL, role, index)
        self.running[role, index].wait()

    def wait(self, role, index=0, seconds=180):
        try:
            return self.running[role, index].wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{role} {index} is still there after {seconds} s\n{self.logs()}") from None

    def wait_all(self, seconds=180, but=()):
        """All of them end, and well."""
        for role, index in self.running:
            if (role, index) not in but:
                assert self.wait(role, index, seconds) == 0, f"{role} {index}\n{self.logs()}"

    def end(self, seconds=180):
        """All of them end -> their exit codes and logs, in the order of names."""
        return [self.wait(*name, seconds) for name in self.names], [self.log(*name) for name in self.names]

    def wait_line(self, words, *where, seconds=90):
        """Until a log says so -> the seconds it took."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if any(words in self.log(*name) for name in where):
                return time.monotonic() - began
            time.sleep(0.05)
        raise AssertionError(f"no line with '{words}' in {where}\n{self.logs()}")

    def wait_steps(self, trace, count, seconds=90):
        """Until ps 0 has applied so many updates."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if trace_count(f"{trace}.ps-0", "push") >= count:
                return
            time.sleep(0.02)
        raise AssertionError(f"ps 0 has not applied {count} updates\n{self.logs()}")

    def wait_early(self, trace, *ranks, ps=1, seconds=90):
        """Until each of these waits at all servers for the chief, who says what the run is."""
        end = time.monotonic() + seconds
        while not all(f'"event":"early","worker":{rank}}}' in trace_text(f"{trace}.ps-{index}") for rank in ranks for index in range(ps)):
            assert time.monotonic() < end, f"not all of {ranks} have come\n{self.logs()}"
            time.sleep(0.02)

    def wait_trained(self, trace, *ranks, seconds=90):
        """Until each of these has had an update acknowledged: the chief is 0, workers count from 1."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if all(trace_count(f"{trace}.worker-{rank}", "acknowledged") for rank in ranks):
                return
            time.sleep(0.02)
        raise AssertionError(f"not all of {ranks} take part\n{self.logs()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for process in self.running.values():
            if process.poll() is None:
                process.kill()
            process.wait()


def after_the_workers(trace, workers, ps):
    """A chief's command on a yard, before its own: until all workers wait for it, for the job ends with its chief, however late they come."""
    there = " && ".join(f"""grep -q '"early","worker":{rank}}}' {trace}.ps-{index}""" for rank in range(1, workers + 1) for index in range(ps))
    return ["sh", "-c", f'until {{ {there}; }} 2>/dev/null; do sleep 0.05; done; exec "$0" "$@"']


def trace_text(path):
    path = pathlib.Path(path)
    return path.read_text() if path.exists() else ""


def trace_lines(path):
    return [json.loads(line) for line in trace_text(path).splitlines()]


def trace_count(path, event):
    return trace_text(path).count(f'"event":"{event}"')


# ---- what must hold of a trace ----

def check_applied_once(trace, ps, workers):
    """Every update has one place at each ps, every acknowledged one has it at all of them -> how many updates ps 0 has."""
    acknowledged = {(line["worker"], line["incarnation"], line["sequence"])
                    for rank in range(workers) for line in trace_lines(f"{trace}.worker-{rank}") if line["event"] == "acknowledged"}
    counts = []
    for index in range(ps):
        versions, keys = {}, {}
        for line in trace_lines(f"{trace}.ps-{index}"):
            if line["event"] not in ("push", "replayed"):
                continue
            key = line["worker"], line["incarnation"], line["sequence"]
            assert versions.setdefault(key, line["version"]) == line["version"], f"{key} was applied twice at ps {index}"
            assert keys.setdefault(line["version"], key) == key, f"update {line['version']} was lost at ps {index}"
        assert sorted(keys) == list(range(1, len(keys) + 1)), f"ps {index} has holes"
        assert acknowledged <= set(versions), f"ps {index} has lost {len(acknowledged - set(versions))} acknowledged updates"
        counts.append(len(keys))
    return counts[0]
