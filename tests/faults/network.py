"""network.py -- what cuts replicas off: a switch with a port for each, in network namespaces of the test's own, and a proxy before a server."""
import itertools
import os
import socket
import subprocess
import threading

import pytest

COUNT = itertools.count()


def ip(*words):
    return subprocess.run(["ip", *map(str, words)], capture_output=True, text=True)


class Switch:
    """Each host has a network namespace of its own, with one cable to the switch: cut() pulls it, plug() puts it back."""

    def __init__(self, hosts):
        self.name = f"ty{os.getpid()}-{next(COUNT)}"
        self.hosts = {host: number for number, host in enumerate(hosts, 1)}

    def address(self, host):
        return f"10.77.0.{self.hosts[host]}"

    def prefix(self, host):
        return ["ip", "netns", "exec", f"{self.name}-{self.hosts[host]}"]

    def cut(self, host):
        ip("-n", self.name, "link", "set", f"port{self.hosts[host]}", "down").check_returncode()

    def plug(self, host):
        ip("-n", self.name, "link", "set", f"port{self.hosts[host]}", "up").check_returncode()

    def __enter__(self):
        made = ip("netns", "add", self.name)
        if made.returncode:
            pytest.skip(f"no network namespace can be made here: {made.stderr.strip()}")
        steps = [["-n", self.name, "link", "add", "bridge", "type", "bridge"], ["-n", self.name, "link", "set", "bridge", "up"]]
        for host, number in self.hosts.items():
            own, port = f"{self.name}-{number}", f"port{number}"
            steps += [["netns", "add", own], ["-n", own, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", self.name],
                      ["-n", own, "addr", "add", f"{self.address(host)}/24", "dev", "eth0"], ["-n", own, "link", "set", "lo", "up"],
                      ["-n", own, "link", "set", "eth0", "up"], ["-n", self.name, "link", "set", port, "master", "bridge"],
                      ["-n", self.name, "link", "set", port, "up"]]
        for step in steps:
            done = ip(*step)
            if done.returncode:
                self.__exit__()
                raise AssertionError(f"ip {' '.join(step)}: {done.stderr}")
        return self

    def __exit__(self, *_):
        for number in self.hosts.values():
            ip("netns", "del", f"{self.name}-{number}")
        ip("netns", "del", self.name)


class Proxy:
    """Forwards a port to another; cut() ends all connections, hole() lets nothing more through those there are."""

    def __init__(self, to):
        self.to, self.pairs, self.open, self.deaf = to, [], True, set()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while self.open:
            try:
                near, _ = self.server.accept()
            except OSError:
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:  # nobody listens there yet
                near.close()
                continue
            self.pairs.append((near, far))
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self.forward, args=(a, b), daemon=True).start()

    def forward(self, a, b):
        try:
            while data := a.recv(65536):
                if a not in self.deaf and b not in self.deaf:
                    b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            s.close()

    def cut(self):
        pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for s in pair:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def hole(self):
        self.deaf |= {s for pair in self.pairs for s in pair}

    def close(self):
        self.open = False
        self.server.close()
        self.cut()
