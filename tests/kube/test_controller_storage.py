"""`ai-models controller` and what is stored: damage, a registry that is away, the books, metrics, hand-over; a real API server and
our registry."""

import json
import signal
import time
import urllib.error
import urllib.request

import pytest

from harness import clients, kube_api, servers
from harness.controller_process import MODULE, RESULT, Controller, Subject, ledger, prepare, result


@pytest.fixture(scope="module")
def api(cluster):
    api = kube_api.Api(cluster)
    prepare(api)
    return api


class Store:
    """The module's registry, which can go away and come back at its place."""

    def __init__(self, folder):
        self.folder, self.ai, self.server = folder, clients.AiModels(folder / "home"), None
        self.start(0)

    def start(self, port):
        self.server = servers.ours(self.folder / "store", "--allow-anonymous-write", log=self.folder / "log", port=port)

    def go(self):
        self.server.stop()

    def come_back(self):
        self.start(int(self.server.host.rpartition(":")[2]))

    @staticmethod
    def repository(one):
        return "ai-models/catalog/" + (f"namespaced/{one.namespace}" if one.namespace else "cluster") + f"/{one.name}/{one.uid}"

    def push(self, one):
        """A small model where the worker would put it; its digest."""
        files = self.folder / one.uid
        files.mkdir(exist_ok=True)
        head = json.dumps({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        (files / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
        (files / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
        return self.ai.run("push", files, f"{self.server.host}/{self.repository(one)}:published").json["digest"]

    def manifest(self, one, digest):
        status, _, body = self.server.request("GET", f"/v2/{self.repository(one)}/manifests/{digest}", headers={"Accept": "*/*"})
        return json.loads(body) if status == 200 else None

    def lose_a_layer(self, one, digest):
        lost = self.manifest(one, digest)["layers"][-1]["digest"].removeprefix("sha256:")
        found = [path for path in (self.folder / "store").rglob("*") if lost in path.parts and path.is_file()]
        assert found
        for path in found:
            path.unlink()


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    yield store
    if store.server.process.poll() is None:
        store.go()


@pytest.fixture
def controller(cluster, store, tmp_path):
    folder = tmp_path / "controller"
    (folder / "staging").mkdir(parents=True)
    controller = Controller(cluster, folder, store.server, "--sweep-interval-s", "1", "--staging-store", folder / "staging",
                            "--upload-url", "http://upload.example", "--capacity-limit", "10k",
                            "--metrics-listen", f"127.0.0.1:{servers.free_port()}").start()
    yield controller
    controller.stop()


def publish(one, store):
    one.wait_pod()
    digest = store.push(one)
    one.end_pod(result(digest))
    one.wait_phase("Ready")
    return digest


def test_damaged(api, store, controller):
    """It is published again, at the revision it had; a registry that is away is not damage."""
    one = Subject(api, "damaged")
    digest = publish(one, store)
    store.go()
    time.sleep(2)
    assert one.phase() == "Ready"
    store.come_back()
    store.lose_a_layer(one, digest)
    store.go()  # it remembers for a while what it has
    store.come_back()
    arguments = one.wait_pod()["spec"]["containers"][0]["args"]
    assert arguments[arguments.index("--revision") + 1] == "c" * 40
    status = one.wait_phase("Publishing")["status"]
    assert "artifact" not in status and status["source"]["resolvedRevision"] == "c" * 40
    api.wait("an event", lambda: "ArtifactDamaged" in one.events())
    assert store.push(one) == digest
    one.end_pod(result(digest))
    one.wait_phase("Ready")
    time.sleep(1.5)
    assert one.phase() == "Ready" and one.part("Pod") is None
    one.delete()
    assert store.manifest(one, digest) is None


def test_damaged_upload(api, store, controller):
    """Nobody can fetch it again: its user is told what to do."""
    one = Subject(api, "damaged-upload", upload={})
    one.wait_phase("WaitForUpload")
    one.set_session(phase="uploaded", stagedHandle=json.dumps({"key": "k", "fileName": "model.gguf", "sizeBytes": 1000}))
    digest = publish(one, store)
    store.lose_a_layer(one, digest)
    store.go()
    store.come_back()
    one.wait_condition("ArtifactResolved", "False", "PublicationFailed", "delete the object, create it anew and upload the file once more")
    assert one.phase() == "Failed"
    api.wait(lambda: f"cleared up: {one.leftovers()}", lambda: not one.leftovers())
    one.delete()


def test_deletion_waits_for_the_registry(api, store, controller):
    one = Subject(api, "stuck")
    digest = publish(one, store)
    store.go()
    api.delete(one.made)
    one.wait_condition("Ready", "False", "Failed", "the module's registry cannot be reached")
    assert one.phase() == "Deleting" and store.server.host not in str(one.get()["status"])
    store.come_back()
    one.delete()
    assert store.manifest(one, digest) is None and one.uid not in ledger(api)["published"]


def test_books(api, store, controller):
    """What is stored is counted anew when the books are gone; nothing is fetched meanwhile; what does not fit fails."""
    one = Subject(api, "counted")
    publish(one, store)
    books = {"kind": "ConfigMap", **api.get("ConfigMap", MODULE, "ai-models-storage-accounting")}
    assert ledger(api)["confirmed"]["by"]
    controller.stop()
    api.delete(books)
    controller.start()
    api.wait("the books are back", lambda: api.get("ConfigMap", MODULE, "ai-models-storage-accounting")
             and ledger(api).get("confirmed") and ledger(api)["published"].get(one.uid, {}).get("sizeBytes") == 1234)
    stale = {"id": "x", "owner": {"kind": "Model", "name": "gone", "namespace": "default", "uid": "gone"}, "sizeBytes": 5, "createdAt": "x"}
    spoilt = ledger(api)
    spoilt["reservations"]["x"] = spoilt["published"]["gone"] = stale
    del spoilt["confirmed"]
    api.patch(books, {"data": {"ledger.json": json.dumps(spoilt)}})
    api.wait(lambda: str(ledger(api)), lambda: ledger(api).get("confirmed") and "gone" not in str(ledger(api)))
    large = Subject(api, "large")
    large.wait_pod()
    large.end_pod(result(store.push(large), size=9000))
    large.wait_condition("ArtifactResolved", "False", "InsufficientStorage", "artifact storage capacity exceeded: requested=9000 available=8766")
    api.wait(lambda: f"cleared up: {large.leftovers()}", lambda: not large.leftovers())
    for subject in (one, large):
        subject.delete()


def test_usage_unknown(api, store, controller):
    books = {"kind": "ConfigMap", **api.get("ConfigMap", MODULE, "ai-models-storage-accounting")}
    blocking = Subject(api, "blocking")
    publish(blocking, store)
    controller.stop()
    unknown = ledger(api)
    unknown.pop("confirmed", None)
    api.patch(books, {"data": {"ledger.json": json.dumps(unknown)}})
    api.patch(blocking.made, {"status": {"artifact": {"sizeBytes": None}}}, "status")
    secret = {"kind": "Secret", **blocking.part("Secret", "ai-model-cleanup-state-")}
    api.patch(secret, {"metadata": {"annotations": {"ai.deckhouse.io/artifact-digest": "sha256:" + "0" * 64}}, "data": {"result.json": "e30="}})
    controller.start()
    one = Subject(api, "unknown")
    one.wait_condition("Ready", "False", "StorageUsageUnknown", "counted within a minute")
    assert one.phase() == "Pending" and one.part("Pod") is None
    api.wait("the log", lambda: "Model/default/blocking" in controller.log.read_text())
    blocking.delete()
    one.wait_pod()
    one.delete()


def metrics(controller, token=None):
    address = controller.command[controller.command.index("--metrics-listen") + 1]
    request = urllib.request.Request(f"http://{address}/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics(api, store, controller):
    assert metrics(controller)[0] == 401 and metrics(controller, "x")[0] == 401
    stranger = api.token(MODULE, "default")
    status, text = metrics(controller, stranger)
    assert status == 403 and "system:serviceaccount:d8-ai-models:default may not get deployments/prometheus-metrics" in text
    for kind, more in (("Role", {"rules": [{"apiGroups": ["apps"], "resources": ["deployments/prometheus-metrics"],
                                            "resourceNames": ["ai-models-controller"], "verbs": ["get"]}]}),
                       ("RoleBinding", {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "scrape"},
                                        "subjects": [{"kind": "ServiceAccount", "name": "ai-models-publication-worker", "namespace": MODULE}]})):
        api.create({"kind": kind, "metadata": {"name": "scrape", "namespace": MODULE}, **more}, exist_ok=True)
    token = api.token(MODULE, "ai-models-publication-worker")
    one, wide = Subject(api, "measured"), Subject(api, "measured", "ClusterModel")
    publish(one, store)
    wide.wait_pod()
    identity = f'name="measured",namespace="default",uid="{one.uid}"'
    wanted = [f'd8_ai_models_model_status_phase{{{identity},phase="Ready",source_type="HuggingFace"}} 1',
              f'd8_ai_models_model_status_phase{{{identity},phase="Failed",source_type="HuggingFace"}} 0',
              f"d8_ai_models_model_ready{{{identity}}} 1",
              f'd8_ai_models_model_condition{{{identity},type="Ready",status="True",reason="Ready"}} 1',
              f'd8_ai_models_model_info{{{identity},resolved_source_type="HuggingFace",format="Safetensors",artifact_kind="OCI"}} 1',
              f"d8_ai_models_model_artifact_size_bytes{{{identity}}} 1234",
              f'd8_ai_models_clustermodel_ready{{name="measured",uid="{wide.uid}"}} 0',
              "d8_ai_models_storage_backend_limit_bytes 10000", "d8_ai_models_storage_backend_used_bytes 1234",
              "d8_ai_models_storage_backend_available_bytes 8766", "d8_ai_models_storage_inventory_sync_healthy 1",
              "d8_ai_models_storage_accounting_ledger_confirmed 1", 'd8_ai_models_collector_up{collector="models"} 1']
    api.wait(lambda: str([line for line in wanted if line not in metrics(controller, token)[1].splitlines()]) + metrics(controller, token)[1],
             lambda: not set(wanted) - set(metrics(controller, token)[1].splitlines()), 15)
    lines = metrics(controller, token)[1].splitlines()
    heads = [line for line in lines if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    for subject in (one, wide):
        subject.delete()
    assert one.uid not in metrics(controller, token)[1]
    with pytest.raises(urllib.error.HTTPError):
        controller.get("/metrics")


def test_two_replicas(cluster, api, store, controller, tmp_path):
    """One of them works; when it is killed the other goes on where it was."""
    (tmp_path / "second").mkdir()
    second = Controller(cluster, tmp_path / "second", store.server).start()
    try:
        one = Subject(api, "handed-over")
        pod = one.wait_pod()
        assert second.is_ready() and controller.is_ready()  # who leads or not
        assert "leading" not in second.log.read_text()
        controller.stop(signal.SIGKILL)
        one.tell_pod(phase="Running")
        one.end_pod(RESULT)
        one.wait_phase("Ready", timeout=40)
        assert one.wait_phase("Ready") and pod and "worker started" not in second.log.read_text()
        one.delete()
    finally:  # others come after it
        second.stop()
        controller.start()
