"""A real API server for the tests of this folder."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import control_plane  # noqa: E402


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    with control_plane.ControlPlane(tmp_path_factory.mktemp("control-plane")) as cluster:
        yield cluster
