"""The chart against a real API server: what it makes is taken as it is, stays over an upgrade, and goes."""

import base64
import json
import subprocess

import pytest

from harness import tools

from .charts import FULL, MINIMAL, SOURCE, VALUES, helm, merged, render

NAMESPACE = "d8-ai-models"


def pod_of(deployment):
    """A Pod as the Deployment would make it."""
    template = deployment["spec"]["template"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": deployment["metadata"]["name"], "namespace": NAMESPACE},
            "spec": template["spec"]}


@pytest.fixture
def namespace(cluster):
    yield cluster.namespace(NAMESPACE)
    helm(cluster.kubeconfig, "uninstall", "ai-models", "--namespace", NAMESPACE)


def secrets(cluster):
    listed = cluster.get("secrets", "-n", NAMESPACE, "-l", "module=ai-models")["items"]
    return {one["metadata"]["name"]: {key: base64.b64decode(value).decode() for key, value in one.get("data", {}).items()} for one in listed}


def deployments(cluster):
    return {one["metadata"]["name"]: one for one in cluster.get("deployments", "-n", NAMESPACE)["items"]}


def annotations(cluster):
    return {name: one["spec"]["template"]["metadata"]["annotations"] for name, one in deployments(cluster).items()}


@pytest.mark.parametrize("name", VALUES)
def test_objects_are_accepted_under_strict_rules(cluster, namespace, name):
    objects = [one for one in render(merged(VALUES[name]), cluster.kubeconfig, "--dry-run=server", "--validate") if one["kind"] != "Namespace"]
    strict = ("--dry-run=server", "--validate=strict")
    done = cluster.apply(*objects, options=strict)
    assert not done.stderr, done.stderr.decode()  # no warning either: of fields, of Pod security
    accounts = [one for one in objects if one["kind"] == "ServiceAccount"]
    cluster.apply(*accounts)
    pods = [pod_of(one) for one in objects if one["kind"] == "Deployment"]
    assert {pod["spec"]["serviceAccountName"] for pod in pods} == {one["metadata"]["name"] for one in accounts} - {
        "ai-models-publication-worker", "ai-models-metrics"}  # the workers' Pods are the controller's; Prometheus is another's
    cluster.apply(*pods, options=strict)
    cluster.kubectl("delete", "serviceaccounts", "-n", NAMESPACE, *(one["metadata"]["name"] for one in accounts))


def test_an_upgrade_changes_nothing_and_an_uninstallation_leaves_nothing(cluster, namespace):
    before = cluster.everything()
    cluster.install(merged(FULL))
    first = cluster.everything()
    assert len(first) > len(before) + 20
    cluster.install(merged(FULL))
    second = cluster.everything()
    changed = {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)}
    assert {name for _, _, name in changed} <= {"sh.helm.release.v1.ai-models.v1", "sh.helm.release.v1.ai-models.v2"}
    assert helm(cluster.kubeconfig, "uninstall", "ai-models", "--namespace", NAMESPACE).returncode == 0
    assert cluster.everything().keys() == before.keys()


def test_passwords_and_certificates_are_good(cluster, namespace, tmp_path):
    cluster.install(MINIMAL)
    found = secrets(cluster)
    for kind, user in (("write", "ai-models"), ("read", "ai-models-reader")):
        login = found[f"ai-models-dmcr-auth-{kind}"]
        assert (login["username"], len(login["password"])) == (user, 40)
        (tmp_path / "htpasswd").write_text(found["ai-models-dmcr-auth"]["htpasswd"])
        subprocess.run([tools.need("htpasswd"), "-vb", tmp_path / "htpasswd", user, login["password"]], check=True, capture_output=True)
        auths = json.loads(login[".dockerconfigjson"])["auths"]
        assert auths["dmcr.d8-ai-models.svc.cluster.local"]["password"] == login["password"]
    for secret, service in (("ai-models-dmcr-tls", "dmcr"), ("ai-models-controller-webhook-tls", "ai-models-controller")):
        for key in ("tls.crt", "ca.crt"):
            (tmp_path / key).write_text(found[secret][key])
        for name in (service, f"{service}.d8-ai-models", f"{service}.d8-ai-models.svc", f"{service}.d8-ai-models.svc.cluster.local", "localhost"):
            subprocess.run([tools.need("openssl"), "verify", "-CAfile", tmp_path / "ca.crt", "-verify_hostname", name, tmp_path / "tls.crt"],
                           check=True, capture_output=True)
    assert found["ai-models-dmcr-ca"]["ca.crt"] == found["ai-models-ca"]["tls.crt"] == found["ai-models-dmcr-tls"]["ca.crt"]


def test_what_is_gone_is_made_anew_and_the_rest_stays(cluster, namespace):
    cluster.install(MINIMAL)
    first, rolled = secrets(cluster), annotations(cluster)
    cluster.kubectl("delete", "secret", "-n", NAMESPACE, "ai-models-dmcr-auth")
    cluster.install(MINIMAL)
    second = secrets(cluster)
    assert second["ai-models-dmcr-auth"] != first["ai-models-dmcr-auth"]
    assert second["ai-models-dmcr-auth-write"]["password"] == second["ai-models-dmcr-auth"]["write.password"]
    assert second["ai-models-ca"] == first["ai-models-ca"] and second["ai-models-dmcr-tls"] == first["ai-models-dmcr-tls"]
    assert annotations(cluster)["dmcr"] != rolled["dmcr"]
    # Another authority signs anew; other keys of the bucket roll who uses them.
    before = annotations(cluster)
    cluster.kubectl("delete", "secret", "-n", NAMESPACE, "ai-models-ca")
    cluster.source(NAMESPACE, secretKey=" rotated\n")
    cluster.install(MINIMAL)
    third = secrets(cluster)
    assert third["ai-models-dmcr-tls"]["ca.crt"] == third["ai-models-ca"]["tls.crt"] != first["ai-models-ca"]["tls.crt"]
    assert third["ai-models-dmcr-tls"]["tls.crt"] != first["ai-models-dmcr-tls"]["tls.crt"]
    assert third["ai-models-dmcr-auth"] == second["ai-models-dmcr-auth"] and third["ai-models-artifacts"]["secretKey"] == "rotated"
    assert {name for name, one in annotations(cluster).items() if one != before[name]} == before.keys()


def test_the_bucket_s_keys_of_the_platform_come_first(cluster, namespace):
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "d8-system"}})
    cluster.source("d8-system", accessKey="platform", **{"ca.crt": "THEIRS"})
    try:
        cluster.install(MINIMAL)
        found = secrets(cluster)
        assert found["ai-models-artifacts"]["accessKey"] == "platform" and found["ai-models-artifacts-ca"]["ca.crt"] == "THEIRS"
        made = cluster.get("secret", "-n", NAMESPACE, "ai-models-artifacts")["metadata"]["annotations"]
        assert made["ai.deckhouse.io/source-secret-namespace"] == "d8-system" and made["ai.deckhouse.io/source-secret-name"] == SOURCE
    finally:
        cluster.kubectl("delete", "secret", "-n", "d8-system", SOURCE, "company-ca")


def refused(cluster, values):
    done = helm(cluster.kubeconfig, "template", tools.ROOT, "--namespace", NAMESPACE, "--dry-run=server", values=values)
    assert done.returncode != 0
    return done.stderr.decode()


def test_wrong_secrets_are_told_in_a_sentence(cluster, namespace):
    artifacts = {"credentialsSecretName": "nowhere"}
    assert 'there is no Secret "nowhere", which aiModels.artifacts.credentialsSecretName names, in d8-system or d8-ai-models' in refused(
        cluster, merged({"aiModels": {"artifacts": artifacts}}))
    assert "the module makes a Secret of this name itself" in refused(
        cluster, merged({"aiModels": {"artifacts": {"credentialsSecretName": "ai-models-artifacts"}}}))
    cluster.source(NAMESPACE, secretKey="  ")
    assert "the Secret d8-ai-models/company-s3 has no secretKey" in refused(cluster, MINIMAL)
    cluster.source(NAMESPACE)
    assert "the Secret d8-ai-models/company-s3 has no ca.crt" in refused(cluster, merged({"aiModels": {"artifacts": {"caSecretName": SOURCE}}}))
