"""proxy.py -- a network between client and server that a test can cut, slow down, count and lie through."""
import socket
import threading


class Proxy:
    """Forwards connections to the server. `limit`: each connection ends after so many bytes from the client (up) or
    from the server (down). `once`: the first connection that ends is the last one. `change` may alter what comes from
    the server."""

    def __init__(self, target, up=None, down=None, change=None, once=False):
        self.target, self.up, self.down, self.change = target, up, down, change
        self.once, self.over = once, False
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(client, self.connections), daemon=True).start()

    def serve(self, client, number):
        try:
            server = socket.create_connection(self.target)
        except OSError:
            client.close()
            return
        other = threading.Thread(target=self.pump, args=(server, client, self.down, self.change), daemon=True)
        other.start()
        self.pump(client, server, self.up, None)
        if self.once and not self.over:
            self.over = True
            self.close()
        other.join(5)
        for s in (client, server):
            s.close()

    def pump(self, source, sink, limit, change):
        left = limit if limit else None
        own, true = (f"{host}:{port}".encode() for host, port in (("127.0.0.1", self.port), self.target))
        try:
            while data := source.recv(65536):
                if source.getsockname()[1] == self.port:
                    data = data.replace(own, true)  # in Host, which the server checks
                if left is not None:
                    data = data[:left]
                    left -= len(data)
                sink.sendall(change(data) if change else data)
                if left == 0:
                    break
        except OSError:
            pass
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        except OSError:
            pass
        self.listener.close()


def address(yard):
    host, _, port = yard.url.removeprefix("http://").rpartition(":")
    return host, int(port)


class Counting(Proxy):
    def __init__(self, target):
        self.up_bytes = 0
        super().__init__(target)

    def pump(self, source, sink, limit, change):
        if source.getsockname()[1] == self.port:
            def count(data):
                self.up_bytes += len(data)
                return data
            change = count
        super().pump(source, sink, limit, change)
