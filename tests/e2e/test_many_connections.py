"""Thousands of connections that send nothing, or next to nothing, against the server: others are served, memory stays
bounded, and what makes no progress is cut at its deadline."""

import hashlib
import itertools
import os
import re
import resource
import selectors
import socket
import threading
import time

import pytest

from harness import servers, tools

N_CONNECTIONS = 5000
N_PEERS = 25
TRICKLE_SECONDS = 2
HEAD_SECONDS, BODY_SECONDS = 15, 30  # deadlines of the server
LATE_SECONDS = 10  # how much later a cut may come on a busy machine
MIB = 1 << 20
CONNECTION_BYTES = 48 << 10  # of the server's memory, when it is slow

HEAD = b"GET /v2/ HTTP/1.1\r\nHost: x\r\nX-Slow: "
MANIFEST = b"PUT /v2/slow/manifests/v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{"
# What a connection sends at once, whether it then trickles, and when it must be cut.
KINDS = {
    "silent": (b"", False, HEAD_SECONDS),
    "half a head": (b"GET /v2/ HTTP/1.1\r\nHos", False, HEAD_SECONDS),
    "trickling head": (HEAD, True, HEAD_SECONDS),
    "stalled body": (MANIFEST, False, BODY_SECONDS),
    "trickling body": (MANIFEST, True, BODY_SECONDS),
    "trickling upload": (None, True, BODY_SECONDS),
}


class Crowd:
    """Slow connections from many addresses of this machine, held by a thread until the server cuts them."""

    def __init__(self, server, n, kinds=tuple(KINDS), n_peers=N_PEERS):
        self.server, self.selector, self.lock = server, selectors.DefaultSelector(), threading.Lock()
        self.open, self.lived = {}, {kind: [] for kind in kinds}  # socket -> (kind, begin); seconds until cut
        self.stopping = False
        for i, kind in zip(range(n), itertools.cycle(kinds)):
            self.add(kind, f"127.1.0.{1 + i % n_peers}")
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def add(self, kind, peer):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.bind((peer, 0))
        connection.connect((self.server.address, self.server.port))
        try:
            connection.sendall(KINDS[kind][0] if KINDS[kind][0] is not None else self.begin_upload())
        except OSError:
            pass  # refused: seen below
        connection.setblocking(False)
        self.open[connection] = (kind, time.monotonic())
        self.selector.register(connection, selectors.EVENT_READ)

    def begin_upload(self):
        status, headers, _ = self.server.request("POST", "/v2/slow/blobs/uploads/")
        assert status == 202
        return f"PATCH {headers['Location']} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n".encode()

    def run(self):
        next_trickle = time.monotonic()
        while self.open and not self.stopping:
            for key, _ in self.selector.select(0.2):
                self.look_at(key.fileobj)
            if time.monotonic() >= next_trickle:
                next_trickle = time.monotonic() + TRICKLE_SECONDS
                for connection in [one for one, (kind, _) in self.open.items() if KINDS[kind][1]]:
                    self.trickle(connection)

    def trickle(self, connection):
        try:
            connection.send(b"x")
        except OSError:
            self.end(connection)

    def look_at(self, connection):
        try:
            if connection.recv(65536):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self.end(connection)

    def end(self, connection):
        kind, begin = self.open.pop(connection, (None, None))
        if kind is not None:
            self.lived[kind].append(time.monotonic() - begin)
            self.selector.unregister(connection)
            connection.close()

    def close(self):
        self.stopping = True
        self.thread.join()
        for connection in self.open:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def metric(server, name):
    status, _, body = server.request("GET", "/metrics", timeout=20)
    assert status == 200
    return sum(float(value) for value in re.findall(rf"^\w*{name}(?:{{[^}}]*}})? (\S+)$", body.decode(), re.MULTILINE))


def wait_until(holds, seconds):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def use(server, data):
    """A push and a pull of a blob as others make them; how long the slowest request took."""
    digest, slowest = f"sha256:{hashlib.sha256(data).hexdigest()}", 0
    for method, path, body, wanted in (
            ("GET", "/v2/", None, 200), ("POST", f"/v2/quick/blobs/uploads/?digest={digest}", data, 201),
            ("GET", f"/v2/quick/blobs/{digest}", None, 200)):
        begin = time.monotonic()
        status, _, answer = server.request(method, path, body, timeout=20)
        slowest = max(slowest, time.monotonic() - begin)
        assert status == wanted and (method == "POST" or path == "/v2/" or answer == data)
    return slowest


@pytest.fixture
def serve(tmp_path):
    started = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = N_CONNECTIONS + 1000
    if hard != resource.RLIM_INFINITY and hard < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, wanted))

    def start(*options, program=None):
        # The server inherits the soft limit that most systems have, and raises it by itself.
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        program = program or os.environ.get("AI_MODELS_BIN") or tools.program()
        started.append(servers.ours(tmp_path / "store", "--log-level", "warning", *options, log=tmp_path / "server.log",
                                    program=program))
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.kill()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def test_thousands_of_slow_connections(serve):
    server = serve("--max-connections", N_CONNECTIONS + 500, "--max-connections-per-peer", N_CONNECTIONS)
    use(server, os.urandom(4 * MIB))
    before = server.rss()
    with Crowd(server, N_CONNECTIONS) as crowd:
        wait_until(lambda: metric(server, "http_connections") >= len(crowd.open) > 0.9 * N_CONNECTIONS, 10)
        slowest, peak = 0, 0
        while crowd.open:
            slowest = max(slowest, use(server, os.urandom(4 * MIB)))
            peak = max(peak, server.rss() - before)
            time.sleep(0.5)
        print(f"slowest request {slowest:.2f} s, {peak >> 20} MiB more than before, "
              f"{ {kind: (round(min(lived), 1), round(max(lived), 1)) for kind, lived in crowd.lived.items()} }")
        assert slowest < 5
        assert peak < N_CONNECTIONS * CONNECTION_BYTES
        for kind, lived in crowd.lived.items():
            assert KINDS[kind][2] - 1 < min(lived) and max(lived) < KINDS[kind][2] + LATE_SECONDS, kind
    wait_until(lambda: metric(server, "http_connections") <= 2, 10)
    use(server, os.urandom(MIB))
    with Crowd(server, 300) as crowd:
        wait_until(lambda: metric(server, "http_connections") >= 300, 10)
        begin = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begin < 28  # those that are at something have 25 seconds
        wait_until(lambda: not crowd.open, 5)


def test_places_that_are_only_held(serve):
    server = serve()
    with Crowd(server, N_CONNECTIONS, ("silent", "half a head", "trickling head", "stalled body")) as crowd:
        wait_until(lambda: len(crowd.open) <= 1024, 10)  # the others were refused, or made room for later ones
        assert len(crowd.open) > 1000
        time.sleep(1.5)  # places that were just taken are not given to others
        assert max(use(server, os.urandom(MIB)) for _ in range(3)) < 5
        gone = [metric(server, f"http_connections_{how}_total") for how in ("refused", "displaced")]
        assert N_CONNECTIONS - 1024 <= sum(gone) < N_CONNECTIONS and gone[1] > 0
    wait_until(lambda: metric(server, "http_connections") <= 2, 10)
    with Crowd(server, 400, ("silent",), n_peers=1) as crowd:
        wait_until(lambda: len(crowd.open) <= 256, 10)
        time.sleep(1.5)
        with socket.create_connection((server.address, server.port), source_address=("127.1.0.1", 0)) as same_peer:
            same_peer.sendall(b"GET /v2/ HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 " in same_peer.recv(65536)
        assert len(crowd.open) > 250
        use(server, os.urandom(MIB))


def test_few_open_files(serve, tmp_path):
    """The hard limit of open files bounds connections, so that the store still gets its own."""
    limited = tmp_path / "limited"
    limited.write_text(f'#!/bin/sh\nulimit -n 300\nexec {os.environ.get("AI_MODELS_BIN") or tools.program()} "$@"\n')
    limited.chmod(0o755)
    server = serve(program=limited)
    with Crowd(server, 400, ("silent", "stalled body")) as crowd:
        wait_until(lambda: len(crowd.open) <= 86, 10)
        time.sleep(1.5)
        for _ in range(3):
            use(server, os.urandom(4 * MIB))
