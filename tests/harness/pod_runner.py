"""What kubelet, scheduler and node do for the Pods of one namespace, where only an API server runs: containers are processes of this machine.

Volumes become folders, whose paths replace the mounted ones in the command; the service account's token becomes a kubeconfig. What
happens to nodes and containers is played on demand: eviction, lack of memory, a lost node, an image that is not there."""

import base64
import contextlib
import datetime
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time
import traceback

from . import kube_api, tools

NODE = "runner"
MESSAGE_LIMIT = 4096  # kubelet's
DEFAULT_MESSAGE_PATH = "/dev/termination-log"


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class NotYet(Exception):
    """A Pod's volume cannot be made so far; kubelet waits."""


class Volumes:
    """The folders of one Pod's volumes."""

    def __init__(self, runner, pod, folder):
        self.runner, self.pod, self.folder = runner, pod, folder
        self.namespace = pod["metadata"]["namespace"]

    def of(self, kind, source, name_key):
        name = source[name_key]
        thing = self.runner.api.get(kind, self.namespace, name)
        if thing is None:
            if source.get("optional"):
                return {}
            raise NotYet(f'{kind.lower()} "{name}" not found')
        data = {key: base64.b64decode(value) for key, value in (thing.get("data") or {}).items()} if kind == "Secret" else \
            {key: value.encode() for key, value in (thing.get("data") or {}).items()}
        if "items" not in source:
            return data
        missing = [item["key"] for item in source["items"] if item["key"] not in data]
        if missing and not source.get("optional"):
            raise NotYet(f'references non-existent {kind.lower()} key: {missing[0]}')
        return {item["path"]: data[item["key"]] for item in source["items"] if item["key"] in data}

    def projected(self, source):
        if "secret" in source:
            return self.of("Secret", source["secret"], "name")
        if "configMap" in source:
            return self.of("ConfigMap", source["configMap"], "name")
        if "serviceAccountToken" in source:
            return {source["serviceAccountToken"]["path"]: self.runner.token_of(self.pod).encode()}
        if "downwardAPI" in source:
            return {item["path"]: self.field(item["fieldRef"]).encode() for item in source["downwardAPI"]["items"]}
        raise AssertionError(f"the runner has no volume like {source}")

    def field(self, ref):
        value = self.pod
        for part in ref["fieldPath"].split("."):
            value = value[part]
        return value

    def files(self, volume):
        if "secret" in volume:
            return self.of("Secret", volume["secret"], "secretName")
        if "configMap" in volume:
            return self.of("ConfigMap", volume["configMap"], "name")
        if "projected" in volume:
            found = {}
            for source in volume["projected"]["sources"]:
                found |= self.projected(source)
            return found
        assert "emptyDir" in volume, f"the runner has no volume like {volume}"
        return {}

    def make(self):
        for volume in self.pod["spec"].get("volumes", []):
            folder = self.folder / volume["name"]
            folder.mkdir(parents=True, exist_ok=True)
            for path, data in self.files(volume).items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(data)

    def mapped(self, container, text):
        """`text` with the paths that the container would see made those of the folders."""
        folders = {}
        for mount in container.get("volumeMounts", []):
            folders[mount["mountPath"].rstrip("/")] = str(self.folder / mount["name"]) + (f"/{mount['subPath']}" if mount.get("subPath") else "")
        if not folders:
            return text
        inside = "|".join(map(re.escape, sorted(folders, key=len, reverse=True)))
        return re.sub(rf"(?<![\w/.-])({inside})(?=/|&|$)", lambda found: folders[found[1]], text)

    def environment(self, container):
        found = {}
        for variable in container.get("env", []):
            source = variable.get("valueFrom")
            if source is None:
                found[variable["name"]] = self.mapped(container, variable.get("value", ""))
            elif "fieldRef" in source:
                found[variable["name"]] = self.field(source["fieldRef"])
            else:
                kind, ref = ("Secret", source["secretKeyRef"]) if "secretKeyRef" in source else ("ConfigMap", source["configMapKeyRef"])
                data = self.of(kind, ref, "name")
                if ref["key"] not in data:
                    if ref.get("optional"):
                        continue
                    raise NotYet(f"couldn't find key {ref['key']} in {kind} {self.namespace}/{ref['name']}")
                found[variable["name"]] = data[ref["key"]].decode()
        return found


class RunningPod:
    """One Pod from its creation to its end, on a thread of its own."""

    def __init__(self, runner, pod):
        self.runner, self.pod, self.api = runner, pod, runner.api
        self.name, self.uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self.container = pod["spec"]["containers"][0]
        self.folder = runner.folder / self.uid
        self.message_file, self.log = self.folder / "termination-log", runner.folder / f"{self.name}.{self.uid[:8]}.log"
        self.process, self.deleted, self.is_lost, self.killed_as = None, threading.Event(), False, None
        self.started_at = None
        self.thread = threading.Thread(target=self.live, daemon=True)

    # Its status

    def tell(self, **status):
        with contextlib.suppress(kube_api.ApiError):  # it may be gone
            self.api.patch(self.pod, {"metadata": {"uid": self.uid}, "status": status}, "status")

    def tell_container(self, phase, state, **more):
        told = {"name": self.container["name"], "image": self.container.get("image", ""), "imageID": "", "restartCount": 0,
                "ready": "running" in state, "state": state}
        conditions = [{"type": kind, "status": "True" if kind in ("Initialized", "PodScheduled") or "running" in state else "False",
                       "lastTransitionTime": now()} for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")]
        self.tell(phase=phase, conditions=conditions, containerStatuses=[told], startTime=self.started_at, **more)

    def tell_waiting(self, reason, message=""):
        self.tell_container("Pending", {"waiting": {"reason": reason, "message": message}})

    # Its life

    def live(self):
        try:
            self.started_at = now()
            if self.schedule():
                self.work()
            if not self.is_lost:
                self.remove_if_deleted()
        except Exception as error:  # noqa: BLE001: a fault of the harness must be seen
            self.runner.faults.append(f"{self.name}: {error!r} {traceback.format_exc()[-600:]}")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.runner.ended(self)

    def schedule(self):
        """FALSE when it was deleted before it had a node."""
        while self.runner.is_full:
            if self.deleted.wait(0.05):
                return False
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": self.name}, "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}}
        return self.api.ask("POST", kube_api.path_to(self.pod, "binding"), body)[0] < 300

    def work(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        volumes = Volumes(self.runner, self.pod, self.folder)
        environment = self.prepare(volumes)
        if environment is None:
            self.tell_container("Failed", {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "finishedAt": now()}})
            return
        self.start(volumes, environment)
        self.tell_container("Running", {"running": {"startedAt": now()}})
        self.watch_process()
        if self.is_lost:
            return
        if self.killed_as == "Evicted":
            self.tell(phase="Failed", reason="Evicted", message="The node was low on resource: memory.", containerStatuses=[])
        else:
            self.tell_ended()

    def prepare(self, volumes):
        """The container's environment once all is there; None when the Pod is deleted before."""
        told = None
        while not self.deleted.is_set():
            if self.runner.missing_image:
                problem = ("ImagePullBackOff", f'Back-off pulling image "{self.container.get("image")}"')
            else:
                try:
                    volumes.make()
                    return volumes.environment(self.container)
                except NotYet as error:
                    problem = ("ContainerCreating", "") if "found" in str(error) else ("CreateContainerConfigError", str(error))
            if problem != told:
                self.tell_waiting(*problem)
                told = problem
            self.deleted.wait(0.1)
        return None

    def start(self, volumes, environment):
        words = [volumes.mapped(self.container, word) for word in [*self.container.get("command", []), *self.container.get("args", [])]]
        if not self.container.get("command"):
            words = ["ai-models", *words]
        command = [str(self.runner.program) if os.path.basename(words[0]) == "ai-models" else words[0], *words[1:]]
        path = self.container.get("terminationMessagePath", DEFAULT_MESSAGE_PATH)
        self.message_file.touch()
        if path in command:
            command = [str(self.message_file) if word == path else word for word in command]
        elif "publish" in command:
            command += ["--termination-file", str(self.message_file)]
        kubeconfig = self.folder / "kubeconfig"
        kubeconfig.write_text(kube_api.kubeconfig(self.runner.plane, self.runner.server, self.runner.token_of(self.pod)))
        kept = {key: os.environ[key] for key in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LANG") if key in os.environ}
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder,
                                            env={**kept, "HOME": str(self.folder), "KUBECONFIG": str(kubeconfig), **environment})
        self.runner.started(self, command)

    def watch_process(self):
        while self.process.poll() is None:
            if self.deleted.wait(0.02):
                break
        if self.process.poll() is None and not self.is_lost:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(self.grace)
            except subprocess.TimeoutExpired:
                self.process.kill()
        if not self.is_lost:
            self.process.wait()

    def tell_ended(self):
        status = self.process.returncode
        code = 128 - status if status < 0 else status
        message = self.message_file.read_bytes()[:MESSAGE_LIMIT].decode(errors="replace") if self.message_file.exists() else ""
        if not message and code != 0 and self.container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            message = self.log.read_text(errors="replace")[-2048:]
        reason = self.killed_as or ("Completed" if code == 0 else "Error")
        ended = {"exitCode": code, "reason": reason, "message": message, "startedAt": self.started_at, "finishedAt": now()}
        self.tell_container("Succeeded" if code == 0 else "Failed", {"terminated": ended})

    @property
    def grace(self):
        given = self.pod["metadata"].get("deletionGracePeriodSeconds")
        return 30 if given is None else given

    def remove_if_deleted(self):
        """An ended Pod stays until somebody deletes it."""
        self.deleted.wait()
        if not self.is_lost and not self.runner.is_stopping:
            self.api.delete(self.pod, grace=0, uid=self.uid)

    # What others do to it

    def delete(self, pod):
        self.pod = {"kind": "Pod", **pod}
        self.deleted.set()

    def kill(self, as_reason=None):
        """As the kernel does; `as_reason`: "OOMKilled"."""
        self.killed_as = as_reason
        if self.process is not None and self.process.poll() is None:
            self.process.kill()

    def is_running(self):
        return self.process is not None and self.process.poll() is None


class PodRunner:
    """Use as a context. `server`: the API server's address for containers, such as a proxy's."""

    def __init__(self, plane, namespace, folder, server=None, program=None):
        self.plane, self.namespace, self.folder = plane, namespace, pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.api, self.server, self.program = kube_api.Api(plane), server or plane.url, program or tools.program()
        self.lock, self.pods = threading.Lock(), {}
        self.is_full = self.missing_image = self.is_stopping = False
        self.on_start = None  # called with a RunningPod and its command, once its process runs
        self.commands, self.faults, self.watch = [], [], None
        self.most_at_once = {}  # a Pod's name -> most processes of it that ran at one time
        self.thread = threading.Thread(target=self.follow, daemon=True)

    # For tests

    def running(self, name=""):
        with self.lock:
            return [pod for pod in self.pods.values() if name in pod.name and pod.is_running()]

    def wait_running(self, name="", timeout=60):
        """The first whose process runs."""
        return self.api.wait(f"a Pod {name} runs", lambda: self.running(name), timeout, 0.01)[0]

    def evict(self, pod):
        pod.kill("Evicted")

    def out_of_memory(self, pod):
        pod.kill("OOMKilled")

    def lose_node(self, pod):
        """Nobody hears of it any more; what manages nodes marks it for deletion, and nobody confirms that."""
        pod.is_lost = True
        self.api.delete(pod.pod, grace=30, uid=pod.uid)
        self.api.patch(pod.pod, {"status": {"reason": "NodeLost", "conditions": [
            {"type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": now()},
            {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "Taint manager: deleting due to NoExecute taint",
             "lastTransitionTime": now()}]}}, "status", "application/strategic-merge-patch+json")
        pod.kill()

    def forget_node(self, pod):
        """The administrator removes the node: the Pods go with it."""
        self.api.delete(pod.pod, grace=0, uid=pod.uid)

    # Its work

    def token_of(self, pod):
        return self.api.token(self.namespace, pod["spec"].get("serviceAccountName", "default"))

    def started(self, pod, command):
        with self.lock:
            self.commands.append(command)
            alive = sum(other.name == pod.name and (other.is_running() and not other.is_lost) for other in self.pods.values())
            self.most_at_once[pod.name] = max(self.most_at_once.get(pod.name, 0), alive)
        if self.on_start is not None:
            self.on_start(pod)

    def ended(self, pod):
        with self.lock:
            self.pods.pop(pod.uid, None)

    def follow(self):
        while not self.is_stopping:
            self.watch = self.api.watch("Pod", self.namespace)
            for kind, thing in self.watch:
                self.take(kind, {"kind": "Pod", **thing})
            with contextlib.suppress(OSError, kube_api.ApiError):  # the API server may be starting anew
                self.drop_unseen()
            time.sleep(0.02)

    def drop_unseen(self):
        """Those that went while nobody looked."""
        there = {thing["metadata"]["uid"] for thing in self.api.list("Pod", self.namespace)} if not self.is_stopping else set()
        with self.lock:
            gone = [pod for uid, pod in self.pods.items() if uid not in there]
        for pod in gone:
            pod.delete(pod.pod)

    def take(self, kind, thing):
        uid, phase = thing["metadata"]["uid"], thing.get("status", {}).get("phase", "Pending")
        with self.lock:
            pod = self.pods.get(uid)
            if pod is None and kind == "ADDED" and phase == "Pending" and not thing["spec"].get("nodeName"):
                pod = self.pods[uid] = RunningPod(self, thing)
                pod.thread.start()
        if pod is not None and (kind == "DELETED" or thing["metadata"].get("deletionTimestamp")):
            pod.delete(thing)

    def __enter__(self):
        self.api.create({"kind": "Node", "metadata": {"name": NODE}}, exist_ok=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_stopping = True
        with self.lock:
            pods = list(self.pods.values())
        for pod in pods:
            pod.kill()
            pod.deleted.set()
        if self.watch is not None:
            self.watch.close()
        for pod in pods:
            pod.thread.join(10)
