"""A Kubernetes of one node for the tests of this folder. They need root."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import cluster as clusters  # noqa: E402


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = clusters.Cluster(tmp_path_factory.mktemp("cluster") / "c")
    try:
        yield cluster.start()
    finally:
        cluster.stop()
        cluster.remove()
