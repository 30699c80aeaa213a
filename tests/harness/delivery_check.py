"""Whether what there is of delivery, once all is quiet, is just what the specification says (delivery-sharedpvc.md): templates, gates and
reports of workloads, their Pods, claims with their holders and files, Jobs, Secrets."""

import hashlib

from . import delivery_guard, delivery_plane

PREFIX = delivery_guard.PREFIX
MARKER = ".ai-models-materialized.json"


def claim_name(namespace, model, digest):
    scope = "ClusterModel" if model.namespace is None else "Model"
    return "ai-models-cache-" + hashlib.sha256("\n".join((namespace, scope, model.name, digest)).encode()).hexdigest()[:16]


def references_of(thing):
    """[(kind, name)] in order."""
    annotations = thing["metadata"].get("annotations") or {}
    return [(kind, name.strip()) for kind, key in (("Model", "model"), ("ClusterModel", "clustermodel"))
            for name in (annotations.get(f"{PREFIX}{key}") or "").split(",") if name.strip()]


class Check:
    """`models`: (namespace or None, name) -> the Model that is Ready now; `is_hindered(thing)`: whether its own template is in the way."""

    def __init__(self, plane, namespaces, models, is_hindered=lambda thing: False):
        self.plane, self.api, self.namespaces, self.models, self.is_hindered = plane, plane.api, namespaces, models, is_hindered
        self.found, self.keeping = [], set()  # `keeping`: uids of workloads that something hinders: they keep what they have

    def say(self, thing, words):
        self.found.append(f"{thing['kind']} {thing['metadata']['namespace']}/{thing['metadata']['name']}: {words}")

    def differences(self):
        for namespace in self.namespaces:
            self.check_namespace(namespace)
        self.found += self.plane.guard.violations
        return self.found

    def check_namespace(self, namespace):
        workloads = [thing for kind in delivery_plane.Workloads.KINDS for thing in self.api.list(kind, namespace)]
        pods = self.api.list("Pod", namespace)
        used = {}  # claim -> uids of those that have it delivered
        claims = {claim["metadata"]["name"]: claim for claim in self.plane.claims(namespace)}
        leaving = {name for name, claim in claims.items() if claim["metadata"].get("deletionTimestamp")}
        for thing in workloads:
            self.check_workload(thing, pods, used, leaving)
        for name, holders in used.items():
            if name not in claims:
                self.found.append(f"{namespace}: no claim {name}")
        uids = {thing["metadata"]["uid"]: thing for thing in workloads}
        for claim in claims.values():
            self.check_claim(claim, uids, used.get(claim["metadata"]["name"], {}))
        for job in self.plane.materializers(namespace):
            if not any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in job["status"].get("conditions") or []):
                self.say(job, f"is not finished: {job['status']}")
        self.found += [f"{namespace}: Secret {name}" for name in self.plane.secrets(namespace)]

    # Workloads

    def wanted(self, thing):
        """The models that it is to have, None when one is missing."""
        found = [self.models.get((thing["metadata"]["namespace"] if kind == "Model" else None, name)) for kind, name in references_of(thing)]
        return None if None in found or self.is_hindered(thing) else found

    def check_workload(self, thing, pods, used, leaving):
        template, report = delivery_plane.template_of(thing), delivery_plane.report_of(thing)
        given = delivery_guard.delivered_models(template["metadata"])
        has_finalizer = f"{PREFIX}model-delivery-cleanup" in thing["metadata"].get("finalizers", [])
        if not references_of(thing):
            if given or report or has_finalizer or delivery_plane.has_gate(template):
                self.say(thing, "asks for nothing, and something of ours is left")
            return
        wanted = self.wanted(thing)
        if not has_finalizer:
            self.say(thing, "has no finalizer")
        names = {claim_name(thing["metadata"]["namespace"], model, model.digest): model for model in wanted or []}
        if wanted is None or leaving & set(names):
            self.check_held(thing, template, given, report, "SharedPVCClaimPending" if wanted else None)
            self.keeping.add(thing["metadata"]["uid"])
            return
        if delivery_plane.has_gate(template) or report or [(one["name"], one["digest"]) for one in given or []] != [(m.name, m.digest) for m in wanted]:
            self.say(thing, f"is to have {[(m.name, m.digest) for m in wanted]}, not {given}, gate {delivery_plane.has_gate(template)}, report {report}")
        for name, model in names.items():
            used.setdefault(name, {})[thing["metadata"]["uid"]] = model
        self.check_pods(thing, wanted, pods)

    def check_held(self, thing, template, given, report, reason=None):
        """Something hinders it: a model that is missing, its own template, or a claim that somebody deleted while Pods use it."""
        names = [name for _, name in references_of(thing)]
        serves = given and [one["name"] for one in given] == names and not delivery_plane.has_gate(template)
        if not serves and not delivery_plane.has_gate(template):
            self.say(thing, "is neither held nor served")
        if not report or not report[1] or reason not in (None, report[0]):
            self.say(thing, f"does not say what hinders it, {reason or 'whatever it is'}: {report}")

    def check_pods(self, thing, wanted, pods):
        meta = thing["metadata"]
        own = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("app") == meta["name"] and not pod["metadata"].get("deletionTimestamp")
               and pod["metadata"].get("ownerReferences")]
        count = {"Deployment": lambda: thing["spec"]["replicas"], "StatefulSet": lambda: thing["spec"]["replicas"], "DaemonSet": lambda: 1,
                 "CronJob": lambda: 0}[thing["kind"]]()
        good = [pod for pod in own if pod["status"].get("phase") == "Running" and not pod["spec"].get("schedulingGates")
                and [one["digest"] for one in delivery_guard.delivered_models(pod["metadata"]) or []] == [model.digest for model in wanted]]
        if len(good) != count or len(own) != count:
            self.say(thing, f"has {len(own)} Pods, {len(good)} of them good, and is to have {count}")

    # Claims

    def check_claim(self, claim, uids, users):
        meta = claim["metadata"]
        claim = {"kind": "PersistentVolumeClaim", **claim}
        holders = {owner["uid"] for owner in meta.get("ownerReferences") or []}
        if set(users) - holders:
            self.say(claim, f"is not held by {[uids[uid]['metadata']['name'] for uid in set(users) - holders]}")
        for uid in holders - set(users):
            if uid not in uids:
                self.say(claim, f"is held by {uid}, which is gone")
            elif uid not in self.keeping:
                self.say(claim, f"is held by {uids[uid]['metadata']['name']}, which has no use for it")
        if bool(holders) == bool((meta.get("annotations") or {}).get(f"{PREFIX}released-at")):
            self.say(claim, f"holders {holders}, released {meta.get('annotations')}")
        for model in list(users.values())[:1]:
            self.check_files(claim, model)

    def check_files(self, claim, model):
        if claim["status"].get("phase") != "Bound" or claim["metadata"]["annotations"].get(f"{PREFIX}materialized-digest") != model.digest:
            self.say(claim, f"is not whole: {claim['status']}, {claim['metadata']['annotations']}")
            return
        folder = self.plane.provisioner.folder_of(claim["metadata"]["namespace"], claim["metadata"]["name"])
        if sorted(path.name for path in folder.iterdir()) != [MARKER, "model"] or delivery_guard.hashes(folder / "model") != model.files:
            self.say(claim, f"has other files: {sorted(folder.rglob('*'))}")
