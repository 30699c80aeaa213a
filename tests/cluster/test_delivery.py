"""Models of workloads in a whole Kubernetes: real kubelet, real volumes mounted into real Pods, which read them. The scenarios of
SCENARIOS run at the same time, each in its namespace. What needs no kubelet is in tests/kube."""

import concurrent.futures
import os
import signal
import subprocess

import pytest

from harness import delivery_plane, kube_api, tools

from . import delivery

SCENARIOS = {}
AT_ONCE = 8


def scenario(function):
    SCENARIOS[function.__name__.replace("_", "-")] = function
    return function


@pytest.fixture(scope="module")
def plane(installed):
    plane = delivery.Plane(installed)
    yield plane
    plane.close()


@pytest.fixture(scope="module")
def shared(plane):
    """A ClusterModel that several use."""
    return plane.ready(plane.model("shared"))


@pytest.fixture(scope="module")
def played(plane, shared):
    """Name -> future of each scenario."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(play, plane, f"d-{name}", shared) for name in SCENARIOS}


def play(plane, namespace, shared):
    SCENARIOS[namespace.removeprefix("d-")](plane, plane.namespace(namespace), shared)
    assert delivery.faults(plane, [namespace]) == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(played, name):
    played[name].result(240)


@scenario
def all_kinds_read_a_real_model(plane, namespace, shared):
    """Gated as long as there is no model; one volume for all."""
    kinds = [plane.workload(kind, namespace, ["minilm"], name=kind.lower(), does=("sums",) if kind == "CronJob" else ("sums", "wait"),
                            **({"replicas": 2} if kind == "Deployment" else {})) for kind in ("Deployment", "StatefulSet", "DaemonSet", "CronJob")]
    for workload in kinds:
        workload.wait_held("ModelDeliveryPending", "Model minilm does not exist")
        if workload.kind != "CronJob":
            workload.wait("its Pods are gated", lambda workload=workload: workload.pods())
            assert all(condition["reason"] == "SchedulingGated" for pod in workload.pods() for condition in pod["status"].get("conditions", []))
    kinds[3].kubectl("create", "job", "too-early", "--from=cronjob/cronjob")
    files = delivery.sums_of(tools.real_model())
    minilm = plane.ready(plane.model("minilm", namespace, "sentence-transformers/all-MiniLM-L6-v2", files))
    deployment, stateful, daemon, cron = kinds
    cron.wait_running([minilm])
    cron.wait("what would wait for ever is gone", lambda: not plane.api.get("Job", namespace, "too-early"))
    cron.kubectl("create", "job", "by-hand", "--from=cronjob/cronjob")
    cron.kubectl("wait", "--for=condition=complete", "job/by-hand", "--timeout=60s")
    read = cron.read({"metadata": {"name": "job/by-hand"}})
    # What of the repository belongs to the model is not decided here; its weights do.
    minilm.files = {path: digest for path, digest in files.items() if f"minilm/{path}" in read}
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= minilm.files.keys()
    assert read == {f"minilm/{path}": digest for path, digest in minilm.files.items()}
    deployment.wait_read([minilm], 2)
    stateful.wait_read([minilm])
    daemon.wait_read([minilm])
    assert len(deployment.revisions()) == 1
    claim, = plane.claims(namespace)
    assert {owner["kind"] for owner in claim["metadata"]["ownerReferences"]} == {workload.kind for workload in kinds}
    assert plane.secrets(namespace) == []


@scenario
def kubectl_rollout_and_scale(plane, namespace, shared):
    workload = plane.workload("Deployment", namespace, pod=delivery.WAITS)
    workload.wait("it runs, without models", lambda: [one["status"].get("phase") for one in workload.pods()] == ["Running"])
    workload.kubectl("annotate", "deployment", "app", "ai.deckhouse.io/clustermodel=shared")
    workload.wait_running([shared])
    before = workload.uids()
    workload.kubectl("rollout", "restart", "deployment/app")
    workload.kubectl("rollout", "status", "deployment/app", "--timeout=60s")
    workload.wait_running([shared])
    assert not before & workload.uids()
    # To the revision before: kubectl takes the annotation back with it, so nothing is asked for any more. Then it is, again.
    workload.kubectl("rollout", "undo", "deployment/app", "--to-revision=1")
    workload.kubectl("rollout", "status", "deployment/app", "--timeout=60s")
    workload.wait("it has no models", lambda: not workload.has_finalizer() and "annotations" not in workload.template()["metadata"])
    assert not any(claim["metadata"].get("ownerReferences") for claim in plane.claims(namespace))
    workload.kubectl("rollout", "undo", "deployment/app")
    workload.wait_running([shared])
    workload.kubectl("rollout", "pause", "deployment/app")
    workload.kubectl("scale", "deployment/app", "--replicas=3")
    workload.wait_running([shared], 3)
    workload.kubectl("rollout", "resume", "deployment/app")
    workload.kubectl("scale", "deployment/app", "--replicas=1")
    workload.wait_running([shared], 1)


@scenario
def unchanged_manifests_applied_again(plane, namespace, shared):
    """By kubectl's own apply, and by the field managers of Argo CD and Flux: no new revision."""
    pod = {"containers": [{**delivery.READER, "args": ["sums", "wait"]}], "terminationGracePeriodSeconds": 5}
    manifests = {name: delivery_plane.manifest("Deployment", namespace, name, cluster_models=["shared"], pod=pod) for name in ("client", "argo", "flux")}
    ways = {"client": (), "argo": ("--server-side", "--field-manager=argocd-controller"),
            "flux": ("--server-side", "--force-conflicts", "--field-manager=kustomize-controller")}

    def apply():
        for name, options in ways.items():
            plane.installed.kubectl("apply", *options, "-f", "-", input=delivery.as_json(manifests[name]))

    apply()
    workloads = [delivery.Workload(plane, {"kind": "Deployment", **plane.api.get("Deployment", namespace, name)}) for name in ways]
    for workload in workloads:
        workload.wait_read([shared])
    seen = [(workload.uids(), [one["metadata"]["uid"] for one in workload.revisions()]) for workload in workloads]
    for _ in range(3):
        apply()
    for workload, was in zip(workloads, seen, strict=True):
        workload.wait_read([shared])
        assert (workload.uids(), [one["metadata"]["uid"] for one in workload.revisions()]) == was


@scenario
def deleted_but_not_its_pods(plane, namespace, shared):
    """kubectl delete --cascade=orphan: who runs keeps its files."""
    workload = plane.workload("Deployment", namespace, cluster_models=["shared"])
    workload.wait_read([shared])
    before = workload.uids()
    workload.kubectl("delete", "deployment", "app", "--cascade=orphan", "--timeout=60s")
    pod, = plane.api.list("Pod", namespace, "app=app")
    assert pod["metadata"]["uid"] in before and pod["status"]["phase"] == "Running"
    claim, = plane.claims(namespace)
    assert not claim["metadata"].get("deletionTimestamp") and not claim["metadata"].get("ownerReferences")
    plane.installed.kubectl("exec", "-n", namespace, pod["metadata"]["name"], "--", "/usr/bin/python3", "-s", "-S", "/reader.py", "sums")


@scenario
def a_model_goes_and_comes_with_other_bytes(plane, namespace, shared):
    first = plane.ready(plane.model("m", namespace))
    workload = plane.workload("StatefulSet", namespace, ["m"])
    workload.wait_read([first])
    before = workload.uids()
    workload.kubectl("delete", "model", "m", "--timeout=60s")
    workload.wait_report("ModelDeliveryPending", "Model m does not exist")
    assert workload.uids() == before and workload.serves([first])
    second = plane.ready(plane.model("m", namespace))
    assert second.digest != first.digest
    workload.wait_read([second])


@scenario
def a_refusal_is_quoted(plane, namespace, shared):
    plane.installed.provisioner.behave(namespace, mode="refuse", message="the pool is full")
    workload = plane.workload("Deployment", namespace, cluster_models=["shared"], pod=delivery.WAITS)
    workload.wait_held("SharedPVCProvisioningFailed", "the pool is full")
    assert ("Warning", "ModelDeliveryBlocked") in [event[:2] for event in workload.events()]
    workload.kubectl("annotate", "deployment", "app", "ai.deckhouse.io/clustermodel-")
    workload.wait("a claim that was never bound is gone", lambda: not plane.claims(namespace))
    plane.installed.provisioner.behave(namespace)
    workload.kubectl("delete", "deployment", "app", "--timeout=60s")


@scenario
def a_namespace_that_is_deleted(plane, namespace, shared):
    workload = plane.workload("Deployment", namespace, cluster_models=["shared"])
    plane.workload("DaemonSet", namespace, ["nowhere"], name="gated").wait_held("ModelDeliveryPending")
    workload.wait_read([shared])
    plane.installed.kubectl("delete", "namespace", namespace, "--timeout=120s")


@scenario
def a_program_loads_the_weights(plane, namespace, shared):
    workload = plane.workload("DaemonSet", namespace, cluster_models=["shared"], does=("tensors", "wait"))
    workload.wait_running([shared])
    pod, = workload.pods()
    workload.wait("it loads them", lambda: "tensors, " in workload.said(pod), 20)


# Parts that go away


def scale(installed, deployment, replicas):
    installed.kubectl("scale", "deployment", deployment, "-n", installed.namespace, f"--replicas={replicas}")
    if replicas:
        installed.kubectl("rollout", "status", "deployment", deployment, "-n", installed.namespace, "--timeout=120s")
    else:
        installed.kubectl("wait", "--for=delete", "pod", "-l", f"app={deployment}", "-n", installed.namespace, "--timeout=60s", check=False)


def copier(plane, namespace):
    """The Pod of the namespace's Job, once it runs."""
    def running():
        return [pod for pod in plane.api.list("Pod", namespace, delivery.MATERIALIZERS) if pod["status"].get("phase") == "Running"]
    return delivery.wait_until(lambda: f"a Job runs in {namespace}: {plane.installed.kubectl('describe', 'pods', '-n', namespace)}", running)[0]


def process_of(namespace, pod):
    """The container's on this machine: the only one whose group of processes has the Pod's uid."""
    uid = pod["metadata"]["uid"]
    found = [pid for pid in delivery.processes("materialize") if uid in open(f"/proc/{pid}/cgroup").read().replace("_", "-")]
    return found[0] if found else None


def test_registry_and_controller_go_away_in_the_middle(installed, plane, played):
    """Jobs wait for the registry, one is evicted, one killed; without the controller nobody is admitted who asks for models, others are; once
    all are back, all have their models."""
    concurrent.futures.wait(played.values())
    model = plane.ready(plane.model("outage"))
    spaces = [plane.namespace(f"d-{name}") for name in ("evicted", "killed", "left-alone")]
    try:
        scale(installed, "dmcr", 0)
        workloads = [plane.workload("Deployment", space, cluster_models=["outage"]) for space in spaces]
        evicted, killed, _ = pods = [copier(plane, space) for space in spaces]
        scale(installed, "ai-models-controller", 0)
        plane.api.must("POST", f"/api/v1/namespaces/{spaces[0]}/pods/{evicted['metadata']['name']}/eviction", {
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": evicted["metadata"]["name"], "namespace": spaces[0]}})
        os.kill(delivery.wait_until("its process", lambda: process_of(spaces[1], killed)), signal.SIGKILL)
        refused = subprocess.run([tools.kubernetes("kubectl"), "--kubeconfig", installed.cluster.kubeconfig, "create", "-f", "-"], capture_output=True,
                                 input=delivery.as_json(delivery_plane.manifest("Deployment", spaces[2], "refused", cluster_models=["outage"])))
        assert refused.returncode != 0 and b"workloaddelivery.ai-models.deckhouse.io" in refused.stderr
        plane.workload("Deployment", spaces[2], name="plain", pod=delivery.WAITS).kubectl("rollout", "status", "deployment/plain", "--timeout=60s")
    finally:
        scale(installed, "dmcr", 1)
        scale(installed, "ai-models-controller", 1)
    for workload in workloads:
        workload.wait_read([model])
    assert len(pods) == 3 and all(plane.secrets(space) == [] for space in spaces)


def test_a_new_controller_refuses_nobody(installed, plane, played):
    """While one replica follows another there is always one that admits."""
    concurrent.futures.wait(played.values())
    installed.kubectl("rollout", "restart", "deployment/ai-models-controller", "-n", installed.namespace)
    wanted = delivery_plane.manifest("Deployment", "default", "asks", cluster_models=["nowhere"])
    with subprocess.Popen([tools.kubernetes("kubectl"), "--kubeconfig", installed.cluster.kubeconfig, "rollout", "status", "-n", installed.namespace,
                           "deployment/ai-models-controller", "--timeout=120s"], stdout=subprocess.DEVNULL) as rollout:
        n_asked = 0
        while rollout.poll() is None or plane.api.list("Pod", installed.namespace, "app=ai-models-controller")[1:]:
            made = plane.api.must("POST", kube_api.path_of("Deployment", "default") + "?dryRun=All", wanted)
            assert delivery_plane.has_gate(made["spec"]["template"])
            n_asked += 1
    assert rollout.returncode == 0 and n_asked > 100


def test_nothing_is_left_behind(plane, played):
    """After the workloads have gone: claims go with their holders, Jobs and Secrets went before."""
    concurrent.futures.wait(played.values())
    spaces = [one["metadata"]["name"] for one in plane.api.list("Namespace") if one["metadata"]["name"].startswith("d-")]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda space: empty(plane, space), spaces))


def empty(plane, space):
    plane.installed.kubectl("delete", "deployments,statefulsets,daemonsets,cronjobs", "--all", "-n", space, "--timeout=120s")
    delivery.wait_until(lambda: f"Secrets in {space}: {plane.secrets(space)}", lambda: not plane.secrets(space))
    plane.installed.kubectl("delete", "namespace", space, "--timeout=120s")
