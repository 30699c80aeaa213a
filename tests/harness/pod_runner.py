"""What kubelet, scheduler and node do for the Pods of a namespace, or of all, where only an API server runs: containers are processes of
this machine.

Volumes become folders, whose paths replace the mounted ones in the command; the service account's token becomes a kubeconfig. A Pod with
scheduling gates is left alone, and one whose claims are not bound waits. Of several containers the first one runs, the others seem to.
What happens to nodes and containers is played on demand: eviction, lack of memory, a lost node, an image that is not there."""

import contextlib
import datetime
import http.client
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
import traceback

from . import kube_api, tools
from .pod_volumes import NotYet, Volumes

NODE = "runner"
MESSAGE_LIMIT = 4096  # kubelet's
PATIENCE = 20  # s
# A shell that becomes its further words once the file that is the first of them is not there.
HELD = 'while [ -e "$0" ]; do sleep 0.05; done; exec "$@"'
DEFAULT_MESSAGE_PATH = "/dev/termination-log"


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class RunningPod:
    """One Pod from its creation to its end, on a thread of its own."""

    def __init__(self, runner, pod):
        self.runner, self.pod, self.api = runner, pod, runner.api
        self.name, self.uid, self.namespace = (pod["metadata"][key] for key in ("name", "uid", "namespace"))
        self.container = pod["spec"]["containers"][0]
        self.folder = runner.folder / self.uid
        self.volumes = Volumes(runner, pod, self.folder)
        self.message_file, self.log = self.folder / "termination-log", runner.folder / f"{self.name}.{self.uid[:8]}.log"
        self.process, self.deleted, self.is_lost, self.killed_as = None, threading.Event(), False, None
        self.started_at, self.n_restarts, self.lock = None, 0, threading.Lock()
        self.thread = threading.Thread(target=self.live, daemon=True)

    # Its status

    def tell(self, **status):
        self.insist("PATCH", "status", {"metadata": {"uid": self.uid}, "status": status}, kube_api.MERGE)

    def insist(self, method, sub, body, kind="application/json"):
        """As kubelet does, in spite of conflicts and of an API server that has no time. FALSE: the Pod is not there any more."""
        end = time.monotonic() + PATIENCE
        while True:
            status, answer = self.api.ask(method, kube_api.path_to(self.pod, sub), body, kind)
            if status < 300:
                return True
            now = self.api.get("Pod", self.namespace, self.name)
            if now is None or now["metadata"]["uid"] != self.uid or self.runner.is_stopping:
                return False
            if sub == "binding" and (now["spec"].get("nodeName") or now["metadata"].get("deletionTimestamp")):
                return now["spec"].get("nodeName") == NODE
            if time.monotonic() > end or status not in (403, 409, 429, 500, 503, 504):  # 403: its namespace goes, and so will it
                raise kube_api.ApiError(status, answer)
            time.sleep(0.1)

    def tell_container(self, phase, state, **more):
        told = [{"name": container["name"], "image": container.get("image", ""), "imageID": "", "restartCount": self.n_restarts,
                 "ready": "running" in state, "state": state} for container in self.pod["spec"]["containers"]]
        conditions = [{"type": kind, "status": "True" if kind in ("Initialized", "PodScheduled") or "running" in state else "False",
                       "lastTransitionTime": now()} for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")]
        self.tell(phase=phase, conditions=conditions, containerStatuses=told, startTime=self.started_at, **more)

    def tell_waiting(self, reason, message=""):
        self.tell_container("Pending", {"waiting": {"reason": reason, "message": message}})

    # Its life

    def live(self):
        try:
            self.started_at = now()
            if self.schedule(self.volumes):
                self.work(self.volumes)
            if not self.is_lost:
                self.remove_if_deleted()
        except Exception as error:  # noqa: BLE001: a fault of the harness must be seen
            if not self.goes_with_its_namespace(error) and not self.runner.is_stopping:
                self.runner.faults.append(f"{self.namespace}/{self.name}: {error!r} {traceback.format_exc()[-600:]}")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.runner.ended(self)

    def goes_with_its_namespace(self, error):
        """Where a namespace ends, nothing is given to a Pod any more, which is removed in a moment."""
        if not isinstance(error, kube_api.ApiError) or error.status not in (403, 404) or not self.deleted.wait(PATIENCE):
            return False
        self.kill()
        self.remove_if_deleted()
        return True

    def schedule(self, volumes):
        """FALSE when it was deleted before it had a node."""
        while not self.has_room(volumes):
            if self.deleted.wait(0.1 if volumes.claims() else 0.05):
                return False
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": self.name}, "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}}
        return self.insist("POST", "binding", body)

    def has_room(self, volumes):
        if self.runner.is_full:
            return False
        try:
            volumes.bind()
        except NotYet:
            return False
        return True

    def work(self, volumes):
        self.folder.mkdir(parents=True, exist_ok=True)
        environment = self.prepare(volumes)
        if environment is None:
            self.tell_container("Failed", {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "finishedAt": now()}})
            return
        while True:
            self.start(volumes, environment)
            self.tell_container("Running", {"running": {"startedAt": now()}})
            self.process.wait()
            if not self.is_restarted():
                break
            self.n_restarts += 1
        if self.is_lost:
            return
        if self.killed_as == "Evicted":
            self.tell(phase="Failed", reason="Evicted", message="The node was low on resource: memory.", containerStatuses=[])
        else:
            self.tell_ended()

    def is_restarted(self):
        """After a pause: the container has ended and is to start anew."""
        policy = self.pod["spec"].get("restartPolicy", "Always")
        is_wanted = policy == "Always" or policy == "OnFailure" and self.process.returncode != 0
        return is_wanted and self.killed_as != "Evicted" and not self.is_lost and not self.deleted.wait(0.2)

    def prepare(self, volumes):
        """The container's environment once all is there; None when the Pod is deleted before."""
        told = None
        while not self.deleted.is_set():
            if self.runner.lacks_image(self.namespace):
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
        elif {"publish", "materialize"} & set(command[:2]):
            command += ["--termination-file", str(self.message_file)]
        kubeconfig = self.folder / "kubeconfig"
        if self.has_token():
            kubeconfig.write_text(kube_api.kubeconfig(self.runner.plane, self.runner.server, self.runner.token_of(self.pod)))
        kept = {key: os.environ[key] for key in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LANG") if key in os.environ}
        if self.runner.hold_file(self.namespace).exists():
            command = ["/bin/sh", "-c", HELD, str(self.runner.hold_file(self.namespace)), *command]
        if self.runner.check is not None:
            self.runner.check(self, volumes)
        with self.log.open("ab") as output, self.lock:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder,
                                            env={**kept, "HOME": str(self.folder), "KUBECONFIG": str(kubeconfig), **environment})
        if self.deleted.is_set():
            self.ask_to_stop()
        self.runner.started(self, command)

    def has_token(self):
        spec = self.pod["spec"]
        return spec.get("automountServiceAccountToken") is not False or any(
            "serviceAccountToken" in source for volume in spec.get("volumes", []) for source in volume.get("projected", {}).get("sources", []))

    def ask_to_stop(self):
        """SIGTERM, and SIGKILL after its grace."""
        with self.lock:
            process = self.process
        if process is None or process.poll() is not None or self.is_lost:
            return
        process.send_signal(signal.SIGTERM)
        killing = threading.Timer(self.grace, process.kill)
        killing.daemon = True
        killing.start()

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
            self.insist("DELETE", None, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}})

    # What others do to it

    def delete(self, pod):
        self.pod, was_deleted = {"kind": "Pod", **pod}, self.deleted.is_set()
        self.deleted.set()
        if not was_deleted:
            self.ask_to_stop()

    def kill(self, as_reason=None):
        """As the kernel does; `as_reason`: "OOMKilled"."""
        self.killed_as = as_reason
        if self.process is not None and self.process.poll() is None:
            self.process.kill()

    def is_running(self):
        return self.process is not None and self.process.poll() is None


class PodRunner:
    """Use as a context. `namespace`: None for all but those of `others`. `server`: the API server's address for containers, such as a
    proxy's."""

    def __init__(self, plane, namespace, folder, server=None, program=None, others=()):
        self.plane, self.namespace, self.folder, self.others = plane, namespace, pathlib.Path(folder), set(others)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.api, self.server, self.program = kube_api.Api(plane), server or plane.url, program or tools.program()
        self.lock, self.pods = threading.Lock(), {}
        self.is_full = self.missing_image = self.is_stopping = False
        self.imageless = set()  # namespaces without images
        self.on_start = None  # called with a RunningPod and its command, once its process runs
        self.check = None  # called with a RunningPod and its Volumes just before its containers start
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

    def lacks_image(self, namespace):
        return self.missing_image or namespace in self.imageless

    def hold_file(self, namespace):
        return self.folder / f"held-{namespace}"

    def hold(self, namespace):
        """Its containers stand still before they begin, until let_go()."""
        self.hold_file(namespace).touch()

    def let_go(self, namespace):
        self.hold_file(namespace).unlink(missing_ok=True)

    def faults_of(self, namespace):
        return [fault for fault in self.faults if fault.startswith(f"{namespace}/")]

    def take_faults(self):
        """What went wrong with the runner itself since this was asked last."""
        with self.lock:
            faults, self.faults = self.faults, []
        return faults + ([] if self.thread.is_alive() or self.is_stopping else ["the runner of Pods follows nobody any more"])

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
        return self.api.token(pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName", "default"))

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
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError, kube_api.ApiError):  # the API server may be starting anew
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
        uid = thing["metadata"]["uid"]
        with self.lock:
            pod = self.pods.get(uid)
            if pod is None and kind != "DELETED" and self.is_ours(thing):
                pod = self.pods[uid] = RunningPod(self, thing)
                pod.thread.start()
        if pod is not None and (kind == "DELETED" or thing["metadata"].get("deletionTimestamp")):
            pod.delete(thing)
        if pod is not None and kind == "DELETED":
            pod.kill()

    def is_ours(self, thing):
        """Nobody runs it yet, and nothing holds it."""
        meta, spec, phase = thing["metadata"], thing["spec"], thing.get("status", {}).get("phase", "Pending")
        is_free = phase == "Pending" and not meta.get("deletionTimestamp") and not spec.get("nodeName") and not spec.get("schedulingGates")
        return is_free and meta["namespace"] not in self.others

    def __enter__(self):
        node = self.api.create({"kind": "Node", "metadata": {"name": NODE}}, exist_ok=True)
        self.api.patch({"kind": "Node", **node}, {"spec": {"taints": None}})  # DaemonSets pass by a node that is not ready
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
