"""The runner of Pods does for them what kubelet does: the tests of the controller lean on it."""

import base64

import pytest

from harness import kube_api, pod_runner


def script(loops=0, status=0):
    """Its message holds what it was given; the runner's folder is where it starts."""
    return f"""
trap 'printf stopped > termination-log; exit 3' TERM
printf '%s %s %s' "$(cat /etc/given/key)" "$FROM_SECRET" "$(cat /etc/all/namespace)" > termination-log
for n in $(seq {loops}); do sleep 0.02; done
exit {status}
"""


@pytest.fixture(scope="module")
def api(cluster):
    api = kube_api.Api(cluster)
    for kind, name, more in (("Namespace", "pods", {}), ("ServiceAccount", "default", {}),
                             ("Secret", "given", {"data": {"key": base64.b64encode(b"value").decode()}})):
        place = {} if kind == "Namespace" else {"namespace": "pods"}
        api.create({"kind": kind, "metadata": {"name": name, **place}, **more}, exist_ok=True)
    return api


@pytest.fixture
def runner(cluster, api, tmp_path):
    with pod_runner.PodRunner(cluster, "pods", tmp_path / "runner") as runner:
        yield runner
        assert runner.take_faults() == []


def make(api, name, script, **more):
    return api.create({"kind": "Pod", "metadata": {"name": name, "namespace": "pods"}, "spec": {
        "restartPolicy": "Never", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "c", "image": "x", "command": ["/bin/sh", "-c", script],
                        "env": [{"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "given", "key": "key"}}}],
                        "volumeMounts": [{"name": "given", "mountPath": "/etc/given"}, {"name": "all", "mountPath": "/etc/all"}]}],
        "volumes": [{"name": "given", "secret": {"secretName": "given"}},
                    {"name": "all", "projected": {"sources": [
                        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}]}}], **more}})


def ended(api, name, timeout=30):
    def look():
        pod = api.get("Pod", "pods", name)
        return pod if pod and pod["status"]["phase"] in ("Succeeded", "Failed") else None

    return api.wait("the Pod ends", look, timeout)["status"]


def clean(api, runner, name):
    api.delete({"kind": "Pod", "metadata": {"name": name, "namespace": "pods"}})
    api.wait("the Pod is gone", lambda: api.get("Pod", "pods", name) is None)


@pytest.mark.parametrize("status, phase", [(0, "Succeeded"), (5, "Failed")])
def test_a_pod_runs_to_its_end(api, runner, status, phase):
    make(api, "ends", script(status=status))
    told = ended(api, "ends")
    terminated = told["containerStatuses"][0]["state"]["terminated"]
    assert (told["phase"], terminated["exitCode"], terminated["message"]) == (phase, status, "value value pods")
    clean(api, runner, "ends")


def test_a_deleted_pod_is_asked_to_stop(api, runner):
    make(api, "waits", script(loops=1000))
    pod = runner.wait_running("waits")
    api.wait("the trap is set", lambda: pod.message_file.exists() and pod.message_file.read_text() == "value value pods")
    api.delete(pod.pod)
    api.wait("the Pod is gone", lambda: api.get("Pod", "pods", "waits") is None)
    assert not pod.is_running() and pod.process.returncode == 3


def test_a_deaf_pod_is_killed(api, runner):
    make(api, "deaf", "trap '' TERM; while :; do sleep 0.05; done", terminationGracePeriodSeconds=1)
    pod = runner.wait_running("deaf")
    clean(api, runner, "deaf")
    assert pod.process.returncode == -9


@pytest.mark.parametrize("how, reason", [("evict", "Evicted"), ("out_of_memory", "OOMKilled")])
def test_what_happens_to_containers(api, runner, how, reason):
    make(api, "victim", script(loops=1000))
    getattr(runner, how)(runner.wait_running("victim"))
    told = ended(api, "victim")
    found = told.get("reason") or told["containerStatuses"][0]["state"]["terminated"]["reason"]
    assert (told["phase"], found) == ("Failed", reason)
    clean(api, runner, "victim")


def test_a_lost_node_keeps_its_pod(api, runner):
    make(api, "lost", script(loops=1000))
    pod = runner.wait_running("lost")
    runner.lose_node(pod)
    there = api.get("Pod", "pods", "lost")
    assert there["metadata"]["deletionTimestamp"] and there["status"]["reason"] == "NodeLost"
    runner.forget_node(pod)
    api.wait("the Pod is gone", lambda: api.get("Pod", "pods", "lost") is None)


def test_a_missing_image_and_a_full_cluster_wait(api, runner):
    runner.missing_image = runner.is_full = True
    make(api, "waits", script())
    assert not api.get("Pod", "pods", "waits")["spec"].get("nodeName")
    runner.is_full = False

    def reason():
        told = api.get("Pod", "pods", "waits")["status"].get("containerStatuses") or [{"state": {"waiting": {}}}]
        return told[0]["state"].get("waiting", {}).get("reason")

    api.wait("it waits for its image", lambda: reason() == "ImagePullBackOff")
    runner.missing_image = False
    assert ended(api, "waits")["phase"] == "Succeeded"
    clean(api, runner, "waits")


def test_a_held_pod_is_left_alone(api, runner):
    make(api, "held", script(), schedulingGates=[{"name": "tests/gate"}])
    make(api, "free", script())
    ended(api, "free")
    held = api.get("Pod", "pods", "held")
    assert not held["spec"].get("nodeName") and [one["reason"] for one in held["status"]["conditions"]] == ["SchedulingGated"]
    api.patch({"kind": "Pod", "metadata": {"name": "held", "namespace": "pods"}}, {"spec": {"schedulingGates": None}})
    assert ended(api, "held")["phase"] == "Succeeded"
    clean(api, runner, "free")
    clean(api, runner, "held")


def test_a_claim_is_waited_for_and_mounted(api, runner, tmp_path):
    (tmp_path / "volume" / "sub").mkdir(parents=True)
    (tmp_path / "volume" / "sub" / "file").write_text("content")
    place = {"namespace": "pods", "name": "claim"}
    size = {"storage": "1Gi"}
    api.create({"kind": "PersistentVolume", "metadata": {"name": "volume"}, "spec": {
        "accessModes": ["ReadWriteMany"], "capacity": size, "hostPath": {"path": str(tmp_path / "volume")}, "storageClassName": "s"}})
    claim = api.create({"kind": "PersistentVolumeClaim", "metadata": place, "spec": {
        "accessModes": ["ReadWriteMany"], "resources": {"requests": size}, "volumeName": "volume", "storageClassName": "s"}})
    make(api, "mounts", "", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}], containers=[
        {"name": "reads", "image": "x", "command": ["/bin/sh", "-c", "cat /data/file > termination-log"],
         "volumeMounts": [{"name": "v", "mountPath": "/data", "subPath": "sub"}]}, {"name": "beside", "image": "x"}])
    make(api, "other", script())
    ended(api, "other")
    assert not api.get("Pod", "pods", "mounts")["spec"].get("nodeName")
    api.patch({"kind": "PersistentVolumeClaim", **claim}, {"status": {"phase": "Bound"}}, "status")
    told = ended(api, "mounts")
    assert told["containerStatuses"][0]["state"]["terminated"]["message"] == "content" and len(told["containerStatuses"]) == 2
    clean(api, runner, "mounts")
    clean(api, runner, "other")


def test_a_container_starts_anew_unless_its_pod_says_otherwise(api, runner):
    make(api, "again", "", restartPolicy="OnFailure", volumes=[], containers=[
        {"name": "c", "image": "x", "command": ["/bin/sh", "-c", "test -e ended && exec sleep 1000; touch ended; exit 3"]}])

    def restarts():
        status = api.get("Pod", "pods", "again")["status"]
        return status.get("phase") == "Running" and status["containerStatuses"][0]["restartCount"]

    api.wait("it starts anew", restarts)
    clean(api, runner, "again")
