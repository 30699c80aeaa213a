#!/usr/bin/env python3
"""A whole delivery, from a workload that asks for a model over its running Pods to its deletion, again and again, with one thing going
wrong each time:

  api       the n-th request of the controller to the API server fails, for every n and in every way
  crash     the controller is killed after its n-th write, the materializer at its start
  handover  a second controller takes over while the first ends, is killed or is held still, at the n-th write

  tests/crash/delivery_sweep.py [--only api ...] [--sample N | --short] [--seed N] [--kinds Deployment ...]

Whatever happens, no Pod starts without its files, Pods run in the end, the template changes once, one claim and one finished Job come of
it, and nothing is left when the workload is gone but its claim, for a while. Prints a table and, as the last line, `N passed, N failed`.
`--sample`: so many lives of each kind instead of all; `--short`: a quarter of a minute."""

import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from crash import life_sweep  # noqa: E402
from harness import control_plane, delivery_plane, kube_api  # noqa: E402

LIFE_TIMEOUT = 90
KINDS = ("Deployment", "StatefulSet", "DaemonSet")


class Life:
    """One workload in a namespace of its own."""

    def __init__(self, sweep):
        self.sweep, self.plane, self.model = sweep, sweep.module, sweep.module.shared
        self.namespace, self.kind, self.workload = self.plane.new_namespace(), next(sweep.kinds), None

    def story(self):
        return self.workload.story() if self.workload else "it was not let in"

    def wait(self, what, holds):
        return life_sweep.wait(self.plane, holds, lambda: f"{what}\n{self.story()}", LIFE_TIMEOUT)

    def create(self):
        """While the controller is down, nobody is let in."""
        def let_in():
            try:
                return self.plane.workload(self.kind, self.namespace, cluster_models=[self.model.name])
            except kube_api.ApiError as error:
                assert "webhook" in str(error), error
                return None

        self.workload = self.wait("let in", let_in)

    def to_running(self):
        workload = self.workload
        self.wait("delivered", lambda: workload.serves([self.model]) and workload.report() is None and workload.has_finalizer())
        self.wait("running", lambda: workload.is_running([self.model], 1))
        self.wait("cleared up", lambda: not self.plane.secrets(self.namespace) and not [
            one for one in (workload.revisions() if self.kind == "Deployment" else []) if delivery_plane.has_gate(one["spec"]["template"])])

    def check_running(self):
        changes = [digests for _, _, digests in self.workload.told if digests]
        assert set(changes) == {(self.model.digest,)}, f"the template changed: {changes}\n{self.story()}"
        claims, jobs = self.plane.claims(self.namespace), self.plane.materializers(self.namespace)
        assert len(claims) == 1 and [owner["uid"] for owner in claims[0]["metadata"]["ownerReferences"]] == [self.workload.uid], self.story()
        assert len(jobs) <= 1 and all(job["status"].get("succeeded") for job in jobs), self.story()
        if "crash, controller" not in self.sweep.group and "is killed" not in self.sweep.group:  # who is killed after a change tells nobody of it
            self.wait("event", lambda: [event for event in self.workload.events() if event[1] == "ModelDeliveryApplied"])

    def to_end(self):
        self.workload.delete(wait=False)
        self.wait("gone", lambda: self.workload.now() is None)
        self.wait("released", lambda: not any(claim["metadata"].get("ownerReferences") for claim in self.plane.claims(self.namespace)))

    def check_end(self):
        self.workload.assert_safe()
        assert self.plane.guard.most_running <= self.plane.max_materializations
        self.plane.api.delete({"kind": "Namespace", "metadata": {"name": self.namespace}})

    def live(self):
        self.create()
        self.to_running()
        self.check_running()
        self.to_end()
        self.check_end()


class Sweep(life_sweep.Sweep):
    SHORT = 3  # a life takes seconds

    def __init__(self, plane, options):
        super().__init__(plane, options)
        self.kinds = iter(lambda: self.next_kind(), None)
        self.n_lives = 0

    def next_kind(self):
        self.n_lives += 1
        return self.options.kinds[self.n_lives % len(self.options.kinds)]

    def new_life(self):
        return Life(self)

    def measure(self):
        """Lives in which nothing goes wrong: how many requests there are to fail."""
        for _ in self.options.kinds:
            mark, begin = self.proxy.mark(), time.monotonic()
            life = self.new_life()
            life.live()
            requests = self.proxy.counted(mark, life_sweep.is_counted)
            writes = self.proxy.counted(mark, life_sweep.is_write)
            self.counts["controller"] = max(self.counts.get("controller", 0), requests.total())
            self.writes["controller"] = max(self.writes.get("controller", 0), writes.total())
            print(f"a {life.kind}'s delivery takes {time.monotonic() - begin:.1f} s and {requests.total()} requests, {writes.total()} of them writes: "
                  + ", ".join(f"{what} {n}" for what, n in sorted(requests.items())), flush=True)

    def crash(self):
        super().crash()
        for n in self.chosen((1, 2), 0):  # another Pod of the Job starts after a pause
            self.run("crash, materializer", f"the first {n}", lambda: self.arm_materializers(n), self.disarm_materializers)

    def arm_materializers(self, n):
        killed = []

        def kill(pod):
            if pod.name.startswith("ai-models-materialize-") and len(killed) < n:
                killed.append(pod)
                pod.kill()

        self.module.kubelet.on_start = kill

    def disarm_materializers(self):
        self.module.kubelet.on_start = None


def main():
    parser = life_sweep.parser(__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, control_plane.ControlPlane(pathlib.Path(folder) / "plane") as plane, \
            delivery_plane.DeliveryPlane(plane, pathlib.Path(folder) / "module") as module:
        module.publish_shared()
        is_good = Sweep(module, options).go_through()
    life_sweep.end(is_good)


if __name__ == "__main__":
    main()
