"""What the controller costs and how fast it is, against a minimal controller-runtime program over the same API server."""

import concurrent.futures
import contextlib
import math
import statistics
import threading
import time

import model_objects
import module
from harness import clients, pod_runner, tools
from harness import servers as processes
from measures import MIB, Measure
from servers import hf_hub

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
OURS, PEER = module.OURS, module.PEER
WINDOW = 600  # seconds of idleness


def sizes(bench):
    """Models in few and in many, seconds to come to rest, seconds of idleness, Models at once."""
    return (10, 30, 2, 3, 10) if bench.data.quick else (1000, 10000, 20, WINDOW, 200)


def plane_of(bench, n_models):
    """An API server with so many Ready Models, for the rest of the run."""
    name = f"plane-{n_models}"
    if name not in bench.stores:
        objects = module.objects_of(bench.data, n_models)
        bench.clean(bench.folder / name)
        bench.stores[name] = bench.folder / name
        bench.planes[name] = bench.stack.enter_context(module.Plane(bench.folder / name, objects))
    return bench.planes[name]


def resting(bench, side, plane, scratch, *options, **more):
    """A controller that leads and has nothing to do any more."""
    controller = module.Controller(side, plane, scratch, bench.program, options=options, **more)
    controller.wait_leading()
    time.sleep(sizes(bench)[2])
    return controller


def memory(bench, side, n_models):
    plane = plane_of(bench, n_models)
    with bench.scratch() as scratch, resting(bench, side, plane, scratch) as controller:
        value = controller.rss() / MIB
        bench.note(side, **{f"controller_{key}_mib": controller.memory(name) / MIB
                            for key, name in (("anonymous", "RssAnon"), ("of_files", "RssFile"), ("peak", "VmHWM"))})
        controller.stop()
    return value


def rss_few(bench, side):
    return {"controller-rss-1k": memory(bench, side, sizes(bench)[0])}


def rss_many(bench, side):
    return {"controller-rss-10k": memory(bench, side, sizes(bench)[1])}


def start(bench, side):
    """From the start of the process to the leader whose caches are full."""
    plane = plane_of(bench, sizes(bench)[1])
    with bench.scratch() as scratch, module.Controller(side, plane, scratch, bench.program) as controller:
        seconds = controller.wait_leading()
        bench.note(side, controller_start_cpu_seconds=controller.cpu_seconds())
        controller.stop()
    return {"controller-start": seconds}


def idle(bench, side):
    """Both at the same time. What is stored is not checked (sweep_cpu): the peer does not do that either."""
    if side == OURS:
        bench.idle = idle_both(bench)
    return bench.idle[side]


def idle_both(bench):
    plane, seconds = plane_of(bench, sizes(bench)[1]), sizes(bench)[3]
    more = {OURS: ["--sweep-interval-s", 86400, "--inventory-interval-s", 60], PEER: ["--resync", f"{seconds * 2 // 3}s"]}
    with bench.scratch() as scratch, contextlib.ExitStack() as stack:
        both = {side: stack.enter_context(resting(bench, side, plane, scratch, *options)) for side, options in more.items()}
        writes, before = plane.status_writes(), {side: controller.cpu_nanoseconds() for side, controller in both.items()}
        time.sleep(seconds)
        cpu = {side: (controller.cpu_nanoseconds() - before[side]) / 1e9 for side, controller in both.items()}
        writes = plane.status_writes() - writes
        for controller in both.values():
            controller.stop()
    return {side: {"controller-idle-cpu": cpu[side], "controller-idle-writes": writes} for side in both}


def sweep_cpu(bench, _side):
    """The check of what is stored, by itself: CPU for a thousand artifacts."""
    plane = plane_of(bench, sizes(bench)[0])
    with module.Artifacts() as registry, bench.scratch() as scratch, \
            resting(bench, OURS, plane, scratch, "--sweep-interval-s", 1, registry=registry.host) as controller:
        checked, before = registry.n_manifests, controller.cpu_nanoseconds()
        time.sleep(max(4, sizes(bench)[3] / 20))
        cpu, checked = (controller.cpu_nanoseconds() - before) / 1e9, registry.n_manifests - checked
        controller.stop()
    assert checked > 0
    return {"controller-sweep-cpu": 1000 * cpu / checked}


# Speed


def percentile(values, percent):
    """The least value that so many percent of them do not exceed."""
    values = sorted(values)
    return values[math.ceil(len(values) * percent / 100) - 1]


def apply_all(plane, n_models, namespace):
    """Creates them all at once; seconds from the answer to each until its worker Pod was seen."""
    api, applied, seen, done = plane.api, {}, {}, threading.Event()

    def follow():
        watch = api.watch("Pod", module.NAMESPACE)
        for event, pod in watch:
            if event == "ADDED":
                seen.setdefault(pod["metadata"]["name"].removeprefix("ai-model-publish-"), time.monotonic())
            if len(seen) >= n_models:
                break
        done.set()

    def apply(index):
        thing = model_objects.model(index, namespace, finalizer=False)
        uid = api.create(thing)["metadata"]["uid"]
        applied[uid] = time.monotonic()

    threading.Thread(target=follow, daemon=True).start()
    time.sleep(0.5)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(apply, range(n_models)))
    assert done.wait(120), f"{len(seen)} of {n_models} worker Pods after two minutes"
    return [max(0.0, seen[uid] - applied[uid]) for uid in applied]


def pods_at_once(bench, side, n_models, *options):
    with bench.scratch() as scratch, module.Plane(scratch / "plane", module.objects_of(bench.data, 0)) as plane:
        with module.Controller(side, plane, scratch, bench.program, options=options) as controller:
            controller.wait_leading()
            time.sleep(2)
            waits = apply_all(plane, n_models, model_objects.namespace_of(0))
            bench.note(side, controller_pods_median_s=statistics.median(waits), controller_pods_cpu_seconds=controller.cpu_seconds(),
                       controller_pods_requests=len(plane.requests(module.USER)) / n_models)
            controller.stop()
    return percentile(waits, 99)


def apply_to_pod(bench, side):
    options = ["--create"] if side == PEER else []
    return {"controller-pod-p99": pods_at_once(bench, side, sizes(bench)[4], *options)}


def apply_to_pod_unlimited(bench, side):
    """Against a peer that does not hold itself back."""
    options = ["--create", "--qps", "-1"] if side == PEER else []
    return {"controller-pod-p99-unlimited": pods_at_once(bench, side, sizes(bench)[4], *options)}


def publish_one(plane):
    """A Model of MiniLM from apply to Ready: seconds."""
    thing = {"kind": "Model", "metadata": {"name": "minilm", "namespace": model_objects.namespace_of(0)},
             "spec": {"source": {"url": f"https://huggingface.co/{MINILM}"}}}
    begin, made = time.monotonic(), {"kind": "Model", **plane.api.create(thing)}
    end = plane.api.wait("MiniLM is Ready", lambda: is_ready(plane.api, made) and time.monotonic(), 120, 0.02)
    time.sleep(3)  # what is cleared up afterwards counts, too
    return end - begin


def is_ready(api, thing):
    status = api.get("Model", thing["metadata"]["namespace"], thing["metadata"]["name"]).get("status", {})
    assert status.get("phase") != "Failed", status
    return status.get("phase") == "Ready"


def requests_of(plane, user):
    return [f"{event['verb']} {event['objectRef']['resource']}" + (f"/{event['objectRef']['subresource']}" if "subresource" in event["objectRef"] else "")
            for event in plane.requests(user) if event["verb"] not in ("list", "watch") and "objectRef" in event]


def push_alone(bench, hub, scratch):
    with processes.ours(scratch / "store", "--allow-anonymous-write", log=scratch / "registry.log", program=bench.program) as registry:
        client = clients.AiModels(scratch / "home", bench.program, env={"HF_ENDPOINT": hub.endpoint})
        seconds = client.run("push", f"https://huggingface.co/{MINILM}", f"{registry.host}/bench/minilm:v1").seconds
        registry.stop()
    return seconds


def minilm(bench, _side):
    """The worker runs as a process beside the API server, as with an image that is there."""
    with bench.scratch() as scratch, hf_hub.Hub() as hub:
        hub.add(MINILM, tools.real_model())
        alone = push_alone(bench, hub, scratch)
        with processes.ours(scratch / "store-2", "--allow-anonymous-write", log=scratch / "registry.log", program=bench.program) as registry, \
                module.Plane(scratch / "plane", module.objects_of(bench.data, 0)) as plane, \
                pod_runner.PodRunner(plane, module.NAMESPACE, scratch / "pods", program=bench.program), \
                module.Controller(OURS, plane, scratch, bench.program, registry=registry.host, options=["--hf-endpoint", hub.endpoint]) as controller:
            controller.wait_leading()
            time.sleep(1)
            seconds = publish_one(plane)
            requests = {user: requests_of(plane, user) for user in (module.USER, module.WORKER)}
            controller.stop()
            registry.stop()
    counts = {user: {what: asked.count(what) for what in sorted(set(asked))} for user, asked in requests.items()}
    bench.note(OURS, minilm_apply_to_ready_s=seconds, minilm_push_s=alone, minilm_requests=counts)
    return {"controller-minilm": seconds - alone, "controller-requests": sum(map(len, requests.values()))}


RUNTIME = "controller-runtime v0.22.5"
MEASURES = [
    Measure("controller-rss-1k", rss_few, "MiB", 0.2, "controller RSS, 1,000 Models Ready, idle", "память контроллера (RSS), 1000 готовых Model, без нагрузки",
            RUNTIME, 3),
    Measure("controller-rss-10k", rss_many, "MiB", 0.2, "the same, 10,000 Models", "то же, 10 000 Model", RUNTIME, 3),
    Measure("controller-idle-cpu", idle, "s", 0.5, "controller CPU, 10 idle minutes, 10,000 Models", "процессор контроллера, 10 минут без дела, 10 000 Model",
            RUNTIME, 1),
    Measure("controller-idle-writes", idle, "writes", 0, "status writes meanwhile", "записей статуса за это время", RUNTIME, 1, alone=True),
    Measure("controller-sweep-cpu", sweep_cpu, "s", 2, "the check of 1,000 stored artifacts, CPU", "проверка 1000 хранимых артефактов, процессор",
            RUNTIME, 1, alone=True),
    Measure("controller-start", start, "s", 0.5, "start to leader with caches full, 10,000 Models",
            "от запуска до лидера с полным кешем, 10 000 Model", RUNTIME, 7),
    Measure("controller-pod-p99", apply_to_pod, "s", 1.0, "Model applied → worker Pod created, p99 of 200 at once",
            "от применения Model до Pod рабочего процесса, p99 из 200 разом", f"{RUNTIME}, create only", 3),
    Measure("controller-pod-p99-unlimited", apply_to_pod_unlimited, "s", 1.0, "the same, the peer without its limit of 20 requests a second",
            "то же, у соседа снят предел 20 запросов в секунду", f"{RUNTIME}, create only", 3),
    Measure("controller-minilm", minilm, "s", 5, "MiniLM from apply to Ready, beyond `ai-models push`", "MiniLM от применения до Ready сверх `ai-models push`",
            RUNTIME, 3, alone=True),
    Measure("controller-requests", minilm, "requests", 40, "API requests from apply to Ready, controller and worker",
            "запросов к API от применения до Ready, контроллер и рабочий процесс", RUNTIME, 3, alone=True),
]
