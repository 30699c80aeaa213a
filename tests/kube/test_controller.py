"""`ai-models controller` against a real API server. The test is the kubelet: it says how the workers' Pods are."""

import base64
import json
import signal
import subprocess
import time
import urllib.request

import pytest

from harness import kube_api, servers, tools

MODULE = "d8-ai-models"
HUB = "https://huggingface.co/owner/repository"
DIGEST = "sha256:" + "a" * 64
RESULT = {"result": {
    "artifact": {"digest": DIGEST, "mediaType": "application/vnd.cncf.model.manifest.v1+json", "sizeBytes": 1234, "repository": "r"},
    "source": {"resolvedType": "HuggingFace", "resolvedRevision": "c" * 40},
    "resolved": {"format": "Safetensors", "family": "bert", "parameterCount": 22713216, "supportedEndpointTypes": ["Embeddings"]},
    "metadataComplete": True}}


class Controller:
    """The program, as one replica."""

    def __init__(self, plane, folder, registry, *options):
        self.log, self.port = folder / "controller.log", servers.free_port()
        login = folder / "login"
        login.mkdir(exist_ok=True)
        (login / "username").write_text("ai-models")
        (login / "password").write_text("secret")
        self.command = [tools.program(), "controller", "--namespace", MODULE, "--worker-image", "worker:1", "--registry", registry.host,
                        "--registry-plain-http", "--registry-login-dir", login, "--listen", f"127.0.0.1:{self.port}", "--log-level", "debug",
                        "--inventory-interval-s", "1", *options]
        self.environment = {"KUBECONFIG": str(plane.kubeconfig), "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
        self.process = None

    def start(self):
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(list(map(str, self.command)), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.environment)
        return self

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        assert self.process.wait(30) in ((0,) if how == signal.SIGTERM else (-how,)), self.log.read_text()[-3000:]

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return answer.read().decode()


@pytest.fixture(scope="module")
def api(cluster):
    api = kube_api.Api(cluster)
    kube_api.install_crds(api)
    api.create({"kind": "Namespace", "metadata": {"name": MODULE}}, exist_ok=True)
    for account in ("default", "ai-models-publication-worker"):
        api.create({"kind": "ServiceAccount", "metadata": {"name": account, "namespace": MODULE}}, exist_ok=True)
    return api


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    folder = tmp_path_factory.mktemp("registry")
    with servers.ours(folder / "store", "--allow-anonymous-write", log=folder / "log") as registry:
        yield registry


@pytest.fixture(scope="module")
def controller(cluster, api, registry, tmp_path_factory):
    folder = tmp_path_factory.mktemp("controller")
    (folder / "staging").mkdir()
    controller = Controller(cluster, folder, registry, "--staging-store", folder / "staging", "--upload-url", "http://upload.example").start()
    yield controller
    controller.stop()


class Subject:
    """One Model or ClusterModel of a test, and what there is of it."""

    def __init__(self, api, name, kind="Model", **source):
        self.api, self.kind, self.name = api, kind, name
        self.namespace = "default" if kind == "Model" else None
        place = {"namespace": "default"} if kind == "Model" else {}
        self.made = api.create({"kind": kind, "metadata": {"name": name, **place}, "spec": {"source": source or {"url": HUB}}})
        self.made["kind"], self.uid = kind, self.made["metadata"]["uid"]

    def get(self):
        return self.api.get(self.kind, self.namespace, self.name)

    def condition(self, kind):
        return kube_api.condition(self.get(), kind)

    def phase(self):
        return self.get().get("status", {}).get("phase")

    def wait_phase(self, phase, timeout=20):
        return self.api.wait(lambda: json.dumps(self.get(), indent=1), lambda: self.phase() == phase and self.get(), timeout)

    def wait_condition(self, kind, status, reason, words="", timeout=20):
        def holds():
            found = self.condition(kind)
            return found and found[:2] == (status, reason) and words in found[2]
        self.api.wait(lambda: f"{kind} {status}/{reason} {words}: {json.dumps(self.get()['status'], indent=1)}", holds, timeout)

    def part(self, kind, prefix="ai-model-publish-", namespace=MODULE):
        return self.api.get(kind, namespace, prefix + self.uid)

    def wait_pod(self, but=None):
        def new():
            pod = self.part("Pod")
            return pod if pod and pod["metadata"]["uid"] != but else None
        return {"kind": "Pod", **self.api.wait(lambda: f"a worker: {json.dumps(self.get(), indent=1)}", new, 30)}

    def tell_pod(self, **status):
        self.api.patch({"kind": "Pod", **self.part("Pod")}, {"status": status}, "status")

    def end_pod(self, message, code=0, reason=None, **more):
        text = message if isinstance(message, str) else json.dumps(message)
        now = "2026-01-01T00:00:00Z"
        self.tell_pod(phase="Succeeded" if code == 0 else "Failed", containerStatuses=[{
            "name": "publish", "image": "x", "imageID": "", "restartCount": 0, "ready": False,
            "state": {"terminated": {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error"), "message": text,
                                     "startedAt": now, "finishedAt": now}}}], **more)

    def write_state(self, **state):
        secret = {"kind": "Secret", **self.part("Secret", "ai-model-publish-state-")}
        self.api.patch(secret, {"data": {"state.json": base64.b64encode(json.dumps(state).encode()).decode()}})

    def events(self):
        found = self.api.list("Event", self.namespace or "default")
        return {event["reason"]: event["message"] for event in found if event["involvedObject"]["uid"] == self.uid}

    def leftovers(self):
        found = []
        for kind in ("Pod", "Secret", "Role", "RoleBinding"):
            for place in {MODULE, self.namespace or MODULE}:
                found += [(kind, one["metadata"]["name"]) for one in self.api.list(kind, place)
                          if self.uid in one["metadata"]["name"] and not one["metadata"]["name"].startswith("dmcr-gc-")]
        return found

    def delete(self):
        self.api.delete(self.made)
        self.api.wait(lambda: f"it goes: {json.dumps(self.get(), indent=1)}", lambda: self.get() is None, 30)
        self.api.wait(lambda: f"nothing is left: {self.leftovers()}", lambda: not self.leftovers())


def ledger(api):
    return json.loads(api.get("ConfigMap", MODULE, "ai-models-storage-accounting")["data"]["ledger.json"])


@pytest.mark.parametrize("kind", ["Model", "ClusterModel"])
def test_life(api, controller, kind):
    one = Subject(api, "life", kind)
    pod = one.wait_pod()
    one.wait_phase("Publishing")
    assert pod["spec"]["restartPolicy"] == "Never" and pod["spec"]["serviceAccountName"] == "ai-models-publication-worker"
    container = pod["spec"]["containers"][0]
    arguments = container["args"]
    assert arguments[arguments.index("--source") + 1] == HUB and arguments[arguments.index("--owner-uid") + 1] == one.uid
    assert container["securityContext"]["readOnlyRootFilesystem"] and pod["spec"]["securityContext"]["runAsUser"] == 64535
    role = one.part("Role")
    assert {(rule["resources"][0], rule["resourceNames"][0]) for rule in role["rules"]} == {
        ("secrets", "ai-model-publish-state-" + one.uid), ("configmaps", "ai-models-storage-accounting")}
    one.tell_pod(phase="Running")
    one.write_state(phase="Running", stage="Uploading", plannedSizeBytes=100, uploadedSizeBytes=42, resolvedRevision="c" * 40)
    api.wait(lambda: json.dumps(one.get()), lambda: one.get()["status"].get("progress") == "42%")
    assert one.get()["status"]["source"] == {"resolvedType": "HuggingFace", "resolvedRevision": "c" * 40}
    one.end_pod(RESULT)
    ready = one.wait_phase("Ready")["status"]
    assert ready["progress"] == "100%" and ready["artifact"]["digest"] == DIGEST and ready["artifact"]["sizeBytes"] == 1234
    assert ready["resolved"]["family"] == "bert" and one.condition("MetadataResolved")[1] == "ModelMetadataCalculated"
    api.wait(lambda: f"cleared up: {one.leftovers()}", lambda: one.leftovers() == [("Secret", "ai-model-cleanup-state-" + one.uid)])
    assert ledger(api)["published"][one.uid]["sizeBytes"] == 1234
    assert {"RemoteFetchStarted", "PublicationSucceeded"} <= set(one.events())
    version = one.get()["metadata"]["resourceVersion"]
    time.sleep(1.5)
    assert one.get()["metadata"]["resourceVersion"] == version
    one.delete()
    assert one.uid not in ledger(api)["published"]
    assert api.get("Secret", MODULE, "dmcr-gc-" + one.uid)["metadata"]["labels"]["ai.deckhouse.io/dmcr-gc-request"] == "true"


def test_failure(api, controller):
    one = Subject(api, "failure")
    one.wait_pod()
    one.end_pod({"failure": {"reason": "PublicationFailed", "message": "the repository is gated; ask for access"}}, code=1)
    one.wait_phase("Failed")
    assert one.condition("ArtifactResolved") == ("False", "PublicationFailed", "the repository is gated; ask for access")
    assert one.condition("Ready")[:2] == ("False", "Failed") and "artifact" not in one.get()["status"]
    api.wait(lambda: f"cleared up: {one.leftovers()}", lambda: not one.leftovers())
    api.wait("an event", lambda: one.events().get("PublicationFailed") == "the repository is gated; ask for access")
    one.delete()
