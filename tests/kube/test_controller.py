"""`ai-models controller` against a real API server. The test is the kubelet: it says how the workers' Pods are."""

import base64
import json
import time

import pytest

from harness import kube_api, servers
from harness.controller_process import DIGEST, HUB, MODULE, RESULT, Controller, Subject, ledger, prepare, result


@pytest.fixture(scope="module")
def api(cluster):
    api = kube_api.Api(cluster)
    prepare(api)
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
    api.delete({"kind": "Role", **ones[0].part("Role")})
    for one, pod in zip(ones, pods):
        again = one.wait_pod(but=pod["metadata"]["uid"])
        assert again["spec"]["containers"][0]["args"] == pod["spec"]["containers"][0]["args"]
        assert one.part("Role")  # whatever became of it meanwhile
        one.end_pod(RESULT)
    for one in ones:
        one.wait_phase("Ready")
        one.delete()


def test_dies_again_and_again(api, controller):
    one = Subject(api, "dies")
    one.wait_pod()
    api.patch(one.wait_state(), {"metadata": {"annotations": {"ai.deckhouse.io/worker-interruptions": "5"}}})
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
    one.set_session(phase="uploading", expectedSizeBytes="1000", uploadedSizeBytes="250", holder="x", holderRenewedAt="2100-01-01T00:00:00Z")
    api.wait(lambda: json.dumps(one.get()), lambda: one.get()["status"].get("progress") == "25%")
    one.set_session(phase="uploaded", stagedHandle=json.dumps({"key": "k", "fileName": "model.gguf", "sizeBytes": 1000}))
    pod = one.wait_pod()
    arguments = pod["spec"]["containers"][0]["args"]
    assert arguments[arguments.index("--staged-file") + 1] == "model.gguf" and "--source" not in arguments
    assert base64.b64decode(one.part("Secret", "ai-model-upload-auth-")["data"]["phase"]) == b"publishing"
    api.wait("an event", lambda: "1000 bytes" in one.events().get("RawStaged", ""))
    assert "upload" not in one.wait_phase("Publishing")["status"]
    one.end_pod(result(source="Upload", revision=None))
    assert one.wait_phase("Ready")["status"]["source"] == {"resolvedType": "Upload"}
    api.wait(lambda: f"cleared up: {one.leftovers()}", lambda: one.leftovers() == [("Secret", "ai-model-cleanup-state-" + one.uid)])
    assert api.get("Role", place, "ai-model-upload-reader-upload") is None
    one.delete()


def test_upload_expires(api, controller):
    one = Subject(api, "expires", upload={})
    one.wait_phase("WaitForUpload")
    one.set_session(annotations={"ai.deckhouse.io/upload-expires-at": "2020-01-01T00:00:00Z"})
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


def test_deleted_at_once(api, controller):
    """Whatever was made of it by then goes, too."""
    ones = []
    for number in range(16):
        one = Subject(api, f"at-once-{number}", **({"upload": {}} if number % 4 == 3 else {}))
        time.sleep(0.006 * number)
        api.delete(one.made)
        ones.append(one)
    for one in ones:
        api.wait(lambda: f"nothing is left of {one.name}: {one.leftovers()}", lambda: one.get() is None and not one.leftovers())


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
