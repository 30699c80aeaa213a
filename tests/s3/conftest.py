"""A real bucket for the tests of this folder."""

import pathlib
import sys
import uuid

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import buckets, clients, servers, tools  # noqa: E402


@pytest.fixture(scope="session")
def shared_weed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weed")
    with buckets.SeaweedFS(folder / "w", tls=servers.make_certificate(folder, "127.0.0.1")) as weed:
        yield weed


@pytest.fixture
def bucket(shared_weed):
    return shared_weed.bucket(f"t-{uuid.uuid4().hex[:16]}")


@pytest.fixture
def weed(tmp_path):
    """One that a test may kill."""
    with buckets.SeaweedFS(tmp_path / "weed") as weed:
        yield weed


@pytest.fixture
def serve(tmp_path):
    """Starts ours over a bucket."""
    started = []

    def start(bucket, *options, endpoint=None, prefix="models", **keys):
        server = servers.ours(bucket.store(prefix, endpoint), *options, log=tmp_path / "server.log", env=bucket.environment(**keys))
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def ours(tmp_path):
    return clients.AiModels(tmp_path / "home")


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A small folder of a model with weights like real ones."""
    folder = tmp_path_factory.mktemp("model")
    weights = tools.make_model_of("bf16", "24MiB", folder / "weights.safetensors", seed=3)
    return tools.make_model_folder(weights, folder / "m")
