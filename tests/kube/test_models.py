"""The life of a Model, and of a ClusterModel, from each source, and what its user sees when things go wrong on the way."""

import base64
import json
import signal
import time

import pytest

from harness import deployment, kube_api
from servers import families

from . import models

READY = ("Ready", "ArtifactPublished", "Ready")


# Each source to Ready


@pytest.mark.parametrize("kind", ["Model", "ClusterModel"])
def test_from_hugging_face(module, kind):
    repository = models.add_repository(module, info={"pipeline_tag": "text-generation"})
    model = module.apply({"url": models.url(repository)}, f"m-{repository[-6:]}", kind=kind)
    status = model.wait_phase("Ready")
    assert status["progress"] == "100%" and status["observedGeneration"] == 1
    assert model.condition("ArtifactResolved")[:2] == ("True", "ArtifactPublished")
    assert model.condition("MetadataResolved")[0] == "True"
    assert model.condition("Ready")[:2] == ("True", "Ready")
    assert status["source"] == {"resolvedType": "HuggingFace", "resolvedRevision": module.hub.repositories[repository].refs["main"]}
    assert status["artifact"]["kind"] == "OCI" and model.manifests() == {status["artifact"]["digest"].removeprefix("sha256:")}
    assert status["artifact"]["sizeBytes"] > len(models.WEIGHTS)
    resolved = status["resolved"]
    assert (resolved["format"], resolved["architecture"], resolved["contextWindowTokens"]) == ("Safetensors", "LlamaForCausalLM", 4096)
    assert resolved["parameterCount"] == families.count(families.decoder()) and resolved["sourceCapabilities"]["provider"] == "HuggingFace"
    assert "Chat" in resolved["supportedEndpointTypes"]
    assert model.wait_event("RemoteFetchStarted")[0] == "Normal" and status["artifact"]["digest"] in model.wait_event("PublicationSucceeded")[2]
    # Once it is Ready nothing of the worker is left, and the books know its size.
    model.wait(lambda: model.objects_of_it() == [f"Secret {deployment.NAMESPACE}/ai-model-cleanup-state-{model.uid}"])
    assert model.uid in module.ledger() and str(status["artifact"]["sizeBytes"]) in module.ledger()
    models.gone(model)
    if kind == "Model":
        assert model.seen()[-1][0] == "Deleting" and READY in model.seen()


def test_from_ollama(module):
    name = models.add_ollama(module)
    model = module.apply({"url": f"https://ollama.com/library/{name}"})
    status = model.wait_phase("Ready")
    part = module.ollama.models[f"library/{name}:latest"].layers[0]
    assert status["source"] == {"resolvedType": "Ollama", "resolvedRevision": f"latest@{part.digest}"}
    assert status["resolved"]["format"] == "GGUF" and status["resolved"]["contextWindowTokens"] == 4096
    models.gone(model)


def check_upload(module, tmp_path, content, name, kind="Model"):
    path = tmp_path / name
    path.write_bytes(content)
    model = module.apply({"upload": {}}, name=f"u-{time.monotonic_ns():x}", kind=kind)
    address, token = model.wait_upload()
    assert model.condition("ArtifactResolved")[:2] == ("False", "WaitingForUserUpload")
    assert model.wait_event("UploadSessionIssued") and address.endswith(f"/ai-model-upload-auth-{model.uid}")
    assert models.upload(model, path, name)[0] == 201
    status = model.wait_phase("Ready")
    assert status["source"]["resolvedType"] == "Upload" and "upload" not in status
    assert model.wait_event("RawStaged") and model.wait_event("PublicationSucceeded")
    assert token not in json.dumps([model.states, model.events()]) and token not in module.logs()
    model.wait(lambda: model.objects_of_it() == [f"Secret {deployment.NAMESPACE}/ai-model-cleanup-state-{model.uid}"])
    model.wait(lambda: not [key for key in list(module.bucket.objects) if key.startswith("raw/") and model.uid in key])
    models.gone(model)
    return status


@pytest.mark.parametrize("kind", ["Model", "ClusterModel"])
def test_from_an_upload(module, tmp_path, kind):
    status = check_upload(module, tmp_path, models.gguf(size=1 << 20), "tiny.gguf", kind)
    assert status["resolved"]["format"] == "GGUF"


@pytest.mark.parametrize("mode, ending", [("w", "tar"), ("w:gz", "tar.gz")])
def test_from_an_archive(module, tmp_path, mode, ending):
    content = models.archive({f"folder/{name}": data for name, data in models.files().items() if not name.startswith(".")}, mode)
    assert check_upload(module, tmp_path, content, f"m.{ending}")["resolved"]["format"] == "Safetensors"


def test_many_at_once_wait_for_a_slot(module):
    """At most four workers at a time; the others say that they wait."""
    names = [models.add_repository(module) for _ in range(7)]
    module.hub.fail("large", times=8, slow=0.7)
    namespace = module.new_namespace()
    made = [module.apply({"url": models.url(name)}, name=f"m{n}", namespace=namespace) for n, name in enumerate(names)]
    most = 0

    def all_ready():
        nonlocal most
        most = max(most, len(module.runner.running()))
        return all(model.status.get("phase") == "Ready" for model in made)

    made[0].wait(all_ready, 90)
    assert 2 <= most <= 4
    assert any(("Publishing", "Pending", "Pending") in model.seen() for model in made)
    for model in made:
        model.delete(wait=False)
    for model in made:
        model.assert_gone()


def test_nothing_is_written_while_nothing_changes(module):
    model = module.apply({"url": models.url(models.add_repository(module))})
    model.wait_phase("Ready")
    model.wait(lambda: len(model.objects_of_it()) == 1)
    proxy = module.controllers[0].proxy
    since, version = proxy.mark(), model.now()["metadata"]["resourceVersion"]
    module.api.patch(model.thing, {"metadata": {"labels": {"touched": "yes"}}})  # a look that finds nothing to do
    time.sleep(2)
    assert model.now()["status"] == model.states[-1]["status"] and version != model.now()["metadata"]["resourceVersion"]
    written = proxy.counted(since, lambda request: request.is_write and request.resource != "leases")
    assert not written, written
    models.gone(model)


def test_requests_per_model(module):
    """From apply to Ready (the bar of the issue is 40), controller and worker."""
    marks = module.controllers[0].proxy.mark(), module.worker_proxy.mark()
    model = module.apply({"url": models.url(models.add_repository(module))})
    model.wait_phase("Ready")
    model.wait(lambda: len(model.objects_of_it()) == 1)
    counted = module.controllers[0].proxy.counted(marks[0], lambda request: not request.is_watch and request.resource != "leases")
    worker = module.worker_proxy.counted(marks[1])
    assert counted.total() + worker.total() <= 40, (counted, worker)
    models.gone(model)


# Tokens


def test_a_private_repository_by_its_token(module):
    repository = models.add_repository(module, private=True, readers=("hf_good",))
    namespace = module.new_namespace()
    models.secret(module.api, namespace, "hf_good")
    model = module.apply({"url": models.url(repository), "authSecretRef": {"name": "hub"}}, namespace=namespace)
    model.wait_phase("Ready")
    models.gone(model)


def test_a_secret_that_comes_later(module):
    repository = models.add_repository(module, private=True, readers=("hf_good",))
    namespace = module.new_namespace()
    model = module.apply({"url": models.url(repository), "authSecretRef": {"name": "hub"}}, namespace=namespace)
    told = model.wait(lambda: (said := model.condition("Ready")) and "hub" in said[2] and said)
    assert told[:2] == ("False", "Pending") and model.status["phase"] == "Pending"
    models.secret(module.api, namespace, "", name="hub")  # there, and empty
    time.sleep(0.3)
    assert model.status["phase"] == "Pending"
    module.api.patch({"kind": "Secret", "metadata": {"name": "hub", "namespace": namespace}}, {"data": {"HF_TOKEN": base64.b64encode(b"hf_good").decode()}})
    model.wait_phase("Ready")
    models.gone(model)


@pytest.mark.parametrize("token, words", [("hf_bad", ("token",)), ("hf_other", ("not there",))])
def test_a_token_without_rights(module, token, words):
    module.hub.tokens["hf_other"] = "another"
    repository = models.add_repository(module, private=True, readers=("hf_good",))
    namespace = module.new_namespace()
    models.secret(module.api, namespace, token)
    model = module.apply({"url": models.url(repository), "authSecretRef": {"name": "hub"}}, namespace=namespace)
    message = models.failed(model, "PublicationFailed", *words)
    assert token not in message
    models.gone(model)


def test_a_token_that_is_changed_while_its_worker_runs(module):
    """The hub takes the old one no more: the worker is started again with the new one."""
    repository, namespace = models.add_repository(module, private=True, readers=("hf_good",)), module.new_namespace()
    module.hub.tokens["hf_new"] = "someone"
    models.secret(module.api, namespace, "hf_good")

    def rotate():
        module.api.patch({"kind": "Secret", "metadata": {"name": "hub", "namespace": namespace}}, {"data": {"token": base64.b64encode(b"hf_new").decode()}})
        module.hub.repositories[repository].readers = {"hf_new"}

    module.hub.fail("large", call=rotate, status=403)  # the link is over: another is asked for, with the token
    model = module.apply({"url": models.url(repository), "authSecretRef": {"name": "hub"}}, namespace=namespace)
    told = model.wait_reason("Pending", timeout=30)
    model.wait_phase("Ready")
    assert any("the token in Secret hub was changed; it is started again" in (kube_api.condition(state, "ArtifactResolved") or ("",) * 3)[2]
               for state in model.states), told
    models.gone(model)


# Repositories that cannot be published


@pytest.mark.parametrize("make, words", [
    (lambda: None, ("not",)),
    (lambda: {"gated": "manual"}, ("gated",)),
    (lambda: {"private": True}, ()),
    (lambda: {"files": {"README.md": b"# nothing\n"}}, ()),
    (lambda: {"files": {**models.files(), "m.gguf": models.gguf()}}, ("GGUF", "Safetensors")),
    (lambda: {"files": {**models.files(), "model.safetensors": b"\xff" * 4096}}, ("model.safetensors",)),
], ids=["missing", "gated", "private", "empty", "ambiguous", "damaged"])
def test_a_repository_that_is_of_no_use(module, make, words):
    options = make()
    repository = "owner/nowhere" if options is None else models.add_repository(module, **options)
    model = module.apply({"url": models.url(repository)})
    models.failed(model, "PublicationFailed", *words)
    models.gone(model)


def test_an_ollama_model_that_is_not_there(module):
    model = module.apply({"url": "https://ollama.com/library/nowhere:7b"})
    models.failed(model, "PublicationFailed", "nowhere")
    models.gone(model)


@pytest.mark.parametrize("url", ["https://huggingface.co/datasets/owner/name", "https://huggingface.co/spaces/owner/name"])
def test_an_address_that_is_no_model(module, url):
    model = module.apply({"url": url})
    models.failed(model, "UnsupportedSource")
    models.gone(model)


# Capacity


def test_capacity_is_exhausted_while_it_publishes(module):
    with module.reconfigured(capacity=100_000):
        model = module.apply({"url": models.url(models.add_repository(module, size=200_000))})
        models.failed(model, "InsufficientStorage", "artifact storage capacity exceeded", "limit=100000")
        models.gone(model)


def test_an_upload_that_is_too_large(module, tmp_path):
    path = tmp_path / "big.gguf"
    path.write_bytes(models.gguf(size=1 << 20))
    with module.reconfigured(capacity=100_000):
        model = module.apply({"upload": {}})
        status, body = models.upload(model, path)
        assert status == 507 and "artifact storage capacity exceeded" in body
        assert model.status["phase"] == "WaitForUpload" and not [key for key in list(module.bucket.objects) if model.uid in key]
        models.gone(model)


def published(module, model):
    books = module.api.get("ConfigMap", deployment.NAMESPACE, deployment.LEDGER)
    return books is not None and any(model.uid in json.loads(text).get("published", {}) for text in books["data"].values())


def test_the_books_keep_what_the_caches_do_not_show_yet(module):
    """An inventory that sees a model's state of before it was Ready does not take its record for a lost one's."""
    with module.reconfigured("--inventory-interval-s", 1):
        module.controllers[0].proxy.lag = 2
        model = module.apply({"url": models.url(models.add_repository(module))})
        model.wait(lambda: published(module, model))
        end = time.monotonic() + 4
        while time.monotonic() < end:
            assert published(module, model)
            time.sleep(0.1)
        model.wait_phase("Ready")
        module.controllers[0].proxy.heal()
        models.gone(model)


# Uploads


def expire(module, model):
    thing = {"kind": "Secret", "metadata": {"name": f"ai-model-upload-auth-{model.uid}", "namespace": deployment.NAMESPACE}}
    module.api.patch(thing, {"metadata": {"annotations": {"ai.deckhouse.io/upload-expires-at": "2020-01-01T00:00:00Z"}}})


def test_an_upload_that_is_never_sent(module):
    model = module.apply({"upload": {}})
    model.wait_upload()
    expire(module, model)
    models.failed(model, "PublicationFailed", "upload", timeout=90)
    models.gone(model)


def test_an_upload_that_comes_too_late(module, tmp_path):
    path = tmp_path / "late.gguf"
    path.write_bytes(models.gguf())
    model = module.apply({"upload": {}})
    address, token = model.wait_upload()
    expire(module, model)
    status, _ = models.curl("--upload-file", path, "--header", f"Authorization: Bearer {token}", address)
    assert status in (404, 410)
    models.failed(model, "PublicationFailed", "upload")
    assert models.curl("--header", f"Authorization: Bearer {token}", address)[0] in (404, 410)
    models.gone(model)


def test_an_upload_that_is_sent_twice(module, tmp_path):
    path = tmp_path / "twice.gguf"
    path.write_bytes(models.gguf())
    module.runner.missing_image = True  # the worker takes its time
    model = module.apply({"upload": {}})
    address, token = model.wait_upload()
    assert models.upload(model, path)[0] == 201
    assert models.curl("--upload-file", path, "--header", f"Authorization: Bearer {token}", address)[0] == 409
    module.runner.missing_image = False
    model.wait_phase("Ready")
    models.gone(model)


@pytest.mark.parametrize("content, name", [(b"plain text " * 100, "x.txt"), (b"plain text " * 100, "x.gguf"), (models.WEIGHTS, "x.safetensors")])
def test_an_upload_of_another_format(module, tmp_path, content, name):
    path = tmp_path / name
    path.write_bytes(content)
    model = module.apply({"upload": {}})
    status, body = models.upload(model, path, name)
    assert status == 400 and body.strip(), (status, body)
    assert model.status["phase"] == "WaitForUpload"
    good = tmp_path / "good.gguf"
    good.write_bytes(models.gguf())
    assert models.upload(model, good)[0] == 201  # what was refused is no obstacle
    model.wait_phase("Ready")
    models.gone(model)


def test_an_archive_of_nothing_useful(module, tmp_path):
    path = tmp_path / "x.tar"
    path.write_bytes(models.archive({"notes.txt": b"nothing here " * 100}))
    model = module.apply({"upload": {}})
    assert models.upload(model, path)[0] == 201
    models.failed(model, "PublicationFailed")
    models.gone(model)


def test_a_wrong_token_is_refused(module, tmp_path):
    model = module.apply({"upload": {}})
    address, token = model.wait_upload()
    assert models.curl("--header", "Authorization: Bearer " + "0" * 48, address)[0] == 401
    assert models.curl(address)[0] == 401
    assert models.curl("--header", f"Authorization: Bearer {token}", address)[0] == 200
    models.gone(model)


# Workers


def test_workers_that_are_interrupted_go_on(module):
    """Evicted, out of memory, killed, and deleted by somebody: another goes on, and nobody is told of a failure."""
    ways = {"evicted": module.runner.evict, "starved": module.runner.out_of_memory, "killed": lambda pod: pod.kill(),
            "deleted": lambda pod: module.api.delete(pod.pod, grace=1)}
    module.hub.fail("large", times=1000, slow=2)
    namespace = module.new_namespace()
    made = {name: module.apply({"url": models.url(models.add_repository(module))}, name, namespace) for name in ways}
    for name, act in ways.items():
        act(module.runner.wait_running(made[name].uid))
    module.hub.faults.clear()
    for model in made.values():
        model.wait_phase("Ready", 90)
        assert not [event for event in model.events() if event[1] == "PublicationFailed"]
        assert len(model.manifests()) == 1
    assert max(module.runner.most_at_once.values()) == 1
    for model in made.values():
        models.gone(model)


def test_an_interruption_is_known_before_its_pod_is_gone(module):
    """The pause before another worker holds, however late the caches are to show how often it was interrupted."""
    module.hub.fail("large", times=1000, slow=2)
    model, proxy = module.apply({"url": models.url(models.add_repository(module))}), module.controllers[0].proxy
    pod = module.runner.wait_running(model.uid)
    proxy.late, proxy.lag, begin = "secrets", 2, time.monotonic()
    module.runner.evict(pod)
    model.wait(lambda: [one for one in module.runner.running(model.uid) if one.uid != pod.uid])
    assert time.monotonic() - begin > 4
    module.heal()
    model.wait_phase("Ready", 90)
    models.gone(model)


def test_a_lost_node(module):
    """Until the cluster says that the Pod is gone it may still run: no second one is started beside it."""
    repository = models.add_repository(module)
    module.hub.fail("large", times=2, slow=1)
    model = module.apply({"url": models.url(repository)})
    pod = module.runner.wait_running(model.uid)
    module.runner.lose_node(pod)
    time.sleep(1)
    assert model.status["phase"] == "Publishing" and not module.runner.running(model.uid)
    module.runner.forget_node(pod)
    model.wait_phase("Ready", 90)
    models.gone(model)


def test_an_image_that_is_not_there(module):
    module.runner.missing_image = True
    model = module.apply({"url": models.url(models.add_repository(module))})
    told = model.wait(lambda: (said := model.condition("Ready")) and "image" in said[2].lower() and said, 90)
    assert told[0] == "False" and model.status["phase"] == "Publishing"
    module.runner.missing_image = False
    model.wait_phase("Ready", 90)
    models.gone(model)


# Registry and store


def test_the_registry_is_down_for_a_while(module):
    module.registry.kill()
    model = module.apply({"url": models.url(models.add_repository(module))})
    model.wait(lambda: module.runner.running(model.uid))
    time.sleep(1.5)
    assert model.status["phase"] == "Publishing", model.story()
    module.start_registry()
    model.wait_phase("Ready", 90)
    models.gone(model)


def test_the_registry_is_down_while_it_is_deleted(module):
    model = module.apply({"url": models.url(models.add_repository(module))})
    model.wait_phase("Ready")
    module.registry.kill()
    model.delete(wait=False)
    told = model.wait(lambda: (said := model.condition("Ready")) and said[1] == "Failed" and said)
    assert model.status["phase"] == "Deleting" and told[2]
    module.start_registry()
    model.assert_gone(60)


def test_a_damaged_artifact_is_published_again(module):
    with module.reconfigured("--sweep-interval-s", 1):
        model = module.apply({"url": models.url(models.add_repository(module))})
        digest = model.wait_phase("Ready")["artifact"]["digest"]
        models.damage(module, model)
        assert model.wait_event("ArtifactDamaged", 60)[0] == "Warning"
        model.wait(lambda: model.status.get("phase") == "Ready" and model.manifests(), 60)
        assert model.status["artifact"]["digest"] == digest
        models.gone(model)


def test_a_damaged_upload_cannot_be_read_again(module, tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(models.gguf())
    with module.reconfigured("--sweep-interval-s", 1):
        model = module.apply({"upload": {}})
        models.upload(model, path)
        model.wait_phase("Ready")
        models.damage(module, model)
        model.wait(lambda: model.status.get("phase") == "Failed", 60)
        assert "again" in model.condition("ArtifactResolved")[2] or "anew" in model.condition("ArtifactResolved")[2]
        models.gone(model)


# Deletion


@pytest.mark.parametrize("when", ["at once", "waiting for a secret", "worker pending", "worker running", "waiting for an upload", "failed"])
def test_deleted_in_every_phase(module, when):
    repository = models.add_repository(module)
    if when == "waiting for an upload":
        model = module.apply({"upload": {}})
        model.wait_upload()
    elif when == "waiting for a secret":
        model = module.apply({"url": models.url(repository), "authSecretRef": {"name": "never"}})
        model.wait_phase("Pending")
    elif when == "failed":
        model = module.apply({"url": models.url("owner/nowhere")})
        model.wait_phase("Failed")
    else:
        module.runner.missing_image = when == "worker pending"
        module.hub.fail("any", times=50, slow=0.3)
        model = module.apply({"url": models.url(repository)})
        if when == "worker pending":
            model.wait(lambda: [thing for thing in model.objects_of_it() if thing.startswith("Pod")])
        if when == "worker running":
            module.runner.wait_running(model.uid)
    models.gone(model)


def test_deleted_while_the_controller_is_down(module):
    model = module.apply({"url": models.url(models.add_repository(module))})
    model.wait_phase("Ready")
    module.controllers[0].kill()
    model.delete(wait=False)
    module.restart_controller()
    model.assert_gone()


# What people do by hand


def test_a_status_that_is_edited_comes_back(module):
    model = module.apply({"url": models.url(models.add_repository(module))})
    digest = model.wait_phase("Ready")["artifact"]["digest"]
    for edit in ({"phase": "Failed"}, {"phase": "Publishing", "progress": "5%"}, {"artifact": {"digest": "sha256:" + "0" * 64}}, None):
        module.api.patch(model.thing, {"status": edit}, "status")
        model.wait(lambda: model.status.get("phase") == "Ready" and model.status.get("artifact", {}).get("digest") == digest
                   and model.condition("Ready")[:2] == ("True", "Ready"))
    assert len(model.manifests()) == 1
    models.gone(model)


def test_a_status_that_lies_about_being_ready(module):
    module.runner.missing_image = True
    model = module.apply({"url": models.url(models.add_repository(module))})
    model.wait_phase("Publishing")
    module.api.patch(model.thing, {"status": {"phase": "Ready", "artifact": {"kind": "OCI", "digest": "sha256:" + "0" * 64, "sizeBytes": 5}}}, "status")
    model.wait(lambda: model.status.get("phase") == "Publishing" and "artifact" not in model.status)
    module.runner.missing_image = False
    model.wait(lambda: model.status.get("phase") == "Ready")
    models.gone(model)


def test_a_finalizer_that_is_removed_comes_back(module):
    model = module.apply({"url": models.url(models.add_repository(module))})
    model.wait_phase("Ready")
    module.api.patch(model.thing, {"metadata": {"finalizers": None}})
    model.wait(lambda: model.now()["metadata"].get("finalizers"))
    models.gone(model)


def test_an_object_that_went_without_its_finalizer(module):
    """Somebody removed it by force while nobody looked: what it had is cleared up all the same."""
    model = module.apply({"url": models.url(models.add_repository(module))})
    model.wait_phase("Ready")
    module.controllers[0].kill()
    module.api.delete(model.thing)
    module.api.patch(model.thing, {"metadata": {"finalizers": None}})
    assert model.now() is None
    module.restart_controller()
    model.assert_gone(60)


# The API server


def test_the_api_server_starts_anew(module, cluster):
    module.hub.fail("large", times=2, slow=2)
    model = module.apply({"url": models.url(models.add_repository(module))})
    module.runner.wait_running(model.uid)
    cluster.restart_api_server(signal.SIGKILL)
    model.wait(lambda: model.status.get("phase") == "Ready", 90)
    models.gone(model)


def test_watches_that_are_dropped_and_events_that_are_forgotten(module, cluster):
    proxy = module.controllers[0].proxy
    model = module.apply({"url": models.url(models.add_repository(module))})
    for last_words in (None, "410", None):
        proxy.cut_watches(last_words)
        time.sleep(0.1)
    model.wait_phase("Ready")
    proxy.cut_watches("410")
    models.gone(model)


def test_etcd_is_compacted_under_a_watch(module, cluster):
    """Watches go on; those that begin again where etcd has forgotten are told so, and all is listed anew."""
    module.hub.fail("large", times=2, slow=1)
    first, proxy = module.apply({"url": models.url(models.add_repository(module))}), module.controllers[0].proxy
    module.runner.wait_running(first.uid)
    cluster.compact()
    first.wait_phase("Ready")
    mark, wanted = proxy.mark(), {"list models", "list clustermodels"}
    module.new_namespace()  # so that no watch has heard of what was last, by a bookmark
    cluster.compact()
    cluster.restart_api_server(signal.SIGKILL)
    second = module.apply({"url": models.url(models.add_repository(module))})
    second.wait(lambda: wanted <= set(proxy.counted(mark, lambda request: request.verb == "list")))
    second.wait_phase("Ready")
    models.gone(first)
    models.gone(second)


def test_a_clock_that_jumps(module):
    """By a day and back; the lease, the pauses and the workers go on."""
    with module.clock() as jump:
        for hours in (24, -24):
            module.hub.fail("large", times=2, slow=0.7)
            model = module.apply({"url": models.url(models.add_repository(module))})
            module.runner.wait_running(model.uid)
            jump(hours * 3600)
            model.wait_phase("Ready", 90)
            jump(0)
            models.gone(model)


def test_a_second_controller_waits(module):
    second = module.start_controller("second")
    model = module.apply({"url": models.url(models.add_repository(module))})
    model.wait_phase("Ready")
    writes = second.proxy.counted(match=lambda request: request.is_write and request.resource != "leases")
    assert not writes, writes
    models.gone(model)


def test_a_hand_over_in_the_middle(module):
    second = module.start_controller("second")
    module.hub.fail("large", times=2, slow=1)
    model = module.apply({"url": models.url(models.add_repository(module))})
    module.runner.wait_running(model.uid)
    assert module.controllers[0].stop() == 0
    model.wait_phase("Ready", 90)
    assert second.is_running() and len(model.manifests()) == 1
    models.gone(model)
