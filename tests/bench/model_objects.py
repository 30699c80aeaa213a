"""Models that are Ready, with what the controller keeps for each, in any number."""

import base64
import concurrent.futures
import hashlib
import json
import multiprocessing
import pathlib
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import kube_api  # noqa: E402

NAMESPACE, N_NAMESPACES, N_PROCESSES = "d8-ai-models", 10, 3
MANIFEST_TYPE, BLOB_BYTES = "application/vnd.oci.image.manifest.v1+json", 1000
GROUP, PREFIX = "ai.deckhouse.io/v1alpha1", "ai.deckhouse.io/"
FAMILIES = [("llama", "LlamaForCausalLM", 8030261248, 131072), ("qwen2", "Qwen2ForCausalLM", 7615616512, 32768),
            ("bert", "BertModel", 22713216, 512), ("mistral", "MistralForCausalLM", 7248023552, 32768)]


def namespace_of(index):
    return f"team-{index % N_NAMESPACES}"


def model(index, namespace=None, finalizer=True):
    """As somebody applies it (and as it is accepted)."""
    name, namespace = f"model-{index:05}", namespace or namespace_of(index)
    thing = {"apiVersion": GROUP, "kind": "Model", "metadata": {"name": name, "namespace": namespace},
             "spec": {"source": {"url": f"https://huggingface.co/organization-{index % 97}/{name}"}}}
    applied = json.dumps({**thing, "metadata": {**thing["metadata"], "annotations": {}}}, separators=(",", ":"))
    thing["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": applied + "\n"}
    if finalizer:
        thing["metadata"]["finalizers"] = [PREFIX + "model-cleanup"]
    return thing


def described(kind, text):
    return {"mediaType": kind, "digest": "sha256:" + hashlib.sha256(text.encode()).hexdigest(), "size": BLOB_BYTES}


def manifest(uid):
    """Of the artifact of a model: bytes."""
    return json.dumps({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "artifactType": "application/vnd.cncf.model.manifest.v1+json",
                       "config": described("application/vnd.cncf.model.config.v1+json", uid),
                       "layers": [described("application/vnd.cncf.model.weight.v1.raw", f"{uid}/{i}") for i in range(3)]}).encode()


def digest_of(thing):
    return "sha256:" + hashlib.sha256(manifest(thing["metadata"]["uid"])).hexdigest()


def size_of(thing):
    return 1000000000 + int(thing["metadata"]["uid"][:6], 16)


def condition(kind, reason, message, generation):
    return {"type": kind, "status": "True", "reason": reason, "message": message, "observedGeneration": generation,
            "lastTransitionTime": "2026-11-02T10:20:30Z"}


def ready_status(thing, index):
    generation, digest = thing["metadata"]["generation"], digest_of(thing)
    family, architecture, parameters, context = FAMILIES[index % len(FAMILIES)]
    return {
        "observedGeneration": generation, "phase": "Ready", "progress": "100%",
        "conditions": [
            condition("ArtifactResolved", "ArtifactPublished", "the files are stored and verified", generation),
            condition("MetadataResolved", "ModelMetadataCalculated", "what there is to know of the model is known", generation),
            condition("Ready", "Ready", "the model can be used", generation)],
        "source": {"resolvedType": "HuggingFace", "resolvedRevision": hashlib.sha1(digest.encode()).hexdigest()},
        "artifact": {"kind": "OCI", "digest": digest, "mediaType": "application/vnd.cncf.model.manifest.v1+json", "sizeBytes": size_of(thing)},
        "resolved": {
            "format": "Safetensors", "family": family, "architecture": architecture, "parameterCount": parameters, "quantization": "bf16",
            "contextWindowTokens": context, "supportedEndpointTypes": ["Chat", "TextGeneration"], "supportedFeatures": ["ToolCalling"],
            "sourceCapabilities": {"provider": "HuggingFace", "tasks": ["text-generation"],
                                   "features": ["transformers", "safetensors", "conversational", "text-generation-inference"]}}}


def encoded(document):
    return base64.b64encode(json.dumps(document, separators=(",", ":")).encode()).decode()


def cleanup_state(thing, registry):
    """The Secret that says what must be removed with the model, and what came out of its publication."""
    metadata = thing["metadata"]
    uid, name, namespace, digest = metadata["uid"], metadata["name"], metadata["namespace"], digest_of(thing)
    repository = f"ai-models/catalog/namespaced/{namespace}/{name}/{uid}"
    handle = {"kind": "BackendArtifact", "artifact": {"kind": "OCI", "uri": f"{registry}/{repository}@{digest}", "digest": digest},
              "backend": {"reference": f"{registry}/{repository}@{digest}", "repositoryMetadataPrefix": f"dmcr/docker/registry/v2/repositories/{repository}"}}
    status = thing["status"]
    result = {"result": {"artifact": {**status["artifact"], "repository": repository}, "source": status["source"], "resolved": status["resolved"],
                         "metadataComplete": True}}
    owner = {"kind": "Model", "name": name, "uid": uid, "namespace": namespace}
    return {"kind": "Secret", "type": "Opaque", "metadata": {
        "name": f"ai-model-cleanup-state-{uid}", "namespace": NAMESPACE,
        "labels": {"app.kubernetes.io/name": "ai-models-cleanup-state", "app.kubernetes.io/part-of": "ai-models",
                   **{f"{PREFIX}owner-{key}": value for key, value in owner.items()}},
        "annotations": {PREFIX + "artifact-digest": digest, **{f"{PREFIX}owner-{key}-full": value for key, value in owner.items()}}},
        "data": {"cleanupHandle": encoded(handle), "result.json": encoded(result)}}


def make_one(api, index, registry):
    made = api.create(model(index))
    thing = {"kind": "Model", **made}
    made["status"] = ready_status(thing, index)
    api.must("PUT", kube_api.path_to(thing, "status") + "?fieldManager=ai-models", made)
    api.create(cleanup_state({**thing, "status": made["status"]}, registry))


def _make_part(access, indexes, registry):
    api = kube_api.Api(access)
    for index in indexes:
        make_one(api, index, registry)


def make_namespaces(api):
    for name in (NAMESPACE, *(f"team-{i}" for i in range(N_NAMESPACES))):
        api.create({"kind": "Namespace", "metadata": {"name": name}}, exist_ok=True)


def make_ready(plane, n_models, registry="dmcr.d8-ai-models.svc.cluster.local", first=0):
    """`n_models` Ready ones in a cluster that has the CRDs."""
    make_namespaces(kube_api.Api(plane))
    access = types.SimpleNamespace(address=plane.address, port=plane.port, client=tuple(plane.client),
                                   authority=types.SimpleNamespace(certificate=plane.authority.certificate))
    with concurrent.futures.ProcessPoolExecutor(N_PROCESSES, multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(_make_part, access, range(first + i, first + n_models, N_PROCESSES), registry) for i in range(N_PROCESSES)]
        for part in parts:
            part.result()
