#!/usr/bin/env python3
"""A Model's whole life, from its creation over Ready to its deletion, again and again, with one thing going wrong each time:

  api       the n-th request of the controller, or of the worker, to the API server fails, for every n and in every way
  crash     the controller is killed after its n-th write, the worker after its n-th and after every n-th of the registry's
  handover  a second controller takes over while the first ends, is killed or is held still, at the n-th write

  tests/crash/model_sweep.py [--only api ...] [--sample N | --short] [--seed N]

Whatever happens, the Model becomes Ready with the one right digest, is never Failed, never has two workers or two manifests, and leaves
nothing behind. Prints a table and, as the last line, `N passed, N failed`. `--sample`: so many lives of each kind instead of all;
`--short`: a minute."""

import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from crash import life_sweep  # noqa: E402
from harness import api_proxy, control_plane, deployment  # noqa: E402
from kube import models  # noqa: E402

LIFE_TIMEOUT = 90


class Life:
    """One Model from its creation to its end."""

    def __init__(self, sweep, source):
        self.sweep, self.module = sweep, sweep.module
        self.module.runner.most_at_once.clear()
        self.model = self.module.apply(source, namespace=sweep.namespace, name=f"m{next(sweep.numbers)}")

    def wait(self, holds, what):
        life_sweep.wait(self.module, holds, lambda: f"{what}\n{self.model.story()}", LIFE_TIMEOUT)

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


class Sweep(life_sweep.Sweep):
    def __init__(self, module, options):
        super().__init__(module, options)
        self.namespace, self.numbers = module.new_namespace(), iter(range(1 << 30))
        repository = models.add_repository(module, files=models.files())
        self.source = {"url": models.url(repository)}
        self.digest = None

    def new_life(self):
        return Life(self, self.source)

    def proxies(self):
        return {**super().proxies(), "worker": self.module.worker_proxy}

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
        ready, ready_s = (controller.counted(marks[0], life_sweep.is_counted), worker.counted(marks[1], life_sweep.is_counted)), time.monotonic() - begin
        life.live()
        self.counts = {"controller": controller.counted(marks[0], life_sweep.is_counted).total(), "worker": worker.counted(marks[1], life_sweep.is_counted).total()}
        self.writes = {"controller": controller.counted(marks[0], life_sweep.is_write).total(), "worker": worker.counted(marks[1], life_sweep.is_write).total()}
        print(f"a life takes {time.monotonic() - begin:.1f} s, Ready after {ready_s:.1f} s; requests to Ready: controller {ready[0].total()}, "
              f"worker {ready[1].total()}; in a whole life: controller {self.counts['controller']} ({self.writes['controller']} writes), "
              f"worker {self.counts['worker']} ({self.writes['worker']} writes, {self.n_stored} of the registry's)")
        for part, counted in zip(("controller", "worker"), ready):
            print(f"  {part}: " + ", ".join(f"{what} {n}" for what, n in sorted(counted.items())))
        sys.stdout.flush()

    def crash(self):
        super().crash()
        for n in self.chosen(range(1, self.writes["worker"] + 1), 0):
            self.run("crash, worker", f"write {n}", lambda: self.module.worker_proxy.fail("call", n, life_sweep.is_write, how=self.kill_workers))
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


def main():
    options = life_sweep.parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder, control_plane.ControlPlane(pathlib.Path(folder) / "plane") as plane, \
            deployment.Deployment(plane, pathlib.Path(folder) / "module") as module:
        is_good = Sweep(module, options).go_through()
    life_sweep.end(is_good)


if __name__ == "__main__":
    main()
