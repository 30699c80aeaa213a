"""Every reason that the controller can set, and every event it can tell, with what brings it about. A reason in the code without a
row here fails, as does a row without code."""

import re

import pytest

from harness import deployment, tools
from servers import families

from . import models

SOURCES = ("domain/model_status.c", "domain/model_step.c", "cluster/worker_result.c", "controllers/*.c")
# What begins so is about workloads, whose reasons test_delivery.py holds to the code.
OF_WORKLOADS = ("admission_", "claim_", "delivery_", "event_sight", "materialize_", "storage_", "workload_")
# Words of those files that are no reasons of a Model.
OTHER_WORDS = {
    "phases": {"WaitForUpload", "Deleting"},
    "conditions": {"True", "False", "ArtifactResolved", "MetadataResolved"},
    "sources": {"HuggingFace", "Ollama", "Upload"},
    "kinds": {"Models", "ClusterModels", "Pods", "Secrets", "ServiceAccount"},
    "what Pods are made of": {"File", "IfNotPresent", "Never", "OnRootMismatch", "RuntimeDefault"},
    "what the kubelet says": {"ContainerCannotRun", "CreateContainerConfigError", "CreateContainerError", "DeadlineExceeded", "ErrImageNeverPull",
                              "ErrImagePull", "Evicted", "ImageInspectError", "ImagePullBackOff", "InvalidImageName", "NodeLost", "NodeShutdown",
                              "PodScheduled", "Preempting", "RegistryUnavailable", "RunContainerError", "StartError", "Succeeded", "Terminated", "Unknown"},
    "HTTP and metrics": {"Authorization", "Unauthorized", "WorkerInterrupted"},
}


def words_of_code(pattern=r'"([A-Z][a-z]+(?:[A-Z][A-Za-z]*)*)"'):
    found = set()
    for name in SOURCES:
        for path in (tools.ROOT / "src").glob(name):
            if not path.name.endswith(("-test.c", "-fuzz.c")) and not path.name.startswith(OF_WORKLOADS):
                found |= set(re.findall(pattern, path.read_text()))
    return found


def apply(module, **options):
    return module.apply({"url": models.url(models.add_repository(module, **options))})


def ready(subject):
    subject.wait_phase("Ready")
    return subject


# Each gives the Model that was made.


def pending(module, _):
    module.runner.missing_image = True
    waits = [apply(module) for _ in range(4)]
    for one in waits:
        one.wait_reason("Publishing")
    queued = apply(module)
    queued.wait(lambda: ("Publishing", "Pending", "Pending") in queued.seen())
    assert queued.condition("Ready")[2]
    module.runner.missing_image = False
    for one in waits:
        ready(one)
        models.gone(one)
    return ready(queued)


def waiting_for_user_upload(module, _):
    model = module.apply({"upload": {}})
    model.wait_upload()
    assert model.status["phase"] == "WaitForUpload" and model.status["upload"]["expiresAt"] and model.condition("ArtifactResolved")[2]
    return model


def publishing(module, _):
    module.hub.fail("large", times=2, slow=1)
    model = apply(module)
    model.wait_reason("Publishing", "Ready")
    assert model.status["phase"] == "Publishing"
    return ready(model)


def published(module, _):
    model = ready(apply(module))
    assert model.condition("ArtifactResolved")[:2] == ("True", "ArtifactPublished")
    return model


def calculated(module, _):
    model = ready(apply(module, info={"pipeline_tag": "text-generation"}))
    assert model.condition("MetadataResolved")[:2] == ("True", "ModelMetadataCalculated")
    return model


def partial(module, _):
    """A header without facts: only the file's name is left to guess from."""
    unknown = {"Llama-3.1-8B-Q4_K_M.gguf": families.gguf({}, {"blk.0.attn_q.weight": ("F16", [256, 8])})}
    model = ready(apply(module, files=unknown))
    assert model.condition("MetadataResolved")[:2] == ("True", "ModelMetadataPartial")
    return model


def failed(module, _):
    model = module.apply({"url": models.url("owner/nowhere")})
    models.failed(model, "PublicationFailed", "owner/nowhere")
    return model


def unsupported(module, _):
    model = module.apply({"url": "https://huggingface.co/datasets/owner/name"})
    models.failed(model, "UnsupportedSource")
    return model


def insufficient(module, _):
    with module.reconfigured(capacity=100_000):
        model = apply(module, size=200_000)
        models.failed(model, "InsufficientStorage", "artifact storage capacity exceeded")
    return model


def usage_unknown(module, _):
    """The books are lost; the next inventory writes them anew."""
    with module.reconfigured("--inventory-interval-s", 3):
        module.controllers[0].stop()
        module.api.delete({"kind": "ConfigMap", "metadata": {"name": deployment.LEDGER, "namespace": deployment.NAMESPACE}})
        module.registry.kill()
        module.controllers[0].proxy.fail("500", times=1 << 30, match=lambda request: request.is_write and request.name == deployment.LEDGER
                                         or request.verb == "create" and request.resource == "configmaps")
        module.controllers[0].start()
        model = apply(module)
        told = model.wait_reason("StorageUsageUnknown", "Ready")
        assert told[0] == "False" and told[2] and model.status["phase"] == "Pending"
        module.start_registry()
        module.controllers[0].proxy.heal()
        return ready(model)


def catalog(module, _):
    model = module.apply({"catalog": {"name": "entry"}})
    assert model.wait_reason("CatalogSourceNotReady")[0] == "False" and model.status["phase"] == "Pending"
    return model


# Reason -> (the condition that has it, what brings it about).
ROWS = {
    "Pending": ("Ready", pending),
    "WaitingForUserUpload": ("ArtifactResolved", waiting_for_user_upload),
    "Publishing": ("ArtifactResolved", publishing),
    "ArtifactPublished": ("ArtifactResolved", published),
    "ModelMetadataCalculated": ("MetadataResolved", calculated),
    "ModelMetadataPartial": ("MetadataResolved", partial),
    "Ready": ("Ready", published),
    "Failed": ("Ready", failed),
    "PublicationFailed": ("ArtifactResolved", failed),
    "InsufficientStorage": ("ArtifactResolved", insufficient),
    "UnsupportedSource": ("ArtifactResolved", unsupported),
    "StorageUsageUnknown": ("Ready", usage_unknown),
    "CatalogSourceNotReady": ("ArtifactResolved", catalog),
}


def damaged(module, _):
    with module.reconfigured("--sweep-interval-s", 1):
        model = ready(apply(module))
        models.damage(module, model)
        model.wait_event("ArtifactDamaged", 60)
        model.wait(lambda: model.status.get("phase") == "Ready" and model.manifests())
    return model


def uploaded(module, folder):
    path = folder / "tiny.gguf"
    path.write_bytes(models.gguf())
    model = module.apply({"upload": {}})
    assert models.upload(model, path)[0] == 201
    return ready(model)


# Event -> (its type, what brings it about).
EVENTS = {
    "UploadSessionIssued": ("Normal", waiting_for_user_upload),
    "RemoteFetchStarted": ("Normal", published),
    "RawStaged": ("Normal", uploaded),
    "PublicationSucceeded": ("Normal", published),
    "PublicationFailed": ("Warning", failed),
    "ArtifactDamaged": ("Warning", damaged),
}


def test_every_reason_of_the_code_has_a_row():
    known = {word for words in OTHER_WORDS.values() for word in words}
    assert words_of_code() - known == set(ROWS) | set(EVENTS)
    assert known <= words_of_code(), "words that the code no longer has"


@pytest.mark.parametrize("reason", ROWS)
def test_reason(module, tmp_path, reason):
    condition, bring_about = ROWS[reason]
    model = bring_about(module, tmp_path)
    told = model.wait_reason(reason, condition)
    assert told[2] or reason in ("Ready",), f"{reason} says nothing to a person"
    models.gone(model)


@pytest.mark.parametrize("event", EVENTS)
def test_event(module, tmp_path, event):
    kind, bring_about = EVENTS[event]
    model = bring_about(module, tmp_path)
    told = model.wait_event(event)
    assert told[0] == kind and told[2]
    models.gone(model)
