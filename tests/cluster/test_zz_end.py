"""The last tests of the folder: they judge what all the others did, and then take the module away."""

import base64
import json
import re
import subprocess

import pytest

from harness import outside, rights, tools

from . import delivery, test_delivery

ACCOUNTS = ("ai-models-controller", "ai-models-upload-gateway")
# Made by programs while they work; the namespace takes them along.
STAYS = {"Lease/ai-models-controller.deckhouse.io", "ConfigMap/ai-models-storage-accounting"}


def roles(installed):
    """What the service accounts of the module may do: what the chart gives them, and what the controller gave to workers."""
    fixed = [installed.get("role", name, installed.namespace) for name in ACCOUNTS] + [installed.get("clusterrole", "d8:ai-models:controller")]
    return fixed + [{**one, "kind": "Role"} for one in installed.rights.made_roles() if one["metadata"]["name"].startswith("ai-model-publish-")]


SOURCES = {"hub": {"url": f"https://huggingface.co/{outside.HUB_MODEL}", "authSecretRef": {"name": "token"}}, "upload": {"upload": {}}}


def upload(installed, name):
    told = installed.wait_phase("Model", name, "WaitForUpload", "default")["status"]["upload"]["secretName"]
    url, token = (base64.b64decode(installed.get("secret", told, "default")["data"][key]).decode() for key in ("url", "token"))
    address = re.sub(r"^https?://[^/]+", f"http://{installed.service_address('ai-models-upload-gateway')}:8444", url)
    path = installed.folder / "tiny.gguf"
    path.write_bytes(outside.gguf())
    subprocess.run([tools.need("curl"), "--silent", "--fail", "--upload-file", path, "--header", f"Authorization: Bearer {token}", address], check=True,
                   stdout=subprocess.DEVNULL, timeout=60)


def deliver(installed):
    plane = delivery.Plane(installed)
    shared = plane.ready(plane.model("shared"))
    for number, play in enumerate((test_delivery.all_kinds_read_a_real_model, test_delivery.a_refusal_is_quoted)):
        play(plane, plane.namespace(f"lived-{number}"), shared)
        installed.kubectl("delete", "namespace", f"lived-{number}", "--timeout=120s")
    plane.close()


@pytest.fixture
def lived(installed):
    """The module after a life of models and workloads. That of the other tests, if they ran; else a short one."""
    if len(installed.rights.made_roles()) > 2:
        return installed
    deliver(installed)
    installed.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": "default"}, "stringData": {"token": "hf_good"}},
                    *({"apiVersion": "ai.deckhouse.io/v1alpha1", "kind": "Model", "metadata": {"name": name, "namespace": "default"}, "spec": {"source": source}}
                      for name, source in SOURCES.items()),
                    {"apiVersion": "ai.deckhouse.io/v1alpha1", "kind": "ClusterModel", "metadata": {"name": "tiny"},
                     "spec": {"source": {"url": f"https://ollama.com/{outside.OLLAMA_MODEL}"}}})
    upload(installed, "upload")
    for kind, name, place in (("Model", "hub", "default"), ("Model", "upload", "default"), ("ClusterModel", "tiny", None)):
        installed.wait_phase(kind, name, "Ready", place)
        installed.kubectl("delete", kind, name, *(("-n", place) if place else ()), "--timeout=60s")
    return installed


def test_metrics_for_whom_the_role_is_bound_to(installed, tmp_path):
    (tmp_path / "ca.crt").write_bytes(base64.b64decode(installed.get("secret", "ai-models-dmcr-ca", installed.namespace)["data"]["ca.crt"]))

    def ask():
        token = installed.kubectl("create", "token", "default", "-n", installed.namespace).strip()
        host = f"ai-models-controller.{installed.namespace}.svc"
        return subprocess.run([tools.need("curl"), "--silent", "--write-out", "%{http_code}", "--cacert", tmp_path / "ca.crt", "--resolve",
                               f"{host}:8443:{installed.service_address('ai-models-controller')}", "--header", f"Authorization: Bearer {token}",
                               f"https://{host}:8443/metrics"], capture_output=True, text=True, timeout=30).stdout

    assert ask().endswith("403")
    installed.kubectl("create", "rolebinding", "may-read", "--role=ai-models-metrics", f"--serviceaccount={installed.namespace}:default", "-n", installed.namespace)
    told = installed.wait("metrics", lambda: (told := ask()).endswith("200") and told)
    assert "d8_ai_models_storage_accounting_ledger_confirmed 1" in told and "d8_ai_models_storage_backend_limit_bytes" in told
    installed.kubectl("delete", "rolebinding", "may-read", "-n", installed.namespace)


def test_what_is_damaged_is_fetched_again_and_told(installed):
    installed.apply({"apiVersion": "ai.deckhouse.io/v1alpha1", "kind": "ClusterModel", "metadata": {"name": "damaged"},
                     "spec": {"source": {"url": f"https://ollama.com/{outside.OLLAMA_MODEL}"}}})
    before = installed.wait_phase("ClusterModel", "damaged", "Ready")
    place = f"dmcr/docker/registry/v2/repositories/ai-models/catalog/cluster/damaged/{before['metadata']['uid']}/_manifests/"
    keys = list(installed.outside.bucket.objects(place))
    assert keys
    for key in keys:
        installed.outside.weed.client().delete_object(Bucket=installed.outside.bucket.name, Key=key)

    def told():
        return {event["reason"]: event.get("count", 1) for event in installed.list("events", "default")
                if event["involvedObject"].get("uid") == before["metadata"]["uid"]}

    installed.wait("the damage is seen, and what was fetched once is fetched again",
                   lambda: "ArtifactDamaged" in told() and told()["RemoteFetchStarted"] == 2)
    after = installed.wait_phase("ClusterModel", "damaged", "Ready")
    assert after["status"]["artifact"]["digest"] == before["status"]["artifact"]["digest"] and list(installed.outside.bucket.objects(place))
    installed.kubectl("delete", "clustermodel", "damaged", "--timeout=60s")


def test_every_right_was_used_and_none_was_missing(lived):
    """So removing any of them breaks something: the request that needed it."""
    installed = lived
    given = set().union(*map(rights.granted, roles(installed)))
    assert len(given) > 30 and any("ai-model-publish-OWNER" in right.role for right in given)
    assert sorted(given - installed.rights.used()) == []
    assert installed.rights.refused() == []


def test_an_upgrade_restarts_nothing_but_what_it_changes(installed):
    def running():
        """Each container of ours that runs, and how often it was started anew. A Pod is there before kubelet says anything of it."""
        return {(pod["metadata"]["uid"], container["restartCount"]) for pod in installed.list("pods", installed.namespace, "module=ai-models")
                for container in pod["status"].get("containerStatuses", []) if container["ready"]}
    before = running()
    installed.install()
    assert running() == before and len(before) == 3
    # Two of each, on one bucket, with one that leads.
    installed.install("--set", "global.highAvailability=true")
    installed.wait("two of each", lambda: len(running()) == 6)


def ours(installed):
    kinds = installed.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    kinds = ",".join(kind for kind in kinds if not kind.startswith(("events", "componentstatuses", "customresourcedefinitions")))
    found = json.loads(installed.kubectl("get", kinds, "--all-namespaces", "-o", "json"))["items"]
    return {f"{one['kind']}/{one['metadata']['name']}" for one in found if "ai-model" in one["metadata"]["name"] or "dmcr" in one["metadata"]["name"]}


def test_an_uninstallation_leaves_nothing(installed):
    installed.kubectl("delete", "deployments,statefulsets,daemonsets,cronjobs", "--all-namespaces", "-l", "app,module!=ai-models", "--timeout=60s")
    for kind in ("models", "clustermodels"):
        installed.kubectl("delete", kind, "--all", *(("--all-namespaces",) if kind == "models" else ()), "--wait=false")
    installed.wait("the models are gone", lambda: not installed.list("models") and not installed.list("clustermodels"))
    given = {f"Namespace/{installed.namespace}", "Secret/ai-models-s3"}
    installed.uninstall()
    installed.wait("nothing left", lambda: not [one for one in ours(installed) - given - STAYS if not one.startswith("Secret/dmcr-gc-")])
    assert installed.kubectl("get", "crd", "-o", "name").count("ai.deckhouse.io") == 3
