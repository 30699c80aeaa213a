"""Workloads that ask for models, as their users apply them, in any number, and the claims on which they find them whole."""

import concurrent.futures
import hashlib
import json

import model_objects
from harness import kube_api

PREFIX = model_objects.PREFIX
CLASS = "shared"
# Of fifty workloads.
KINDS = ["Deployment"] * 40 + ["StatefulSet"] * 4 + ["DaemonSet"] * 3 + ["CronJob"] * 3
N_AT_ONCE = 16


def kind_of(index):
    return KINDS[index % len(KINDS)]


def models_of(index, n_models):
    """Indexes of the Models that a workload asks for, all of one namespace: mostly one, now and then two."""
    first = index % n_models
    second = (first + model_objects.N_NAMESPACES) % n_models
    return [first, second] if index % 10 == 7 and second != first else [first]


def pod_template(name, is_job):
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "inference", "app.kubernetes.io/managed-by": "helm"}
    probe = {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10, "timeoutSeconds": 2}
    container = {
        "name": "server", "image": f"registry.example.com/inference/{name}:v1.14.2", "args": ["--port=8080", "--workers=4", "--log-format=json"],
        "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
        "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "CACHE_DIR", "value": "/var/cache/server"},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": f"{name}-token", "key": "token"}}}],
        "resources": {"requests": {"cpu": "2", "memory": "8Gi"}, "limits": {"cpu": "8", "memory": "16Gi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/server"}, {"name": "cache", "mountPath": "/var/cache/server"}],
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
        **({} if is_job else {"livenessProbe": probe, "readinessProbe": {**probe, "periodSeconds": 5}})}
    return {"metadata": {"labels": labels, "annotations": {"prometheus.io/scrape": "true", "checksum/config": hashlib.sha256(name.encode()).hexdigest()}},
            "spec": {**({"restartPolicy": "OnFailure"} if is_job else {}), "serviceAccountName": name, "containers": [container],
                     "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000},
                     "volumes": [{"name": "config", "configMap": {"name": name}}, {"name": "cache", "emptyDir": {}}]}}


def spec_of(kind, name):
    template = pod_template(name, kind == "CronJob")
    selector = {"matchLabels": {"app.kubernetes.io/name": name}}
    return {"Deployment": {"replicas": 0, "selector": selector, "template": template},
            "StatefulSet": {"replicas": 0, "serviceName": name, "selector": selector, "template": template},
            "DaemonSet": {"selector": selector, "template": template},
            "CronJob": {"schedule": "0 3 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": template}}}}[kind]


def workload(index, n_models, kind=None, name=None):
    """Without Pods: nobody plays kubelet."""
    kind, name = kind or kind_of(index), name or f"workload-{index:05}"
    asked = models_of(index, n_models)
    group = kube_api.KINDS[kind][0].removeprefix("/apis/")
    thing = {"apiVersion": group, "kind": kind, "metadata": {
        "name": name, "namespace": model_objects.namespace_of(asked[0]), "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "helm"},
        "annotations": {PREFIX + "model": ",".join(f"model-{one:05}" for one in asked)}}, "spec": spec_of(kind, name)}
    applied = json.dumps(thing, separators=(",", ":"))
    thing["metadata"]["annotations"] = {**thing["metadata"]["annotations"], "kubectl.kubernetes.io/last-applied-configuration": applied + "\n"}
    return thing


def claim_of(model):
    """That of a Ready Model in its namespace, with its files on it."""
    meta, digest = model["metadata"], model["status"]["artifact"]["digest"]
    words = "\n".join([meta["namespace"], "Model", meta["name"], digest])
    return {"kind": "PersistentVolumeClaim", "metadata": {
        "name": "ai-models-cache-" + hashlib.sha256(words.encode()).hexdigest()[:16], "namespace": meta["namespace"],
        "labels": {PREFIX + "shared-pvc": "true", "app.kubernetes.io/name": "ai-models-shared-pvc", "app.kubernetes.io/part-of": "ai-models",
                   PREFIX + "artifact-digest": digest.removeprefix("sha256:")[:63], PREFIX + "owner-name": meta["name"]},
        "annotations": {PREFIX + "owner-kind-full": "Model", PREFIX + "owner-name-full": meta["name"], PREFIX + "artifact-digest": digest,
                        PREFIX + "materialized-digest": digest}},
            "spec": {"accessModes": ["ReadWriteMany"], "volumeMode": "Filesystem", "storageClassName": CLASS,
                     "volumeName": "pvc-" + meta["uid"], "resources": {"requests": {"storage": "2Gi"}}}}


def make_class(api):
    api.create({"kind": "StorageClass", "provisioner": "nobody.example.com", "volumeBindingMode": "Immediate",
                "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}, exist_ok=True)


def at_once(work, things, n_at_once=N_AT_ONCE):
    with concurrent.futures.ThreadPoolExecutor(n_at_once) as pool:
        return list(pool.map(work, things))


def make_claims(api):
    """A bound and whole one for every Ready Model."""
    def make(model):
        thing = claim_of(model)
        made = {"kind": thing["kind"], **api.create(thing)}
        api.patch(made, {"status": {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "2Gi"}}}, "status")
    at_once(make, api.list("Model"))
