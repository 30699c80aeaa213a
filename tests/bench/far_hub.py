"""The hub that both sides of a benchmark read: the tests' own, with large files sent by the kernel (sendfile) and, where asked,
over a link of a certain rate and round trip. It counts what it sent.

The link is made where the hub sends: a connection and each request wait for one round trip, and the bytes of all connections
together leave at the rate."""

import mmap
import os
import threading
import time

from servers import hf_hub

BLOCK = 256 << 10


class MappedFile(mmap.mmap):
    """A file of any size as the bytes of a file of the hub."""

    def __new__(cls, path):
        file = open(path, "rb")  # noqa: SIM115: lives as long as the map
        made = super().__new__(cls, file.fileno(), 0, access=mmap.ACCESS_READ)
        made.file = file
        return made


class Link:
    """`rate` in bytes a second, `round_trip` in seconds; without them, none."""

    def __init__(self, rate=None, round_trip=0.0):
        self.rate, self.round_trip = rate, round_trip
        self.lock, self.free_at = threading.Lock(), 0.0

    def request(self):
        time.sleep(self.round_trip)

    def take(self, n_bytes):
        """Waits until so many bytes may leave; what the link did not send while idle is lost."""
        if not self.rate:
            return
        with self.lock:
            now = time.monotonic()
            self.free_at = max(self.free_at, now) + n_bytes / self.rate
            wait = self.free_at - now
        time.sleep(wait)


class Far:
    """What both hosts of the hub do: wait for the link, and send mapped files without touching their bytes."""

    def setup(self):
        self.hub.link.request()
        super().setup()

    def do_GET(self):
        self.hub.link.request()
        super().do_GET()

    def send_file(self, data, fault, headers, budget=None):
        if not isinstance(data, MappedFile) or self.command == "HEAD":
            super().send_file(data, fault, headers, budget)
            return
        part = self.wanted_range(len(data))
        first, last = part or (0, len(data) - 1)
        self.send_response(206 if part else 200)
        if part:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        for name, value in {"Accept-Ranges": "bytes", **headers, "Content-Length": str(last + 1 - first)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()
        while first <= last:
            n_bytes = min(BLOCK, last + 1 - first)
            self.hub.link.take(n_bytes)
            first += self.send_some(data, first, n_bytes)

    def send_some(self, data, offset, n_bytes):
        sent = os.sendfile(self.connection.fileno(), data.file.fileno(), offset, n_bytes)
        with self.hub.lock:
            self.hub.sent_bytes += sent
        return sent


class FarHubHandler(Far, hf_hub.HubHandler):
    pass


class FarCdnHandler(Far, hf_hub.CdnHandler):
    pass


class FarHub(hf_hub.Hub):
    """`sent_bytes`: of large files, by all connections so far. `link` may be changed between runs."""

    def __init__(self):
        self.link, self.sent_bytes = Link(), 0
        super().__init__()

    def _start(self, handler, port):
        return super()._start({hf_hub.HubHandler: FarHubHandler, hf_hub.CdnHandler: FarCdnHandler}[handler], port)

    def add_folder(self, name, folder):
        """A model of a flat folder; its weights stay on the disk."""
        self.add(name, {path.name: MappedFile(path) if path.name.endswith(hf_hub.LARGE_SUFFIXES) else path.read_bytes()
                        for path in sorted(folder.iterdir())})
