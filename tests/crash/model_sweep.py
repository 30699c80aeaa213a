#!/usr/bin/env python3
"""A Model's whole life, from its creation over Ready to its deletion, again and again, with one thing going wrong each time:

  api       the n-th request of the controller, or of the worker, to the API server fails, for every n and in every way
  crash     the controller is killed after its n-th write, the worker after its n-th and after every n-th of the registry's
  handover  a second controller takes over while the first ends, is killed or is held still, at the n-th write

  tests/crash/model_sweep.py [--only api ...] [--sample N | --short] [--seed N]

Whatever happens, the Model becomes Ready with the one right digest, is never Failed, never has two workers or two manifests, and leaves
nothing behind. Prints a table and, as the last line, `N passed, N failed`. `--sample`: so many lives of each kind instead of all;
`--short`: a minute."""

import argparse
import collections
import contextlib
import pathlib
import random
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import api_proxy, control_plane, deployment  # noqa: E402
from kube import models  # noqa: E402

LIFE_TIMEOUT = 90
SHORT = 6  # lives of each kind
# A 403, 404 or 400 from the API server is no passing trouble, and an answer of another is no test of ours.
API_KINDS = [kind for kind in api_proxy.KINDS if kind not in ("400", "401", "403", "404")]


def is_counted(request):
    """What a Model's life asks for; leases go on by the clock."""
    return not request.is_watch and request.resource != "leases"


def is_write(request):
    return request.is_write and is_counted(request)


class Life:
    """One Model from its creation to its end."""

    def __init__(self, sweep, source):
        self.sweep, self.module = sweep, sweep.module
        self.module.runner.most_at_once.clear()
        self.model = self.module.apply(source, namespace=sweep.namespace, name=f"m{next(sweep.numbers)}")

    def keep_running(self):
        """A controller that was killed is started again."""
        controller = self.module.controllers[0]
        if not controller.is_running():
            self.module.restart_controller()

    def wait(self, holds, what):
        end = time.monotonic() + LIFE_TIMEOUT
        while not holds():
            self.keep_running()
            assert not self.module.runner.faults, self.module.runner.faults
            if time.monotonic() > end:
                raise AssertionError(f"not {what} within {LIFE_TIMEOUT} s\n{self.model.story()}")
            time.sleep(0.02)

    def to_ready(self):
        self.wait(lambda: self.model.status.get("phase") in ("Ready", "Failed"), "Ready")
        self.wait(lambda: len(self.model.objects_of_it()) <= 1, "cleared up")

    def check_ready(self):
        status = self.model.status
        assert status["phase"] == "Ready", self.model.story()
        assert status["artifact"]["digest"] == self.sweep.digest, "another digest"
        assert self.model.manifests() == {self.sweep.digest.removeprefix("sha256:")}, self.model.manifests()
        assert self.model.uid in self.module.ledger(), "not in the books"

    def to_end(self):
        self.model.delete(wait=False)
        self.wait(lambda: self.model.now() is None, "gone")
        self.wait(lambda: not self.model.leftovers(), f"clean: {self.model.leftovers()}")

    def check_end(self):
        most = self.module.runner.most_at_once
        assert max(most.values(), default=0) <= 1, f"two workers at once: {most}"
        phases = [seen[0] for seen in self.model.seen()]
        assert "Failed" not in phases, phases
        if "Ready" in phases:
            assert set(phases[phases.index("Ready"):]) <= {"Ready", "Deleting"}, f"Ready was lost: {phases}"
        self.model.assert_gone()
        assert self.module.api.get("Secret", deployment.NAMESPACE, f"dmcr-gc-{self.model.uid}"), "no request to the registry's cleaner"
        assert self.module.runner.faults == [], self.module.runner.faults

    def live(self):
        self.to_ready()
        self.check_ready()
        self.to_end()
        self.check_end()


class Sweep:
    def __init__(self, module, options):
        self.module, self.options, self.random = module, options, random.Random(options.seed)
        self.namespace, self.numbers = module.new_namespace(), iter(range(1 << 30))
        repository = models.add_repository(module, files=models.files())
        self.source = {"url": models.url(repository)}
        self.digest, self.failures, self.times = None, [], collections.defaultdict(list)
        self.rows = collections.Counter()

    def measure(self):
        """A life in which nothing goes wrong: how many requests there are to fail."""
        life = Life(self, self.source)  # the first one makes what stays
        life.to_ready()
        self.digest = life.model.status["artifact"]["digest"]
        life.live()
        controller, worker = self.module.controllers[0].proxy, self.module.worker_proxy
        marks, stored = (controller.mark(), worker.mark()), len(self.module.bucket.requests)
        begin = time.monotonic()
        life = Life(self, self.source)
        life.to_ready()
        self.n_stored = sum(method in ("PUT", "POST", "DELETE") for method, _ in self.module.bucket.requests[stored:])
        ready, ready_s = (controller.counted(marks[0], is_counted), worker.counted(marks[1], is_counted)), time.monotonic() - begin
        life.live()
        self.counts = {"controller": controller.counted(marks[0], is_counted).total(), "worker": worker.counted(marks[1], is_counted).total()}
        self.writes = {"controller": controller.counted(marks[0], is_write).total(), "worker": worker.counted(marks[1], is_write).total()}
        print(f"a life takes {time.monotonic() - begin:.1f} s, Ready after {ready_s:.1f} s; requests to Ready: controller {ready[0].total()}, "
              f"worker {ready[1].total()}; in a whole life: controller {self.counts['controller']} ({self.writes['controller']} writes), "
              f"worker {self.counts['worker']} ({self.writes['worker']} writes, {self.n_stored} of the registry's)")
        for part, counted in zip(("controller", "worker"), ready):
            print(f"  {part}: " + ", ".join(f"{what} {n}" for what, n in sorted(counted.items())))
        sys.stdout.flush()

    def chosen(self, cases, short=SHORT):
        cases, most = list(cases), short if self.options.short else self.options.sample
        if most is not None and len(cases) > most:
            cases = sorted(self.random.sample(cases, most), key=cases.index)
        return cases

    def run(self, group, what, arm, disarm=lambda: None):
        """One life with `arm()` before; it gives the Fault that is to be hit, or None."""
        begin = time.monotonic()
        fault, ending = None, "passed"
        try:
            fault = arm()
            Life(self, self.source).live()
            if fault is not None and fault.n_hits == 0:
                ending = "not met"
        except Exception as error:  # noqa: BLE001: every life is told of
            ending = "failed"
            hit = f", at {getattr(fault.hit, 'key', fault.hit)} {getattr(fault.hit, 'name', '')}" if fault is not None and fault.hit else ""
            self.failures.append(f"{group}: {what}{hit}: {error}")
            print(f"FAILED {self.failures[-1][:6000]}", flush=True)
        finally:
            with contextlib.suppress(Exception):
                disarm()
            self.module.heal()
        self.rows[group, ending] += 1
        self.times[group].append(time.monotonic() - begin)

    # What goes wrong

    def api(self):
        proxies = {"controller": lambda: self.module.controllers[0].proxy, "worker": lambda: self.module.worker_proxy}
        for part, proxy in proxies.items():
            cases = [(kind, n) for kind in API_KINDS for n in range(1, self.counts[part] + 1)]
            for kind, n in self.chosen(cases):
                self.run(f"api, {part}, {kind}", f"request {n}", lambda: proxy().fail(kind, n, is_counted, how=1))
        for n in self.chosen(range(1, self.counts["controller"] + 1), 2):
            for last_words in (None, "410"):
                self.run(f"api, controller, watches end{' with 410' if last_words else ''}", f"at request {n}", lambda: self.proxy.fail(
                    "call", n, is_counted, how=lambda: self.proxy.cut_watches(last_words)))

        for lag in (0.2,) if self.options.short else (0.2, 1, 3):
            self.run("api, controller, watches are late", f"by {lag} s", lambda: setattr(self.proxy, "lag", lag))

    @property
    def proxy(self):
        return self.module.controllers[0].proxy

    def crash(self):
        controller = self.module.controllers[0]
        for n in self.chosen(range(1, self.writes["controller"] + 1)):
            self.run("crash, controller", f"write {n}", lambda: self.proxy.fail("call", n, is_write, how=controller.kill))
        for n in self.chosen(range(1, self.writes["worker"] + 1), 0):
            self.run("crash, worker", f"write {n}", lambda: self.module.worker_proxy.fail("call", n, is_write, how=self.kill_workers))
        for n in self.chosen(range(1, self.n_stored + 1), 1):  # another worker starts after a pause
            self.run("crash, worker by the registry's writes", f"write {n}", lambda: self.arm_store(n), self.disarm_store)

    def kill_workers(self):
        for pod in self.module.runner.running():
            pod.kill()

    def arm_store(self, nth):
        """Workers are killed at the nth write to the bucket."""
        fault = api_proxy.Fault("killed", nth, lambda method: method in ("PUT", "POST", "DELETE"))

        def hook(method):
            if fault.takes(method):
                self.kill_workers()

        self.module.bucket.after = hook
        return fault

    def disarm_store(self):
        self.module.bucket.after = None

    def handover(self):
        first = self.module.controllers[0]
        ways = {"ends": lambda: first.process.send_signal(signal.SIGTERM), "is killed": self.kill_first,
                "is held still": lambda: first.process.send_signal(signal.SIGSTOP)}
        for how, act in ways.items():
            cases = range(1, self.writes["controller"] + 1)
            if how == "is held still":  # until its lease is over
                cases = self.random.sample(cases, 4)
            for n in sorted(self.chosen(cases, 0 if how == "is held still" else 1)):
                self.run(f"handover, the first {how}", f"write {n}", lambda: self.arm_handover(n, act), self.end_handover)

    def is_led(self):
        lease = self.module.api.get("Lease", deployment.NAMESPACE, deployment.LEASE)
        return lease is not None and lease["spec"].get("holderIdentity")

    def kill_first(self):
        self.module.controllers[0].kill()
        self.module.free_lease()

    def arm_handover(self, nth, act):
        self.module.api.wait("the first leads", self.is_led)
        self.module.start_controller("second")
        return self.module.controllers[0].proxy.fail("call", nth, is_write, how=act)

    def end_handover(self):
        with contextlib.suppress(ProcessLookupError):
            self.module.controllers[0].process.send_signal(signal.SIGCONT)

    # The end

    def tell(self):
        groups = sorted({group for group, _ in self.rows})
        print(f"\n{'':52} {'passed':>7} {'failed':>7} {'not met':>8} {'median s':>9}")
        for group in groups:
            times = sorted(self.times[group])
            print(f"{group:52} " + " ".join(f"{self.rows[group, ending]:{width}}" for ending, width in (("passed", 7), ("failed", 7), ("not met", 8)))
                  + f" {times[len(times) // 2]:9.1f}")
        for failure in self.failures:
            print(f"FAILED {failure.splitlines()[0]}")
        count = collections.Counter(ending for (_, ending), n in self.rows.items() for _ in range(n))
        print(f"{count['passed']} passed, {count['failed']} failed")
        return count["failed"] == 0 and count["passed"] > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("api", "crash", "handover"), default=("api", "crash", "handover"))
    parser.add_argument("--sample", type=int)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, control_plane.ControlPlane(pathlib.Path(folder) / "plane") as plane, \
            deployment.Deployment(plane, pathlib.Path(folder) / "module") as module:
        print(f"seed {options.seed}", flush=True)
        sweep = Sweep(module, options)
        sweep.measure()
        is_good = False
        try:
            for part in options.only:
                getattr(sweep, part)()
        finally:  # also when somebody has seen enough
            is_good = sweep.tell()
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
