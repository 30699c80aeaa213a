"""The admission webhook of workloads alone: a real API server that calls it, and a replica of the controller that never leads and may
write nothing, so that nobody but the webhook touches a workload. Models, claims and StorageClasses are made by hand."""

import contextlib
import hashlib
import http.client
import json
import signal
import socket
import ssl
import subprocess
import types
import urllib.request

from . import control_plane, controller_process, delivery_plane, deployment, kube_api, servers, tools

MODULE, ACCOUNT = controller_process.MODULE, "ai-models-controller"
NAMESPACE = "team"
LINGER_S = 3
WEBHOOK_PATH = "/mutate-ai-deckhouse-io-workload-delivery"
READ = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["authentication.k8s.io", "authorization.k8s.io"], "resources": ["*"], "verbs": ["create"]}]
SHARED, MATERIALIZED = "ai.deckhouse.io/shared-pvc", "ai.deckhouse.io/materialized-digest"


def digest_of(word):
    return "sha256:" + hashlib.sha256(word.encode()).hexdigest()


def claim_name(namespace, model, digest, kind="Model"):
    return "ai-models-cache-" + hashlib.sha256("\n".join((namespace, kind, model, digest)).encode()).hexdigest()[:16]


class Stage:
    """Use as a context."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.stack = contextlib.ExitStack()
        self.webhook_port, self.metrics_port = servers.free_port(), servers.free_port()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.plane = stack.enter_context(control_plane.ControlPlane(self.folder / "plane"))
            self.api = kube_api.Api(self.plane)
            self.prepare()
            self.controller = controller_process.Controller(self.plane, self.folder, types.SimpleNamespace(host="registry.example"), *self.options())
            self.controller.environment["KUBECONFIG"] = str(self.kubeconfig)
            self.controller.start()
            stack.callback(self.stop)
            self.api.create(delivery_plane.webhook_at(self.webhook_port, self.authority))
            self.wait_called()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def prepare(self):
        controller_process.prepare(self.api)
        for name in (ACCOUNT, "prometheus"):
            self.api.create({"kind": "ServiceAccount", "metadata": {"name": name, "namespace": MODULE}})
        for name, rules in ((ACCOUNT, READ), ("prometheus", [{"apiGroups": ["apps"], "resources": ["deployments/prometheus-metrics"], "verbs": ["get"]}])):
            self.api.create({"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
            self.api.create({"kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": MODULE}]})
        self.api.create({"kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.api.create({"kind": "Lease", "metadata": {"name": "ai-models-controller.deckhouse.io", "namespace": MODULE}, "spec": {
            "holderIdentity": "somebody", "leaseDurationSeconds": 1000000, "renewTime": "2026-01-01T00:00:00.000000Z"}})
        self.kubeconfig = self.folder / "controller.kubeconfig"
        self.kubeconfig.write_text(kube_api.kubeconfig(self.plane, self.plane.url, self.api.token(MODULE, ACCOUNT, 24 * 3600)))
        self.scraper = self.api.token(MODULE, "prometheus")
        (self.folder / "salt").write_text("a-salt-that-nobody-may-see")
        self.tls = [self.folder / name for name in ("tls.crt", "tls.key")]
        self.authority = self.issue("webhook-1")

    def issue(self, name):
        """Another authority and a certificate of it in place of the one before; the authority."""
        authority = control_plane.Authority(self.folder / name)
        for target, made in zip(self.tls, authority.issue("webhook", "/CN=webhook", "IP:127.0.0.1")):
            made.rename(target)
        return authority.certificate.read_text()

    def options(self):
        return ["--delivery", "SharedPVC", "--account", f"system:serviceaccount:{MODULE}:{ACCOUNT}", "--grant-salt-file", self.folder / "salt",
                "--webhook-listen", f"127.0.0.1:{self.webhook_port}", "--metrics-listen", f"127.0.0.1:{self.metrics_port}",
                "--tls-cert", self.tls[0], "--tls-key", self.tls[1],
                "--linger", LINGER_S]

    def bundle(self, *more):
        return deployment.encoded(ca="".join((self.authority, *more)))["ca"]

    def set_bundle(self, *more):
        """Trusts these besides the one in use; in force a little later."""
        self.api.patch({"kind": "MutatingWebhookConfiguration", "metadata": {"name": delivery_plane.WEBHOOK}},
                       [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": self.bundle(*more)}], kind=kube_api.JSON_PATCH)

    def wait_called(self):
        """The API server takes its time to heed a configuration."""
        self.api.wait("the webhook is called", lambda: self.gate_of(self.try_out(self.manifest("probe", models="none"))), 30)

    def stop(self):
        if self.controller.process.poll() is None:
            self.controller.stop(signal.SIGKILL)

    # Workloads

    def manifest(self, name, kind="Deployment", models="", cluster_models="", **more):
        split = [value.split(",") if value else [] for value in (models, cluster_models)]
        return delivery_plane.manifest(kind, NAMESPACE, name, *split, is_strict=False, **more)

    def ask(self, thing, dry_run=False):
        """(status, answer) of its creation."""
        path = kube_api.path_of(thing["kind"], thing["metadata"]["namespace"])
        return self.api.ask("POST", path + ("?dryRun=All" if dry_run else ""), thing)

    def try_out(self, thing):
        """What would be stored of it."""
        status, answer = self.ask(thing, dry_run=True)
        assert status == 201, answer
        return {**answer, "kind": thing["kind"]}

    def now(self, name, kind="Deployment"):
        return {"kind": kind, **self.api.get(kind, NAMESPACE, name)}

    @staticmethod
    def gate_of(thing):
        return delivery_plane.has_gate(delivery_plane.template_of(thing))

    def kubectl(self, *arguments, input=None):
        """(exit status, what it says)."""
        done = subprocess.run([str(tools.kubernetes("kubectl")), "--kubeconfig", str(self.plane.kubeconfig), *map(str, arguments)], capture_output=True,
                              input=None if input is None else json.dumps(input).encode(), timeout=60)
        return done.returncode, (done.stdout + done.stderr).decode()

    def as_controller(self):
        """The option of kubectl that makes its changes of Deployments the controller's own, which nobody checks."""
        for kind, more in (("Role", {"rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]}]}),
                           ("RoleBinding", {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deliver"},
                                            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": MODULE}]})):
            self.api.create({"kind": kind, "metadata": {"name": "deliver", "namespace": NAMESPACE}, **more}, exist_ok=True)
        return f"--as=system:serviceaccount:{MODULE}:{ACCOUNT}"

    def apply_as(self, manager):
        """Server-side apply as GitOps controllers do it."""
        return lambda thing: self.api.must("PATCH", kube_api.path_to(thing) + f"?force=true&fieldManager={manager}", thing, kube_api.APPLY)

    def replace(self, thing):
        """All that is stored by what its author wrote."""
        return self.api.must("PUT", kube_api.path_to(thing), thing)

    # What there is of models

    def model(self, name, word=None, kind="Model", phase="Ready", family="bert"):
        """Its digest."""
        place = {"namespace": NAMESPACE} if kind == "Model" else {}
        thing = {"kind": kind, **self.api.create({"kind": kind, "metadata": {"name": name, **place}, "spec": {"source": {"url": controller_process.HUB}}},
                                                 exist_ok=True)}
        digest = digest_of(word or name)
        self.api.patch(thing, {"status": {"phase": phase, "artifact": {"kind": "OCI", "digest": digest, "sizeBytes": 1234}, "resolved": {"family": family}}}, "status")
        return digest

    def claim(self, model, digest, kind="Model", is_whole=True, is_held=True, phase="Bound"):
        """As the controller and a provisioner leave it."""
        annotations = {"ai.deckhouse.io/owner-kind-full": kind, "ai.deckhouse.io/owner-name-full": model, "ai.deckhouse.io/artifact-digest": digest}
        owners = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "holder", "uid": "4b8d2c3e-0000-4000-8000-000000000001"}]
        thing = {"kind": "PersistentVolumeClaim", **self.api.create({"kind": "PersistentVolumeClaim", "metadata": {
            "name": claim_name(NAMESPACE, model, digest, kind), "namespace": NAMESPACE, "labels": {SHARED: "true"},
            "annotations": {**annotations, **({MATERIALIZED: digest} if is_whole else {})}, "ownerReferences": owners if is_held else []},
            "spec": {"accessModes": ["ReadWriteMany"], "volumeName": "v", "storageClassName": "x", "resources": {"requests": {"storage": "1Gi"}}}})}
        self.api.patch(thing, {"status": {"phase": phase}}, "status")
        return thing

    def ready_model(self, name, kind="Model"):
        """A model whose claim is whole, once the webhook knows; its digest."""
        digest = self.model(name, kind=kind)
        self.claim(name, digest, kind)
        asked = {"models": name} if kind == "Model" else {"cluster_models": name}
        self.api.wait(f"{name} is known", lambda: not self.gate_of(self.try_out(self.manifest("probe", **asked))), 20)
        return digest

    # What the replica says

    def post(self, body, peer="127.0.0.1"):
        """(status, answer) of the webhook itself, asked from that address."""
        context = ssl.create_default_context(cadata=self.authority)
        with contextlib.closing(http.client.HTTPSConnection("127.0.0.1", self.webhook_port, timeout=10, source_address=(peer, 0), context=context)) as connection:
            connection.request("POST", WEBHOOK_PATH, body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    @staticmethod
    def review(thing, user="admin", namespace=NAMESPACE, before=None):
        """What the API server asks of a new one, or of a change of `before`."""
        return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"group": "apps", "version": "v1", "kind": thing["kind"]}, "namespace": namespace,
            "operation": "UPDATE" if before else "CREATE", "userInfo": {"username": user}, "object": thing, "oldObject": before}}).encode()

    def begin(self, size, body=b""):
        """A connection which declares a review of so many bytes and sends `body` of it."""
        plain = socket.create_connection(("127.0.0.1", self.webhook_port), timeout=10)
        connection = ssl.create_default_context(cadata=self.authority).wrap_socket(plain, server_hostname="127.0.0.1")
        connection.sendall(f"POST {WEBHOOK_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode())
        connection.sendall(body)
        return connection

    def serves_new_certificate(self):
        """A new connection sees the one that lies in the file."""
        served, there = ssl.get_server_certificate(("127.0.0.1", self.webhook_port)), self.tls[0].read_text()
        return ssl.PEM_cert_to_DER_cert(served) == ssl.PEM_cert_to_DER_cert(there)

    def metrics(self):
        request = urllib.request.Request(f"https://127.0.0.1:{self.metrics_port}/metrics", headers={"Authorization": f"Bearer {self.scraper}"})
        with urllib.request.urlopen(request, timeout=10, context=ssl._create_unverified_context()) as answer:
            return answer.read().decode().splitlines()

    def counted(self, outcome):
        """Reviews with that outcome so far."""
        head = f'd8_ai_models_workload_delivery_admissions_total{{outcome="{outcome}"}} '
        return int(next((line for line in self.metrics() if line.startswith(head)), head + "0").rpartition(" ")[2])
