"""Servers for the tests of this folder: ours in each dress, and distribution's registry as the other side."""

import pathlib
import subprocess
import sys
from typing import NamedTuple

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import servers, tools  # noqa: E402

WRITER, READER = ("writer", "write-secret"), ("reader", "read-secret")


class Dress(NamedTuple):
    """How a server is reached."""

    server: servers.Server
    certificate: pathlib.Path | None
    user: tuple | None

    def curl(self):
        options = ["--cacert", self.certificate] if self.certificate else []
        return options + (["--user", ":".join(self.user)] if self.user else [])

    def oras(self):
        options = ["--ca-file", self.certificate] if self.certificate else ["--plain-http"]
        return options + (["--username", self.user[0], "--password", self.user[1]] if self.user else [])

    def skopeo(self, side):
        """`side`: "src" or "dest", or "" for commands of one side."""
        dash = f"{side}-" if side else ""
        options = [f"--{dash}tls-verify=false"]
        return options + ([f"--{dash}creds", ":".join(self.user)] if self.user else [f"--{dash}no-creds"])


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    return servers.make_certificate(tmp_path_factory.mktemp("tls"), "127.0.0.1", "localhost")


@pytest.fixture(scope="session")
def htpasswd(tmp_path_factory):
    path = tmp_path_factory.mktemp("users") / "htpasswd"
    path.touch()
    for name, password in (WRITER, READER):
        subprocess.run([tools.need("htpasswd"), "-bB", "-C", "5", path, name, password], check=True, capture_output=True)
    return path


@pytest.fixture(params=["plain", "tls", "users"])
def dress(request, tmp_path, certificate, htpasswd):
    """Our server: plain and open; with TLS; with TLS, users and the writer's credentials."""
    users = request.param == "users"
    options = ["--htpasswd", htpasswd, "--writer", WRITER[0]] if users else []
    tls = None if request.param == "plain" else certificate
    with servers.ours(tmp_path / "store", *options, log=tmp_path / "server.log", tls=tls).wait_ready() as server:
        yield Dress(server, tls and tls[0], WRITER if users else None)


@pytest.fixture
def ours(tmp_path):
    with servers.ours(tmp_path / "store", log=tmp_path / "server.log").wait_ready() as server:
        yield Dress(server, None, None)


@pytest.fixture
def distribution(tmp_path):
    with servers.distribution(tmp_path / "peer", log=tmp_path / "peer.log").wait_ready() as server:
        yield Dress(server, None, None)


@pytest.fixture(scope="session")
def weights(tmp_path_factory):
    """A model of several chunks and a bit."""
    return tools.make_model_of("bf16", "37MiB", tmp_path_factory.mktemp("weights") / "model.safetensors", seed=7)
