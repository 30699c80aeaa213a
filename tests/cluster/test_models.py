"""Models in a whole Kubernetes with the chart: each source to Ready by a real kubelet, and what workers, nodes, registry, bucket and
controller do to them on the way. What needs no kubelet is in tests/kube."""

import base64
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from harness import tools
from servers import families

WORKERS = "app.kubernetes.io/name=ai-models-publication"
MINILM, OLLAMA = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2", "https://ollama.com/library/tiny:q8_0"
# A stage of MiniLM's life at a time: enough for the test to step in.
SLOW = {"on": "large", "times": 6, "slow": 1}


@pytest.fixture
def namespace(installed, request):
    """With its end, which takes along what is in it."""
    name = "t-" + re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40]
    installed.kubectl("create", "namespace", name)
    yield name
    installed.outside.hub.faults.clear()
    installed.kubectl("delete", "namespace", name, "--timeout=120s")


def apply(installed, namespace, source, name="m", kind="Model"):
    place = {"namespace": namespace} if kind == "Model" else {}
    installed.apply({"apiVersion": "ai.deckhouse.io/v1alpha1", "kind": kind, "metadata": {"name": name, **place}, "spec": {"source": source}})
    return installed.get(kind, name, namespace)["metadata"]["uid"]


def events(installed, namespace, uid):
    return [(event["type"], event["reason"]) for event in installed.list("events", namespace) if event["involvedObject"].get("uid") == uid]


def leftovers(installed, namespace, uid):
    found = [f"{thing['kind']} {thing['metadata']['name']}" for kind in ("pods", "secrets", "configmaps", "roles", "rolebindings")
             for place in {installed.namespace, namespace} for thing in installed.list(kind, place)
             if uid in json.dumps(thing["metadata"]) and thing["metadata"]["name"] not in (f"dmcr-gc-{uid}", "ai-models-storage-accounting")]
    found += ["the ledger"] if uid in json.dumps(installed.get("configmap", "ai-models-storage-accounting", installed.namespace)) else []
    found += [key for key in installed.outside.bucket.objects("raw/") if uid in key]
    return found + [key for key in installed.outside.bucket.objects("dmcr/") if f"/{uid}/_manifests/" in key]


def gone(installed, namespace, uid, name="m", kind="Model"):
    where = ("-n", namespace) if kind == "Model" else ()
    installed.kubectl("delete", kind, name, *where, "--timeout=60s")
    installed.wait(f"nothing left: {leftovers(installed, namespace, uid)}", lambda: not leftovers(installed, namespace, uid))


def worker(installed, uid):
    pod = installed.get("pod", f"ai-model-publish-{uid}", installed.namespace)
    return pod if pod and pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp") else None


def process_of(pod):
    """The worker's own process on this machine, which is the node."""
    name = pod["metadata"]["name"].removeprefix("ai-model-publish-")
    for folder in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{folder}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if len(words) > 2 and words[0].endswith(b"ai-models") and words[1] == b"publish" and name.encode() in words:
            return int(folder)
    return None


def wait_process(installed, uid):
    pod = installed.wait("a worker runs", lambda: worker(installed, uid), every=0.1)
    return installed.wait("its process", lambda: process_of(pod), every=0.05)


# Sources


def test_from_hugging_face(installed, namespace):
    begin = time.monotonic()
    uid = apply(installed, namespace, {"url": MINILM})
    pod = installed.wait("a worker", lambda: installed.get("pod", f"ai-model-publish-{uid}", installed.namespace), every=0.05)
    status = installed.wait_phase("Model", "m", "Ready", namespace)["status"]
    print(f"MiniLM is Ready after {time.monotonic() - begin:.1f} s")
    assert status["resolved"]["format"] == "Safetensors" and status["artifact"]["sizeBytes"] > 90_000_000
    assert {("Normal", "RemoteFetchStarted"), ("Normal", "PublicationSucceeded")} <= set(events(installed, namespace, uid))
    # The namespace enforces the restricted standard; what the page says beyond that:
    container, spec = pod["spec"]["containers"][0], pod["spec"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True and spec["restartPolicy"] == "Never"
    assert {**spec["securityContext"], **container["securityContext"]}["runAsUser"] == 64535
    assert container["resources"] == {"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"},
                                      "limits": {"cpu": "4", "memory": "2Gi", "ephemeral-storage": "1Gi"}}
    gone(installed, namespace, uid)


def test_from_ollama(installed, namespace):
    uid = apply(installed, namespace, {"url": OLLAMA})
    status = installed.wait_phase("Model", "m", "Ready", namespace)["status"]
    assert status["source"]["resolvedType"] == "Ollama" and status["resolved"]["format"] == "GGUF"
    gone(installed, namespace, uid)


@pytest.mark.parametrize("kind", ["Model", "ClusterModel"])
def test_from_an_upload(installed, namespace, tmp_path, kind):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(families.gguf_file("Q8_0", "Q8_0"))
    uid = apply(installed, namespace, {"upload": {}}, kind=kind)
    where = namespace if kind == "Model" else None
    status = installed.wait_phase(kind, "m", "WaitForUpload", where)["status"]
    secret = installed.get("secret", status["upload"]["secretName"], where or installed.namespace)
    address, token = (base64.b64decode(secret["data"][key]).decode() for key in ("url", "token"))
    local = re.sub(r"^https?://[^/]+", f"http://{installed.service_address('ai-models-upload-gateway')}:8444", address)
    done = subprocess.run([tools.need("curl"), "--silent", "--upload-file", path, "--header", f"Authorization: Bearer {token}", "--write-out", "%{http_code}",
                           "--max-time", "60", local], capture_output=True, text=True)
    assert done.stdout.endswith("201"), done
    installed.wait_phase(kind, "m", "Ready", where)
    gone(installed, namespace, uid, kind=kind)


def test_what_a_user_reads(installed, namespace):
    with subprocess.Popen([tools.kubernetes("kubectl"), "--kubeconfig", installed.cluster.kubeconfig, "get", "models", "-n", namespace, "-w"],
                          stdout=subprocess.PIPE, text=True) as watching:
        uid = apply(installed, namespace, {"url": MINILM})
        installed.wait_phase("Model", "m", "Ready", namespace)
        watching.terminate()
        lines = [line.split() for line in watching.stdout.read().splitlines()]
    assert lines[0] == ["NAME", "PHASE", "SOURCE", "AGE"]
    phases = [line[1] for line in lines[1:] if line[1] in ("Pending", "Publishing", "Ready", "Failed")]
    assert phases[-1] == "Ready" and phases == sorted(phases, key=("Pending", "Publishing", "Ready").index), phases
    described = installed.kubectl("describe", "model", "m", "-n", namespace)
    for word in ("PublicationSucceeded", "RemoteFetchStarted", "ArtifactPublished", "Safetensors", "Phase:", "Ready"):
        assert word in described, described
    wide = installed.kubectl("get", "model", "m", "-n", namespace, "-o", "wide").splitlines()
    assert wide[0].split()[:4] == ["NAME", "PHASE", "PROGRESS", "SOURCE"] and "100%" in wide[1] and "sha256:" in wide[1]
    explained = installed.kubectl("explain", "model.spec.source")
    assert "url" in explained and "upload" in explained and "FIELD" in explained.upper()
    gone(installed, namespace, uid)


# Workers and nodes


@pytest.mark.parametrize("how", ["killed", "out of memory", "evicted", "drained"])
def test_a_worker_that_is_interrupted_goes_on(installed, namespace, how):
    installed.outside.hub.fail(**SLOW)
    uid = apply(installed, namespace, {"url": MINILM})
    pid = wait_process(installed, uid)
    if how == "killed":
        os.kill(pid, signal.SIGKILL)
    elif how == "out of memory":
        starve(pid)
    elif how == "evicted":
        path = f"/api/v1/namespaces/{installed.namespace}/pods/ai-model-publish-{uid}/eviction"
        installed.kubectl("create", "--raw", path, "-f", "-", input=json.dumps({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": f"ai-model-publish-{uid}", "namespace": installed.namespace}}).encode())
    else:
        try:
            installed.kubectl("drain", "node-1", f"--pod-selector={WORKERS}", "--force", "--delete-emptydir-data", "--timeout=60s")
        finally:
            installed.kubectl("uncordon", "node-1")
    installed.wait_phase("Model", "m", "Ready", namespace, 120)
    assert ("Warning", "PublicationFailed") not in events(installed, namespace, uid)
    gone(installed, namespace, uid)


def starve(pid):
    """Lets the kernel find no memory for a process: its group of processes may have no more than it has."""
    group = next(line.split(":", 2)[2] for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines() if ":memory:" in line or line.startswith("0::"))
    root = pathlib.Path("/sys/fs/cgroup/memory" if pathlib.Path("/sys/fs/cgroup/memory").exists() else "/sys/fs/cgroup") / group.lstrip("/")
    limit, used = ("memory.limit_in_bytes", "memory.usage_in_bytes") if (root / "memory.limit_in_bytes").exists() else ("memory.max", "memory.current")
    for _ in range(200):
        if not pathlib.Path(f"/proc/{pid}").exists():
            return
        try:
            (root / limit).write_text(str(max(int((root / used).read_text()) - (1 << 20), 1 << 20)))
        except OSError:  # EBUSY: that much cannot be taken from it; it will grow
            pass
        time.sleep(0.02)


def test_a_namespace_that_is_deleted(installed, namespace):
    uids = [apply(installed, namespace, {"url": OLLAMA}, "ready"), apply(installed, namespace, {"upload": {}}, "waits")]
    installed.wait_phase("Model", "ready", "Ready", namespace)
    installed.wait_phase("Model", "waits", "WaitForUpload", namespace)
    installed.outside.hub.fail(**SLOW)
    uids.append(apply(installed, namespace, {"url": MINILM}, "runs"))
    wait_process(installed, uids[-1])
    installed.kubectl("delete", "namespace", namespace, "--timeout=120s")
    for uid in uids:
        installed.wait("nothing left", lambda: not leftovers(installed, namespace, uid))
    installed.kubectl("create", "namespace", namespace)  # for the end of this test


# Parts of the module


def restart(installed, deployment, replicas):
    installed.kubectl("scale", "deployment", deployment, "-n", installed.namespace, f"--replicas={replicas}")
    if replicas:
        installed.kubectl("rollout", "status", "deployment", deployment, "-n", installed.namespace, "--timeout=120s")
    else:
        installed.kubectl("wait", "--for=delete", "pod", "-l", f"app={deployment}", "-n", installed.namespace, "--timeout=60s", check=False)


def test_two_registries_on_one_bucket(installed, namespace):
    before = installed.get("deployment", "dmcr", installed.namespace)["spec"]["replicas"]
    try:
        restart(installed, "dmcr", 2)
        uid = apply(installed, namespace, {"url": MINILM})
        installed.wait_phase("Model", "m", "Ready", namespace, 120)
        gone(installed, namespace, uid)
    finally:
        restart(installed, "dmcr", before)


@pytest.mark.parametrize("what", ["registry", "bucket"])
def test_down_for_a_while(installed, namespace, what):
    before = installed.get("deployment", "dmcr", installed.namespace)["spec"]["replicas"]
    installed.outside.hub.fail(**SLOW)
    uid = apply(installed, namespace, {"url": MINILM})
    wait_process(installed, uid)
    if what == "registry":
        restart(installed, "dmcr", 0)
    else:
        installed.outside.weed.stop()
    time.sleep(float(os.environ.get("AI_MODELS_OUTAGE_S", 10)))  # 60 in a run by hand
    assert installed.get("model", "m", namespace)["status"]["phase"] == "Publishing"
    if what == "registry":
        restart(installed, "dmcr", before)
    else:
        installed.outside.weed.start()
    installed.wait_phase("Model", "m", "Ready", namespace, 180)
    gone(installed, namespace, uid)


def test_the_controller_is_killed(installed, namespace):
    installed.outside.hub.fail(**SLOW)
    uid = apply(installed, namespace, {"url": MINILM})
    wait_process(installed, uid)
    for folder in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{folder}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if len(words) > 2 and words[0].endswith(b"ai-models") and words[1] == b"controller":
            os.kill(int(folder), signal.SIGKILL)
    installed.wait_phase("Model", "m", "Ready", namespace, 120)
    gone(installed, namespace, uid)
