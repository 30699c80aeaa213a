"""A network of two hosts on this machine: two network namespaces, a veth pair, a rate limit both ways. Needs root."""

import pathlib
import subprocess

from harness import tools

SERVER_ADDRESS, CLIENT_ADDRESS = "10.77.0.1", "10.77.0.2"


def _ip(*arguments):
    subprocess.run([tools.need("ip"), *arguments], check=True, capture_output=True)


class Link:
    """`server` and `client` are the names of the namespaces; nothing of it is left after the context."""

    def __init__(self, rate="1gbit", name="am-bench"):
        self.rate, self.server, self.client = rate, f"{name}-s", f"{name}-c"

    def __enter__(self):
        self.close()
        for namespace in (self.server, self.client):
            _ip("netns", "add", namespace)
        _ip("link", "add", "eth0", "netns", self.server, "type", "veth", "peer", "name", "eth0", "netns", self.client)
        for namespace, address in ((self.server, SERVER_ADDRESS), (self.client, CLIENT_ADDRESS)):
            _ip("-n", namespace, "addr", "add", f"{address}/30", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", namespace, "link", "set", device, "up")
            if self.rate:  # the bucket holds a few of the largest segments that the stack hands down
                subprocess.run([tools.need("ip"), "netns", "exec", namespace, tools.need("tc"), "qdisc", "add", "dev", "eth0",
                                "root", "tbf", "rate", self.rate, "burst", "256k", "latency", "20ms"],
                               check=True, capture_output=True)
        return self

    def close(self):
        for namespace in (self.server, self.client):
            if pathlib.Path("/run/netns", namespace).exists():
                _ip("netns", "del", namespace)

    def __exit__(self, *_):
        self.close()

    def client_bytes(self):
        """(sent, received) by the client host so far, headers of all layers included."""
        done = subprocess.run([tools.need("ip"), "netns", "exec", self.client, "cat", "/proc/net/dev"], check=True,
                              capture_output=True, text=True)
        fields = next(line for line in done.stdout.splitlines() if line.strip().startswith("eth0:")).split(":")[1].split()
        return int(fields[8]), int(fields[0])
