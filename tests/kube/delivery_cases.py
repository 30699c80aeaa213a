"""Deliveries that go well, and every reason for which a workload is held. All of these run beside one another; what one alone may do to
the cluster is in test_delivery_alone.py."""

import time

from harness import delivery_guard, delivery_plane, kube_api

from .delivery_scene import PREFIX, Cases

cases = Cases()
CACHE = "/data/modelcache"
READS = ["/bin/sh", "-c", "sha256sum /data/modelcache/models/shared/*; exec sleep 100000"]


def pod_with(volume, mount, **more):
    """A Pod whose owner mounts something of their own."""
    container = {**delivery_plane.POD_ALONE["containers"][0], "volumeMounts": [{"name": "own", **mount}]}
    return {"containers": [container], **({"volumes": [{"name": "own", **volume}]} if volume else {}), **more}


# The four kinds


def lives(scene, kind, count=1, **more):
    """From nothing to running Pods, and to its end."""
    plane = scene.plane
    workload = scene.asking(kind, **more)
    assert delivery_plane.has_gate(template := workload.template()) and not delivery_guard.delivered_models(template["metadata"])
    workload.wait_running([plane.shared], count)
    claim = scene.claim()
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"] and claim["spec"]["resources"]["requests"]["storage"] in ("1Gi", "1073741824")
    assert claim["metadata"]["annotations"][f"{PREFIX}materialized-digest"] == plane.shared.digest
    assert scene.holders() == {workload.uid}
    workload.wait("no Secret is left", lambda: not plane.secrets(scene.namespace))
    workload.wait_event("ModelDeliveryApplied", plane.shared.digest)
    assert workload.reasons()[-1] in ("SharedPVCClaimPending", "SharedPVCMaterializerPending")
    return workload


def ends(scene, workload):
    workload.delete()
    workload.wait("its claim is released", lambda: not scene.holders() and scene.claim()["metadata"]["annotations"].get(f"{PREFIX}released-at"))
    scene.workloads.remove(workload)


@cases.case
def deployment(scene):
    container = {**delivery_plane.POD_ALONE["containers"][0], "command": READS}
    beside = {"name": "beside", "image": "user:1"}
    workload = lives(scene, "Deployment", 2, replicas=2, pod={"containers": [container, beside], "initContainers": [{"name": "first", "image": "user:1"}]})
    sums = scene.api.wait("they read", lambda: [words for log in scene.plane.kubelet.folder.glob(f"{workload.name}-*.log")
                                                if "model.safetensors" in (words := log.read_text())])
    assert all(scene.plane.shared.files["model.safetensors"] in words for words in sums)
    assert [has for _, has, digests in workload.told if digests] == [False], "the template changed more than once"


@cases.case
def stateful_set(scene):
    ends(scene, lives(scene, "StatefulSet", 2, replicas=2))


@cases.case
def stateful_set_partition(scene):
    """Pods before the partition, which counts from the first ordinal, are made as they were: they wait, and are left alone."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    scene.plane.kubelet.hold(scene.namespace)
    workload = scene.asking("StatefulSet", spec={"ordinals": {"start": 1}, "updateStrategy": strategy})
    workload.wait_held("SharedPVCMaterializerPending")
    before = {pod["metadata"]["uid"] for pod in workload.wait("a Pod waits", workload.pods)}
    scene.plane.kubelet.let_go(scene.namespace)
    workload.wait("it serves", lambda: workload.serves([scene.plane.shared]))
    time.sleep(2)
    assert {pod["metadata"]["uid"] for pod in workload.pods()} == before
    workload.patch({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    workload.wait_running([scene.plane.shared])


@cases.case
def daemon_set(scene):
    ends(scene, lives(scene, "DaemonSet"))


@cases.case
def cron_job(scene):
    """A Job that was made too early would wait for ever: it goes, and the next one reads the model."""
    container = {**delivery_plane.POD_ALONE["containers"][0], "command": ["/bin/sh", "-c", "sha256sum /data/modelcache/models/shared/*"]}
    scene.plane.kubelet.imageless.add(scene.namespace)
    workload = scene.asking("CronJob", pod={"containers": [container]})
    scene.plane.kubectl("create", "job", "early", "--from=cronjob/app", "--namespace", scene.namespace)
    scene.plane.kubelet.imageless.discard(scene.namespace)
    workload.wait_running([scene.plane.shared])
    workload.wait("the early Job goes", lambda: scene.api.get("Job", scene.namespace, "early") is None)
    scene.plane.kubectl("create", "job", "late", "--from=cronjob/app", "--namespace", scene.namespace)
    scene.api.wait("the Job ends", lambda: scene.api.get("Job", scene.namespace, "late")["status"].get("succeeded"), 30)
    log = next(scene.plane.kubelet.folder.glob("late-*.log")).read_text()
    assert scene.plane.shared.files["model.safetensors"] in log


@cases.case
def at_admission(scene):
    """Whoever comes when the model is there is not held at all."""
    first = scene.asking()
    first.wait_running([scene.plane.shared])
    second = scene.asking(name="second", replicas=2)
    assert not delivery_plane.has_gate(second.template())
    second.wait_running([scene.plane.shared], 2)
    assert len(second.revisions()) == 1
    second.wait("both hold it", lambda: scene.holders() == {first.uid, second.uid})
    first.delete()
    scene.workloads.remove(first)
    second.wait("the other one holds it alone", lambda: scene.holders() == {second.uid})
    assert f"{PREFIX}released-at" not in scene.claim()["metadata"]["annotations"]
    second.wait_running([scene.plane.shared], 2)


# References


@cases.case
def reference_added(scene):
    """Pods that run go on without models until Pods with models take their place."""
    workload = scene.workload(is_strict=False)
    workload.wait("it runs", lambda: [pod for pod in workload.pods() if pod["status"].get("phase") == "Running"])
    scene.plane.kubelet.hold(scene.namespace)
    workload.annotate(clustermodel=scene.plane.shared.name)
    workload.wait_report("SharedPVCMaterializerPending")
    assert [pod for pod in workload.pods() if pod["status"].get("phase") == "Running"]
    scene.plane.kubelet.let_go(scene.namespace)
    workload.wait_running([scene.plane.shared])


@cases.case
def reference_removed(scene):
    workload = scene.asking(is_strict=False)
    workload.wait_running([scene.plane.shared])
    workload.annotate(clustermodel=None)
    workload.wait_event("ModelDeliveryRemoved")
    workload.wait("nothing of it is left", lambda: not workload.has_finalizer() and not workload.template()["spec"].get("volumes")
                  and not delivery_guard.delivered_models(workload.template()["metadata"]))
    workload.wait("Pods run", lambda: [pod["status"].get("phase") for pod in workload.pods()] == ["Running"])
    assert not scene.holders()


def removed_while_held(scene, workload):
    workload.annotate(model=None)
    workload.wait("nothing of ours is left", lambda: not workload.has_finalizer() and not delivery_plane.has_gate(workload.template())
                  and workload.report() is None)


@cases.case
def reference_removed_while_held(scene):
    """Pods that wait go, also where none takes their place before they are ready."""
    workload = scene.workload("StatefulSet", models=["never"], is_strict=False, replicas=2)
    workload.wait_held("ModelDeliveryPending")
    workload.wait("a Pod waits", workload.pods)
    removed_while_held(scene, workload)
    workload.wait("Pods run without models", lambda: [pod["status"].get("phase") for pod in workload.pods()] == ["Running"] * 2)
    assert not any(pod["spec"].get("schedulingGates") for pod in workload.pods()) and not scene.plane.claims(scene.namespace)


@cases.case
def cron_job_reference_removed_while_held(scene):
    """A Job that waits would keep the next one from being made."""
    workload = scene.workload("CronJob", models=["never"], is_strict=False, spec={"concurrencyPolicy": "Forbid"})
    scene.plane.kubectl("create", "job", "early", "--from=cronjob/app", "--namespace", scene.namespace)
    workload.wait("a Pod waits", lambda: scene.api.list("Pod", scene.namespace, "app=app"))
    removed_while_held(scene, workload)
    workload.wait("the Job that waited goes", lambda: scene.api.get("Job", scene.namespace, "early") is None)
    scene.plane.kubectl("create", "job", "late", "--from=cronjob/app", "--namespace", scene.namespace)
    workload.wait("the next one's Pod runs", lambda: [pod["status"].get("phase") for pod in workload.pods()] == ["Running"])


@cases.case
def references_reordered(scene):
    """The first is the primary one. Pods that run serve until those of the new order are there."""
    plane = scene.plane
    workload = scene.workload(cluster_models=["shared", "second"])
    workload.wait_running([plane.shared, plane.second])
    workload.annotate(clustermodel="second,shared")
    workload.wait_running([plane.second, plane.shared])
    workload.annotate(clustermodel="second")
    workload.wait_running([plane.second])
    workload.wait("the other claim is released", lambda: len([one for one in plane.claims(scene.namespace) if one["metadata"].get("ownerReferences")]) == 1)


@cases.case
def reference_invalid(scene):
    for models, cluster_models, word in ((["x"], ["x"], "x"), (["a/b"], [], "a/b"), (["a", "", "b"], [], "empty"), ([], ["UPPER"], "UPPER")):
        assert word in scene.refused(models=models, cluster_models=cluster_models)


# Models


@cases.case
def model_missing(scene):
    """Missing, then not Ready, then there; deleted while it is used, then another of its name."""
    plane = scene.plane
    workload = scene.workload(models=["mine"])
    assert "mine does not exist" in workload.wait_held("ModelDeliveryPending")
    assert "mine" in workload.wait_event("ModelDeliveryPending")[2]
    model = scene.model()
    workload.wait_running([model])
    model.delete()
    assert "mine" in workload.wait_report("ModelDeliveryPending", "does not exist")
    assert workload.serves([model])
    workload.patch({"spec": {"replicas": 2}})
    workload.wait("Pods go on and come", lambda: workload.is_running([model], 2))
    other = scene.model()
    assert other.digest != model.digest
    workload.wait_running([other], 2)
    workload.wait("the old claim is released", lambda: len([one for one in plane.claims(scene.namespace) if one["metadata"].get("ownerReferences")]) == 1)


@cases.case
def model_failed(scene):
    """One that is Failed is waited for as one that is not there yet."""
    failed = scene.plane.apply({"url": "https://huggingface.co/owner/nowhere"}, "mine", scene.namespace)
    workload = scene.workload("StatefulSet", models=["mine"])
    workload.wait_held("ModelDeliveryPending", "mine is not Ready", "Failed")
    failed.delete()
    workload.wait_report("ModelDeliveryPending", "does not exist")
    workload.wait_running([scene.model()])


# What the owner of a workload has to mend


@cases.case
def mount_in_the_way(scene):
    workload = scene.asking(pod=pod_with({"emptyDir": {}}, {"mountPath": CACHE}))
    assert "own" in workload.wait_held("InvalidSpec", CACHE)
    assert workload.wait_event("ModelDeliveryBlocked")[0] == "Warning"
    workload.patch_pod({"containers": [{"name": "main", "volumeMounts": [{"$patch": "delete", "mountPath": CACHE}]}]})
    workload.wait_running([scene.plane.shared])


@cases.case
def claim_template_in_the_way(scene):
    template = {"metadata": {"name": "own"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    workload = scene.asking("StatefulSet", pod=pod_with(None, {"mountPath": f"{CACHE}/models/shared"}), spec={"volumeClaimTemplates": [template]})
    workload.wait_held("InvalidSpec", "volumeClaimTemplate own")


@cases.case
def node_cache_volume(scene):
    volume = {"csi": {"driver": "node-cache.ai-models.deckhouse.io", "readOnly": True}}
    workload = scene.asking("DaemonSet", pod=pod_with(volume, {"mountPath": "/elsewhere"}))
    workload.wait_held("NodeCacheDeliveryDisabled", "own")


@cases.case
def claim_of_another(scene):
    """Somebody made a claim by the name that ours has."""
    plane = scene.plane
    first = scene.asking(name="first", replicas=0)
    first.wait_running([plane.shared], 0)
    claim = scene.claim()
    first.delete()
    scene.workloads.remove(first)
    for job in plane.materializers(scene.namespace):  # its Pod, although over, holds the claim
        scene.api.must("DELETE", kube_api.path_to(job), {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
    scene.api.delete({"kind": "PersistentVolumeClaim", **claim})
    scene.api.wait("the claim is gone", lambda: scene.api.get("PersistentVolumeClaim", scene.namespace, claim["metadata"]["name"]) is None)
    made = scene.api.create({"kind": "PersistentVolumeClaim", "metadata": {"name": claim["metadata"]["name"], "namespace": scene.namespace}, "spec": {
        "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}})
    workload = scene.asking()
    workload.wait_held("InvalidSpec", claim["metadata"]["name"], "was not made by this module")
    scene.api.delete({"kind": "PersistentVolumeClaim", **made})
    workload.wait_running([plane.shared])


# Volumes


@cases.case
def provisioner_silent(scene):
    """Then it is merely late."""
    scene.plane.provisioner.behave(scene.namespace, mode="silent")
    workload = scene.asking()
    assert "claim" in workload.wait_held("SharedPVCClaimPending")
    scene.plane.provisioner.behave(scene.namespace, mode="late", seconds=0.5)
    workload.wait_running([scene.plane.shared])


@cases.case
def provisioner_refuses(scene):
    """It is quoted word for word. What somebody writes about another object of that name is not."""
    said = 'rpc error: code = ResourceExhausted desc = the pool "nvme/1" has 3 GiB left (51%)'
    scene.plane.provisioner.behave(scene.namespace, mode="silent")
    workload = scene.asking("StatefulSet")
    workload.wait_held("SharedPVCClaimPending")
    claim = scene.wait_claim()
    forged = {"kind": "Event", "metadata": {"generateName": "forged.", "namespace": scene.namespace}, "type": "Warning", "reason": "ProvisioningFailed",
              "message": "send money", "source": {"component": "x"}, "involvedObject": {
                  "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": scene.namespace, "name": claim["metadata"]["name"], "uid": "0-0"}}
    scene.api.create(forged)
    scene.plane.provisioner.behave(scene.namespace, mode="refuse", message=said)
    message = workload.wait_held("SharedPVCProvisioningFailed", said)
    assert message == f'failed to provision volume with StorageClass "folders": {said}'
    assert workload.wait_event("ModelDeliveryBlocked", said)[0] == "Warning"
    scene.plane.provisioner.behave(scene.namespace)
    workload.wait_running([scene.plane.shared])
    assert not [report for report, _, _ in workload.told if report and "money" in report[1]]


@cases.case
def claim_lost(scene):
    """It is left to people; once they delete the claim, another is made."""
    scene.plane.kubelet.imageless.add(scene.namespace)
    workload = scene.asking()
    workload.wait_held("SharedPVCMaterializerPending")
    claim = scene.wait_bound()
    scene.plane.provisioner.lose(scene.namespace, claim["metadata"]["name"])
    workload.wait_held("SharedPVCClaimLost", claim["metadata"]["name"])
    scene.plane.kubelet.imageless.discard(scene.namespace)
    scene.api.delete({"kind": "PersistentVolumeClaim", **claim})
    workload.wait_running([scene.plane.shared])
    assert scene.claim()["metadata"]["uid"] != claim["metadata"]["uid"]


# Copies


@cases.case
def image_missing(scene):
    scene.plane.kubelet.imageless.add(scene.namespace)
    workload = scene.asking()
    workload.wait_held("SharedPVCMaterializerPending", "image")
    scene.plane.kubelet.imageless.discard(scene.namespace)
    workload.wait_running([scene.plane.shared])


@cases.case
def volume_read_only(scene):
    scene.plane.provisioner.behave(scene.namespace, mode="bind", mount="ro")
    workload = scene.asking()
    workload.wait_held("SharedPVCMaterializerFailed", "writable")
    workload.wait_event("ModelDeliveryPending", "writable")


@cases.case
def volume_full(scene):
    scene.plane.provisioner.behave(scene.namespace, mode="bind", mount="size=1m")
    workload = scene.workload("DaemonSet", cluster_models=[scene.plane.large.name])
    workload.wait_held("SharedPVCMaterializerFailed", "grow")


@cases.case
def api_fails(scene):
    """An error that nobody expects is told, and tried again."""
    scene.plane.controllers[0].proxy.fail("403", match=lambda request: request.verb == "patch" and request.namespace == scene.namespace
                                          and request.resource == "deployments", times=2)
    workload = scene.asking()
    assert workload.wait_event("ModelDeliveryFailed")[0] == "Warning"
    workload.wait_running([scene.plane.shared])


# Reason -> the case that brings it about. `None`: test_delivery_alone.py does.
REASONS = {
    "ModelDeliveryPending": "model_missing",
    "InvalidModelReference": None,
    "InvalidSpec": "mount_in_the_way",
    "NodeCacheDeliveryDisabled": "node_cache_volume",
    "SharedPVCStorageClassMissing": None,
    "SharedPVCStorageClassAmbiguous": None,
    "SharedPVCStorageClassDefersBinding": None,
    "SharedPVCClaimPending": "provisioner_silent",
    "SharedPVCProvisioningFailed": "provisioner_refuses",
    "SharedPVCProvisioningTimedOut": None,
    "SharedPVCClaimLost": "claim_lost",
    "SharedPVCMaterializerPending": "image_missing",
    "SharedPVCMaterializerFailed": "volume_read_only",
}

# Event -> (its type, the case).
EVENTS = {
    "ModelDeliveryPending": ("Normal", "model_missing"),
    "ModelDeliveryApplied": ("Normal", "deployment"),
    "ModelDeliveryRemoved": ("Normal", "reference_removed"),
    "ModelDeliveryBlocked": ("Warning", "mount_in_the_way"),
    "ModelDeliveryFailed": ("Warning", "api_fails"),
    "InvalidModelReference": ("Warning", None),
}
