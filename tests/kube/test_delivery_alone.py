"""Deliveries while something is wrong that all workloads share: StorageClasses, the clock, the webhook, the registry."""

import contextlib
import json
import time

import pytest

from harness import delivery_plane, provisioner

from .delivery_scene import PREFIX, Scene

HOUR = 3600


@pytest.fixture
def scene(delivery):
    scene = Scene(delivery)
    yield scene
    try:
        scene.check_end()
    finally:
        scene.end()
        delivery.heal()


# StorageClasses


@contextlib.contextmanager
def classes(delivery, *made, default):
    """More of them for a while; `default`: whether the usual one is the default."""
    usual = {"kind": "StorageClass", "metadata": {"name": delivery_plane.CLASS}}
    delivery.api.patch(usual, {"metadata": {"annotations": {provisioner.DEFAULT_CLASS: str(default).lower()}}})
    for thing in made:
        delivery.api.create(thing)
    try:
        yield
    finally:
        for thing in made:
            delivery.api.delete(thing)
        delivery.api.patch(usual, {"metadata": {"annotations": {provisioner.DEFAULT_CLASS: "true"}}})


@pytest.mark.parametrize("reason, word, made, default", [
    ("SharedPVCStorageClassMissing", "no default", [], False),
    ("SharedPVCStorageClassAmbiguous", "several", [provisioner.storage_class("other", is_default=True)], True),
    ("SharedPVCStorageClassDefersBinding", "WaitForFirstConsumer", [provisioner.storage_class("late", is_default=True, binding="WaitForFirstConsumer")], False),
])
def test_storage_classes(delivery, scene, reason, word, made, default):
    with classes(delivery, *made, default=default):
        workload = scene.asking()
        workload.wait_held(reason, word)
        assert workload.wait_event("ModelDeliveryBlocked")[0] == "Warning" and not delivery.claims(scene.namespace)
    workload.wait_running([delivery.shared])


def test_a_class_that_does_not_exist(delivery, scene):
    """It comes into being, and the setting goes: what is bound stays."""
    made = provisioner.storage_class("nowhere")
    try:
        with delivery.reconfigured("--shared-class", "nowhere"):
            delivery.wait_webhook()
            workload = scene.asking("StatefulSet")
            workload.wait_held("SharedPVCStorageClassMissing", "nowhere")
            delivery.api.create(made)
            workload.wait_running([delivery.shared])
    finally:
        delivery.api.delete(made)
    delivery.wait_webhook()
    assert scene.claim()["spec"]["storageClassName"] == "nowhere"
    scene.asking(name="second").wait_running([delivery.shared])


# Turns


def test_a_turn_that_cannot_be_used(delivery, scene):
    """Whose template is spoilt while it waits for its turn keeps nobody else from copying."""
    with delivery.reconfigured("--max-materializations", 1):
        delivery.wait_webhook()
        delivery.kubelet.hold(scene.namespace)
        first = scene.asking(name="first")
        scene.wait_materializer()
        spoilt = scene.workload(name="spoilt", cluster_models=[delivery.second.name])
        spoilt.wait_report("SharedPVCMaterializerPending", "its turn")
        spoilt.patch_pod({"volumes": [{"name": "own", "emptyDir": {}}],
                          "containers": [{"name": "main", "volumeMounts": [{"name": "own", "mountPath": "/data/modelcache"}]}]})
        spoilt.wait_report("InvalidSpec", "own")
        last = scene.workload(name="last", cluster_models=[delivery.large.name])
        last.wait_report("SharedPVCMaterializerPending", "its turn")
        delivery.kubelet.let_go(scene.namespace)
        first.wait_running([delivery.shared])
        last.wait_running([delivery.large], timeout=30)
    delivery.wait_webhook()


# Time


def test_what_takes_long(delivery, scene):
    """A silent provisioner, and a claim that nobody holds."""
    with delivery.clock() as jump:
        delivery.wait_webhook()
        delivery.provisioner.behave(scene.namespace, mode="silent")
        waiting = scene.asking()
        waiting.wait_held("SharedPVCClaimPending")
        released = Scene(delivery)
        gone = released.asking()
        gone.wait_running([delivery.shared])
        gone.delete()
        gone.wait("its claim is released", lambda: released.claim()["metadata"]["annotations"].get(f"{PREFIX}released-at"))
        jump(11 * 60)
        waiting.wait_held("SharedPVCProvisioningTimedOut", "10 minutes")
        gone.api.wait("the claim goes", lambda: not delivery.claims(released.namespace), 60)
        delivery.provisioner.behave(scene.namespace)
        waiting.wait_running([delivery.shared])


def test_a_volume_that_was_full(delivery, scene):
    """Its Job goes on trying, and somebody enlarges it."""
    delivery.provisioner.behave(scene.namespace, mode="bind", mount="size=1m")
    workload = scene.workload(cluster_models=["large"])
    workload.wait_held("SharedPVCMaterializerFailed")
    delivery.provisioner.remount(scene.namespace, scene.claim()["metadata"]["name"], "size=100m")
    workload.wait_running([delivery.large])


def test_a_grant_that_ends_in_the_middle(delivery, scene):
    with delivery.clock() as jump:
        delivery.wait_webhook()
        delivery.relay.hold_after(8 << 20)
        workload = scene.workload(cluster_models=["large"])
        delivery.api.wait("it stands still", delivery.relay.is_held, 60)
        secret = next(name for name in delivery.secrets(scene.namespace) if "grant" in name)
        token = delivery.api.get("Secret", scene.namespace, secret)["data"]["token"]
        jump(25 * HOUR)
        delivery.api.wait("another grant", lambda: (delivery.api.get("Secret", scene.namespace, secret) or {}).get("data", {}).get("token") != token, 60)
        for pod in delivery.kubelet.running("ai-models-materialize-"):
            pod.volumes.make()
        delivery.relay.mend()
        workload.wait_running([delivery.large])


# What is not there for a while


def test_the_webhook_is_down(delivery, scene):
    """Nobody who asks for models gets in, and everybody else does."""
    delivery.controllers[0].stop()
    assert "failed calling webhook" in scene.refused(cluster_models=["shared"])
    other = scene.workload(is_strict=False, name="other")
    other.wait("it runs", lambda: [pod for pod in other.pods() if pod["status"].get("phase") == "Running"])
    delivery.controllers[0].start()
    delivery.wait_webhook()
    scene.asking().wait_running([delivery.shared])


def test_a_stored_reference_that_is_invalid(delivery, scene):
    """It came past the webhook. Nothing of it starts; once it is mended, it is delivered."""
    delivery.api.delete({"kind": "MutatingWebhookConfiguration", "metadata": {"name": delivery_plane.WEBHOOK}})
    try:
        delivery.api.wait("it is out of use", lambda: "UPPER" not in refused_dry(scene), 30)
        workload = scene.workload(cluster_models=["UPPER"], is_strict=False)
        workload.wait_report("InvalidModelReference", "UPPER")
        assert workload.wait_event("InvalidModelReference")[0] == "Warning"
    finally:
        delivery.register_webhook()
    delivery.api.wait("it is in use", lambda: "UPPER" in refused_dry(scene), 30)
    workload.annotate(clustermodel="shared")
    workload.wait_running([delivery.shared])


def refused_dry(scene):
    manifest = delivery_plane.manifest("Deployment", scene.namespace, "probe", cluster_models=["UPPER"])
    return scene.plane.kubectl("apply", "--dry-run=server", "-f", "-", input=manifest, check=False).stderr.decode()


@pytest.mark.parametrize("how", ["cut", "killed"])
def test_the_registry_goes_in_the_middle(delivery, scene, how):
    delivery.relay.hold_after(8 << 20)
    workload = scene.workload("StatefulSet", cluster_models=["large"])
    delivery.api.wait("it stands still", delivery.relay.is_held, 60)
    if how == "killed":
        delivery.registry.kill()
    delivery.relay.cut()
    workload.wait_held("SharedPVCMaterializerPending")
    if how == "killed":
        delivery.start_registry()
    delivery.relay.mend()
    workload.wait_running([delivery.large])


def test_the_bucket_goes_in_the_middle(delivery, scene):
    """The registry is there, and cannot read what it has."""
    with delivery.on_bucket() as path:
        model = delivery.model("inabucket", scene.namespace, size=delivery_plane.LARGE)
        path.hold_after(8 << 20)
        workload = scene.workload("StatefulSet", models=["inabucket"])
        delivery.api.wait("it stands still", path.is_held, 60)
        path.cut()
        workload.wait_held("SharedPVCMaterializerPending")
        time.sleep(5)
        workload.wait_held("SharedPVCMaterializerPending")
        path.mend()
        workload.wait_running([model])
        workload.delete()
        delivery.api.delete(model.thing)
        delivery.api.wait("the model is gone", lambda: model.now() is None)


def test_the_controller_is_killed_in_the_middle(delivery, scene):
    delivery.kubelet.hold(scene.namespace)
    workload = scene.asking()
    scene.wait_materializer()
    delivery.controllers[0].kill()
    delivery.kubelet.let_go(scene.namespace)
    delivery.restart_controller()
    delivery.wait_webhook()
    workload.wait_running([delivery.shared])


def test_what_another_replica_let_start_is_not_held_back(delivery, scene):
    """It saw that the claim is whole before the leader did: the template comes with its models, and the leader asks before it holds it."""
    first = scene.asking(name="first")
    first.wait_running([delivery.shared])
    template = first.template()
    first.delete()
    scene.workloads.remove(first)
    delivery.api.delete({"kind": "PersistentVolumeClaim", **scene.claim()})
    delivery.api.wait("the claim is gone", lambda: not delivery.claims(scene.namespace))
    delivery.api.delete({"kind": "MutatingWebhookConfiguration", "metadata": {"name": delivery_plane.WEBHOOK}})
    try:
        delivery.api.wait("the webhook is out of use", lambda: "UPPER" not in refused_dry(scene), 30)
        proxy = delivery.controllers[0].proxy
        proxy.late, proxy.lag = "persistentvolumeclaims", 4
        scene.workload(cluster_models=["shared"], name="early", is_strict=False, replicas=0)
        delivery.api.wait("the claim is whole", lambda: [one for one in delivery.claims(scene.namespace) if f"{PREFIX}materialized-digest" in one["metadata"].get("annotations", {})], 90)
        late = scene.workload(cluster_models=["shared"], name="late", spec={"template": {**template, "metadata": {
            **template["metadata"], "labels": {"app": "late"}}}}, is_strict=False)
        late.wait_running([delivery.shared])
        time.sleep(5)
    finally:
        delivery.controllers[0].proxy.heal()
        delivery.register_webhook()
    assert not any(has_gate for _, has_gate, _ in late.told) and len(late.revisions()) == 1, late.story()


# What nobody may see


def test_nothing_shows_a_secret(delivery):
    """Neither logs, nor events, nor anything that a user of a namespace reads, but the Secret itself."""
    assert delivery.guard.tokens
    things = [thing for kind in ("Event", "Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "Pod", "PersistentVolumeClaim")
              for thing in delivery.api.list(kind)]
    shown = delivery.logs() + "".join(path.read_text(errors="replace") for path in delivery.kubelet.folder.glob("*.log")) + json.dumps(things)
    for secret in {delivery_plane.SALT} | {part for token in delivery.guard.tokens for part in token.split(".")}:
        assert secret not in shown
