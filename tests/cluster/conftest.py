"""A Kubernetes of one node with the module in it, for all tests of this folder: only one can run at a time. They need root."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import installation  # noqa: E402


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    with installation.Installation(tmp_path_factory.mktemp("installation"), artifacts={"capacityLimit": "100Gi"}, delivery={"maxConcurrentMaterializations": 4},
                                   internal={"controller": {"sweepIntervalSeconds": 5}}) as installed:
        yield installed


@pytest.fixture(scope="session")
def cluster(installed):
    return installed.cluster
