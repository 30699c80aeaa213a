"""What the tests of delivery in a whole cluster share: models, workloads whose Pods read them, and what those told."""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import time
import types

from harness import cluster as clusters
from harness import delivery_guard, delivery_plane, images, kube_api

READER = {"name": "main", "image": images.READER, "imagePullPolicy": "Never"}
WAITS = {"containers": [{"name": "main", "image": clusters.PAUSE_IMAGE, "imagePullPolicy": "Never"}], "terminationGracePeriodSeconds": 1}
MODELS_DIR = delivery_guard.MODELS_DIR
MATERIALIZERS = f"app.kubernetes.io/name={delivery_guard.MATERIALIZER}"


def sums_of(folder):
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()}


class Plane:
    """An installed cluster, as delivery_plane.Workload takes it."""

    claims, materializers, secrets, events = (getattr(delivery_plane.DeliveryPlane, name) for name in ("claims", "materializers", "secrets", "events"))

    def __init__(self, installed):
        self.installed, self.api, self.controllers, self.stack = installed, kube_api.Api(installed.cluster), [], contextlib.ExitStack()
        nothing = lambda namespace: []  # noqa: E731: kubelet's own, the real one's, are seen in its Pods
        self.guard, self.kubelet = types.SimpleNamespace(of=nothing), types.SimpleNamespace(faults_of=nothing)
        self.workloads = self.stack.enter_context(delivery_plane.Workloads(self.api))

    def model(self, name, namespace=None, repository=None, files=None):
        """A Model, or without a namespace a ClusterModel, by default with small files that no other has. Not waited for."""
        if repository is None:
            seed = random.SystemRandom().randrange(1 << 30)
            repository, contents = f"owner/n{seed:x}", delivery_plane.small_files(seed)
            self.installed.outside.hub.add(repository, contents)
            files = {path: hashlib.sha256(data).hexdigest() for path, data in contents.items()}
        kind = "Model" if namespace else "ClusterModel"
        self.installed.apply({"apiVersion": "ai.deckhouse.io/v1alpha1", "kind": kind, "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
                              "spec": {"source": {"url": f"https://huggingface.co/{repository}"}}})
        return types.SimpleNamespace(kind=kind, name=name, namespace=namespace, files=files, digest=None)

    def ready(self, model):
        status = self.installed.wait_phase(model.kind, model.name, "Ready", model.namespace, 120)["status"]
        model.digest = status["artifact"]["digest"]
        return model

    def workload(self, kind, namespace, models=(), cluster_models=(), name="app", does=("sums", "wait"), **more):
        pod = {"containers": [{**READER, "args": list(does)}], "terminationGracePeriodSeconds": 5, "automountServiceAccountToken": False,
               **({"restartPolicy": "Never"} if kind == "CronJob" else {})}
        return Workload(self, {"kind": kind, **self.api.create(delivery_plane.manifest(kind, namespace, name, models, cluster_models, **{"pod": pod, **more}))})

    def namespace(self, name):
        self.installed.kubectl("create", "namespace", name)
        self.api.wait("its service account", lambda: self.api.get("ServiceAccount", name, "default"))
        return name

    def close(self):
        self.stack.close()


class Workload(delivery_plane.Workload):
    """Whose Pods tell what they read."""

    def kubectl(self, *arguments, **options):
        return self.plane.installed.kubectl(*arguments, "-n", self.namespace, **options)

    def said(self, pod):
        return self.kubectl("logs", pod["metadata"]["name"], check=False)

    def read(self, pod):
        """Path below the models' directory -> SHA-256."""
        lines = [line.split("  ", 1) for line in self.said(pod).splitlines() if "  " in line]
        return {path.removeprefix(f"{MODELS_DIR}/"): digest for digest, path in lines}

    def wait_read(self, models, count=1, timeout=90):
        """So many Pods of it run and have read the whole of just these models."""
        self.wait_running(models, count, timeout)
        wanted = {f"{model.name}/{path}": digest for model in models for path, digest in model.files.items()}
        for pod in self.pods():
            self.wait(f"{pod['metadata']['name']} reads {wanted}, not {self.said(pod)}", lambda pod=pod: self.read(pod) == wanted, 20)

    def uids(self):
        return {pod["metadata"]["uid"] for pod in self.pods()}


def faults(plane, namespaces):
    """Pods that ever failed: those that started without their models do."""
    found = []
    for namespace in namespaces:
        for pod in plane.api.list("Pod", namespace):
            for container in pod.get("status", {}).get("containerStatuses") or []:
                if container["restartCount"] or container["state"].get("terminated", {}).get("exitCode"):
                    found.append((namespace, pod["metadata"]["name"], container))
    return found


def processes(applet, *words):
    """Of the program on this machine, which is the node, that have these among the words they were started with."""
    found = []
    for folder in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            started = pathlib.Path(f"/proc/{folder}/cmdline").read_bytes().split(b"\0")
            if len(started) > 2 and started[0].endswith(b"ai-models") and started[1] == applet.encode() and all(any(
                    word.encode() in one for one in started) for word in words):
                found.append(int(folder))
    return found


def wait_until(what, holds, timeout=60):
    end = time.monotonic() + timeout
    while not (found := holds()):
        assert time.monotonic() < end, f"not within {timeout} s: {what() if callable(what) else what}"
        time.sleep(0.1)
    return found


def as_json(thing):
    return json.dumps(thing).encode()
