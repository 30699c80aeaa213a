#!/usr/bin/env python3
"""Many workloads over some models, which people edit, scale, restart and delete at random while things break; in the end all is as the
specification says (harness/delivery_check.py), and the controller writes nothing any more.

  tests/crash/delivery_soak.py [--minutes 30] [--workloads 200] [--models 20] [--seed N]

Prints what was done and, as the last line, `N passed, N failed`."""

import argparse
import collections
import contextlib
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from crash import life_sweep  # noqa: E402
from harness import control_plane, delivery_check, delivery_guard, delivery_plane, kube_api  # noqa: E402

N_NAMESPACES = 8
KINDS = ("Deployment",) * 5 + ("StatefulSet",) * 2 + ("DaemonSet", "CronJob")
CACHE_MOUNT = {"containers": [{"name": "main", "volumeMounts": [{"name": "own", "mountPath": "/data/modelcache"}]}],
               "volumes": [{"name": "own", "emptyDir": {}}]}
NO_CACHE_MOUNT = {"containers": [{"name": "main", "volumeMounts": [{"$patch": "delete", "mountPath": "/data/modelcache"}]}],
                  "volumes": [{"$patch": "delete", "name": "own"}]}
QUIET_TIMEOUT = 420  # s, as a Job that failed is tried again after five minutes
STILL = 20  # s without a write
PATIENCE = 600  # s, of who waits for a model while all else goes on
PAUSE = 0.25  # s between two acts of one hand
N_HANDS = 3


def is_hindered(thing):
    """Something is mounted in the way."""
    template = delivery_plane.template_of(thing)
    return any(volume["name"] == "own" for volume in template["spec"].get("volumes") or [])


class Soak:
    def __init__(self, plane, options):
        self.plane, self.api, self.options, self.random = plane, plane.api, options, random.Random(options.seed)
        self.namespaces, self.numbers = [plane.new_namespace() for _ in range(N_NAMESPACES)], iter(range(1 << 30))
        self.lock, self.workloads, self.models = threading.Lock(), {}, {}
        self.done, self.errors = collections.Counter(), []
        self.is_over = False

    # Models

    def publish(self):
        """Three in five of them for the whole cluster, the others in a namespace each."""
        made = []
        for n in range(self.options.models):
            namespace = None if n % 5 < 3 else self.namespaces[n % N_NAMESPACES]
            made.append(self.plane.model(f"model-{n}", namespace, is_ready=False, size=(n % 4) << 20))
        for model in made:
            self.plane.wait_model(model, PATIENCE)
            self.models[model.namespace, model.name] = model

    def choose_references(self, namespace):
        """(models, cluster models); sometimes one that does not exist."""
        with self.lock:
            names = [(space, name) for space, name in self.models if space in (None, namespace)]
        chosen = self.random.sample(names, min(len(names), self.random.choice((1, 1, 1, 2, 3))))
        mine, all_of = [name for space, name in chosen if space], [name for space, name in chosen if not space]
        return mine + (["nowhere"] if self.random.random() < 0.03 else []), all_of

    # Acts of people: each is given a workload

    def create(self):
        namespace, kind, name = self.random.choice(self.namespaces), self.random.choice(KINDS), f"w{next(self.numbers)}"
        mine, all_of = self.choose_references(namespace) if self.random.random() < 0.9 else ([], [])
        workload = self.plane.workload(kind, namespace, mine, all_of, name=name, replicas=self.random.choice((1, 1, 2)), is_strict=bool(mine or all_of))
        workload.is_strict = bool(mine or all_of)
        with self.lock:
            self.workloads[workload.uid] = workload

    def delete(self, workload):
        with self.lock:
            self.workloads.pop(workload.uid, None)
        workload.delete(self.random.choice((None, "Foreground", "Background")), wait=False)

    def refer(self, workload):
        """To others, to the same in another order, or to none where that is no broken promise."""
        mine, all_of = self.choose_references(workload.namespace)
        if not workload.is_strict and self.random.random() < 0.4:
            mine, all_of = [], []
        workload.annotate(model=",".join(mine) or None, clustermodel=",".join(all_of) or None)

    def scale(self, workload):
        if workload.kind in ("Deployment", "StatefulSet"):
            workload.patch({"spec": {"replicas": self.random.choice((0, 1, 2))}})

    def restart(self, workload):
        pod = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": str(time.time())}}}
        workload.patch({"spec": {"jobTemplate": {"spec": {"template": pod}}} if workload.kind == "CronJob" else {"template": pod}})

    def change_image(self, workload):
        workload.patch_pod({"containers": [{"name": "main", "image": f"user:{self.random.randrange(9)}"}]})

    def replace(self, workload):
        """As who manages manifests does: with what its owner wrote."""
        now = workload.now()
        if now is None:
            return
        annotations = now["metadata"].get("annotations") or {}
        mine, all_of = ([name for name in annotations.get(f"{delivery_guard.PREFIX}{key}", "").split(",") if name] for key in ("model", "clustermodel"))
        thing = delivery_plane.manifest(workload.kind, workload.namespace, workload.name, mine, all_of, is_strict=workload.is_strict)
        with contextlib.suppress(KeyError):
            thing["spec"]["replicas"] = now["spec"]["replicas"]
        self.api.must("PATCH", kube_api.path_to(workload.thing) + "?fieldManager=argocd-controller&force=true", thing, kube_api.APPLY)

    def hinder(self, workload):
        """Mounts something in the way, or takes it away."""
        now = workload.now()
        if now is not None:
            workload.patch_pod(NO_CACHE_MOUNT if is_hindered(now) else CACHE_MOUNT)

    def remove_pod(self, workload):
        for pod in workload.pods()[:1]:
            self.api.delete({"kind": "Pod", **pod})

    PEOPLE = ((refer, 6), (scale, 4), (restart, 3), (change_image, 3), (replace, 4), (hinder, 1), (remove_pod, 3), (delete, 5))

    # What breaks

    def kill_controller(self):
        self.plane.controllers[0].kill()
        time.sleep(self.random.random())
        self.plane.restart_controller()

    def restart_controller(self):
        self.plane.controllers[0].stop()
        self.plane.controllers[0].start()

    def kill_materializer(self):
        for pod in self.plane.kubelet.running("ai-models-materialize-")[:1]:
            pod.kill()

    def delete_job(self):
        for job in self.plane.materializers(self.random.choice(self.namespaces))[:1]:
            self.api.must("DELETE", kube_api.path_to(job), {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})

    def delete_claim(self):
        for claim in self.plane.claims(self.random.choice(self.namespaces))[:1]:
            self.api.delete({"kind": "PersistentVolumeClaim", **claim})

    def cut_registry(self):
        self.plane.relay.cut()
        time.sleep(3 * self.random.random())
        self.plane.relay.mend()

    def kill_registry(self):
        self.plane.registry.kill()
        self.plane.start_registry()

    def fail_requests(self):
        kind = self.random.choice(life_sweep.API_KINDS)
        self.plane.controllers[0].proxy.fail(kind, self.random.randrange(1, 9), life_sweep.is_counted, times=self.random.randrange(1, 5), how=1)

    def cut_watches(self):
        self.plane.controllers[0].proxy.cut_watches(self.random.choice((None, "410")))

    def trouble_provisioner(self):
        namespace = self.random.choice(self.namespaces)
        self.plane.provisioner.behave(namespace, mode=self.random.choice(("silent", "refuse")))
        time.sleep(4)
        self.plane.provisioner.behave(namespace)

    def replace_model(self):
        """Deleted, and made anew with other files."""
        with self.lock:
            space, name = self.random.choice(sorted(self.models, key=str))
            old = self.models[space, name]
        old.delete()
        model = self.plane.wait_model(self.plane.model(name, space, is_ready=False, size=self.random.randrange(3) << 20), PATIENCE)
        with self.lock:
            self.models[space, name] = model

    TROUBLE = ((kill_controller, 2), (restart_controller, 1), (kill_materializer, 4), (delete_job, 2), (delete_claim, 2), (cut_registry, 2), (kill_registry, 1),
               (fail_requests, 8), (cut_watches, 2), (trouble_provisioner, 2), (replace_model, 2))

    # The hands that do it

    def act(self, act, *arguments):
        try:
            act(self, *arguments)
            self.done[act.__name__] += 1
        except kube_api.ApiError as error:
            # It went meanwhile, another was quicker, or the controller is down and its webhook with it.
            if error.status in (404, 409) or "webhook" in str(error):
                self.done[f"{act.__name__}, not let"] += 1
            else:
                self.errors.append(f"{act.__name__}: {error}")
        except Exception:  # noqa: BLE001: told in the end
            self.errors.append(f"{act.__name__}: {traceback.format_exc()[-1500:]}")

    def pick(self, table):
        return self.random.choices([act for act, _ in table], [weight for _, weight in table])[0]

    def people(self):
        while not self.is_over:
            with self.lock:
                workloads = list(self.workloads.values())
            if not workloads or len(workloads) < self.options.workloads and self.random.random() < (0.9 if len(workloads) < 0.9 * self.options.workloads else 0.5):
                self.act(Soak.create)
            else:
                self.act(self.pick(self.PEOPLE), self.random.choice(workloads))
            time.sleep(PAUSE if len(workloads) >= 0.9 * self.options.workloads else PAUSE / 4)

    def trouble(self):
        while not self.is_over:
            time.sleep(6 * self.random.random())
            self.act(self.pick(self.TROUBLE))

    def run(self):
        self.publish()
        hands = [threading.Thread(target=self.people) for _ in range(N_HANDS)] + [threading.Thread(target=self.trouble)]
        for hand in hands:
            hand.start()
        end = time.monotonic() + 60 * self.options.minutes
        while time.monotonic() < end and not self.plane.guard.violations and not self.errors:
            time.sleep(1)
            if int(end - time.monotonic()) % 60 == 0:
                self.tell()
        self.is_over = True
        for hand in hands:
            hand.join(PATIENCE)
        return self.finish()

    def tell(self):
        rss = pathlib.Path(f"/proc/{self.plane.controllers[0].process.pid}/statm").read_text().split()[1]
        print(f"{time.strftime('%H:%M:%S')} {len(self.workloads)} workloads, {self.done.total()} acts, {self.plane.guard.n_checked} starts of Pods looked at, "
              f"controller {int(rss) * 4 // 1024} MiB", flush=True)

    # The end

    def differences(self):
        return delivery_check.Check(self.plane, self.namespaces, self.models, is_hindered).differences()

    def finish(self):
        """What is not as it should be."""
        self.plane.heal()
        end, found = time.monotonic() + QUIET_TIMEOUT, ["never looked"]
        while found and time.monotonic() < end:
            life_sweep.keep_running(self.plane)
            time.sleep(5)
            found = self.differences()
            print(f"{time.strftime('%H:%M:%S')} {len(found)} things are not as they should be, as {found[:8]}"[:3000], flush=True)
        print(f"quiet {QUIET_TIMEOUT - (end - time.monotonic()):.0f} s after the last act; {dict(sorted(self.done.items()))}; reasons told: "
              f"{dict(self.reasons())}; most copies at a time {self.plane.guard.most_running}", flush=True)
        return found + self.errors + self.plane.take_faults() + ([] if found else self.writes_when_quiet())

    def reasons(self):
        return collections.Counter(report[0] for told in list(self.plane.workloads.told.values()) for report, _, _ in told if report)

    def writes_when_quiet(self):
        """But for leases, and claims that nobody holds, which go in their time."""
        proxy = self.plane.controllers[0].proxy
        mark = proxy.mark()
        time.sleep(STILL)
        wrote = proxy.counted(mark, lambda request: life_sweep.is_write(request) and request.resource != "persistentvolumeclaims")
        return [f"the controller writes when all is quiet: {dict(wrote)}"] if wrote else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--logs", type=pathlib.Path, help="where to leave them when something failed")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left running
    with tempfile.TemporaryDirectory() as folder, control_plane.ControlPlane(pathlib.Path(folder) / "plane") as plane, \
            delivery_plane.DeliveryPlane(plane, pathlib.Path(folder) / "module") as module:
        print(f"seed {options.seed}", flush=True)
        soak = Soak(module, options)
        found = soak.run()
        if found and options.logs:
            options.logs.mkdir(parents=True, exist_ok=True)
            for log in module.folder.glob("*.log"):
                shutil.copy(log, options.logs)
        for words in found:
            print(f"FAILED {words}"[:4000])
        print(f"{soak.done.total()} passed, {len(found)} failed")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
