"""Reading with a signed grant: one artifact of one repository, for a while, counted."""

import base64
import json
import re
import subprocess
import time

import pytest
from conftest import READER, WRITER
from harness import clients, servers, tools
from harness.grants import SALT, grant
from test_users import basic

def bearer(token):
    return {"Authorization": f"Bearer {token}"}


class Registry:
    def __init__(self, server, log):
        self.server, self.log = server, log
        self.files = {"big": b"x" * 3_000_000, "small": b"y" * 1000}
        self.layers = {name: clients.put_blob(server, "team/model", data, basic(WRITER)) for name, data in self.files.items()}
        layers = [("application/octet-stream", self.layers[name], len(data)) for name, data in self.files.items()]
        self.digest = clients.put_artifact(server, "team/model", "v1", layers, basic(WRITER))
        self.other_layer = clients.put_blob(server, "team/model", b"another model's", basic(WRITER))
        self.other = clients.put_artifact(server, "team/model", "v2", [("application/octet-stream", self.other_layer, 15)], basic(WRITER))

    def status(self, method, path, token, **headers):
        return self.server.request(method, f"/v2/{path}", headers={**bearer(token), **headers})[0]

    def metric(self, pattern):
        found = re.search(pattern + r" (\S+)", self.server.request("GET", "/metrics")[2].decode())
        return float(found[1]) if found else None


@pytest.fixture
def registry(tmp_path):
    (tmp_path / "users").write_text("".join(":".join(user) + "\n" for user in (WRITER, READER)))
    (tmp_path / "salt").write_text(SALT + "\n")
    log = tmp_path / "log"
    with servers.ours(tmp_path / "store", "--plain-users", tmp_path / "users", "--writer", WRITER[0], "--grant-salt-file", tmp_path / "salt",
                      log=log).wait_ready() as server:
        yield Registry(server, log)


def test_what_a_grant_opens(registry):
    token = grant(registry.digest)
    for method, path, expected in (
        ("GET", "", 200),
        ("GET", f"team/model/manifests/{registry.digest}", 200),
        ("HEAD", f"team/model/manifests/{registry.digest}", 200),
        ("GET", f"team/model/blobs/{registry.layers['big']}", 200),
        ("HEAD", f"team/model/blobs/{registry.layers['small']}", 200),
        ("GET", "team/model/manifests/v1", 403),  # a tag may name another one tomorrow
        ("GET", f"team/model/manifests/{registry.other}", 403),
        ("GET", f"team/model/blobs/{registry.other_layer}", 403),
        ("GET", f"team/model/blobs/{registry.digest}", 403),
        ("GET", f"team/other/manifests/{registry.digest}", 403),
        ("GET", "team/model/tags/list", 403),
        ("GET", f"team/model/referrers/{registry.digest}", 403),
        ("DELETE", f"team/model/manifests/{registry.digest}", 403),
        ("DELETE", f"team/model/blobs/{registry.layers['big']}", 403),
        ("POST", "team/model/blobs/uploads/", 403),
    ):
        assert registry.status(method, path, token) == expected, (method, path)
    assert registry.status("GET", f"team/model/blobs/{registry.layers['big']}", token, Range="bytes=5-9") == 206
    password = {"Authorization": "Basic " + base64.b64encode(f"grant:{token}".encode()).decode()}
    assert registry.server.request("GET", f"/v2/team/model/manifests/{registry.digest}", headers=password)[0] == 200


def test_what_is_no_grant(registry):
    now = int(time.time())
    path = f"team/model/manifests/{registry.digest}"
    good = grant(registry.digest)
    for token in (grant(registry.digest, salt="another"), grant(registry.digest, exp=now - 1), grant(registry.digest, iat=now + 600, exp=now + 900),
                  grant(registry.digest, v=2), good[:-1], good + "A", good.split(".")[0], "", "a.b"):
        assert registry.status("GET", path, token) == 401
    assert registry.status("GET", path, grant("sha256:" + "0" * 64)) == 403
    assert registry.status("GET", f"team/model/blobs/{registry.layers['big']}", grant("sha256:" + "0" * 64)) == 404
    assert registry.server.request("GET", f"/v2/{path}")[0] == 401


def test_without_a_salt_grants_are_nothing(tmp_path):
    (tmp_path / "users").write_text(":".join(WRITER) + "\n")
    with servers.ours(tmp_path / "store", "--plain-users", tmp_path / "users", log=tmp_path / "log").wait_ready() as server:
        assert server.request("GET", "/v2/", headers=bearer(grant("sha256:" + "0" * 64, salt="")))[0] == 401
    (tmp_path / "salt").write_text("\n")
    done = subprocess.run([tools.program(), "serve", "--store", tmp_path / "store", "--listen", "127.0.0.1:0", "--grant-salt-file", tmp_path / "salt"],
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 3 and "holds no salt" in done.stderr


def test_what_is_read_is_counted_and_told(registry):
    token = grant(registry.digest)
    registry.server.request("GET", f"/v2/team/model/blobs/{registry.layers['big']}", headers=bearer(token))
    registry.server.request("GET", f"/v2/team/model/blobs/{registry.layers['small']}", headers={**bearer(token), "Range": "bytes=0-99"})
    read = registry.metric(r'd8_ai_models_dmcr_grant_read_bytes\{purpose="shared-pvc",subject_namespace="apps",subject_name="job-1",digest="'
                           + registry.digest + r'"\}')
    assert read == 3_000_100
    assert registry.metric(r'd8_ai_models_dmcr_transfer_bytes_total\{purpose="shared-pvc"\}') == 3_000_100
    # By chunks it is the same bytes.
    status, _, _ = registry.server.request("GET", f"/v2/team/model/blobs/{registry.layers['big']}",
                                           headers={**bearer(token), "Accept": "application/vnd.ai-models.chunks"})
    assert status == 200
    assert registry.metric(r'd8_ai_models_dmcr_transfer_bytes_total\{purpose="shared-pvc"\}') == 6_000_100
    log = registry.log.read_text()
    assert re.search(r"blob_read.*grant-1.*job-1", log)
    assert token not in log and token.split(".")[1] not in log


def test_clients_pull_with_a_grant(registry, tmp_path):
    token = grant(registry.digest, purpose="import", subject={"user": "system:serviceaccount:d8:reader", "uid": "1", "groups": ["a"]})
    reference = f"{registry.server.host}/team/model@{registry.digest}"
    subprocess.run([tools.oras(), "manifest", "fetch", "--plain-http", "--username", "grant", "--password-stdin", reference], input=token, text=True,
                   check=True, stdout=subprocess.DEVNULL)
    blob = f"{registry.server.host}/team/model@{registry.layers['big']}"
    subprocess.run([tools.oras(), "blob", "fetch", "--plain-http", "--username", "grant", "--password-stdin", "--output", tmp_path / "big", blob],
                   input=token, text=True, check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "big").read_bytes() == registry.files["big"]


def read_under(registry, grant_id, user=READER):
    status, _, body = registry.server.request("GET", f"/_ai_models/grants/{grant_id}", headers=basic(user))
    return json.loads(body)["readBytes"] if status == 200 else status


def test_what_was_read_under_a_grant(registry):
    path = f"/v2/team/model/blobs/{registry.layers['big']}"
    first, renewed, other = grant(registry.digest, jti="one"), grant(registry.digest, jti="one", exp=int(time.time()) + 900), grant(registry.digest, jti="two")
    assert [read_under(registry, name) for name in ("one", "two", "never-seen")] == [0, 0, 0]
    registry.server.request("GET", path, headers={**bearer(first), "Range": "bytes=0-999999"})
    assert [read_under(registry, "one", user) for user in (READER, WRITER)] == [1_000_000] * 2
    # A renewed grant goes on with its id, whoever else reads; frames count by the bytes they stand for.
    registry.server.request("GET", path, headers={**bearer(renewed), "Accept": "application/vnd.ai-models.chunks"})
    registry.server.request("GET", path, headers={**bearer(other), "Range": "bytes=0-9"})
    assert [read_under(registry, name) for name in ("one", "two")] == [4_000_000, 10]


def test_who_may_ask_what_was_read(registry):
    path = "/_ai_models/grants/one"
    assert registry.server.request("GET", path, headers=bearer(grant(registry.digest, jti="one")))[0] == 403
    assert registry.server.request("GET", path)[0] == 401
    assert registry.server.request("GET", path, headers=basic((READER[0], "wrong")))[0] == 401
    assert registry.server.request("POST", path, headers=basic(WRITER), body=b"")[0] == 405
    assert registry.server.request("GET", "/_ai_models/grants/", headers=basic(READER))[0] == 404
    assert read_under(registry, "%2e%2e%2fv2") == 0
