"""`ai-models controller` as a process, and one Model or ClusterModel with all there is of it, for tests that are its kubelet."""

import base64
import json
import signal
import subprocess
import time
import urllib.request

from . import kube_api, servers, tools

MODULE = "d8-ai-models"
HUB = "https://huggingface.co/owner/repository"
DIGEST = "sha256:" + "a" * 64


def result(digest=DIGEST, size=1234, source="HuggingFace", revision="c" * 40):
    """A worker's termination message."""
    provenance = {"resolvedType": source, **({"resolvedRevision": revision} if revision else {})}
    return {"result": {
        "artifact": {"digest": digest, "mediaType": "application/vnd.cncf.model.manifest.v1+json", "sizeBytes": size, "repository": "r"},
        "source": provenance, "metadataComplete": True,
        "resolved": {"format": "Safetensors", "family": "bert", "parameterCount": 22713216, "supportedEndpointTypes": ["Embeddings"]}}}


RESULT = result()


def prepare(api):
    """What the chart brings and the controller needs."""
    kube_api.install_crds(api)
    api.create({"kind": "Namespace", "metadata": {"name": MODULE}}, exist_ok=True)
    for account in ("default", "ai-models-publication-worker"):
        api.create({"kind": "ServiceAccount", "metadata": {"name": account, "namespace": MODULE}}, exist_ok=True)


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
        end = time.monotonic() + 30
        while not self.is_ready():
            assert time.monotonic() < end and self.process.poll() is None, self.log.read_text()[-3000:]
            time.sleep(0.05)
        return self

    def is_ready(self):
        try:
            return self.get("/readyz") == "ok\n"
        except OSError:
            return False

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        assert self.process.wait(30) in ((0,) if how == signal.SIGTERM else (-how,)), self.log.read_text()[-3000:]

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return answer.read().decode()


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

    def wait_state(self):
        """The Secret that the worker waits for; its Pod comes first."""
        return {"kind": "Secret", **self.api.wait("the worker is admitted", lambda: self.part("Secret", "ai-model-publish-state-"), 30)}

    def write_state(self, **state):
        self.api.patch(self.wait_state(), {"data": {"state.json": base64.b64encode(json.dumps(state).encode()).decode()}})

    def set_session(self, annotations=None, **data):
        """As the upload gateway does."""
        secret = {"kind": "Secret", **self.part("Secret", "ai-model-upload-auth-")}
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        self.api.patch(secret, {"data": encoded, "metadata": {"annotations": annotations or {}}})

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
