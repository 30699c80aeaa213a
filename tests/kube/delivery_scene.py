"""One case of delivery to workloads: what it makes in namespaces of its own. Cases run beside one another (Cases), as long as they leave alone
what all of them share."""

import concurrent.futures
import contextlib

from harness import delivery_guard, delivery_plane, deployment, kube_api

AT_ONCE = 5
PREFIX = delivery_guard.PREFIX


class Scene:
    def __init__(self, plane):
        self.plane, self.api = plane, plane.api
        self.namespace, self.workloads = plane.new_namespace(), []

    def workload(self, kind="Deployment", models=(), cluster_models=(), namespace=None, **more):
        found = self.plane.workload(kind, namespace or self.namespace, models, cluster_models, **more)
        self.workloads.append(found)
        return found

    def asking(self, kind="Deployment", **more):
        """A workload that asks for the model that every case may use."""
        return self.workload(kind, cluster_models=[self.plane.shared.name], **more)

    def model(self, name="mine", **more):
        return self.plane.model(name, self.namespace, **more)

    def refused(self, kind="Deployment", models=(), cluster_models=(), name="refused", **more):
        """What the API server says of a workload that is not let in."""
        try:
            self.plane.workload(kind, self.namespace, models, cluster_models, name=name, **more)
        except kube_api.ApiError as error:
            return str(error)
        raise AssertionError("it was let in")

    def claim(self):
        """The only one."""
        claims = self.plane.claims(self.namespace)
        assert len(claims) == 1, [claim["metadata"] for claim in claims]
        return claims[0]

    def wait_claim(self):
        self.api.wait("a claim", lambda: self.plane.claims(self.namespace))
        return self.claim()

    def wait_bound(self):
        self.api.wait("a bound claim", lambda: [one for one in self.plane.claims(self.namespace) if one["status"].get("phase") == "Bound"])
        return self.claim()

    def wait_materializer(self):
        """The process that copies a model here."""
        return self.api.wait("a materializer", lambda: [pod for pod in self.plane.kubelet.running("ai-models-materialize-")
                                                        if pod.namespace == self.namespace], 60)[0]

    def holders(self):
        return {owner["uid"] for owner in self.claim()["metadata"].get("ownerReferences", [])}

    def apply(self, thing, manager, *options):
        """Server-side, as what manages manifests does."""
        query = "&".join([f"fieldManager={manager}", *options])
        return self.api.must("PATCH", kube_api.path_to(thing) + f"?{query}", thing, kube_api.APPLY)

    def check_end(self):
        """The rule for all: whatever happened, Pods are held with a clear reason, or run with whole files."""
        for workload in self.workloads:
            now = workload.now()
            if now is not None and any(now["metadata"].get("annotations", {}).get(f"{PREFIX}{key}") for key in ("model", "clustermodel")):
                template = delivery_plane.template_of(now)
                is_delivered = bool(delivery_guard.delivered_models(template["metadata"])) and not delivery_plane.has_gate(template)
                report = delivery_plane.report_of(now)
                assert is_delivered or delivery_plane.has_gate(template) and report and report[1], workload.story()
            workload.assert_safe()
        messages = [message for workload in self.workloads for _, _, message in workload.events()]
        messages += [report[1] for workload in self.workloads for report, _, _ in workload.told if report]
        for secret in ("ai-models/catalog", f"127.0.0.1:{self.plane.registry_port}", *deployment.SECRETS, delivery_plane.SALT):
            assert secret not in "".join(messages), messages

    def end(self):
        """Nothing of it is in the way of others, whatever became of it."""
        self.plane.kubelet.let_go(self.namespace)
        with contextlib.suppress(kube_api.ApiError):
            self.api.delete({"kind": "Namespace", "metadata": {"name": self.namespace}})

    def told(self):
        """Reasons of all reports, and (type, reason) of all events."""
        return ({reason for workload in self.workloads for reason in workload.reasons()},
                {event[:2] for workload in self.workloads for event in workload.events()})


class Cases:
    """A table of cases by name; @case adds one."""

    def __init__(self):
        self.functions = {}

    def case(self, function):
        self.functions[function.__name__] = function
        return function

    def run(self, plane, name):
        """What was told in the end: Scene.told()."""
        scene = Scene(plane)
        try:
            self.functions[name](scene)
            scene.check_end()
            return scene.told()
        finally:
            scene.end()

    def start(self, plane, names):
        """Futures by name; the pool ends with them."""
        pool = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
        found = {name: pool.submit(self.run, plane, name) for name in names}
        pool.shutdown(wait=False)
        return found
