"""What people and things do to workloads and volumes while models are delivered. All of these run beside one another."""

import json
import time

from harness import delivery_guard, delivery_plane, kube_api

from .delivery_scene import PREFIX, Cases

cases = Cases()


def revision_count(workload):
    return len(workload.revisions())


def held(scene, **more):
    """A Deployment whose model is not there yet: its materializer stands still."""
    scene.plane.kubelet.hold(scene.namespace)
    workload = scene.asking(**more)
    workload.wait_held("SharedPVCMaterializerPending")
    scene.wait_materializer()
    return workload


def freed(scene, workload, count=1):
    scene.plane.kubelet.let_go(scene.namespace)
    workload.wait_running([scene.plane.shared], count)


# Claims and Jobs


@cases.case
def claim_deleted_under_its_job(scene):
    workload = held(scene)
    claim = scene.wait_bound()
    scene.api.delete({"kind": "PersistentVolumeClaim", **claim})
    workload.wait("another claim", lambda: [one for one in scene.plane.claims(scene.namespace) if one["metadata"]["uid"] != claim["metadata"]["uid"]])
    freed(scene, workload)


@cases.case
def claim_deleted_under_pods(scene):
    """They go on; once they are gone, another claim is filled before any Pod starts."""
    workload = scene.asking()
    workload.wait_running([scene.plane.shared])
    claim = scene.claim()
    scene.api.delete({"kind": "PersistentVolumeClaim", **claim})
    workload.wait_report("SharedPVCClaimPending", "is being deleted")
    assert workload.is_running([scene.plane.shared], 1)
    workload.patch({"spec": {"replicas": 0}})
    workload.wait("another claim", lambda: [one["metadata"]["uid"] for one in scene.plane.claims(scene.namespace)] not in ([], [claim["metadata"]["uid"]]))
    workload.patch({"spec": {"replicas": 1}})
    workload.wait_running([scene.plane.shared])


@cases.case
def claim_lost_under_pods(scene):
    workload = scene.asking("StatefulSet")
    workload.wait_running([scene.plane.shared])
    scene.plane.provisioner.lose(scene.namespace, scene.claim()["metadata"]["name"])
    workload.wait_report("SharedPVCClaimLost")
    assert workload.serves([scene.plane.shared]) and workload.is_running([scene.plane.shared], 1)


@cases.case
def job_killed(scene):
    """In the middle, and evicted; another Pod of the Job takes its place."""
    workload = held(scene)
    scene.plane.kubelet.evict(scene.wait_materializer())
    scene.plane.kubelet.let_go(scene.namespace)
    workload.wait_running([scene.plane.shared])


@cases.case
def job_deleted(scene):
    workload = held(scene)
    job = scene.plane.materializers(scene.namespace)[0]
    scene.api.must("DELETE", kube_api.path_to(job), {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
    workload.wait("another Job", lambda: [one for one in scene.plane.materializers(scene.namespace) if one["metadata"]["uid"] != job["metadata"]["uid"]])
    freed(scene, workload)


@cases.case
def secrets_deleted(scene):
    """Those of a Job that has not read them yet."""
    scene.plane.kubelet.imageless.add(scene.namespace)
    workload = scene.asking()
    workload.wait_held("SharedPVCMaterializerPending", "image")
    for name in scene.plane.secrets(scene.namespace):
        scene.api.delete({"kind": "Secret", "metadata": {"name": name, "namespace": scene.namespace}})
    scene.api.must("DELETE", kube_api.path_to(scene.plane.materializers(scene.namespace)[0]),
                   {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
    scene.plane.kubelet.imageless.discard(scene.namespace)
    workload.wait_running([scene.plane.shared])


# Workloads


@cases.case
def scaled(scene):
    """As an autoscaler does, while it is held and afterwards."""
    workload = held(scene)
    for replicas in (3, 1, 2):
        scene.api.must("PATCH", kube_api.path_to(workload.thing, "scale"), {"spec": {"replicas": replicas}}, kube_api.MERGE)
        workload.wait(f"{replicas} wait", lambda: len(workload.pods()) == replicas)
    freed(scene, workload, 2)
    workload.patch({"spec": {"replicas": 0}})
    workload.wait("none runs", lambda: not workload.pods())
    workload.patch({"spec": {"replicas": 3}})
    workload.wait_running([scene.plane.shared], 3)


@cases.case
def paused(scene):
    """Its template changes at once, its Pods when it goes on."""
    workload = held(scene)
    scene.plane.kubectl("rollout", "pause", "deployment/app", "--namespace", scene.namespace)
    scene.plane.kubelet.let_go(scene.namespace)
    workload.wait("it serves", lambda: workload.serves([scene.plane.shared]))
    assert not [pod for pod in workload.pods() if pod["status"].get("phase") == "Running"]
    scene.plane.kubectl("rollout", "resume", "deployment/app", "--namespace", scene.namespace)
    workload.wait_running([scene.plane.shared])


@cases.case
def paused_from_the_start(scene):
    workload = scene.asking(spec={"paused": True})
    workload.wait("it serves", lambda: workload.serves([scene.plane.shared]))
    workload.patch({"spec": {"paused": False}})
    workload.wait_running([scene.plane.shared])


@cases.case
def restarted(scene):
    """A restart makes one revision, also while the workload is held."""
    workload = held(scene)
    scene.plane.kubectl("rollout", "restart", "deployment/app", "--namespace", scene.namespace)
    freed(scene, workload)
    before = revision_count(workload)
    scene.plane.kubectl("rollout", "restart", "deployment/app", "--namespace", scene.namespace)
    workload.wait("one revision more", lambda: revision_count(workload) == before + 1)
    workload.wait_running([scene.plane.shared])
    assert revision_count(workload) == before + 1


@cases.case
def rolled_back_to_before_delivery(scene):
    """To a revision without models: kubectl brings back its annotations and its template, or the template alone."""
    workload = scene.workload(is_strict=False)
    workload.wait("it runs", lambda: [pod for pod in workload.pods() if pod["status"].get("phase") == "Running"])
    workload.annotate(clustermodel=scene.plane.shared.name)
    workload.wait_running([scene.plane.shared])
    scene.plane.kubectl("rollout", "undo", "deployment/app", "--to-revision=1", "--namespace", scene.namespace)
    if (workload.now()["metadata"].get("annotations") or {}).get(f"{PREFIX}clustermodel"):
        workload.wait_running([scene.plane.shared])
        return
    workload.wait("nothing of ours is left", lambda: not workload.has_finalizer() and not delivery_guard.delivered_models(workload.template()["metadata"]))
    workload.wait("its Pods run", lambda: [pod["status"].get("phase") for pod in workload.pods()] == ["Running"])
    workload.annotate(clustermodel=scene.plane.shared.name)
    workload.wait_running([scene.plane.shared])


@cases.case
def rolled_back_between_deliveries(scene):
    workload = scene.asking()
    workload.wait_running([scene.plane.shared])
    workload.patch_pod({"containers": [{"name": "main", "image": "user:2"}]})
    workload.wait_running([scene.plane.shared])
    scene.plane.kubectl("rollout", "undo", "deployment/app", "--namespace", scene.namespace)
    workload.wait("the image is back", lambda: workload.template()["spec"]["containers"][0]["image"] == "user:1")
    workload.wait_running([scene.plane.shared])


@cases.case
def template_replaced(scene):
    """By a template that knows nothing of models, by Pods that still run: the stored state comes back."""
    workload = scene.asking("StatefulSet")
    workload.wait_running([scene.plane.shared])
    thing = delivery_plane.manifest("StatefulSet", scene.namespace, "app", cluster_models=["shared"])
    before = workload.now()["metadata"]["generation"]

    def replaced():
        """Whoever writes its status may be quicker."""
        thing["metadata"]["resourceVersion"] = workload.now()["metadata"]["resourceVersion"]
        return scene.api.ask("PUT", kube_api.path_to(workload.thing), thing)[0] == 200
    workload.wait("it is replaced", replaced)
    assert workload.serves([scene.plane.shared]) and workload.now()["metadata"]["generation"] == before
    workload.wait_running([scene.plane.shared])


@cases.case
def orphaned(scene):
    """Its Pods live on without it, and so does their claim; the same workload takes them over."""
    workload = scene.asking()
    workload.wait_running([scene.plane.shared])
    claim, pods = scene.claim(), {pod["metadata"]["uid"] for pod in workload.pods()}
    workload.delete("Orphan")
    scene.workloads.remove(workload)
    time.sleep(1)
    assert {pod["metadata"]["uid"] for pod in workload.pods()} == pods and scene.claim()["metadata"]["uid"] == claim["metadata"]["uid"]
    assert not scene.claim()["metadata"].get("deletionTimestamp")
    again = scene.asking()
    again.wait_running([scene.plane.shared])
    assert {pod["metadata"]["uid"] for pod in again.pods()} == pods
    again.wait("it holds the claim, alone", lambda: scene.holders() == {again.uid})


@cases.case
def foreground_deleted(scene):
    workload = held(scene, replicas=2)
    workload.delete("Foreground")
    scene.workloads.remove(workload)
    scene.plane.kubelet.let_go(scene.namespace)
    scene.api.wait("nobody holds the claim", lambda: not scene.holders())


@cases.case
def namespace_terminating(scene):
    """All of it goes, whatever is on its way."""
    first, second = held(scene), scene.asking("StatefulSet", name="second")
    second.wait_held("SharedPVCMaterializerPending")
    scene.api.delete({"kind": "Namespace", "metadata": {"name": scene.namespace}})
    scene.plane.kubelet.let_go(scene.namespace)
    scene.api.wait(first.story, lambda: scene.api.get("Namespace", name=scene.namespace) is None, 60)


# Who manages manifests


@cases.case
def gitops(scene):
    """Argo CD and Flux apply the same manifest again and again: not one revision comes of it."""
    plane = scene.plane
    manifest = delivery_plane.manifest("Deployment", scene.namespace, "app", cluster_models=["shared"])
    made = {"kind": "Deployment", **scene.apply(manifest, "argocd-controller")}
    workload = delivery_plane.Workload(plane, made)
    scene.workloads.append(workload)
    workload.wait_running([plane.shared])
    before, template = revision_count(workload), workload.template()
    def unchanged(what):
        assert workload.serves([plane.shared]), what
        assert (revision_count(workload), workload.template()) == (before, template), f"{what}\n{workload.story()}"

    for _ in range(10):
        scene.apply(manifest, "argocd-controller")
    unchanged("Argo CD")
    for _ in range(3):
        scene.apply(manifest, "kustomize-controller", "force=true")
    unchanged("Flux")
    for verb in ("apply", "apply", "replace"):
        plane.kubectl(verb, "-f", "-", input=manifest)
        unchanged(f"kubectl {verb}")
    workload.wait_running([plane.shared])
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "user:2"
    scene.apply(manifest, "argocd-controller", "force=true")
    assert workload.serves([plane.shared])
    workload.wait("a revision more", lambda: revision_count(workload) == before + 1)
    workload.wait_running([plane.shared])
    assert revision_count(workload) == before + 1


@cases.case
def gitops_while_held(scene):
    workload = held(scene)
    manifest = delivery_plane.manifest("Deployment", scene.namespace, "app", cluster_models=["shared"])
    for manager in ("argocd-controller", "kustomize-controller"):
        scene.apply(manifest, manager, "force=true")
    assert delivery_plane.has_gate(workload.template())
    freed(scene, workload)


@cases.case
def dry_run(scene):
    """Nothing comes of it, but the answer is the true one."""
    manifest = delivery_plane.manifest("Deployment", scene.namespace, "app", cluster_models=["shared"])
    told = json.loads(scene.plane.kubectl("apply", "--dry-run=server", "-o", "json", "-f", "-", input=manifest).stdout)
    assert delivery_plane.has_gate(delivery_plane.template_of(told))
    time.sleep(0.5)
    assert not scene.plane.claims(scene.namespace) and scene.api.get("Deployment", scene.namespace, "app") is None


# Who forges


def forged_template(model, claim):
    """A Pod template that says that it was given a model, by a claim of the forger's."""
    state = [{"name": model.name, "uri": f"registry/x@{model.digest}", "digest": model.digest, "sizeBytes": 1}]
    words = {"resolved-digest": model.digest, "resolved-artifact-uri": state[0]["uri"], "resolved-delivery-mode": "SharedPVC",
             "resolved-delivery-reason": "RWXSharedVolume", "resolved-models": json.dumps(state), "resolved-signature": "hmac-sha256:" + "0" * 64}
    volume = f"ai-models-shared-{model.name}"
    mount = {"name": volume, "mountPath": f"{delivery_guard.MODELS_DIR}/{model.name}", "subPath": "model", "readOnly": True}
    pod = {"containers": [{**delivery_plane.POD_ALONE["containers"][0], "volumeMounts": [mount]}],
           "volumes": [{"name": volume, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}]}
    return {"template_annotations": {f"{PREFIX}{key}": value for key, value in words.items()}, "pod": pod}


@cases.case
def forged_state(scene):
    """With a claim of the forger's own, and with one that is not there: no Pod of it starts before the true files are there."""
    own = scene.api.create({"kind": "PersistentVolumeClaim", "metadata": {"name": "own", "namespace": scene.namespace}, "spec": {
        "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}})
    other = scene.asking("DaemonSet", name="other", **forged_template(scene.plane.shared, own["metadata"]["name"]))
    other.wait_held("InvalidSpec", "name it otherwise")
    scene.plane.kubelet.hold(scene.namespace)
    workload = scene.asking(**forged_template(scene.plane.shared, "ai-models-cache-0123456789abcdef"))
    assert delivery_plane.has_gate(workload.template())
    freed(scene, workload)
    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in workload.template()["spec"]["volumes"]]
    assert claims == [scene.claim()["metadata"]["name"]]


@cases.case
def forged_name(scene):
    """It says that it was given a model, and asks for another."""
    forged = forged_template(scene.plane.second, "ai-models-cache-0123456789abcdef")
    workload = scene.asking("StatefulSet", **forged)
    workload.wait_running([scene.plane.shared])
    assert "second" not in json.dumps(workload.template())


@cases.case
def forged_later(scene):
    """A workload that is held takes its own gate away."""
    workload = held(scene)
    workload.patch({"spec": {"template": {"spec": {"schedulingGates": None}}}})
    assert delivery_plane.has_gate(workload.template())
    pods = workload.pods()
    freed(scene, workload)
    assert pods


@cases.case
def gate_taken_from_a_pod(scene):
    """Somebody lets a Pod go that is held: it starts without models, which only who may change Pods can do; the workload is
    delivered all the same."""
    workload = held(scene, is_strict=False)
    pod = workload.wait("a Pod", workload.pods)[0]
    scene.api.patch({"kind": "Pod", **pod}, {"spec": {"schedulingGates": None}})
    freed(scene, workload)


# The module's own namespace


@cases.case
def module_namespace(scene):
    workload = scene.workload(cluster_models=["shared"], namespace="d8-ai-models", name=f"w{scene.namespace[2:]}", replicas=0, is_strict=False)
    time.sleep(0.5)
    now = workload.now()
    assert not delivery_plane.has_gate(workload.template()) and delivery_plane.report_of(now) is None and not now["metadata"].get("finalizers")
    workload.delete()
    scene.workloads.remove(workload)


@cases.case
def two_models_of_one_file_tree(scene):
    """Model and ClusterModel with the same name in different workloads of a namespace have claims of their own."""
    mine = scene.model("shared")
    first, second = scene.workload(models=["shared"]), scene.asking(name="second")
    first.wait_running([mine])
    second.wait_running([scene.plane.shared])
    assert len(scene.plane.claims(scene.namespace)) == 2
