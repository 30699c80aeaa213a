"""What the controller costs and how fast it is where workloads ask for models, against the same controller-runtime program, which
follows them, too."""

import contextlib
import hashlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time

import model_objects
import module
import workload_objects
from controller_measures import RUNTIME, WINDOW, percentile
from harness import control_plane, delivery_plane, servers, tools
from measures import MIB, Measure

OURS, PEER = module.OURS, module.PEER
WEBHOOK = "workloaddelivery.ai-models.deckhouse.io"
ACCOUNT_OPTIONS = ["--delivery", "SharedPVC", "--account", module.USER]
GATE = model_objects.PREFIX + "model-delivery"
N_CLIENTS = 4  # that apply a burst of workloads, each one after the other as kubectl does
CATCHING_UP = 900  # s that the controller may take to deliver to all


def sizes(bench):
    """Models, workloads, seconds to come to rest, seconds of idleness, workloads in a burst, applications of one manifest."""
    return (10, 50, 2, 3, 30, 2) if bench.data.quick else (200, 5000, 20, WINDOW, 1000, 10)


class Plane(module.Plane):
    """An API server with Ready Models whose files lie on claims, the controllers of Deployments, and the webhook registered for ours."""

    def __init__(self, folder, objects, has_manager=True):
        super().__init__(folder, objects)
        self.manager = control_plane.Process([
            *self.controller_manager_command(), "--controllers=deployment-controller,replicaset-controller,daemonset-controller", "--kube-api-qps=1000",
            "--kube-api-burst=2000", "--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20"], self.folder / "kube-controller-manager.log")
        self.has_manager = has_manager

    def start(self):
        super().start()
        workload_objects.make_class(self.api)
        self.webhook_port = servers.free_port()
        self.webhook_pair = self.authority.issue("webhook", "/CN=webhook", "IP:127.0.0.1")
        self.salt = self.folder / "salt"
        self.salt.write_text("benchmark")
        if self.has_manager:
            self.manager.start()
        return self

    def stop(self):
        self.manager.stop()
        super().stop()

    def options(self):
        """More of our controller's."""
        return [*ACCOUNT_OPTIONS, "--grant-salt-file", self.salt, "--webhook-listen", f"127.0.0.1:{self.webhook_port}",
                "--tls-cert", self.webhook_pair[0], "--tls-key", self.webhook_pair[1]]

    def register_webhook(self, port=None):
        self.webhook = self.api.create(delivery_plane.webhook_at(port or self.webhook_port, self.authority.certificate.read_text()))
        time.sleep(2)  # the API server follows its configuration a little later

    def remove_webhook(self):
        self.api.delete({"kind": "MutatingWebhookConfiguration", **self.webhook})

    def writes(self):
        """Of both controllers."""
        return sum(event["verb"] in ("create", "update", "patch", "delete") for event in self.requests(module.USER))

    def undelivered(self):
        """Names of the workloads that still lack something."""
        return [one["metadata"]["name"] for kind in sorted(set(workload_objects.KINDS)) for one in self.api.list(kind) if not is_delivered(one)]

    def wait_delivered(self, timeout=120):
        self.api.wait(lambda: f"all have their models, but {self.undelivered()[:5]}", lambda: not self.undelivered(), timeout, 1)

    def has_replica_sets(self):
        owners = {one["metadata"]["ownerReferences"][0]["uid"] for one in self.api.list("ReplicaSet")}
        return all(one["metadata"]["uid"] in owners for one in self.api.list("Deployment"))

    def wait_quiet(self, seconds=5):
        """Until nothing was written for so long."""
        writes, since, end = self.writes(), time.monotonic(), time.monotonic() + CATCHING_UP
        while time.monotonic() - since < seconds:
            assert time.monotonic() < end, "the controller goes on writing"
            time.sleep(0.5)
            if (now := self.writes()) != writes:
                writes, since = now, time.monotonic()


def template_of(thing):
    spec = thing["spec"]
    return spec["jobTemplate"]["spec"]["template"] if thing["kind"] == "CronJob" else spec["template"]


def is_delivered(thing):
    template = template_of(thing)
    annotations, gates = template["metadata"].get("annotations", {}), template["spec"].get("schedulingGates", [])
    return model_objects.PREFIX + "resolved-models" in annotations and not gates and f"{GATE}-cleanup" in thing["metadata"].get("finalizers", [])


def delivering(bench, plane, scratch, *options):
    """Ours, leading, with its webhook."""
    controller = module.Controller(OURS, plane, scratch, bench.program, options=[*plane.options(), *options])
    controller.wait_leading()
    return controller


# Steady state


def deliver_all(bench, plane, scratch):
    """The first workload of each model waits for it, the others find it there."""
    n_models, n_workloads, *_ = sizes(bench)
    workload_objects.make_claims(plane.api)
    with delivering(bench, plane, scratch) as controller:
        plane.register_webhook()
        for indexes in (range(min(n_models, n_workloads)), range(n_models, n_workloads)):
            workload_objects.at_once(lambda i: plane.api.create(workload_objects.workload(i, n_models)), indexes)
            plane.wait_delivered(CATCHING_UP)
        plane.api.wait("each Deployment has its ReplicaSet", plane.has_replica_sets, CATCHING_UP, 2)
        plane.wait_quiet()
        controller.stop()
    plane.remove_webhook()


def delivered_objects(bench):
    """A folder of etcd's with workloads that all have their models: made once, by our own controller. A later one that would
    write anything to them is found out by the count of its writes."""
    makers = (workload_objects.__file__, model_objects.__file__)
    made_by = hashlib.sha256(b"".join(pathlib.Path(maker).read_bytes() for maker in makers)).hexdigest()
    final = bench.data.folder / f"workloads-{sizes(bench)[1]}-{made_by[:10]}"
    if not final.exists():
        with bench.scratch() as scratch:
            with Plane(scratch / "plane", module.objects_of(bench.data, sizes(bench)[0])) as plane:
                deliver_all(bench, plane, scratch)
            shutil.move(scratch / "plane" / "etcd", final)
    return final


def plane_of(bench):
    """An API server with all that, for the rest of the run."""
    if "delivered" not in bench.planes:
        objects, folder = delivered_objects(bench), bench.folder / "plane-delivered"
        bench.clean(folder)
        bench.stores["plane-delivered"] = folder
        bench.planes["delivered"] = bench.stack.enter_context(Plane(folder, objects, has_manager=False))
    return bench.planes["delivered"]


def following(bench, side, plane, scratch, *options):
    """A controller that follows workloads, leads, and has nothing to do any more."""
    more = plane.options() if side == OURS else ["--delivery"]
    controller = module.Controller(side, plane, scratch, bench.program, options=[*more, *options], n_controllers=2 if side == OURS else 6)
    controller.wait_leading()
    time.sleep(sizes(bench)[2])
    return controller


def memory(bench, side):
    plane = plane_of(bench)
    with bench.scratch() as scratch, following(bench, side, plane, scratch) as controller:
        value = controller.rss() / MIB
        bench.note(side, **{f"delivery_{key}_mib": controller.memory(name) / MIB
                            for key, name in (("anonymous", "RssAnon"), ("of_files", "RssFile"), ("peak", "VmHWM"))})
        controller.stop()
    return {"delivery-rss": value}


def idle(bench, side):
    """Both at the same time."""
    if side == OURS:
        bench.idle_delivery = idle_both(bench)
    return bench.idle_delivery[side]


def idle_both(bench):
    plane, seconds = plane_of(bench), sizes(bench)[3]
    more = {OURS: ["--sweep-interval-s", 86400, "--inventory-interval-s", 60], PEER: ["--resync", f"{seconds * 2 // 3}s"]}
    with bench.scratch() as scratch, contextlib.ExitStack() as stack:
        both = {side: stack.enter_context(following(bench, side, plane, scratch, *options)) for side, options in more.items()}
        writes, before = plane.writes(), {side: controller.cpu_nanoseconds() for side, controller in both.items()}
        time.sleep(seconds)
        cpu = {side: (controller.cpu_nanoseconds() - before[side]) / 1e9 for side, controller in both.items()}
        writes = plane.writes() - writes
        for controller in both.values():
            controller.stop()
    return {side: {"delivery-idle-cpu": cpu[side], "delivery-idle-writes": writes} for side in both}


# Admission


def admissions(plane):
    """What the API server counted of the webhook's answers: [(seconds, answers that took no longer)]."""
    text, counts = plane.api.raw("GET", "/metrics")[1].decode(), {}
    for labels, count in re.findall(r"^apiserver_admission_webhook_admission_duration_seconds_bucket\{(.*)\} (\S+)$", text, re.MULTILINE):
        if f'name="{WEBHOOK}"' in labels:
            limit = float(re.search(r'le="([^"]+)"', labels)[1])
            counts[limit] = counts.get(limit, 0) + int(float(count))
    return sorted(counts.items())


def quantile(buckets, share):
    """As Prometheus reads it from a histogram: between the limits of a bucket answers are thought to lie evenly."""
    wanted, below, below_count = share * buckets[-1][1], 0.0, 0
    for limit, count in buckets:
        if count >= wanted:
            return limit if limit == float("inf") else below + (limit - below) * (wanted - below_count) / (count - below_count)
        below, below_count = limit, count
    raise AssertionError("no bucket holds them all")


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def webhook_of(bench, side, plane, scratch):
    """Ours, or one that only holds; our controller delivers to all beside either."""
    with contextlib.ExitStack() as stack:
        controller, port = stack.enter_context(delivering(bench, plane, scratch)), None
        if side == PEER:
            port = servers.free_port()
            command = [tools.controller_peer(), "--webhook", f"127.0.0.1:{port}", "--tls-cert", plane.webhook_pair[0], "--tls-key", plane.webhook_pair[1]]
            stack.enter_context(servers.Server(command, scratch / "webhook.log", port=port))
            plane.api.wait("the webhook listens", lambda: listens(port), 30)
        plane.register_webhook(port)
        yield controller


def admission(bench, side):
    """Of the models every second one is there already, so that both answers are needed: models at once, and the gate."""
    n_models, n_burst = sizes(bench)[0], sizes(bench)[4]
    with bench.scratch() as scratch, Plane(scratch / "plane", module.objects_of(bench.data, n_models)) as plane:
        workload_objects.make_claims(plane.api)
        with webhook_of(bench, side, plane, scratch) as controller:
            for index in range(0, n_models, 2):
                plane.api.create(workload_objects.workload(index, n_models, "Deployment", f"first-{index}"))
            plane.wait_delivered()
            before, seconds = dict(admissions(plane)), []

            def apply(index):
                begin = time.monotonic()
                plane.api.create(workload_objects.workload(index, n_models))  # fails when it is refused
                seconds.append(time.monotonic() - begin)

            began = time.monotonic()
            workload_objects.at_once(apply, range(n_burst), N_CLIENTS)
            burst = time.monotonic() - began
            buckets = [(limit, count - before.get(limit, 0)) for limit, count in admissions(plane)]
            own = [int(ms) for ms in re.findall(r'"duration_ms":"(\d+)"', controller.log.read_text())[-n_burst:]]
            bench.note(side, admission_buckets=buckets, admission_create_p99_ms=1000 * percentile(seconds, 99),
                       admission_cpu_seconds=controller.cpu_seconds(), admission_burst_s=burst)
            controller.stop()
    assert buckets[-1][1] >= n_burst, buckets
    return {**({"admission-p99": percentile(own, 99)} if side == OURS else {}), "admission-api-p99": 1000 * quantile(buckets, 0.99)}


# From bound to running


class Moments:
    """When the API server told of what, the first time each."""

    def __init__(self, api, namespace):
        self.api, self.namespace, self.seen, self.watches = api, namespace, {}, []

    def follow(self, kind):
        watch = self.api.watch(kind, self.namespace)
        self.watches.append(watch)
        for _, thing in watch:
            is_copy = thing["metadata"].get("labels", {}).get("app.kubernetes.io/name") == "ai-models-materializer"
            self.seen.setdefault(("copy" if is_copy else kind, thing.get("status", {}).get("phase")), time.monotonic())

    def __enter__(self):
        for kind in ("PersistentVolumeClaim", "Pod"):
            threading.Thread(target=self.follow, args=(kind,), daemon=True).start()
        time.sleep(0.5)
        return self

    def __exit__(self, *_):
        for watch in self.watches:
            watch.close()


def bound_to_running(bench, _side):
    """The copy is a process that runs as kubelet would run it: from its start to its end is what is taken off."""
    with bench.scratch() as scratch, control_plane.ControlPlane(scratch / "plane") as plane, \
            delivery_plane.DeliveryPlane(plane, scratch / "module") as delivery:
        namespace = delivery.new_namespace()
        model = delivery.model("m", namespace, size=64 * MIB)
        with Moments(delivery.api, namespace) as moments:
            workload = delivery.workload("Deployment", namespace, ["m"], replicas=3)
            workload.wait_running([model], 3)
            seen = moments.seen
    copy = seen["copy", "Succeeded"] - seen["copy", "Running"]
    all_of_it = seen["Pod", "Running"] - seen["PersistentVolumeClaim", "Bound"]
    bench.note(OURS, bound_to_running_s=all_of_it, copy_s=copy)
    return {"bound-to-running": all_of_it - copy}


# GitOps


def kubectl(plane, thing, *arguments):
    subprocess.run([tools.kubernetes("kubectl"), "--kubeconfig", plane.kubeconfig, *arguments, "--filename", "-"], check=True,
                   input=json.dumps(thing).encode(), stdout=subprocess.DEVNULL)


APPLIED_BY = {
    "kubectl": ["apply"],
    "flux": ["apply", "--server-side", "--field-manager=kustomize-controller", "--force-conflicts"],
    "argocd": ["apply", "--server-side", "--field-manager=argocd-controller", "--force-conflicts"],
    "replaced": ["replace"],
}


def replica_sets(plane, thing):
    labels = f"app.kubernetes.io/name={thing['metadata']['name']}"
    return {one["metadata"]["uid"] for one in plane.api.list("ReplicaSet", thing["metadata"]["namespace"], labels)}


def reapply(bench, _side):
    """A Deployment for each way of applying, every one applied again and again as it was written."""
    n_models, n_times = sizes(bench)[0], sizes(bench)[5]
    with bench.scratch() as scratch, Plane(scratch / "plane", module.objects_of(bench.data, n_models)) as plane:
        workload_objects.make_claims(plane.api)
        with delivering(bench, plane, scratch) as controller:
            plane.register_webhook()
            things = {}
            for index, (way, arguments) in enumerate(APPLIED_BY.items()):
                thing = things[way] = workload_objects.workload(index, n_models, "Deployment", way)
                thing["metadata"]["annotations"].pop("kubectl.kubernetes.io/last-applied-configuration")
                kubectl(plane, thing, *(["create"] if way == "replaced" else arguments))
            plane.wait_delivered()
            plane.wait_quiet()
            before = {way: replica_sets(plane, thing) for way, thing in things.items()}
            for _ in range(n_times):
                for way, thing in things.items():
                    kubectl(plane, thing, *APPLIED_BY[way])
            plane.wait_quiet()
            more = {way: len(replica_sets(plane, thing) - before[way]) for way, thing in things.items()}
            assert not plane.undelivered()
            controller.stop()
    bench.note(OURS, reapply_by_way=more)
    return {"reapply-revisions": max(more.values())}


MEASURES = [
    Measure("delivery-rss", memory, "MiB", 0.2, "controller RSS, 5,000 workloads that have their models", "память контроллера (RSS), 5000 нагрузок со своими моделями",
            RUNTIME, 3),
    Measure("delivery-idle-cpu", idle, "s", 0.2, "controller CPU, 10 idle minutes, 5,000 workloads", "процессор контроллера, 10 минут без дела, 5000 нагрузок",
            RUNTIME, 1),
    Measure("delivery-idle-writes", idle, "writes", 0, "writes meanwhile", "записей за это время", RUNTIME, 1, alone=True),
    Measure("admission-p99", admission, "ms", 50, "admission of 1,000 workloads in a burst, none refused: the webhook's answer, p99",
            "приём 1000 нагрузок подряд без отказов: ответ webhook, p99", RUNTIME, 3, alone=True),
    Measure("admission-api-p99", admission, "ms", 1.0, "the same as the API server counts it", "то же, как считает сервер API", "a Go webhook that only holds", 3),
    Measure("bound-to-running", bound_to_running, "s", 3, "Model Ready and claim bound → Pods running, beyond the copy itself",
            "от готовой Model и связанного тома до работающих подов сверх самого копирования", RUNTIME, 3, alone=True),
    Measure("reapply-revisions", reapply, "ReplicaSets", 0, "ReplicaSets after 10 GitOps applications of an unchanged Deployment, beyond the first",
            "новых ReplicaSet после 10 применений неизменного Deployment из GitOps", "the documented behaviour", 1, fixed_peer=10),
]
