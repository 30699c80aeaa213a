"""Registries as processes: ours and distribution's, with what they cost (/proc)."""

import contextlib
import http.client
import os
import pathlib
import random
import signal
import socket
import ssl
import subprocess
import time

from . import tools

TICKS = os.sysconf("SC_CLK_TCK")


class ServerFailed(Exception):
    pass


def free_port():
    """A port that nobody has, and that no outgoing connection gets either while a server is down that will want it again."""
    first_outgoing = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", random.randrange(min(10000, first_outgoing - 1000), first_outgoing)))
            return probe.getsockname()[1]
    raise ServerFailed("found no free port")


class Server:
    """A running registry. Use as a context, or stop() it."""

    def __init__(self, command, log, address="127.0.0.1", port=0, port_file=None, tls=False, netns=None, env=None):
        self.address, self.tls, self.log, self.netns = address, tls, pathlib.Path(log), netns
        if netns:  # `ip netns exec` becomes the command: the process is the server's own
            command = [tools.need("ip"), "netns", "exec", netns, *command]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            env={**os.environ, **(env or {})})
        self.pid = self.process.pid
        self.port = port or self._read_port(pathlib.Path(port_file))

    def _read_port(self, path):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                return int(path.read_text())
            except (FileNotFoundError, ValueError):
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.005)
        self.stop(signal.SIGKILL)
        raise ServerFailed(f"the server did not start:\n{self.log.read_text()[-2000:]}")

    @property
    def host(self):
        return f"{self.address}:{self.port}"

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://{self.host}"

    def connect(self, timeout=60):
        if self.tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return http.client.HTTPSConnection(self.address, self.port, timeout=timeout, context=context)
        return http.client.HTTPConnection(self.address, self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=60):
        """Status, headers, body of one request on a connection of its own."""
        connection = self.connect(timeout)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def wait_ready(self, timeout=20):
        """Until it answers /v2/ (200 or 401)."""
        end = time.monotonic() + timeout
        while True:
            try:
                if self.request("GET", "/v2/", timeout=5)[0] in (200, 401):
                    return self
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > end:
                    self.stop(signal.SIGKILL)
                    raise ServerFailed(f"{self.url} does not answer ({error}):\n{self.log.read_text()[-2000:]}") from error
            time.sleep(0.005)

    def wait_ready_unless_far(self):
        """The same; of a server on another host of the tests, that it listens is all that can be seen from here."""
        if self.netns is None:
            return self.wait_ready()
        end = time.monotonic() + 20
        listening = f":{self.port:04X} "
        while listening not in pathlib.Path(f"/proc/{self.pid}/net/tcp").read_text():
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise ServerFailed(f"{self.url} does not listen:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.005)
        return self

    def metric(self, name):
        """The sum of a metric over its labels, as /metrics gives it."""
        lines = self.request("GET", "/metrics")[2].decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    # What it costs

    def cpu_seconds(self):
        """User and system time of all its threads so far."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def _status_bytes(self, key):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024
        raise KeyError(key)

    def rss(self):
        return self._status_bytes("VmRSS")

    def peak_rss(self):
        return self._status_bytes("VmHWM")

    # Its end

    def stop(self, how=signal.SIGTERM, timeout=40):
        """Ends it and returns its exit status; one that does not end in time is killed."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise ServerFailed(f"the server did not end within {timeout} s of signal {how}") from None

    def kill(self):
        return self.stop(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill() if self.process.poll() is None else None


def ours(store, *options, log, address="127.0.0.1", port=0, program=None, tls=None, **process):
    """`ai-models serve` over the folder `store`. `tls`: (certificate file, key file)."""
    log = pathlib.Path(log)
    port_file = log.with_suffix(f".{time.monotonic_ns()}.port")
    command = [program or tools.program(), "serve", "--store", store, "--listen", f"{address}:{port}",
               "--port-file", port_file, *options]
    if tls:
        command += ["--tls-cert", tls[0], "--tls-key", tls[1]]
    try:
        server = Server(command, log, address, 0, port_file, tls is not None, **process)
    finally:
        port_file.unlink(missing_ok=True)
    return server


DISTRIBUTION_CONFIG = """\
version: 0.1
log:
  fields:
    service: registry
storage:
  cache:
    blobdescriptor: inmemory
{store}  delete:
    enabled: true
http:
  addr: {address}:{port}
{tls}  headers:
    X-Content-Type-Options: [nosniff]
{auth}health:
  storagedriver:
    enabled: true
    interval: 10s
    threshold: 3
"""

DISTRIBUTION_ON_S3 = """\
  s3:
    region: us-east-1
    regionendpoint: {url}
    forcepathstyle: true
    secure: false
    bucket: {bucket}
    accesskey: {key}
    secretkey: {secret}
"""


def distribution(store, *, log, address="127.0.0.1", port=None, tls=None, htpasswd=None, **process):
    """distribution's registry as its own example configuration has it, with deletes allowed. `store`: a folder, or a bucket
    (buckets.Bucket)."""
    if isinstance(store, (str, pathlib.Path)):
        storage = f"  filesystem:\n    rootdirectory: {store}\n"
    else:
        storage = DISTRIBUTION_ON_S3.format(url=store.server.url, bucket=store.name, key=store.server.key, secret=store.server.secret)
    port = port or free_port()
    config = pathlib.Path(log).with_suffix(".yml")
    config.write_text(DISTRIBUTION_CONFIG.format(
        store=storage, address=address, port=port,
        tls=f"  tls:\n    certificate: {tls[0]}\n    key: {tls[1]}\n" if tls else "",
        auth=f"auth:\n  htpasswd:\n    realm: tests\n    path: {htpasswd}\n" if htpasswd else ""))
    # No traces are to be sent anywhere.
    env = {**process.pop("env", {}), "OTEL_TRACES_EXPORTER": "none"}
    return Server([tools.distribution(), "serve", config], log, address, port, tls=tls is not None, env=env, **process)


def make_certificate(folder, *names):
    """A self-signed certificate for `names` (addresses or host names): (certificate file, key file)."""
    folder = pathlib.Path(folder)
    certificate, key = folder / "tls.crt", folder / "tls.key"
    kinds = [f"{'IP' if name.replace('.', '').isdigit() else 'DNS'}:{name}" for name in names]
    subprocess.run([tools.need("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", certificate, "-days", "2", "-subj", f"/CN={names[0]}",
                    "-addext", f"subjectAltName={','.join(kinds)}"], check=True, capture_output=True)
    return certificate, key
