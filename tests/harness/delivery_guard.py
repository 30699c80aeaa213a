"""What must never be: a Pod of a workload with references that starts without its models whole. Asked by pod_runner just before the
containers of each Pod start."""

import hashlib
import json
import pathlib
import threading
import time

PREFIX = "ai.deckhouse.io/"
GATE = f"{PREFIX}model-delivery"
MODELS_DIR = "/data/modelcache/models"
STRICT = "tests/has-references"  # label of Pods whose workload asked for models since it is there
MATERIALIZER = "ai-models-materializer"


def hashes(folder):
    """Path -> SHA-256 of each file below a folder."""
    folder = pathlib.Path(folder)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()}


def delivered_models(metadata):
    """What a Pod, or a Pod template, says it was given; None: nothing."""
    text = (metadata.get("annotations") or {}).get(f"{PREFIX}resolved-models")
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return []


class Guard:
    """`known`: digest -> hashes() of that model's files."""

    def __init__(self, max_running):
        self.known, self.violations, self.tokens, self.max_running = {}, [], set(), max_running
        self.lock, self.running = threading.Lock(), set()
        self.n_checked, self.most_running = 0, 0

    def check(self, pod, volumes):
        labels = pod.pod["metadata"].get("labels") or {}
        if labels.get("app.kubernetes.io/name") == MATERIALIZER:
            self.check_materializer(pod, volumes)
            return
        models = delivered_models(pod.pod["metadata"])
        if not models:
            if labels.get(STRICT):
                self.violate(pod, "starts without models")
            return
        self.n_checked += 1
        for container in [*pod.pod["spec"].get("initContainers", []), *pod.pod["spec"]["containers"]]:
            for model in models:
                self.check_model(pod, volumes, container, model)
            self.check_environment(pod, container, models)

    def check_model(self, pod, volumes, container, model):
        path = f"{MODELS_DIR}/{model.get('name')}"
        mount = next((one for one in container.get("volumeMounts", []) if one["mountPath"] == path), None)
        if mount is None or not mount.get("readOnly"):
            self.violate(pod, f"{container['name']} has not {path} to read: {mount}")
            return
        folder = volumes.mounted(mount)
        found, expected = (hashes(folder) if folder.is_dir() else None), self.files_of(model.get("digest"))
        if expected is None or found != expected:
            self.violate(pod, f"{path}, {model.get('digest')}, is not whole: {found}, not {expected}")

    def files_of(self, digest):
        """Who made the model may not have heard yet that it is Ready."""
        end = time.monotonic() + 20
        while digest not in self.known and time.monotonic() < end:
            time.sleep(0.05)
        return self.known.get(digest)

    def check_environment(self, pod, container, models):
        given = {variable["name"]: variable.get("value") for variable in container.get("env", [])}
        wanted = [{"name": one["name"], "path": f"{MODELS_DIR}/{one['name']}", "digest": one["digest"],
                   **({"family": one["family"]} if one.get("family") else {})} for one in models]
        if given.get("AI_MODELS_MODELS_DIR") != MODELS_DIR or json.loads(given.get("AI_MODELS_MODELS") or "null") != wanted:
            self.violate(pod, f"{container['name']} is told {given}, not {wanted}")

    def check_materializer(self, pod, volumes):
        """It has no account, may do nothing, and does not run beside more than may run."""
        spec = pod.pod["spec"]
        if spec.get("automountServiceAccountToken") is not False or pod.has_token():
            self.violate(pod, "a materializer has a token of the API server")
        for container in spec["containers"]:
            security = {**spec.get("securityContext", {}), **container.get("securityContext", {})}
            wanted = {"runAsNonRoot": True, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
            if any(security.get(key) is not value for key, value in wanted.items()) or security.get("capabilities", {}).get("drop") != ["ALL"]:
                self.violate(pod, f"a materializer is not restricted: {security}")
        for token in volumes.folder.glob("*/token"):
            self.tokens.add(token.read_text())
        with self.lock:
            self.running = {one for one in self.running if one.is_running()} | {pod}
            self.most_running = max(self.most_running, len(self.running))

    def violate(self, pod, words):
        owners = [f"{one['kind']}/{one['name']}" for one in pod.pod["metadata"].get("ownerReferences", [])]
        with self.lock:
            self.violations.append(f"{pod.namespace}/{pod.name} of {owners}: {words}")

    def take_violations(self):
        """Since this was asked last."""
        with self.lock:
            violations, self.violations = self.violations, []
        return violations

    def of(self, namespace):
        """What was wrong in a namespace."""
        return [one for one in self.violations if one.startswith(f"{namespace}/")]
