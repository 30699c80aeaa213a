"""The module without a cluster: an API server, and controller, gateway and registry as processes of this machine, workers too
(pod_runner). Every part reaches the API server by a proxy of its own, which can make it fail."""

import base64
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import threading
import time
import uuid

import yaml

from servers.hf_hub import Hub
from servers.ollama import Registry

from . import api_proxy, installation, kube_api, pod_runner, servers, small_s3, tools

NAMESPACE = "d8-ai-models"
ACCOUNTS = ("ai-models-controller", "ai-models-publication-worker", "ai-models-upload-gateway")
LEDGER, LEASE = "ai-models-storage-accounting", "ai-models-controller.deckhouse.io"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "s3-secret-that-nobody-may-see"}
WRITER, PASSWORD = "ai-models", "password-that-nobody-may-see"
# What nothing that a user sees, and no log, may hold: beside these, the tokens of uploads.
SECRETS = (KEYS["AWS_SECRET_ACCESS_KEY"], PASSWORD, "hf_good", "Signature=")
UPLOAD_PATH = "/v1/upload/"


def encoded(**values):
    return {key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in values.items()}


def chart():
    """All that the chart makes."""
    done = installation.helm("/dev/null", "template", "ai-models", tools.ROOT, "--namespace", NAMESPACE, "--values", "-", input=json.dumps(
        {"aiModels": {"artifacts": {"bucket": "models", "endpoint": "http://127.0.0.1", "credentialsSecretName": "s3"},
                      "internal": {"image": "localhost/ai-models:1"}}}).encode())
    return [thing for thing in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if thing]


class Part:
    """A program of the module as a process, with its log. One that ends by itself is started anew, as kubelet would."""

    def __init__(self, deployment, name, command, account):
        self.deployment, self.name, self.command = deployment, name, list(map(str, command))
        self.log = deployment.folder / f"{name}.log"
        self.proxy = deployment.new_proxy()
        self.kubeconfig = deployment.folder / f"{name}.kubeconfig"
        self.kubeconfig.write_text(kube_api.kubeconfig(deployment.plane, self.proxy.url, deployment.api.token(NAMESPACE, account, 24 * 3600)))
        self.process, self.more_environment = None, {}
        self.lock, self.is_wanted = threading.Lock(), False

    def start(self):
        with self.lock:
            self.is_wanted = True
            if not self.is_running():
                self.spawn()
        return self

    def spawn(self):
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={
                **self.deployment.environment(), "KUBECONFIG": str(self.kubeconfig), **self.more_environment})

    def keep(self):
        with self.lock:
            if self.is_wanted and not self.is_running():
                self.spawn()

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """At once, as a node that dies takes it along; nothing starts it anew."""
        with self.lock:
            self.is_wanted = False
            if self.is_running():
                self.process.kill()
                self.process.wait()

    def stop(self):
        """Its exit status."""
        with self.lock:
            self.is_wanted = False
            if self.is_running():
                self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise servers.ServerFailed(f"{self.name} did not end within 30 s of SIGTERM:\n{self.tail()}") from None

    def tail(self, size=3000):
        return self.log.read_text(errors="replace")[-size:]


class Deployment:
    """Use as a context. `options`: more of the controller's."""

    def __init__(self, plane, folder, options=(), capacity=None):
        self.plane, self.folder, self.options = plane, pathlib.Path(folder), list(map(str, options))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.capacity = ["--capacity-limit", str(capacity)] if capacity else []
        self.api, self.stack = kube_api.Api(plane), contextlib.ExitStack()
        self.parts, self.controllers, self.gateway, self.registry = {}, [], None, None
        self.is_closing = False
        self.registry_port, self.gateway_port = servers.free_port(), servers.free_port()
        self.program = tools.program().resolve()

    def environment(self):
        kept = {key: os.environ[key] for key in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LANG") if key in os.environ}
        return {**kept, "HOME": str(self.folder), **KEYS}

    def new_proxy(self):
        return self.stack.enter_context(api_proxy.ApiProxy(self.plane))

    def store(self, prefix):
        return f"s3://models/{prefix}?endpoint={self.bucket.url}&region=us-east-1&path-style=true"

    # Its life

    def prepare(self):
        """What the chart makes."""
        kube_api.install_crds(self.api)
        self.api.create({"kind": "Namespace", "metadata": {"name": NAMESPACE}}, exist_ok=True)
        self.grant_rights()
        for name, data in (("ai-models-dmcr-auth-write", encoded(username=WRITER, password=PASSWORD)), ("ai-models-dmcr-ca", encoded(ca_crt="")),
                           ("ai-models-artifacts", encoded(accessKey=KEYS["AWS_ACCESS_KEY_ID"], secretKey=KEYS["AWS_SECRET_ACCESS_KEY"]))):
            self.api.create({"kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}, exist_ok=True)
        self.api.create({"kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": NAMESPACE}, "data": {
            "ca.crt": self.plane.authority.certificate.read_text()}}, exist_ok=True)
        self.login = self.folder / "login"
        self.login.mkdir(exist_ok=True)
        (self.login / "username").write_text(WRITER)
        (self.login / "password").write_text(PASSWORD)
        self.users = self.folder / "htpasswd"
        subprocess.run([tools.need("htpasswd"), "-cbB", "-C", "5", self.users, WRITER, PASSWORD], check=True, capture_output=True)

    def grant_rights(self):
        """Accounts and roles as the chart has them, so that what it forgets fails here."""
        order = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
        found = [thing for thing in chart() if thing["kind"] in order]
        for thing in sorted(found, key=lambda thing: order.index(thing["kind"])):
            self.api.create(thing, exist_ok=True)
        accounts = {thing["metadata"]["name"] for thing in found if thing["kind"] == "ServiceAccount"}
        assert set(ACCOUNTS) <= accounts, accounts

    def start_registry(self):
        self.registry = servers.ours(self.store("dmcr"), "--htpasswd", self.users, "--writer", WRITER, "--log-format", "json",
                                     log=self.folder / "dmcr.log", port=self.registry_port, env=KEYS, program=self.program)

    def controller_command(self):
        return [self.program, "controller", "--namespace", NAMESPACE, "--worker-image", "localhost/ai-models:1",
                "--worker-service-account", "ai-models-publication-worker", "--registry", f"127.0.0.1:{self.registry_port}", "--registry-plain-http",
                "--registry-login-dir", self.login, "--registry-write-secret", "ai-models-dmcr-auth-write", "--registry-ca-secret", "ai-models-dmcr-ca",
                "--staging-store", self.store("raw"), "--artifacts-secret", "ai-models-artifacts",
                "--upload-url", f"http://127.0.0.1:{self.gateway_port}", "--hf-endpoint", self.hub.endpoint, "--ollama-registry", self.ollama.endpoint,
                "--listen", "127.0.0.1:0", "--lease", LEASE, "--log-format", "json", "--log-level", "debug", *self.capacity, *self.options]

    def start_controller(self, name="controller"):
        if name not in self.parts:
            self.parts[name] = Part(self, name, self.controller_command(), "ai-models-controller")
        self.controllers.append(self.parts[name].start())
        return self.parts[name]

    def restart_controller(self):
        """After a kill: the dead one's lease is nobody's, as it would be after a while."""
        self.free_lease()
        self.controllers[0].start()

    def free_lease(self):
        lease = self.api.get("Lease", NAMESPACE, LEASE)
        if lease is not None:
            self.api.patch({"kind": "Lease", **lease}, {"spec": {"holderIdentity": ""}})

    def start_gateway(self):
        command = [self.program, "upload-gateway", "--listen", f"127.0.0.1:{self.gateway_port}", "--namespace", NAMESPACE,
                   "--staging-store", self.store("raw"), "--accounting", LEDGER, *self.capacity, "--log-format", "json", "--log-level", "debug"]
        self.gateway = Part(self, "gateway", command, "ai-models-upload-gateway").start()

    def __enter__(self):
        try:
            self.prepare()
            self.bucket = self.stack.enter_context(small_s3.SmallS3())
            self.hub, self.ollama = self.stack.enter_context(Hub()), self.stack.enter_context(Registry())
            self.history = self.stack.enter_context(History(self.api))
            self.start_registry()
            self.worker_proxy = self.new_proxy()
            self.runner = self.stack.enter_context(pod_runner.PodRunner(self.plane, NAMESPACE, self.folder / "pods", self.worker_proxy.url, self.program))
            self.start_gateway()
            self.start_controller()
            threading.Thread(target=self.keep_all, daemon=True).start()
            return self
        except BaseException:
            self.close()
            raise

    def keep_all(self):
        while not self.is_closing:
            self.keep_parts()
            time.sleep(0.2)

    def keep_parts(self):
        for part in [*self.controllers, self.gateway]:
            part.keep()

    def close(self):
        self.is_closing = True
        for part in [*self.controllers, *([self.gateway] if self.gateway else [])]:
            part.kill()
        if self.registry is not None:
            self.registry.kill()
        self.stack.close()

    def __exit__(self, *_):
        self.close()

    # For tests

    def heal(self):
        """All parts run with their usual options, and nothing fails on purpose any more."""
        for proxy in [self.worker_proxy, self.gateway.proxy, *(part.proxy for part in self.controllers)]:
            proxy.heal()
        for hub in (self.hub, self.ollama):
            hub.faults.clear()
        self.runner.missing_image = self.runner.is_full = False
        self.runner.on_start = None
        if len(self.controllers) > 1:  # the first is to lead again
            for part in self.controllers:
                part.kill()
            del self.controllers[1:]
        if not self.controllers[0].is_running():
            self.restart_controller()
        if not self.gateway.is_running():
            self.gateway.start()
        if self.registry.process.poll() is not None:
            self.start_registry()
        faults = self.runner.take_faults()
        assert not faults, faults

    @contextlib.contextmanager
    def reconfigured(self, *options, capacity=None):
        """Controller and gateway started anew with more options, and without them again afterwards."""
        controller = self.controllers[0]
        before = controller.command, self.gateway.command
        limit = ["--capacity-limit", str(capacity)] if capacity else []
        try:
            self.restart_with(controller.command + [*map(str, options), *limit], self.gateway.command + limit)
            yield
        finally:
            self.restart_with(*before)

    @contextlib.contextmanager
    def clock(self):
        """The controller started anew with a clock that jumps: gives jump(seconds from the real time)."""
        library, offset, controller = self.folder / "clock.so", self.folder / "clock-offset", self.controllers[0]
        subprocess.run([tools.need("gcc"), "-shared", "-fPIC", "-O2", "-o", library, pathlib.Path(__file__).with_name("clock.c"), "-ldl"], check=True)
        controller.more_environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(offset)}
        try:
            self.restart_with(controller.command, self.gateway.command)
            yield lambda seconds: offset.write_text(str(seconds))
        finally:
            controller.more_environment = {}
            self.restart_with(controller.command, self.gateway.command)

    def restart_with(self, controller_command, gateway_command):
        for part, command in ((self.controllers[0], controller_command), (self.gateway, gateway_command)):
            part.stop()
            part.command = command
            part.start()

    # Models

    def new_namespace(self):
        name = f"t-{uuid.uuid4().hex[:10]}"
        self.api.create({"kind": "Namespace", "metadata": {"name": name}})
        return name

    def apply(self, source, name="m", namespace=None, kind="Model"):
        place = {"namespace": namespace or self.new_namespace()} if kind == "Model" else {}
        return Subject(self, {"kind": kind, **self.api.create({"kind": kind, "metadata": {"name": name, **place}, "spec": {"source": source}})})

    def logs(self):
        """What the parts wrote, workers included."""
        return "".join(path.read_text(errors="replace") for path in [*self.folder.glob("*.log"), *self.folder.glob("pods/*.log")])

    def ledger(self):
        books = self.api.get("ConfigMap", NAMESPACE, LEDGER)
        return "".join((books or {}).get("data", {}).values()) if books else ""


class History(kube_api.Follower):
    """Every state of every Model and ClusterModel that the API server told of."""

    KINDS = ("Model", "ClusterModel")

    def __init__(self, api):
        super().__init__(api)
        self.states = {}

    def take(self, event, thing):
        states = self.states.setdefault(thing["metadata"]["uid"], [])
        if event != "DELETED" and (not states or states[-1]["metadata"]["resourceVersion"] != thing["metadata"]["resourceVersion"]):
            states.append(thing)


class Subject:
    """A Model or ClusterModel under test."""

    def __init__(self, deployment, thing):
        self.deployment, self.api, self.thing = deployment, deployment.api, thing
        self.kind, self.name, self.uid = thing["kind"], thing["metadata"]["name"], thing["metadata"]["uid"]
        self.namespace = thing["metadata"].get("namespace")

    def now(self):
        found = self.api.get(self.kind, self.namespace, self.name)
        return {"kind": self.kind, **found} if found else None

    @property
    def status(self):
        return (self.now() or {}).get("status", {})

    def condition(self, kind):
        return kube_api.condition(self.now() or {}, kind)

    @property
    def states(self):
        return self.deployment.history.states.get(self.uid, [])

    def seen(self):
        """(phase, reason of ArtifactResolved, reason of Ready) of each state it was in, without repeats."""
        found = []
        for state in self.states:
            told = (state.get("status", {}).get("phase"), *((kube_api.condition(state, kind) or (None, None))[1] for kind in ("ArtifactResolved", "Ready")))
            if told[0] and (not found or found[-1] != told):
                found.append(told)
        return found

    def story(self):
        """For messages of failed tests."""
        pods = [(pod["metadata"]["name"], pod["status"]) for pod in self.api.list("Pod", NAMESPACE) if self.uid in json.dumps(pod)]
        now = self.now() or {"metadata": {}}
        now["metadata"].pop("managedFields", None)
        told = json.dumps({"now": now, "seen": self.seen(), "events": self.events(), "pods": pods, "runner": self.deployment.runner.faults}, indent=1)
        return told + "\n" + "\n".join(part.tail(2500) for part in self.deployment.controllers) + self.worker_log()[-2500:]

    def worker_log(self):
        folder = self.deployment.folder / "pods"
        return "".join(path.read_text(errors="replace") for path in sorted(folder.glob(f"ai-model-publish-{self.uid}*.log")))

    def wait(self, holds, timeout=60):
        return self.api.wait(self.story, holds, timeout)

    def wait_phase(self, phase, timeout=60):
        def look():
            status = self.status
            assert status.get("phase") == phase or status.get("phase") not in ("Ready", "Failed"), self.story()
            return status if status.get("phase") == phase else None

        return self.wait(look, timeout)

    def wait_reason(self, reason, condition="ArtifactResolved", timeout=60):
        """(status, reason, message) of the condition once it has the reason, now or earlier."""
        def look():
            return next((told for told in map(lambda state: kube_api.condition(state, condition), self.states) if told and told[1] == reason), None)

        return self.wait(look, timeout)

    def events(self):
        """(type, reason, message) of each event about it."""
        found = [event for event in self.api.list("Event", self.namespace or "default")
                 if (event.get("involvedObject") or event.get("regarding") or {}).get("uid") == self.uid]
        found.sort(key=lambda event: (event["metadata"]["creationTimestamp"], event["metadata"]["resourceVersion"]))
        return [(event["type"], event["reason"], event.get("message") or event.get("note", "")) for event in found]

    def wait_event(self, reason, timeout=30):
        return self.wait(lambda: next((event for event in self.events() if event[1] == reason), None), timeout)

    def delete(self, wait=True, timeout=60):
        self.api.delete(self.thing)
        if wait:
            self.wait(lambda: self.now() is None, timeout)

    # Uploads

    def wait_upload(self, timeout=60):
        """URL and token, as its user finds them."""
        self.wait_phase("WaitForUpload", timeout)
        secret = self.api.get("Secret", self.namespace or NAMESPACE, self.status["upload"]["secretName"])
        return tuple(base64.b64decode(secret["data"][key]).decode() for key in ("url", "token"))

    # What of it is where

    @property
    def repository(self):
        place = f"namespaced/{self.namespace}" if self.namespace else "cluster"
        return f"ai-models/catalog/{place}/{self.name}/{self.uid}"

    def manifests(self):
        """Digests of the manifests in its repository."""
        marker = f"repositories/{self.repository}/_manifests/revisions/sha256/"
        return {key.partition(marker)[2].split("/")[0] for key in list(self.deployment.bucket.objects) if marker in key}

    def objects_of_it(self):
        """All in the API server that bears its uid, but events and the request to the registry's cleaner."""
        found = []
        for kind in ("Pod", "Secret", "ConfigMap", "Role", "RoleBinding"):
            for place in {NAMESPACE, self.namespace or NAMESPACE}:
                found += [f"{kind} {place}/{thing['metadata']['name']}" for thing in self.api.list(kind, place)
                          if self.uid in json.dumps(thing["metadata"]) and thing["metadata"]["name"] not in (f"dmcr-gc-{self.uid}", LEDGER)]
        return found

    def leftovers(self):
        """What is still there of a Model that is gone."""
        bucket = self.deployment.bucket
        found = self.objects_of_it()
        found += ["the ledger"] if self.uid in self.deployment.ledger() else []
        found += [f"staged {key}" for key in list(bucket.objects) if key.startswith("raw/") and self.uid in key]
        found += [f"open upload {upload[0]}" for upload in list(bucket.uploads.values()) if self.uid in upload[0]]
        found += [f"manifest {digest}" for digest in self.manifests()]
        found += [f"process {pod.name}" for pod in self.deployment.runner.running(self.uid)]
        return found

    def assert_gone(self, timeout=30):
        """Nothing is left, and nothing shows a secret."""
        self.api.wait(lambda: f"left: {self.leftovers()}\n{self.story()}", lambda: self.now() is None and not self.leftovers(), timeout)
        shown = json.dumps([self.states, self.events()]) + self.worker_log()
        for secret in SECRETS:
            assert secret not in shown, f"{secret} is shown"
        assert "d8-ai-models.svc" not in json.dumps([self.states, self.events()])
