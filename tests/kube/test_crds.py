"""The CRDs as the API server takes them: what is accepted, what is refused, and in which words; help in two languages."""

import json

import pytest
import yaml

from harness import kube_api, tools

CRDS = tools.ROOT / "crds"
KINDS = {"Model": "model", "ClusterModel": "clustermodel", "ModelCatalogSource": "modelcatalogsource"}
HUB = "https://huggingface.co/owner/repository"


@pytest.fixture(scope="module")
def api(cluster):
    api = kube_api.Api(cluster)
    kube_api.install_crds(api)
    return api


def collection(kind):
    return "/apis/ai.deckhouse.io/v1alpha1/" + ("namespaces/default/models" if kind == "Model" else f"{KINDS[kind]}s")


def create(api, kind, spec, name="x", dry_run=True):
    body = {"apiVersion": "ai.deckhouse.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    query = "?dryRun=All&fieldValidation=Strict" if dry_run else "?fieldValidation=Strict"
    return api.ask("POST", collection(kind) + query, body)


ACCEPTED = [
    *((kind, {"source": source}) for kind in ("Model", "ClusterModel") for source in (
        {"url": HUB}, {"url": HUB + "/tree/main/sub"}, {"url": "https://hf.co/o/r"}, {"url": "https://www.huggingface.co/gpt2"},
        {"url": "https://ollama.com/library/llama3.2"}, {"url": "https://www.ollama.com/library/llama3.2:1b?x=1"},
        {"upload": {}}, {"catalog": {"name": "a.b-c"}}, {"catalog": {"name": "openai-community/gpt2", "sourceName": "hub", "version": "1"}})),
    ("Model", {"source": {"url": HUB, "authSecretRef": {"name": "token"}}}),
    ("Model", {"source": {"url": HUB, "authSecretRef": {"name": "token", "namespace": "default"}}}),
    ("ModelCatalogSource", {"url": "https://models.example.com", "credentialsSecretName": "s"}),
    ("ModelCatalogSource", {"type": "Catalog", "url": "https://models.example.com:8443/", "credentialsSecretName": "s", "caSecretName": "ca"}),
    ("ModelCatalogSource", {"type": "HuggingFace"}),  # unbounded: stored, and blocked by the controller
    ("ModelCatalogSource", {"type": "HuggingFace", "policy": {"allowedOrganizations": ["o"], "maxIndexedEntries": 10000},
                            "huggingFace": {"tokenSecretName": "t"}}),
]
REFUSED = [
    *((kind, spec, words) for kind in ("Model", "ClusterModel") for spec, words in (
        ({}, "spec.source: Required"),
        ({"source": {}}, "exactly one of url, upload and catalog is needed"),
        ({"source": {"url": HUB, "upload": {}}}, "exactly one of url, upload and catalog is needed"),
        ({"source": {"url": ""}}, "spec.source.url"),
        ({"source": {"url": "http://huggingface.co/o/r"}}, "models are fetched from https://huggingface.co/OWNER/REPOSITORY or"),
        ({"source": {"url": "https://example.com/o/r"}}, "models are fetched from https://huggingface.co/OWNER/REPOSITORY or"),
        ({"source": {"url": "https://huggingface.co.example.com/o/r"}}, "models are fetched from https://huggingface.co/OWNER/REPOSITORY or"),
        ({"source": {"url": "https://ollama.com/user/model"}}, "models are fetched from https://huggingface.co/OWNER/REPOSITORY or"),
        ({"source": {"catalog": {}}}, "spec.source.catalog.name: Required"),
        ({"source": {"catalog": {"name": "a/b/c"}}}, "spec.source.catalog.name"),
        ({"source": {"catalog": {"name": "a", "sourceName": "A"}}}, "spec.source.catalog.sourceName"),
        ({"source": {"catalog": {"name": "a", "version": "v" * 129}}}, "spec.source.catalog.version"),
        ({"source": {"url": HUB}, "metadata": {}}, "unknown field"))),
    ("Model", {"source": {"upload": {}, "authSecretRef": {"name": "t"}}}, "authSecretRef goes with url only"),
    ("Model", {"source": {"url": "https://ollama.com/library/x", "authSecretRef": {"name": "t"}}}, "authSecretRef is for Hugging Face"),
    ("Model", {"source": {"url": HUB, "authSecretRef": {}}}, "authSecretRef.name: Required"),
    ("ClusterModel", {"source": {"url": HUB, "authSecretRef": {"name": "t"}}}, "unknown field"),
    ("ModelCatalogSource", {}, "needs url"),
    ("ModelCatalogSource", {"url": "https://x"}, "needs credentialsSecretName"),
    ("ModelCatalogSource", {"url": "http://x", "credentialsSecretName": "s"}, "spec.url"),
    ("ModelCatalogSource", {"url": "https://x/path", "credentialsSecretName": "s"}, "spec.url"),
    ("ModelCatalogSource", {"url": "https://x", "credentialsSecretName": "s", "policy": {}}, "belong to the type HuggingFace"),
    ("ModelCatalogSource", {"type": "HuggingFace", "url": "https://x"}, "belong to the type Catalog"),
    ("ModelCatalogSource", {"type": "HuggingFace", "policy": {"maxIndexedEntries": 0}}, "maxIndexedEntries"),
    ("ModelCatalogSource", {"type": "HuggingFace", "policy": {"maxIndexedEntries": 10001}}, "maxIndexedEntries"),
    ("ModelCatalogSource", {"type": "HuggingFace", "policy": {"allowedRepositories": ["x"] * 101}}, "allowedRepositories"),
    ("ModelCatalogSource", {"type": "Other"}, "spec.type"),
]


@pytest.mark.parametrize("kind, spec", ACCEPTED)
def test_accepted(api, kind, spec):
    status, answer = create(api, kind, spec)
    assert status == 201, answer["message"]


@pytest.mark.parametrize("kind, spec, words", REFUSED)
def test_refused(api, kind, spec, words):
    status, answer = create(api, kind, spec)
    assert status in (400, 422), answer
    assert words in answer["message"]


@pytest.mark.parametrize("kind, spec, patch, words", [
    ("Model", {"source": {"url": HUB}}, {"source": {"url": HUB + "2"}}, "the source cannot be changed: delete the Model and create it anew"),
    ("ClusterModel", {"source": {"url": HUB}}, {"source": {"url": None, "upload": {}}}, "the source cannot be changed: delete the ClusterModel"),
    ("ModelCatalogSource", {"type": "HuggingFace"}, {"type": "Catalog", "url": "https://x", "credentialsSecretName": "s"}, "the type cannot be changed"),
])
def test_immutable(api, kind, spec, patch, words):
    status, answer = create(api, kind, spec, name="fixed", dry_run=False)
    assert status == 201, answer
    path = f"{collection(kind)}/fixed"
    status, answer = api.ask("PATCH", path, {"spec": patch}, "application/merge-patch+json")
    assert status == 422 and words in answer["message"]
    status, answer = api.ask("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json")
    assert status == 200, answer


def test_status_and_columns(api):
    assert create(api, "Model", {"source": {"url": HUB}}, name="shown", dry_run=False)[0] == 201
    path = f"{collection('Model')}/shown"
    digest = "sha256:" + "0" * 64
    status, answer = api.ask("PATCH", path + "/status", {"status": {
        "phase": "Ready", "progress": "100%", "source": {"resolvedType": "HuggingFace"}, "artifact": {"kind": "OCI", "digest": digest, "sizeBytes": 5},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}},
        "application/merge-patch+json")
    assert status == 200, answer
    assert answer["metadata"]["generation"] == 1
    for bad in ({"progress": "101%"}, {"phase": "Done"}, {"artifact": {"digest": "sha256:1"}}, {"artifact": {"sizeBytes": 0}},
                {"resolved": {"supportedFeatures": ["Magic"]}}):
        assert api.ask("PATCH", path + "/status", {"status": bad}, "application/merge-patch+json")[0] == 422, bad
    table = json.loads(api.raw("GET", path, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})[1])
    row = dict(zip([column["name"] for column in table["columnDefinitions"]], table["rows"][0]["cells"]))
    assert [row[name] for name in ("Name", "Phase", "Progress", "Source", "Digest", "Size")] == ["shown", "Ready", "100%", "HuggingFace", digest, 5]


def described(schema, path=()):
    """Paths of members with a description."""
    found = {path} if "description" in schema else set()
    for name, member in schema.get("properties", {}).items():
        found |= described(member, (*path, name))
    return found


@pytest.mark.parametrize("name", KINDS.values())
def test_help_in_both_languages(name):
    english, russian = (yaml.safe_load((CRDS / file).read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
                        for file in (f"{name}.yaml", f"doc-ru-{name}.yaml"))
    assert described(english) == described(russian)
