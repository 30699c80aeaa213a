"""The provisioner of volumes, on which the tests of delivery lean, with a real kube-controller-manager."""

import pytest

from harness import kube_api, provisioner


@pytest.fixture(scope="module")
def api(cluster):
    return kube_api.Api(cluster)


@pytest.fixture
def storage(api, request):
    """Makes classes and claims; they go with the test."""
    made = []

    def make(name, **more):
        cls = api.create(provisioner.storage_class(name, **more))
        claim = api.create({"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}, "spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": name, "resources": {"requests": {"storage": "1Gi"}}}})
        made.extend(({"kind": "PersistentVolumeClaim", **claim}, {"kind": "StorageClass", **cls}))

    yield make
    for thing in made:
        api.delete(thing)


def phase(api, name):
    return (api.get("PersistentVolumeClaim", "default", name) or {}).get("status", {}).get("phase")


def refusals(api, name):
    return [event["message"] for event in api.list("Event", "default") if event["type"] == "Warning" and event["involvedObject"]["name"] == name]


def test_each_mode(installed, api, storage):
    for name, mode in (("at-once", "bind"), ("after-a-while", "late"), ("never", "silent"), ("refused", "refuse")):
        storage(name, mode=mode, seconds="1", message="no room")
    storage("small", mount="size=1m")
    for name in ("at-once", "small", "after-a-while"):
        api.wait(name, lambda name=name: phase(api, name) == "Bound")
    assert installed.provisioner.folder_of("default", "at-once").is_dir() and installed.provisioner.folder_of("default", "small").is_mount()
    api.wait("the refusal", lambda: refusals(api, "refused"))
    assert refusals(api, "refused") == ['failed to provision volume with StorageClass "refused": no room'] and refusals(api, "never") == []
    assert (phase(api, "refused"), phase(api, "never"), installed.provisioner.folder_of("default", "never")) == ("Pending", "Pending", None)
    installed.provisioner.set_mode("bind", "refused")
    api.wait("it thinks better of it", lambda: phase(api, "refused") == "Bound")
    installed.provisioner.set_mode(None, "refused")


def test_a_volume_goes_with_its_claim_and_a_claim_is_lost_with_its_volume(installed, api, storage):
    storage("goes", mount="size=1m")
    storage("lost")
    api.wait("both are bound", lambda: phase(api, "goes") == phase(api, "lost") == "Bound")
    folder = installed.provisioner.folder_of("default", "goes")
    api.delete({"kind": "PersistentVolumeClaim", "metadata": {"name": "goes", "namespace": "default"}})
    installed.provisioner.lose("default", "lost")
    api.wait("lost", lambda: phase(api, "lost") == "Lost")
    api.wait("gone", lambda: not folder.exists() and phase(api, "goes") is None)
    assert installed.provisioner.take_faults() == []
