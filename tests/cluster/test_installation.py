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
