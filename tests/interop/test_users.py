"""Who may do what: a writer, a reader, a stranger; with htpasswd's file and with a plain one."""

import base64

import pytest
from conftest import READER, WRITER
from harness import clients, servers


def basic(user):
    return {"Authorization": "Basic " + base64.b64encode(":".join(user).encode()).decode()} if user else {}


@pytest.fixture(params=["htpasswd", "plain"])
def users(request, tmp_path, htpasswd):
    if request.param == "htpasswd":
        return ["--htpasswd", htpasswd, "--writer", WRITER[0]]
    path = tmp_path / "users"
    path.write_text("".join(f"{name}:{password}\n" for name, password in (WRITER, READER)))
    return ["--plain-users", path, "--writer", WRITER[0]]


def rights(server, user):
    """(may push, may pull, may delete) as statuses."""
    push = server.request("POST", "/v2/team/model/blobs/uploads/", headers=basic(user))[0]
    pull = server.request("GET", "/v2/team/model/manifests/v1", headers={"Accept": clients.MANIFEST_TYPE, **basic(user)})[0]
    return push, pull, server.request("DELETE", "/v2/team/model/manifests/v1", headers=basic(user))[0]


WRONG = (WRITER[0], READER[1])


@pytest.mark.parametrize(("anonymous_read", "user", "expected"), [
    (False, READER, (403, 200, 403)),
    (False, None, (401, 401, 401)),
    (False, WRONG, (401, 401, 401)),
    (True, READER, (403, 200, 403)),
    (True, None, (401, 200, 401)),
    (True, WRONG, (401, 401, 401)),
    (True, WRITER, (202, 200, 202)),
])
def test_rights(tmp_path, users, anonymous_read, user, expected):
    options = [*users, *(["--anonymous-read"] if anonymous_read else [])]
    with servers.ours(tmp_path / "store", *options, log=tmp_path / "log").wait_ready() as server:
        layer = clients.put_blob(server, "team/model", b"layer", basic(WRITER))
        clients.put_artifact(server, "team/model", "v1", [("application/octet-stream", layer, 5)], basic(WRITER))
        assert rights(server, user) == expected


def test_challenge(tmp_path, users):
    with servers.ours(tmp_path / "store", *users, log=tmp_path / "log").wait_ready() as server:
        status, headers, body = server.request("GET", "/v2/")
        assert status == 401 and headers["WWW-Authenticate"].startswith("Basic realm=") and b"UNAUTHORIZED" in body
        assert server.request("GET", "/v2/", headers=basic(READER))[0] == 200
        for path in ("/healthz", "/readyz"):
            assert server.request("GET", path)[0] == 200
