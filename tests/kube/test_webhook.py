"""The admission webhook of workloads and the check of the storage, without anybody else of the module: a real API server calls the
webhook of a replica that does not lead."""

import concurrent.futures
import contextlib
import copy
import json
import signal
import time

import pytest

from harness import admission_stage, clients, delivery_plane, kube_api, tools
from harness.admission_stage import NAMESPACE, digest_of

KINDS = ("Deployment", "StatefulSet", "DaemonSet", "CronJob")
GATE = {"name": "ai.deckhouse.io/model-delivery"}
RESOLVED = "ai.deckhouse.io/resolved-"


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    with admission_stage.Stage(tmp_path_factory.mktemp("admission")) as stage:
        yield stage


@pytest.fixture(scope="module")
def minilm(stage):
    return stage.ready_model("minilm")


def template(thing):
    return delivery_plane.template_of(thing)


def serves(thing, *digests):
    """The template was given these, in this order, and has no gate."""
    given = json.loads(template(thing)["metadata"].get("annotations", {}).get(RESOLVED + "models", "[]"))
    return [one["digest"] for one in given] == list(digests) and not admission_stage.Stage.gate_of(thing)


def identity(thing):
    """What makes a new revision when it changes."""
    return thing["metadata"]["generation"], template(thing)


@pytest.mark.parametrize("kind", KINDS)
def test_held(stage, kind):
    """The gate is all that is added, after the author's own; a dry run shows it and stores nothing."""
    pod = {"schedulingGates": [{"name": "example.com/own"}], "nodeSelector": {"a/b": "d"}}
    plain = stage.manifest("held", kind)
    asking = stage.manifest("held", kind, models="nobody-has-it", pod={**delivery_plane.POD_ALONE, **pod, **({"restartPolicy": "OnFailure"} if kind == "CronJob" else {})})
    shown = stage.try_out(asking)
    assert stage.api.get(kind, NAMESPACE, "held") is None
    stored = {"kind": kind, **stage.api.create(asking)}
    assert template(shown) == template(stored)
    assert template(stored)["spec"]["schedulingGates"] == [*pod["schedulingGates"], GATE]
    without = copy.deepcopy(asking)
    del without["metadata"]["annotations"]
    without["metadata"]["name"] = "not-held"
    free = template({"kind": kind, **stage.api.create(without)})
    free["spec"]["schedulingGates"].append(GATE)
    assert free == template(stored)
    assert not stage.gate_of(stage.try_out({**plain, "metadata": {**plain["metadata"], "name": "plain"}}))
    # Who takes the gate out gets it again; a change of other things leaves it where it is.
    patch = {"spec": {"schedulingGates": None}}
    for key in reversed(delivery_plane.template_path(kind)):
        patch = {key: patch}
    assert template({"kind": kind, **stage.api.patch(stored, patch)})["spec"]["schedulingGates"] == [GATE]
    stage.api.delete(stored)
    assert stage.api.get(kind, NAMESPACE, "held") is None


@pytest.mark.parametrize("models, cluster_models, words", [
    ("Bad_Name", "", '"Bad_Name"'), ("a,,b", "", "ai.deckhouse.io/model"), ("a,b/c", "", '"b/c"'), ("x=y", "", '"x=y"'),
    ("a,b,a", "", '"a"'), ("same", "same", '"same"'), ("", "up,UP", '"UP"')])
def test_refused(stage, models, cluster_models, words):
    """Words that are no references are refused, by name, also where the workload is there already."""
    annotations = {key: value for key, value in (("ai.deckhouse.io/model", models), ("ai.deckhouse.io/clustermodel", cluster_models)) if value}
    thing = stage.manifest("refused")
    thing["metadata"]["annotations"] = annotations
    status, answer = stage.ask(thing)
    assert status == 422 and words in answer["message"] and "workloaddelivery.ai-models.deckhouse.io" in answer["message"], answer
    assert words in stage.kubectl("apply", "-f", "-", input=thing)[1]
    there = stage.api.create(stage.manifest("refused"), exist_ok=True)
    with pytest.raises(kube_api.ApiError, match="denied the request"):
        stage.api.patch({"kind": "Deployment", **there}, {"metadata": {"annotations": annotations}})
    assert "ai.deckhouse.io/model" not in stage.now("refused")["metadata"].get("annotations", {})


def test_blank(stage):
    """An annotation that says nothing asks for nothing."""
    thing = stage.manifest("blank")
    thing["metadata"]["annotations"] = {"ai.deckhouse.io/model": "  "}
    assert not stage.gate_of(stage.try_out(thing))


@pytest.mark.parametrize("kind", KINDS)
def test_delivered_at_once(stage, minilm, kind):
    """All is there: the workload is stored with its models, and not held."""
    thing = stage.try_out(stage.manifest("at-once", kind, models="minilm"))
    pod = template(thing)["spec"]
    assert serves(thing, minilm)
    assert pod["volumes"] == [{"name": "ai-models-shared-minilm", "persistentVolumeClaim": {
        "claimName": admission_stage.claim_name(NAMESPACE, "minilm", minilm), "readOnly": True}}]
    assert pod["containers"][0]["volumeMounts"] == [
        {"name": "ai-models-shared-minilm", "mountPath": "/data/modelcache/models/minilm", "readOnly": True, "subPath": "model"}]
    assert [one["name"] for one in pod["containers"][0]["env"]] == ["AI_MODELS_MODELS_DIR", "AI_MODELS_MODELS"]
    assert template(thing)["metadata"]["annotations"][RESOLVED + "signature"].startswith("hmac-sha256:")


@pytest.mark.parametrize("model, claim", [
    ({"phase": "Publishing"}, {}), ({"phase": "Failed"}, {}), ({}, None), ({}, {"is_whole": False}), ({}, {"is_held": False}), ({}, {"phase": "Pending"})])
def test_not_yet(stage, minilm, request, model, claim):
    """One of two models is not Ready, or its volume is not there, not whole, or nobody's."""
    name = f"not-yet-{request.node.callspec.indices['model']}-{request.node.callspec.indices['claim']}"
    digest = stage.model(name, **model)
    if claim is not None:
        stage.claim(name, digest, **claim)
    after = stage.ready_model(name + "-after")  # what came before this is known, too
    assert serves(stage.try_out(stage.manifest("not-yet", models=f"minilm,{name}-after")), minilm, after)
    assert stage.gate_of(stage.try_out(stage.manifest("not-yet", models=f"minilm,{name}")))


def test_mounts_in_the_way(stage, minilm):
    """Not delivered into: held, and the reconciler says why."""
    pod = copy.deepcopy(delivery_plane.POD_ALONE)
    pod["volumes"] = [{"name": "mine", "emptyDir": {}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "mine", "mountPath": "/data/modelcache"}]
    thing = stage.try_out(stage.manifest("in-the-way", models="minilm", pod=pod))
    assert stage.gate_of(thing) and template(thing)["spec"]["volumes"] == pod["volumes"]


@pytest.mark.parametrize("is_ready", [True, False], ids=["ready", "away"])
def test_applied_again(stage, is_ready):
    """Ten times by each of those that apply manifests which know nothing of the delivery: no new revision, whether the model is
    there or away for a while. A changed image makes one, and keeps the models."""
    def kubectl(thing):
        assert stage.kubectl("apply", "-f", "-", input=thing)[0] == 0

    name = "again-ready" if is_ready else "again-away"
    digest = stage.ready_model(name)
    manifest = stage.manifest(name, models=name)
    kubectl(manifest)
    before = stage.now(name)
    assert serves(before, digest)
    if not is_ready:
        stage.model(name, phase="Publishing")
        stage.api.wait("the webhook knows", lambda: stage.gate_of(stage.try_out(stage.manifest("other", models=name))), 20)
    for how in (*map(stage.apply_as, ("argocd-controller", "kustomize-controller")), stage.replace, kubectl):
        how(manifest)  # an annotation of kubectl's own comes or goes, which counts as a generation of a Deployment
        generation = stage.now(name)["metadata"]["generation"]
        for _ in range(2 if how is kubectl else 10):
            how(manifest)
        assert identity(stage.now(name)) == (generation, template(before))
    assert stage.kubectl("diff", "-f", "-", input=manifest) == (0, "")
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "user:2"
    stage.replace(manifest)
    after = stage.now(name)
    wanted = template(before)
    wanted["spec"]["containers"][0]["image"] = "user:2"
    assert identity(after) == (generation + 1, wanted)


def test_references_change(stage, minilm):
    """Another order is another set: with other models first, or held while they are not there."""
    second = stage.ready_model("second", kind="ClusterModel")
    third = stage.ready_model("third")
    thing = {"kind": "Deployment", **stage.api.create(stage.manifest("change", models="minilm,third", cluster_models="second"))}
    assert serves(thing, minilm, third, second)
    for models, digests in (("third,minilm", (third, minilm, second)), ("third", (third, second)), ("third,minilm", (third, minilm, second))):
        thing = {"kind": "Deployment", **stage.api.patch(thing, {"metadata": {"annotations": {"ai.deckhouse.io/model": models}}})}
        assert serves(thing, *digests)
    thing = {"kind": "Deployment", **stage.api.patch(thing, {"metadata": {"annotations": {"ai.deckhouse.io/model": "third,nobody-has-it"}}})}
    assert stage.gate_of(thing) and not [key for key in template(thing)["metadata"].get("annotations", {}) if key.startswith(RESOLVED)]
    assert not template(thing)["spec"].get("volumes")


def test_forged(stage, minilm):
    """A template that claims to have been given what nobody gave is held; what it says is gone, its own annotations are not."""
    honest = stage.try_out(stage.manifest("honest", models="minilm"))
    for what, forge in {
            "another digest": lambda pod: {key: value.replace(minilm, digest_of("forged")) for key, value in pod["metadata"]["annotations"].items()},
            "nonsense": lambda pod: {**pod["metadata"]["annotations"], RESOLVED + "models": "[{}]"},
            "only the mode": lambda pod: {RESOLVED + "delivery-mode": "SharedPVC"}}.items():
        pod = copy.deepcopy(template(honest))
        pod["metadata"]["annotations"] = {"mine": "x", **forge(pod)}
        forged = stage.manifest("forged", models="nobody-has-it")
        forged["spec"]["template"] = {**pod, "metadata": {**pod["metadata"], "labels": forged["spec"]["template"]["metadata"]["labels"]}}
        thing = stage.try_out(forged)
        assert stage.gate_of(thing), what
        assert template(thing)["metadata"]["annotations"] == {"mine": "x"} and not template(thing)["spec"].get("volumes"), what
    # The claim of another model under the name of the right volume: what is resolved now counts.
    swapped = stage.manifest("honest", models="minilm")
    swapped["spec"]["template"] = copy.deepcopy(template(honest))
    swapped["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = "ai-models-cache-0000000000000000"
    assert template(stage.try_out(swapped)) == template(honest)


def test_own_account(stage):
    """The controller's own writes pass as they are: it may know more than the replica that is asked."""
    account = stage.as_controller()
    stage.api.create(stage.manifest("owned", models="nobody-has-it"))
    asked = ["patch", "deployment", "owned", "-n", NAMESPACE, "--type=json", "-p", '[{"op": "remove", "path": "/spec/template/spec/schedulingGates"}]']
    assert stage.kubectl(*asked)[0] == 0 and stage.gate_of(stage.now("owned"))
    assert stage.kubectl(*asked, account)[0] == 0 and not stage.gate_of(stage.now("owned"))


@pytest.mark.parametrize("user, namespace, is_patched", [("admin", NAMESPACE, True), (f"system:serviceaccount:{admission_stage.MODULE}:{admission_stage.ACCOUNT}", NAMESPACE, False),
                                                         ("admin", admission_stage.MODULE, False)])
def test_review(stage, user, namespace, is_patched):
    """What the API server need not ask, because the configuration says so, has the same answer."""
    status, answer = stage.post(stage.review(stage.manifest("by-hand", models="nobody-has-it"), user, namespace))
    response = json.loads(answer)["response"]
    assert status == 200 and response["allowed"] and response["uid"] == "u" and ("patch" in response) is is_patched


def test_going(stage):
    """Who takes the last finalizer away from a workload that goes is not kept waiting, nor is what it asks for looked at."""
    thing = {"kind": "Deployment", **stage.api.create({**(asking := stage.manifest("going", models="nobody-has-it")), "metadata": {
        **asking["metadata"], "finalizers": ["example.com/mine"]}})}
    stage.api.delete(thing)
    before = stage.counted("held") + stage.counted("allowed")
    stage.api.patch(thing, {"metadata": {"finalizers": None}})
    assert stage.api.get("Deployment", NAMESPACE, "going") is None and stage.counted("held") + stage.counted("allowed") == before


def test_going_replaced(stage):
    """The same by a manifest that does not say that it goes, whose references are wrong, and have been since the webhook was away."""
    thing = stage.manifest("going-replaced")
    thing["metadata"]["finalizers"] = ["example.com/mine"]
    stage.api.create(thing)
    account = stage.as_controller()
    assert stage.kubectl("annotate", "deployment", "going-replaced", "-n", NAMESPACE, "ai.deckhouse.io/model=Bad_Name", account)[0] == 0
    stage.api.delete(thing)
    stored = stage.now("going-replaced")
    assert stored["metadata"]["deletionTimestamp"]
    bare = stage.manifest("going-replaced", models="Bad_Name")
    response = json.loads(stage.post(stage.review(bare, before=stored))[1])["response"]
    assert response["allowed"] and "patch" not in response
    before = stage.counted("denied") + stage.counted("allowed")
    stage.replace({**bare, "metadata": {**bare["metadata"], "finalizers": []}})
    assert stage.api.get("Deployment", NAMESPACE, "going-replaced") is None and stage.counted("denied") + stage.counted("allowed") == before


def test_module_namespace(stage):
    """Is left alone."""
    thing = stage.manifest("own", models="nobody-has-it")
    thing["metadata"]["namespace"] = admission_stage.MODULE
    assert not stage.gate_of(stage.try_out(thing))


def test_burst(stage, minilm):
    """Many at once: none is refused, each has its models or the gate, and the answers take little of the API server's time."""
    refused = []

    def create(i):
        status, answer = stage.ask(stage.manifest(f"burst-{i}", KINDS[i % 4], models="minilm" if i % 3 else "nobody-has-it"))
        if status != 201 or (serves({"kind": KINDS[i % 4], **answer}, minilm) if i % 3 else stage.gate_of({"kind": KINDS[i % 4], **answer})) is not True:
            refused.append(answer)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(200)))
    assert refused == []


def test_certificate_changes(stage):
    """While the API server has connections open, which go on; new ones see the new certificate."""
    before, authority = stage.controller.process.pid, stage.issue("webhook-2")
    stage.set_bundle(authority)
    end = time.monotonic() + 20
    while not stage.serves_new_certificate():
        assert stage.gate_of(stage.try_out(stage.manifest("rotated", models="nobody-has-it")))
        assert time.monotonic() < end, "the certificate was not taken over"
    stage.authority = authority
    stage.set_bundle()  # the API server connects anew
    end = time.monotonic() + 1
    while time.monotonic() < end:
        assert stage.gate_of(stage.try_out(stage.manifest("rotated", models="nobody-has-it")))
    assert stage.post(b"{}")[0] == 400
    assert stage.controller.process.pid == before and stage.controller.process.poll() is None


@pytest.mark.parametrize("body, status", [(b"", 400), (b"{}", 400), (b"[" * 100, 400), (b" " * (9 << 20), 413),
                                          (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u"}}', 400)])
def test_who_sends_anything_else(stage, body, status):
    told, answer = stage.post(body)
    assert told == status and json.loads(answer)["errors"][0]["message"], answer


REVIEW_BYTES, PEAK_BYTES = 8 << 20, 200 << 20
MANY = {"zeros": (b"0,", "more than 250000 values"), "texts": (b'"",', "more than 250000 values"), "lists": (b"[],", "more than 250000 values"),
        "one text": (b"a", None)}


@pytest.mark.parametrize("what", MANY)
def test_large_reviews(stage, what):
    """As large as may be sent, eight at once from as many addresses: of many values, which take many times their text, none is looked at; of few, each is or
    is told to come again. In no case is there much memory for them, and who asks afterwards is served."""
    item, words = MANY[what]
    thing = stage.manifest("large", models="nobody-has-it")
    thing["spec"]["template"]["spec"]["containers"][0]["args"] = ["HERE"]
    head, tail = stage.review(thing).split(b'"HERE"')
    head, tail = (head, b"0" + tail) if words else (head + b'"', b'"' + tail)
    body = head + item * ((REVIEW_BYTES - len(head) - len(tail)) // len(item)) + tail
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: stage.post(body, f"127.0.0.{2 + i}"), range(8)))
    for status, answer in answers:
        assert (status == 400 and words in answer) if words else status in (200, 503), (status, answer[:300])
    assert words or any(status == 200 for status, _ in answers)
    assert stage.gate_of(stage.try_out(stage.manifest("after", models="nobody-has-it")))
    peak, is_sanitized = clients.peak_rss_of(stage.controller.process), b"__asan_init" in tools.program().read_bytes()
    assert is_sanitized or 0 < peak < PEAK_BYTES  # the sanitizer keeps freed memory


def test_large_workload(stage):
    """What is refused so cannot be stored, if it asks for models; the author sees whose word it was."""
    thing = stage.manifest("large", models="nobody-has-it")
    thing["spec"]["template"]["spec"]["containers"][0]["args"] = [""] * 300000
    status, answer = stage.ask(thing, dry_run=True)
    assert status == 500 and "workloaddelivery.ai-models.deckhouse.io" in answer["message"] and "rejected our request" in answer["message"], answer


def answer_to(connection):
    """The first line of it to what stage.begin began; "" when it is cut."""
    try:
        return connection.recv(12).decode()
    except OSError:
        return ""


def test_reviews_that_do_not_come(stage):
    """Connections which declare the most and send nothing, or all but the end, keep nobody out: what counts is what came, one address
    has a quarter of the room, and a review of usual size needs none of it."""
    large = stage.manifest("large", models="nobody-has-it")
    large["spec"]["template"]["spec"]["containers"][0]["args"] = ["a" * (1 << 20)]
    large = stage.review(large)
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(stage.begin(REVIEW_BYTES))
        assert stage.gate_of(stage.try_out(stage.manifest("meanwhile", models="nobody-has-it"))) and stage.post(large)[0] == 200
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(3))
        held = [stack.enter_context(stage.begin(REVIEW_BYTES, b" " * (REVIEW_BYTES - 70000))) for _ in range(3)]
        told = pool.map(answer_to, held)
        for _ in range(5):
            assert stage.gate_of(stage.try_out(stage.manifest("meanwhile", models="nobody-has-it")))
        assert stage.post(large, "127.0.0.2")[0] == 200
        assert sorted(told) == ["", "", "HTTP/1.1 503"]
    stage.api.wait("there is room again", lambda: stage.post(large)[0] == 200, 10)


def test_storage_readiness(stage):
    """One series and a line for each change, whoever leads; /readyz does not mind."""
    def told():
        return [line.removeprefix("d8_ai_models_storage_prerequisites_satisfied") for line in stage.metrics() if line.startswith("d8_ai_models_storage_pre")]

    def wait(reason, value):
        stage.api.wait(lambda: f"{reason}: {told()}", lambda: told() == [f'{{delivery_type="SharedPVC",reason="{reason}"}} {value}'], 20)
        assert stage.controller.is_ready()

    def storage_class(name, mode="Immediate", is_default="true"):
        return {"kind": "StorageClass", **stage.api.create({"kind": "StorageClass", "metadata": {"name": name, "annotations": {
            "storageclass.kubernetes.io/is-default-class": is_default}}, "provisioner": "example.com/p", "volumeBindingMode": mode})}

    wait("StorageClassMissing", 0)
    one = storage_class("one")
    wait("Satisfied", 1)
    two = storage_class("two", "WaitForFirstConsumer")
    wait("StorageClassAmbiguous", 0)
    stage.api.delete(one)
    wait("StorageClassDefersBinding", 0)
    stage.api.delete(two)
    wait("StorageClassMissing", 0)
    lines = [line for line in stage.controller.log.read_text().splitlines() if "storage-readiness" in line]
    reasons = ["StorageClassMissing", "Satisfied", "StorageClassAmbiguous", "StorageClassDefersBinding", "StorageClassMissing"]
    assert len(lines) == len(reasons) and all(reason in line for reason, line in zip(reasons, lines)), lines


def test_goes_on_for_a_while(stage):
    """A replica that is told to end answers until nobody asks it any more."""
    stage.controller.process.send_signal(signal.SIGTERM)
    end = time.monotonic() + 1  # long before it is over
    while time.monotonic() < end:
        assert stage.gate_of(stage.try_out(stage.manifest("late", models="nobody-has-it")))
        assert not stage.gate_of(stage.try_out(stage.manifest("late", models="minilm")))
        assert not stage.controller.is_ready()
    assert stage.controller.process.wait(20) == 0
    stage.controller.start()


def test_webhook_down(stage):
    """The last: only who asks for models is refused, and everybody else, and what is no change of it, goes on."""
    stage.api.create(stage.manifest("left", models="nobody-has-it"))
    stage.controller.stop(signal.SIGKILL)
    thing = stage.now("left")
    status, answer = stage.ask(stage.manifest("down", models="minilm"))
    assert status == 500 and "workloaddelivery.ai-models.deckhouse.io" in answer["message"], answer
    assert stage.ask(stage.manifest("down"))[0] == 201
    with pytest.raises(kube_api.ApiError, match="failed calling webhook"):
        stage.api.patch(thing, {"metadata": {"labels": {"a": "b"}}})
    stage.api.patch(thing, {"spec": {"replicas": 3}}, "scale")
    stage.api.patch(thing, {"status": {"replicas": 3}}, "status")
    stage.api.delete(thing)
    assert stage.api.get("Deployment", NAMESPACE, "left") is None
    stage.controller.start()
    assert stage.gate_of(stage.try_out(stage.manifest("up", models="minilm"))) is False
