"""A real API server for the tests of this folder."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import control_plane, delivery_plane, deployment, kube_api  # noqa: E402


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    with control_plane.ControlPlane(tmp_path_factory.mktemp("control-plane")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def module(cluster, tmp_path_factory):
    """The module at work: deployment.Deployment."""
    with deployment.Deployment(cluster, tmp_path_factory.mktemp("module")) as module:
        kube_api.remove_models(module.api)  # those that a test before it left when it failed
        yield module


@pytest.fixture(scope="session")
def delivery(tmp_path_factory):
    """The module at work for workloads, on an API server of its own: what kube-controller-manager does would be in the way of other tests."""
    with control_plane.ControlPlane(tmp_path_factory.mktemp("delivery-plane")) as plane, \
            delivery_plane.DeliveryPlane(plane, tmp_path_factory.mktemp("delivery")) as delivery:
        delivery.publish_shared()
        yield delivery


@pytest.fixture(autouse=True)
def sound(request):
    """A test that uses the module leaves it as it found it: parts that run, nothing that fails on purpose."""
    if "module" not in request.fixturenames:
        yield
        return
    module, failed = request.getfixturevalue("module"), request.session.testsfailed
    yield
    try:
        module.heal()
    finally:
        if request.session.testsfailed > failed:
            kube_api.remove_models(module.api)
