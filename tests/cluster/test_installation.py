"""The chart in a cluster: what is installed runs, lets in whom it should, and goes without a trace."""

import base64
import subprocess

from harness import tools


def secret(installed, name):
    return {key: base64.b64decode(value).decode() for key, value in installed.get("secret", name, installed.namespace)["data"].items()}


def ask_registry(installed, path, user, folder):
    host = f"dmcr.{installed.namespace}.svc.cluster.local"
    (folder / "ca.crt").write_text(secret(installed, "ai-models-dmcr-ca")["ca.crt"])
    return subprocess.run([tools.need("curl"), "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--cacert", folder / "ca.crt",
                           "--resolve", f"{host}:443:{installed.service_address('dmcr')}", "--user", user, f"https://{host}{path}"],
                          capture_output=True, text=True, timeout=30).stdout


def test_the_registry_knows_its_users(installed, tmp_path):
    for kind in ("write", "read"):
        login = secret(installed, f"ai-models-dmcr-auth-{kind}")
        assert ask_registry(installed, "/v2/", f"{login['username']}:{login['password']}", tmp_path) == "200"
    assert ask_registry(installed, "/v2/", "ai-models:wrong", tmp_path) == "401"


def test_the_registry_keeps_what_it_has_in_the_bucket(installed):
    assert any(key.startswith("dmcr/") for key in installed.outside.bucket.objects())


def test_metrics_for_whom_the_role_is_bound_to(installed, tmp_path):
    (tmp_path / "ca.crt").write_text(secret(installed, "ai-models-dmcr-ca")["ca.crt"])

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
