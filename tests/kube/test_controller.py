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
                        "--inventory-interval-s", "1", "--max-workers", "8", *options]
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


NODE_LOW = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.", "containerStatuses": []}
INTERRUPTIONS = [
    (lambda one: one.end_pod({"interrupted": {"message": "it was told to stop"}}, code=1), "it was told to stop"),
    (lambda one: one.end_pod("", code=137, reason="OOMKilled"), "the worker ran out of memory"),
    (lambda one: one.end_pod("", code=139), "the worker ended with status 139"),
    (lambda one: one.end_pod("no JSON"), "the worker ended with status 0"),
    (lambda one: one.tell_pod(**NODE_LOW), "evicted from its node: The node was low on resource: memory."),
]


def test_interrupted(api, controller):
    """It is started anew, after a pause, and goes on where it was."""
    ones = [Subject(api, f"interrupted-{number}") for number in range(len(INTERRUPTIONS))]
    pods = [one.wait_pod() for one in ones]
    for one, (end, words) in zip(ones, INTERRUPTIONS):
        one.write_state(phase="Running", stage="Uploading", plannedSizeBytes=100, uploadedSizeBytes=42)
        end(one)
        one.wait_condition("ArtifactResolved", "False", "Pending", words)
        one.wait_condition("ArtifactResolved", "False", "Pending", "it is started again")
        assert one.get()["status"]["progress"] == "42%"
    for one, pod in zip(ones, pods):
        again = one.wait_pod(but=pod["metadata"]["uid"])
        assert again["spec"]["containers"][0]["args"] == pod["spec"]["containers"][0]["args"]
        one.end_pod(RESULT)
    for one in ones:
        one.wait_phase("Ready")
        one.delete()


def test_dies_again_and_again(api, controller):
    one = Subject(api, "dies")
    one.wait_pod()
    state = {"kind": "Secret", **one.part("Secret", "ai-model-publish-state-")}
    api.patch(state, {"metadata": {"annotations": {"ai.deckhouse.io/worker-interruptions": "5"}}})
    one.end_pod("", code=137, reason="OOMKilled")
    one.wait_condition("ArtifactResolved", "False", "PublicationFailed", "6 times in a row")
    assert "ran out of memory" in one.condition("ArtifactResolved")[2]
    one.delete()


@pytest.mark.parametrize("reason, words", [("ImagePullBackOff", "image cannot be pulled (ImagePullBackOff)"),
                                           ("CreateContainerConfigError", 'secret "x" not found')])
def test_does_not_start(api, controller, reason, words):
    one = Subject(api, "stuck-" + reason.lower())
    one.wait_pod()
    waiting = {"reason": reason, "message": 'secret "x" not found: registry.example/x'}
    one.tell_pod(phase="Pending", containerStatuses=[{"name": "publish", "image": "x", "imageID": "", "restartCount": 0, "ready": False,
                                                      "state": {"waiting": waiting}}])
    one.wait_condition("ArtifactResolved", "False", "Publishing", words)
    if reason.startswith("Image"):
        assert "registry.example" not in one.condition("ArtifactResolved")[2]
    one.end_pod(RESULT)
    one.wait_phase("Ready")
    one.delete()


def test_unschedulable(api, controller):
    one = Subject(api, "unschedulable")
    one.wait_pod()
    one.tell_pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}])
    one.wait_condition("Ready", "False", "Publishing", "no node takes the worker: 0/1 nodes are available")
    one.delete()


def test_trouble(api, controller):
    one = Subject(api, "trouble")
    one.wait_pod()
    one.tell_pod(phase="Running")
    one.write_state(phase="Running", stage="Uploading", trouble="the hub answers 503")
    one.wait_condition("ArtifactResolved", "False", "Publishing", "the hub answers 503; it is tried again")
    one.write_state(phase="Running", stage="Uploading")
    one.wait_condition("ArtifactResolved", "False", "Publishing", "the files are being fetched")
    one.delete()


def secret(api, name, data, namespace="default"):
    made = {"kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "stringData": data}
    api.delete(made)
    return {"kind": "Secret", **api.create(made)}


def test_token(api, controller):
    one = Subject(api, "token", url=HUB, authSecretRef={"name": "hub"})
    one.wait_condition("Ready", "False", "Pending", "Secret hub with the token for the hub is not there")
    assert one.phase() == "Pending" and one.part("Pod") is None
    secret(api, "hub", {"other": "x"})
    one.wait_condition("Ready", "False", "Pending", "has none of the keys token", timeout=25)
    secret(api, "hub", {"token": "", "HF_TOKEN": "hf_x"})
    pod = one.wait_pod()
    copy = one.part("Secret", "ai-model-publish-auth-")
    assert base64.b64decode(copy["data"]["token"]) == b"hf_x"
    arguments = pod["spec"]["containers"][0]["args"]
    assert arguments[arguments.index("--token-file") + 1] == "/etc/ai-models/source-token/token"
    one.end_pod(RESULT)
    one.wait_phase("Ready")
    api.wait("the copy goes", lambda: one.part("Secret", "ai-model-publish-auth-") is None)
    one.delete()


def test_refused_sources(api, controller):
    for number, (source, reason, words) in enumerate([
            ({"url": HUB, "authSecretRef": {"name": "x", "namespace": "other"}}, "PublicationFailed", "names a Secret of namespace other"),
            ({"url": "https://huggingface.co/datasets/owner/name"}, "UnsupportedSource", "dataset")]):
        one = Subject(api, f"refused-{number}", **source)
        one.wait_phase("Failed")
        assert one.condition("ArtifactResolved")[1] == reason and words in one.condition("ArtifactResolved")[2]
        assert one.leftovers() == []
        one.delete()


def test_catalogue(api, controller):
    one = Subject(api, "catalogue", catalog={"name": "some"})
    one.wait_condition("ArtifactResolved", "False", "CatalogSourceNotReady", "entry some cannot be imported")
    assert one.phase() == "Pending"
    one.delete()


def session_of(one):
    return {"kind": "Secret", **one.part("Secret", "ai-model-upload-auth-")}


def set_session(api, one, annotations=None, **data):
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    api.patch(session_of(one), {"data": encoded, "metadata": {"annotations": annotations or {}}})


@pytest.mark.parametrize("kind", ["Model", "ClusterModel"])
def test_upload(api, controller, kind, cluster):
    one = Subject(api, "upload", kind, upload={})
    status = one.wait_phase("WaitForUpload")["status"]
    name, place = status["upload"]["secretName"], one.namespace or MODULE
    assert name == "ai-model-upload-token-" + one.uid and status["upload"]["expiresAt"]
    given = {key: base64.b64decode(value).decode() for key, value in api.get("Secret", place, name)["data"].items()}
    assert given["url"] == "http://upload.example/v1/upload/ai-model-upload-auth-" + one.uid and len(given["token"]) == 48
    rule = api.get("Role", place, "ai-model-upload-reader-upload")["rules"]
    assert rule == [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name], "verbs": ["get"]}]
    assert one.events()["UploadSessionIssued"].startswith("Secret " + name) and given["token"] not in str(one.events())
    set_session(api, one, phase="uploading", expectedSizeBytes="1000", uploadedSizeBytes="250", holder="x", holderRenewedAt="2100-01-01T00:00:00Z")
    api.wait(lambda: json.dumps(one.get()), lambda: one.get()["status"].get("progress") == "25%")
    set_session(api, one, phase="uploaded", stagedHandle=json.dumps({"key": "k", "fileName": "model.gguf", "sizeBytes": 1000}))
    pod = one.wait_pod()
    arguments = pod["spec"]["containers"][0]["args"]
    assert arguments[arguments.index("--staged-file") + 1] == "model.gguf" and "--source" not in arguments
    assert base64.b64decode(session_of(one)["data"]["phase"]) == b"publishing"
    api.wait("an event", lambda: "1000 bytes" in one.events().get("RawStaged", ""))
    assert "upload" not in one.wait_phase("Publishing")["status"]
    one.end_pod({"result": {**RESULT["result"], "source": {"resolvedType": "Upload"}}})
    assert one.wait_phase("Ready")["status"]["source"] == {"resolvedType": "Upload"}
    api.wait(lambda: f"cleared up: {one.leftovers()}", lambda: one.leftovers() == [("Secret", "ai-model-cleanup-state-" + one.uid)])
    assert api.get("Role", place, "ai-model-upload-reader-upload") is None
    one.delete()


def test_upload_expires(api, controller):
    one = Subject(api, "expires", upload={})
    one.wait_phase("WaitForUpload")
    set_session(api, one, annotations={"ai.deckhouse.io/upload-expires-at": "2020-01-01T00:00:00Z"})
    one.wait_phase("Failed")
    assert "not uploaded in time" in one.condition("ArtifactResolved")[2]
    api.wait(lambda: f"cleared up: {one.leftovers()}", lambda: not one.leftovers())
    one.delete()


def test_upload_deleted(api, controller):
    one = Subject(api, "dropped", upload={})
    one.wait_phase("WaitForUpload")
    one.delete()


def test_deleted_while_running(api, controller):
    one = Subject(api, "running")
    one.wait_pod()
    one.tell_pod(phase="Running")
    one.delete()


def test_status_by_hand(api, controller):
    one = Subject(api, "by-hand")
    one.wait_pod()
    one.end_pod(RESULT)
    before = one.wait_phase("Ready")
    api.wait("cleared up", lambda: len(one.leftovers()) == 1)
    for patch in ({"phase": "Failed"}, {"conditions": None}, {"progress": "5%"}, {"artifact": {"digest": "sha256:" + "b" * 64}},
                  {"phase": None, "artifact": None, "resolved": None, "conditions": None, "source": None}):
        api.patch(one.made, {"status": patch}, "status")

        def is_right():
            now, was = one.get()["status"], before["status"]
            return all(now.get(name) == was[name] for name in ("phase", "progress", "artifact", "resolved", "source")) and \
                len(now.get("conditions", [])) == 3 and {c["reason"] for c in now["conditions"]} == {c["reason"] for c in was["conditions"]}
        api.wait(lambda: f"{patch}: {json.dumps(one.get()['status'], indent=1)}", is_right)
        assert one.part("Pod") is None
    api.patch(one.made, {"metadata": {"finalizers": None}})
    api.wait("the finalizer is there", lambda: one.get()["metadata"].get("finalizers") == ["ai.deckhouse.io/model-cleanup"])
    one.delete()


def test_object_without_finalizer_goes(api, controller):
    """Somebody takes the finalizer away from what is being deleted."""
    one = Subject(api, "orphan")
    one.wait_pod()
    one.tell_pod(phase="Running")
    api.patch(one.made, {"metadata": {"finalizers": ["example.com/other"]}})
    api.delete(one.made)
    api.patch(one.made, {"metadata": {"finalizers": None}})
    api.wait(lambda: f"nothing is left: {one.leftovers()}", lambda: one.get() is None and not one.leftovers())


def test_unknown_conditions_stay(api, controller):
    one = Subject(api, "conditions")
    pod = one.wait_pod()
    other = {"type": "example.com/Other", "status": "True", "reason": "Because", "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    one.wait_phase("Publishing")
    api.patch(one.made, {"status": {"conditions": [*one.get()["status"]["conditions"], other]}}, "status")
    one.end_pod(RESULT)
    ready = one.wait_phase("Ready")["status"]
    assert other in ready["conditions"] and len(ready["conditions"]) == 4 and pod
    one.delete()
