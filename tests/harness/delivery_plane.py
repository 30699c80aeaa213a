"""The module and what it needs to bring models to workloads, without a cluster: the parts of deployment.py, a kube-controller-manager, a
provisioner of shared volumes, and a runner of all Pods, which looks whether their models are whole before it starts them."""

import contextlib
import hashlib
import json
import random
import socket
import subprocess
import time

import yaml

from servers import families

from . import control_plane, delivery_guard, deployment, installation, kube_api, pod_runner, provisioner, relay, servers, tools

ACCOUNT = f"system:serviceaccount:{deployment.NAMESPACE}:ai-models-controller"
SALT = "a-salt-that-nobody-may-see"
WEBHOOK = "ai-models-workload-delivery"
CLASS = "folders"
TIMEOUT = 120  # s; a case takes seconds, unless others have the processors
MAX_MATERIALIZATIONS = 3
LARGE = 24 << 20


def small_files(seed, size=0):
    """A model's files, as small as they may be; `size`: bytes of weights more."""
    tensors = families.decoder()
    if size:
        tensors["model.extra.weight"] = ("BF16", [size // 2])
    return {"config.json": families.config("LlamaForCausalLM", "llama", max_position_embeddings=4096), **families.tokenizer(families.TOOLS),
            "model.safetensors": families.safetensors(tensors, seed)}


def webhook_at(port, authority):
    """The chart's configuration of the webhook, reached by an address instead of a Service; `authority`: certificates that vouch for it."""
    thing = next(thing for thing in deployment.chart() if thing["kind"] == "MutatingWebhookConfiguration" and thing["metadata"]["name"] == WEBHOOK)
    for hook in thing["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": deployment.encoded(ca=authority)["ca"]}
    return thing


class DeliveryPlane(deployment.Deployment):
    """Use as a context. `options`: more of the controller's."""

    def __init__(self, plane, folder, options=(), max_materializations=MAX_MATERIALIZATIONS):
        super().__init__(plane, folder, ["--max-workers", 8, *options])
        self.max_materializations = max_materializations
        self.guard = delivery_guard.Guard(max_materializations)
        self.back_port, self.webhook_port = servers.free_port(), servers.free_port()
        self.registry_store, self.registry_environment = self.folder / "store", {}
        self.ended = []  # what nobody asked to end, and did

    # Its life

    def prepare(self):
        super().prepare()
        self.salt = self.folder / "salt"
        self.salt.write_text(SALT)
        self.certificate = self.plane.authority.issue("webhook", "/CN=webhook", "IP:127.0.0.1")
        self.kcm = control_plane.Process([*self.plane.controller_manager_command(), "--controllers=*,-node-lifecycle-controller",
                                          "--kube-api-qps=300", "--kube-api-burst=600"], self.folder / "kube-controller-manager.log")
        self.kcm.start()
        self.stack.callback(self.kcm.stop)
        self.provisioner = self.stack.enter_context(provisioner.Provisioner(self.plane, self.folder / "volumes"))
        self.api.create(provisioner.storage_class(CLASS, is_default=True), exist_ok=True)
        self.relay = self.stack.enter_context(relay.Relay(self.registry_port, self.back_port))
        self.workloads = self.stack.enter_context(Workloads(self.api))
        self.kubelet = pod_runner.PodRunner(self.plane, None, self.folder / "user-pods", program=self.program, others=[deployment.NAMESPACE])
        self.kubelet.check = self.guard.check
        self.stack.enter_context(self.kubelet)

    def start_registry(self):
        """On a folder, unless told otherwise; everybody reaches it by the relay."""
        self.registry = servers.ours(self.registry_store, "--htpasswd", self.users, "--writer", deployment.WRITER, "--grant-salt-file", self.salt,
                                     "--log-format", "json", log=self.folder / "dmcr.log", port=self.back_port, program=self.program, env=self.registry_environment)

    def controller_command(self):
        return [*super().controller_command(), "--delivery", "SharedPVC", "--account", ACCOUNT, "--grant-salt-file", self.salt,
                "--max-materializations", self.max_materializations, "--webhook-listen", f"127.0.0.1:{self.webhook_port}",
                "--tls-cert", self.certificate[0], "--tls-key", self.certificate[1]]

    def start_controller(self, name="controller"):
        part = super().start_controller(name)
        self.register_webhook()
        return part

    def register_webhook(self):
        if self.api.get("MutatingWebhookConfiguration", name=WEBHOOK) is None:
            self.wait_webhook()
            self.api.create(webhook_at(self.webhook_port, self.plane.authority.certificate.read_text()))

    def wait_webhook(self, timeout=30):
        """Until somebody listens."""
        self.api.wait("the webhook listens", self.has_listener, timeout)

    def keep_parts(self):
        super().keep_parts()
        if not self.kcm.is_running() and not self.is_closing:
            self.ended.append(f"kube-controller-manager ended by itself: {self.kcm.log.read_text(errors='replace')[-2000:]}")
            self.kcm.start()

    def has_listener(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.webhook_port), 1):
            return True
        return False

    def heal(self):
        self.relay.mend()
        self.kubelet.imageless.clear()
        super().heal()
        self.wait_webhook()
        faults = self.take_faults()
        assert not faults, faults

    def take_faults(self):
        """What went wrong with what stands around the module, and what must never be, since this was asked last."""
        ended, self.ended = self.ended, []
        return ended + self.kubelet.take_faults() + self.provisioner.take_faults() + self.guard.take_violations()

    @contextlib.contextmanager
    def clock(self):
        """That of the registry, too."""
        with super().clock() as jump:
            self.restart_registry(self.controllers[0].more_environment)
            try:
                yield jump
            finally:
                self.restart_registry({})
                jump(0)

    def restart_registry(self, environment, store=None):
        self.registry.stop()
        self.registry_environment, self.registry_store = environment, store or self.folder / "store"
        self.start_registry()

    @contextlib.contextmanager
    def on_bucket(self):
        """The registry, empty, on a bucket: gives the relay between them."""
        with relay.Relay(servers.free_port(), self.bucket.httpd.server_port) as path:
            try:
                self.restart_registry(deployment.KEYS, f"s3://models/other?endpoint=http://127.0.0.1:{path.port}&region=us-east-1&path-style=true")
                yield path
            finally:
                path.mend()
                self.restart_registry({})

    # For tests

    def kubectl(self, *arguments, check=True, input=None):
        done = subprocess.run([str(tools.kubernetes("kubectl")), "--kubeconfig", str(self.plane.kubeconfig), *map(str, arguments)], capture_output=True,
                              input=None if input is None else json.dumps(input).encode(), timeout=60)
        assert not check or done.returncode == 0, done.stderr.decode()
        return done

    def model(self, name, namespace=None, size=0, is_ready=True):
        """A Model, or without a namespace a ClusterModel, with files that no other has."""
        seed = random.SystemRandom().randrange(1 << 30)
        files, repository = small_files(seed, size), f"owner/n{seed:x}"
        self.hub.add(repository, files)
        kind = "Model" if namespace else "ClusterModel"
        model = self.apply({"url": f"https://huggingface.co/{repository}"}, name, namespace, kind)
        model.files = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
        if is_ready:
            self.wait_model(model)
        return model

    def publish_shared(self):
        """ClusterModels for everybody: two small ones, and one that takes several chunks."""
        self.shared, self.second = (self.model(name, is_ready=False) for name in ("shared", "second"))
        self.large = self.model("large", size=LARGE, is_ready=False)
        for model in (self.shared, self.second, self.large):
            self.wait_model(model)

    def wait_model(self, model, timeout=TIMEOUT):
        model.digest = model.wait_phase("Ready", timeout)["artifact"]["digest"]
        self.guard.known[model.digest] = model.files
        return model

    def workload(self, kind, namespace, models=(), cluster_models=(), name="app", **more):
        return Workload(self, {"kind": kind, **self.api.create(manifest(kind, namespace, name, models, cluster_models, **more))})

    def claims(self, namespace):
        return [claim for claim in self.api.list("PersistentVolumeClaim", namespace, f"{delivery_guard.PREFIX}shared-pvc=true")]

    def materializers(self, namespace):
        return self.api.list("Job", namespace, f"app.kubernetes.io/name={delivery_guard.MATERIALIZER}")

    def secrets(self, namespace):
        """Grants and pull secrets that are left."""
        return [thing["metadata"]["name"] for thing in self.api.list("Secret", namespace) if thing["metadata"]["name"].startswith("ai-models-")]

    def events(self, namespace, uid):
        """(type, reason, message) of each event about an object."""
        found = [event for event in self.api.list("Event", namespace) if event["involvedObject"].get("uid") == uid]
        found.sort(key=lambda event: (event["metadata"]["creationTimestamp"], int(event["metadata"]["resourceVersion"])))
        return [(event["type"], event["reason"], event.get("message") or event.get("note", "")) for event in found]


# Workloads as their owners write them

POD_ALONE = {"containers": [{"name": "main", "image": "user:1", "command": ["/bin/sleep", "100000"]}], "terminationGracePeriodSeconds": 0}


def template_path(kind):
    return ("spec", "jobTemplate", "spec", "template") if kind == "CronJob" else ("spec", "template")


def references(models, cluster_models):
    found = {"model": ",".join(models), "clustermodel": ",".join(cluster_models)}
    return {f"{delivery_guard.PREFIX}{key}": value for key, value in found.items() if value}


def manifest(kind, namespace, name, models=(), cluster_models=(), replicas=1, pod=None, annotations=None, template_annotations=None, is_strict=None,
             spec=None):
    """`pod`: what its Pod's spec has instead of the usual; `is_strict`: no Pod of it may start without models."""
    labels = {"app": name}
    is_strict = bool(models or cluster_models) if is_strict is None else is_strict
    pod = {**json.loads(json.dumps(POD_ALONE)), **({"restartPolicy": "OnFailure"} if kind == "CronJob" else {}), **(pod or {})}
    template = {"metadata": {"labels": {**labels, **({delivery_guard.STRICT: "true"} if is_strict else {})},
                             **({"annotations": template_annotations} if template_annotations else {})}, "spec": pod}
    kinds = {
        "Deployment": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        "StatefulSet": {"replicas": replicas, "serviceName": name, "selector": {"matchLabels": labels}, "template": template},
        "DaemonSet": {"selector": {"matchLabels": labels}, "template": template},
        "CronJob": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}},
    }
    group = "batch/v1" if kind == "CronJob" else "apps/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, "namespace": namespace, "labels": labels,
                                                            "annotations": {**references(models, cluster_models), **(annotations or {})}},
            "spec": {**kinds[kind], **(spec or {})}}


def template_of(thing):
    for key in template_path(thing["kind"]):
        thing = thing[key]
    return thing


def has_gate(template):
    return any(gate["name"] == delivery_guard.GATE for gate in template["spec"].get("schedulingGates") or [])


def report_of(thing):
    """(reason, message) of what hinders delivery; None: nothing."""
    annotations = thing["metadata"].get("annotations") or {}
    words = [annotations.get(f"{delivery_guard.PREFIX}model-delivery-blocked-{key}") for key in ("reason", "message")]
    return tuple(words) if words[0] else None


class Workloads(kube_api.Follower):
    """What every workload's report said, and how its template was, all the time."""

    KINDS = ("Deployment", "StatefulSet", "DaemonSet", "CronJob")

    def __init__(self, api):
        super().__init__(api)
        self.told = {}

    def take(self, event, thing):
        told, template = self.told.setdefault(thing["metadata"]["uid"], []), template_of(thing)
        now = (report_of(thing), has_gate(template), tuple(one["digest"] for one in delivery_guard.delivered_models(template["metadata"]) or []))
        if event != "DELETED" and (not told or told[-1] != now):
            told.append(now)


class Workload:
    """One of a test, and what there is of it."""

    def __init__(self, plane, thing):
        self.plane, self.api, self.thing, self.kind = plane, plane.api, thing, thing["kind"]
        self.namespace, self.name, self.uid = (thing["metadata"][key] for key in ("namespace", "name", "uid"))

    def now(self):
        found = self.api.get(self.kind, self.namespace, self.name)
        return {"kind": self.kind, **found} if found else None

    def template(self):
        return template_of(self.now())

    def report(self):
        return report_of(self.now())

    def has_finalizer(self):
        return f"{delivery_guard.PREFIX}model-delivery-cleanup" in self.now()["metadata"].get("finalizers", [])

    @property
    def told(self):
        return self.plane.workloads.told.get(self.uid, [])

    def reasons(self):
        """Of its reports so far, without repeats."""
        found = []
        for report, _, _ in self.told:
            if report and report[0] not in found:
                found.append(report[0])
        return found

    def events(self):
        return self.plane.events(self.namespace, self.uid)

    def pods(self):
        """Those that are not being deleted."""
        found = [pod for pod in self.api.list("Pod", self.namespace, f"app={self.name}") if not pod["metadata"].get("deletionTimestamp")]
        return [pod for pod in found if pod["metadata"].get("ownerReferences")]

    def revisions(self):
        return [one for one in self.api.list("ReplicaSet", self.namespace, f"app={self.name}")
                if any(owner["uid"] == self.uid for owner in one["metadata"].get("ownerReferences", []))]

    def patch(self, patch, **more):
        return self.api.patch(self.thing, patch, **more)

    def annotate(self, **annotations):
        """`model`, `clustermodel`; None takes one away."""
        return self.patch({"metadata": {"annotations": {f"{delivery_guard.PREFIX}{key}": value for key, value in annotations.items()}}})

    def patch_pod(self, pod_spec):
        patch = {"spec": pod_spec}
        for key in reversed(template_path(self.kind)):
            patch = {key: patch}
        return self.patch(patch, kind="application/strategic-merge-patch+json")

    def delete(self, how=None, wait=True):
        if how:
            self.api.must("DELETE", kube_api.path_to(self.thing), {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": how})
        else:
            self.api.delete(self.thing)
        if wait:
            self.wait("it is gone", lambda: self.now() is None)

    # What is waited for

    def story(self):
        pods = [{key: pod[key] for key in ("metadata", "status")} | {"gates": pod["spec"].get("schedulingGates")} for pod in self.pods()]
        for pod in pods:
            pod["metadata"] = {key: pod["metadata"].get(key) for key in ("name", "annotations", "deletionTimestamp")}
        now = self.now() or {"metadata": {}}
        now["metadata"].pop("managedFields", None)
        claims = [(claim["metadata"]["name"], claim["metadata"].get("annotations"), claim["metadata"].get("ownerReferences"), claim.get("status"))
                  for claim in self.plane.claims(self.namespace)]
        jobs = [(job["metadata"]["name"], job.get("status")) for job in self.plane.materializers(self.namespace)]
        told = json.dumps({"now": now, "told": self.told, "events": self.events(), "pods": pods, "claims": claims, "jobs": jobs,
                           "revisions": [(one["metadata"]["name"], one["spec"]["replicas"]) for one in self.revisions()] if self.kind == "Deployment" else [],
                           "violations": self.plane.guard.of(self.namespace), "faults": self.plane.kubelet.faults_of(self.namespace)}, indent=1)
        lines = [line for part in self.plane.controllers for line in part.tail(40000).splitlines() if self.namespace in line]
        return told + "\n" + "\n".join(lines[-40:])

    def wait(self, what, holds, timeout=TIMEOUT):
        end = time.monotonic() + timeout
        while not (found := holds()):
            assert time.monotonic() < end, f"not within {timeout} s: {what}\n{self.story()}"
            time.sleep(0.05)
        return found

    def wait_reason(self, reason, timeout=TIMEOUT):
        """Its report's message, once that says so, now or earlier."""
        return self.wait(reason, lambda: next((report[1] for report, _, _ in self.told if report and report[0] == reason), None), timeout)

    def wait_report(self, reason, *words, timeout=TIMEOUT):
        """It says so now."""
        def look():
            report = self.report()
            return report if report and report[0] == reason and all(word in report[1] for word in words) else None

        return self.wait(f"{reason} {words}", look, timeout)[1]

    def wait_event(self, reason, words="", timeout=TIMEOUT):
        return self.wait(f"event {reason}", lambda: next((one for one in self.events() if one[1] == reason and words in one[2]), None), timeout)

    def serves(self, models):
        """The template gives just these models to its Pods, and holds none back."""
        template = self.template()
        given = delivery_guard.delivered_models(template["metadata"])
        return not has_gate(template) and given is not None and [(one["name"], one["digest"]) for one in given] == [(m.name, m.digest) for m in models]

    def is_running(self, models, count):
        """So many Pods run with these models, and there are no others."""
        pods = self.pods()
        good = [pod for pod in pods if pod["status"].get("phase") == "Running" and not pod["spec"].get("schedulingGates")
                and [one["digest"] for one in delivery_guard.delivered_models(pod["metadata"]) or []] == [model.digest for model in models]]
        return len(good) == len(pods) == count

    def wait_running(self, models, count=1, timeout=TIMEOUT):
        """All is well: template, report, finalizer, Pods, revisions; and nothing of the copying is left."""
        self.wait(f"it serves {[model.name for model in models]}", lambda: self.serves(models), timeout)
        self.wait("no report", lambda: self.report() is None and self.has_finalizer())
        if self.kind != "CronJob":
            self.wait(f"{count} Pods run", lambda: self.is_running(models, count))
        if self.kind == "Deployment":
            self.wait("no revision is held", lambda: not any(has_gate(one["spec"]["template"]) for one in self.revisions()))
        self.assert_safe()

    def wait_held(self, reason, *words, timeout=TIMEOUT):
        """It is held with a reason, and nothing of it runs."""
        message = self.wait_report(reason, *words, timeout=timeout)
        assert message, self.story()
        assert has_gate(self.template()), self.story()
        assert not [pod for pod in self.pods() if pod["status"].get("phase") == "Running"], self.story()
        self.assert_safe()
        return message

    def assert_safe(self):
        assert self.plane.guard.of(self.namespace) == [], self.story()
        assert self.plane.kubelet.faults_of(self.namespace) == [], self.story()
