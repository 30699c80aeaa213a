"""The test cluster itself: pods run, gates hold them, Services are reached."""

import json
import subprocess
import time

from harness import cluster as clusters
from harness import tools

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waits", "labels": {"app": "waits"}},
       "spec": {"terminationGracePeriodSeconds": 1,
                "containers": [{"name": "waits", "image": clusters.PAUSE_IMAGE, "imagePullPolicy": "Never"}]}}


def create(cluster, thing):
    path = cluster.folder / "thing.json"
    path.write_text(json.dumps(thing))
    cluster.kubectl("create", "-f", path)


def of_pod(cluster, name, path):
    return cluster.kubectl("get", "pod", name, "-o", f"jsonpath={{{path}}}", check=False).stdout.decode()


def test_a_pod_runs_and_goes(cluster):
    cluster.wait_for("the service account", lambda: cluster.kubectl("get", "serviceaccount", "default", check=False).returncode == 0)
    create(cluster, POD)
    cluster.wait_for("the pod", lambda: of_pod(cluster, "waits", ".status.phase") == "Running")
    assert of_pod(cluster, "waits", ".status.podIP").startswith("10.244.0.")
    cluster.kubectl("delete", "pod", "waits", "--timeout=30s")


def test_a_gate_holds_a_pod(cluster):
    gated = {**POD, "metadata": {"name": "gated"}, "spec": {**POD["spec"], "schedulingGates": [{"name": "example.com/gate"}]}}
    create(cluster, gated)
    cluster.wait_for("the gate", lambda: of_pod(cluster, "gated", ".status.conditions[?(@.type=='PodScheduled')].reason") == "SchedulingGated")
    cluster.kubectl("patch", "pod", "gated", "--type=json", "-p", '[{"op": "remove", "path": "/spec/schedulingGates"}]')
    cluster.wait_for("the pod", lambda: of_pod(cluster, "gated", ".status.phase") == "Running")


def test_the_api_server_is_reached_as_pods_reach_it(cluster):
    """By its Service's address, which kube-proxy makes good."""
    end = time.monotonic() + 60
    command = [tools.need("curl"), "--silent", "--cacert", str(cluster.authority.certificate), "--max-time", "5", "https://10.96.0.1/version"]
    while (done := subprocess.run(command, stdout=subprocess.PIPE, text=True)).returncode != 0:
        assert time.monotonic() < end
        time.sleep(0.5)
    assert json.loads(done.stdout)["gitVersion"].startswith("v1.34.")
