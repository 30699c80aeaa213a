"""A real API server for the tests of this folder, with the kinds of others that the chart makes objects of."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import control_plane  # noqa: E402

from .charts import Cluster, foreign_kinds  # noqa: E402


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    with control_plane.ControlPlane(tmp_path_factory.mktemp("control-plane")) as plane:
        cluster = Cluster(plane)
        cluster.apply(*foreign_kinds())
        cluster.kubectl("apply", "--server-side", *(f"--filename={path}" for path in Cluster.crds()))
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        yield cluster
