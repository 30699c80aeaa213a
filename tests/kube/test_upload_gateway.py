"""The upload gateway against a real API server and a real bucket: every answer of its protocol, and uploads that break."""

import base64
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request
import uuid

import pytest
import yaml

from harness import api_proxy, buckets, kube_api, tools, uploads

GGUF = b"GGUF" + bytes(range(252))
ZIP = b"PK\x03\x04" + bytes(100)
TAR = bytes(257) + b"ustar\x0000" + bytes(200)
MIB = 1 << 20


@pytest.fixture(scope="module")
def weed(tmp_path_factory):
    with buckets.SeaweedFS(tmp_path_factory.mktemp("weed") / "w") as weed:
        yield weed


@pytest.fixture(scope="module")
def api(cluster):
    api = kube_api.Api(cluster)
    api.must("POST", kube_api.path_of("Namespace"), {"kind": "Namespace", "metadata": {"name": uploads.NAMESPACE}})
    return api


@pytest.fixture(scope="module")
def bucket(weed):
    return weed.bucket("uploads")


LOGS = []


@pytest.fixture(scope="module")
def start(cluster, bucket, tmp_path_factory):
    """Starts a gateway; all logs are looked through for secrets at the end."""
    folder, running = tmp_path_factory.mktemp("gateways"), []

    def start(*options, store=None, env=None):
        log = folder / f"{len(running)}.log"
        LOGS.append(log)
        running.append(uploads.gateway(cluster, store or bucket.store("raw"), log, *options,
                                       env={**bucket.environment(), **(env or {})}))
        return running[-1]

    yield start
    for server in running:
        if server.process.poll() is None:
            assert server.stop() == 0


@pytest.fixture(scope="module")
def gateway(start):
    """Without a limit."""
    return start("--log-level", "debug")


@pytest.fixture(scope="module")
def limited(start):
    return start("--accounting", uploads.ACCOUNTING, "--capacity-limit", "1Mi", "--log-level", "debug")


@pytest.fixture
def session(api):
    return uploads.Session(api)


TOKENS = []


@pytest.fixture(autouse=True)
def remember_tokens(monkeypatch):
    made = uploads.Session.__init__

    def init(self, *arguments, **options):
        made(self, *arguments, **options)
        TOKENS.append(self.token)

    monkeypatch.setattr(uploads.Session, "__init__", init)


def call(gateway, session, action="", body=None, method=None, headers=None, path=None):
    """Status, headers, text."""
    sent = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
    method = method or ("POST" if action else "GET")
    status, answer, text = gateway.request(method, path or session.path + (f"/{action}" if action else ""), sent,
                                           session.headers if headers is None else headers)
    return status, answer, text.decode()


def probe_body(name="model.gguf", head=GGUF, size=None):
    return {"fileName": name, "chunk": base64.b64encode(head).decode(), **({} if size is None else {"sizeBytes": size})}


def staged(session):
    """File name and size, once the handle was found to lead there."""
    handle = json.loads(session.data()["stagedHandle"])
    assert set(handle) == {"key", "fileName", "sizeBytes"}
    assert re.fullmatch(rf"{session.uid}/([0-9a-f-]{{36}}/)?{re.escape(handle['fileName'])}", handle["key"]), handle
    return handle["fileName"], handle["sizeBytes"]


def content(bucket, session):
    return bucket.content("raw/" + json.loads(session.data()["stagedHandle"])["key"])


def objects(bucket, session):
    """Name -> size of what there is of it."""
    return {key.rpartition("/")[2]: size for key, size in bucket.objects(f"raw/{session.uid}/").items()}


def begin_parts(gateway, session, name="model.gguf", size=None):
    assert call(gateway, session, "probe", probe_body(name, size=size))[0] == 200
    status, _, text = call(gateway, session, "init", {"fileName": name})
    assert status == 201, text
    return json.loads(text)


def send_part(gateway, session, number, content):
    """By the link of the answer; returns the part as `complete` takes it."""
    status, _, text = call(gateway, session, "parts", {"partNumbers": [number]})
    assert status == 200, text
    request = urllib.request.Request(json.loads(text)["parts"][0]["url"], data=content, method="PUT")
    request.add_header("Content-Type", "")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return {"partNumber": number, "etag": answer.headers["ETag"]}


# One request


def test_curl(gateway, session, bucket, tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(GGUF * 100)
    status, text = uploads.curl("-T", file, "-H", f"Authorization: Bearer {session.token}", f"{gateway.url}{session.path}?filename=model.gguf")
    assert (status, text) == (201, "upload staged\n")
    assert objects(bucket, session) == {"model.gguf": 25600} and staged(session) == ("model.gguf", 25600)
    data = session.data()
    assert data["phase"] == "uploaded" and "holder" not in data and data["uploadedSizeBytes"] == "25600"
    status, headers, text = call(gateway, session)
    assert status == 200 and json.loads(text)["phase"] == "uploaded"
    for name, value in {"Cache-Control": "no-store", "Pragma": "no-cache", "Referrer-Policy": "no-referrer",
                        "X-Content-Type-Options": "nosniff"}.items():
        assert headers[name] == value


@pytest.mark.parametrize("query, headers, body, name", [
    ("?filename=a.gguf", {"X-Upload-Filename": "b.gguf"}, GGUF, "a.gguf"),
    ("?filename=.hidden", {"X-Upload-Filename": "b.gguf"}, GGUF, "b.gguf"),
    ("", {"Content-Disposition": 'attachment; filename="c d.gguf"'}, GGUF, "c d.gguf"),
    ("?filename=..%2F..%2Fetc%2Fpasswd.gguf", {}, GGUF, "passwd.gguf"),
    ("?filename=%5Cserver%5Cshare%5Cm.zip", {}, ZIP, "m.zip"),
    ("?filename=%D0%BC%D0%BE%D0%B4%D0%B5%D0%BB%D1%8C%20%26%20%2B%23.gguf", {}, GGUF, "модель & +#.gguf"),
    ("?filename=a%0Ab.gguf", {}, GGUF, "m.gguf"), ("", {}, GGUF, "m.gguf"), ("", {}, ZIP, "m.zip"), ("", {}, TAR, "m.tar"),
    ("", {}, b"\x1f\x8b" + bytes(9), "m.tar.gz"), ("", {}, b"\x28\xb5\x2f\xfd" + bytes(9), "m.tar.zst"),
])
def test_names(gateway, session, bucket, query, headers, body, name):
    status, _, text = call(gateway, session, method="PUT", body=body, path=session.path + query, headers={**session.headers, **headers})
    assert status == 201, text
    assert objects(bucket, session) == {name: len(body)} and staged(session) == (name, len(body))
    assert content(bucket, session) == body


@pytest.mark.parametrize("name, body, words", [
    ("a.safetensors", bytes(100), "config.json"), ("a.bin", bytes(100), ".gguf"), ("a.gguf", ZIP, "does not begin as a GGUF file"),
    ("a.zip", GGUF, "a zip archive"), ("a.exe", b"MZ", ".gguf"), ("a.gguf", b"", "empty"),
])
def test_refused_content(gateway, session, bucket, name, body, words):
    status, _, text = call(gateway, session, method="PUT", body=body, path=f"{session.path}?filename={name}")
    assert status == 400 and words in text
    assert not objects(bucket, session) and session.data()["phase"] == "issued"
    assert call(gateway, session, method="PUT", body=GGUF)[0] == 201  # it can be mended


# Answers to calls that do not fit


def test_addresses(gateway, session):
    for method, path, status in [
            ("GET", "/v1/upload", 404), ("GET", "/v1/upload/", 404), ("GET", "/other", 404), ("GET", session.path + "/", 404),
            ("GET", session.path + "/probe", 404), ("GET", session.path + "/nothing", 404), ("PUT", session.path + "/probe", 404),
            ("POST", session.path, 404), ("POST", session.path + "/nothing", 404), ("POST", session.path + "/a/b", 404),
            ("DELETE", session.path, 405), ("PATCH", session.path, 405), ("DELETE", session.path + "/abort", 405)]:
        answer = call(gateway, session, method=method, path=path, body=b"x" if method == "PUT" else None)
        assert answer[0] == status, (method, path, answer)
        if path.startswith("/v1/upload/ai"):
            assert answer[1]["Cache-Control"] == "no-store" and answer[1]["X-Content-Type-Options"] == "nosniff"
        assert answer[1]["Content-Type"].startswith("text/plain")
    assert call(gateway, session, method="HEAD")[0] == 200
    assert gateway.request("GET", "/healthz")[::2] == (200, b"ok\n")
    assert gateway.request("GET", "/readyz")[0] == 200


@pytest.mark.parametrize("id", ["ai-model-upload-auth-nobody", "ai-models-artifacts", "kube-root-ca.crt", "ai-model-upload-auth-", "x",
                                "ai-model-upload-auth-A", "ai-model-upload-auth-a%2Fb", "ai-model-upload-auth-" + "a" * 300])
def test_unknown_session(gateway, session, id):
    """404 comes before 401."""
    for headers in ({}, session.headers):
        assert call(gateway, session, path=f"/v1/upload/{id}", headers=headers)[0] == 404
        assert call(gateway, session, path=f"/v1/upload/{id}/probe", method="POST", body=b"{", headers=headers)[0] == 404


@pytest.mark.parametrize("make", [
    lambda token: {}, lambda token: {"Authorization": token}, lambda token: {"Authorization": f"Basic {token}"},
    lambda token: {"Authorization": "Bearer "}, lambda token: {"Authorization": f"Bearer {token[:-1]}"},
    lambda token: {"Authorization": f"Bearer {token}0"}, lambda token: {"Authorization": "Bearer " + "x" * 5000},
    lambda token: {"Authorization": f"Bearer {token.upper()}"}, lambda token: {"X-Upload-Token": token},
    lambda token: {"Authorization": f"Bearer {hashlib.sha256(token.encode()).hexdigest()}"},
])
def test_bad_tokens(gateway, api, make):
    """401 comes before 410, and before anything is said about the call."""
    session, late = uploads.Session(api), uploads.Session(api, lasts=-10)
    for one in (session, late):
        headers = make(one.token)
        assert call(gateway, one, headers=headers)[0] == 401 or headers.get("Authorization", "").upper() == f"BEARER {one.token.upper()}" \
            and headers["Authorization"].endswith(one.token)
        status, answer, text = call(gateway, one, "nothing", headers=headers)
        assert status == 401 and answer["WWW-Authenticate"].startswith("Bearer") and one.token not in text
        assert call(gateway, one, method="PUT", body=GGUF, headers=headers)[0] == 401
    assert late.data()["phase"] == "issued"
    good = {"Authorization": f"bearer  {session.token}"}
    assert call(gateway, session, headers=good)[0] == 200


def test_expired(limited, api, bucket):
    """410 comes before 404 for the action; the first call ends the session, its parts and its reservation."""
    uploads.write_ledger(api)
    session = uploads.Session(api)
    begun = begin_parts(limited, session, size=1000)
    assert uploads.reservations(api) == {session.id: 1000}
    session.change({"upload-expires-at": uploads.rfc3339(-1)})
    for action in ("nothing", "", "parts"):
        assert call(limited, session, action, {"partNumbers": [1]} if action else None)[0] == 410
    assert call(limited, session, method="PUT", body=GGUF)[0] == 410
    data = session.data()
    assert data["phase"] == "expired" and data["failureMessage"] and "multipartUploadID" not in data
    assert uploads.reservations(api) == {}
    listed = bucket.server.client().list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])
    assert begun["uploadID"] not in [one["UploadId"] for one in listed]


PHASES = {  # which calls each phase allows: put, probe, init, parts, complete, abort
    "issued": {"put", "probe", "abort"}, "probing": {"put", "probe", "init", "abort"}, "uploading": {"init", "parts", "complete", "abort"},
    **{phase: set() for phase in ("uploaded", "publishing", "completed", "failed", "aborted")}}


@pytest.mark.parametrize("phase", PHASES)
def test_phases(gateway, api, phase):
    for name in ("put", "probe", "init", "parts", "complete", "abort"):
        session = uploads.Session(api)
        begun = begin_parts(gateway, session) if phase == "uploading" else None
        if phase == "probing":
            assert call(gateway, session, "probe", probe_body())[0] == 200
        elif phase not in ("issued", "uploading"):
            session.change(phase=phase, stagedHandle='{"key":"k","fileName":"f","sizeBytes":1}')
        before = session.data()
        body = {"probe": probe_body(), "init": {"fileName": "model.gguf"}, "parts": {"partNumbers": [1]},
                "complete": {"parts": [{"partNumber": 1, "etag": "x"}]}}.get(name)
        status, _, text = call(gateway, session, method="PUT", body=GGUF) if name == "put" else call(gateway, session, name, body, "POST")
        if name in PHASES[phase]:
            # what is not there yet cannot be completed
            assert status == {"put": 201, "probe": 200, "init": 200 if begun else 201, "parts": 200, "complete": 400, "abort": 204}[name], text
        else:
            assert status == 409, (name, status, text)
            assert session.data() == before


@pytest.mark.parametrize("action, body", [
    ("probe", b"{"), ("probe", b""), ("probe", b"[]"), ("probe", b"null"), ("probe", {**probe_body(), "more": 1}),
    ("probe", json.dumps(probe_body()).encode() + b"{}"), ("probe", b'{"fileName":"a.gguf",' + json.dumps(probe_body()).encode()[1:]),
    ("probe", {**probe_body(), "sizeBytes": -1}), ("probe", {**probe_body(), "sizeBytes": "1"}), ("probe", {**probe_body(), "sizeBytes": 1.5}),
    ("probe", {**probe_body(), "sizeBytes": 5 * 2**40 + 1}), ("probe", {**probe_body(), "sizeBytes": 1e30}), ("probe", {"chunk": "R0dVRg=="}),
    ("probe", {**probe_body(), "sizeBytes": 10}),
    ("probe", {"fileName": "a.gguf"}), ("probe", {"fileName": "a.gguf", "chunk": ""}), ("probe", {"fileName": "a.gguf", "chunk": "R0dVRg"}),
    ("probe", {"fileName": "a.gguf", "chunk": "R0dVRg==\n"}), ("probe", {"fileName": "../..", "chunk": "R0dVRg=="}),
    ("probe", probe_body(head=b"GGUF" + bytes(64 * 1024))), ("probe", probe_body("a.safetensors")), ("probe", probe_body("a.zip")),
    ("init", {}), ("init", {"fileName": ""}), ("init", {"fileName": 1}), ("init", {"fileName": "model.gguf", "x": 1}),
    ("abort", {"x": 1}), ("abort", b"x"),
])
def test_bad_bodies(gateway, session, action, body):
    if action == "init":
        assert call(gateway, session, "probe", probe_body())[0] == 200
    before = session.data()
    status, headers, text = call(gateway, session, action, body, "POST")
    assert status == 400 and text.endswith("\n") and headers["Content-Type"].startswith("text/plain"), text
    assert session.data() == before


@pytest.mark.parametrize("action, body", [
    ("parts", {}), ("parts", {"partNumbers": []}), ("parts", {"partNumbers": [0]}), ("parts", {"partNumbers": [10001]}), ("parts", {"partNumbers": [-1]}),
    ("parts", {"partNumbers": [1, 1]}), ("parts", {"partNumbers": [1.5]}), ("parts", {"partNumbers": ["1"]}), ("parts", {"partNumbers": 1}),
    ("parts", {"partNumbers": list(range(1, 10002))}), ("complete", {"parts": []}), ("complete", {"parts": [1]}),
    ("complete", {"parts": [{"partNumber": 1}]}), ("complete", {"parts": [{"partNumber": 1, "etag": ""}]}),
    ("complete", {"parts": [{"partNumber": 1, "etag": "x", "sizeBytes": 1}]}), ("complete", {"parts": [{"partNumber": 1, "etag": "x" * 1000}]}),
    ("complete", {"parts": [{"partNumber": 2, "etag": "x"}, {"partNumber": 1, "etag": "x"}]}),
])
def test_bad_lists(gateway, multipart, action, body):
    before = multipart.data()
    status, _, text = call(gateway, multipart, action, body)
    assert status == 400, text
    assert multipart.data() == before


@pytest.fixture(scope="module")
def multipart(gateway, api):
    session = uploads.Session(api)
    begin_parts(gateway, session)
    return session


def test_body_too_large(gateway, session):
    assert call(gateway, session, "probe", b" " * (MIB + 1))[0] == 413
    # an answer of that many links is fine
    begin_parts(gateway, session)
    status, _, text = call(gateway, session, "parts", {"partNumbers": list(range(1, 10001))})
    assert status == 200 and len(json.loads(text)["parts"]) == 10000


def test_init(gateway, session):
    assert call(gateway, session, "init", {"fileName": "model.gguf"})[0] == 409  # before a probe
    first = begin_parts(gateway, session)
    assert first["fileName"] == "model.gguf" and first["key"] == f"{session.uid}/model.gguf"
    status, _, text = call(gateway, session, "init", {"fileName": "model.gguf"})
    assert status == 200 and json.loads(text) == first
    assert call(gateway, session, "init", {"fileName": "other.gguf"})[0] == 409


# Sizes and capacity


def test_expected_size(gateway, api, bucket):
    session = uploads.Session(api, expectedSizeBytes=len(GGUF))
    assert call(gateway, session, method="PUT", body=GGUF + b"x")[0] == 409
    assert call(gateway, session, "probe", probe_body(size=len(GGUF) + 1))[0] == 409
    assert session.data()["phase"] == "issued"
    # one whose length is not told is found out when it is there
    status, _, text = call(gateway, session, method="PUT", body=iter([GGUF, b"more"]))
    assert status == 400 and "260 bytes" in text
    data = session.data()
    assert data["phase"] == "failed" and "256 were expected" in data["failureMessage"] and "stagedHandle" not in data
    assert not objects(bucket, session)
    good = uploads.Session(api, expectedSizeBytes=len(GGUF))
    assert call(gateway, good, method="PUT", body=iter([GGUF[:5], GGUF[5:]]))[0] == 201


def test_too_large_for_one_request(gateway, session):
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=10) as connection:
        connection.sendall(f"PUT {session.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {session.token}\r\n"
                           f"Content-Length: {400 << 30}\r\nExpect: 100-continue\r\n\r\n".encode())
        answer = connection.recv(10000).decode()
    assert answer.startswith("HTTP/1.1 413 ") and "in parts" in answer


def test_capacity(limited, api, bucket):
    uploads.write_ledger(api, published={"old": ("old", MIB - 1000)})
    session = uploads.Session(api)
    status, _, text = call(limited, session, method="PUT", body=iter([GGUF]))
    assert status == 411 and "Content-Length" in text
    assert call(limited, session, method="PUT", body=b"")[0] == 411
    assert call(limited, session, "probe", probe_body())[0] == 400
    assert call(limited, session, "probe", probe_body(size=0))[0] == 400
    for action in ("put", "probe"):
        status, _, text = call(limited, session, "probe", probe_body(size=1001)) if action == "probe" else \
            call(limited, session, method="PUT", body=GGUF + bytes(1001 - len(GGUF)))
        assert status == 507
        assert text == f"artifact storage capacity exceeded: requested=1001 available=1000 used={MIB - 1000} reserved=0 limit={MIB}\n"
        assert session.data()["phase"] == "issued" and not objects(bucket, session) and uploads.reservations(api) == {}
    assert call(limited, session, "probe", probe_body(size=1000))[0] == 200
    assert uploads.reservations(api) == {session.id: 1000}
    other = uploads.Session(api)
    assert call(limited, other, method="PUT", body=GGUF)[0] == 507
    assert call(limited, session, "abort", method="POST")[0] == 204
    assert uploads.reservations(api) == {}
    assert call(limited, other, method="PUT", body=GGUF)[0] == 201
    assert uploads.reservations(api) == {other.id: 256}  # the publication takes its place


@pytest.mark.parametrize("books", ["missing", "unconfirmed"])
def test_unknown_usage(limited, api, books):
    uploads.remove_ledger(api) if books == "missing" else uploads.write_ledger(api, confirmed=False)
    session = uploads.Session(api)
    for answer in (call(limited, session, method="PUT", body=GGUF), call(limited, session, "probe", probe_body(size=256))):
        assert answer[0] == 503 and 1 <= int(answer[1]["Retry-After"]) <= 60, answer
    assert session.data()["phase"] == "issued"


# Parts


def test_parts(gateway, session, bucket):
    first, second = GGUF + os.urandom(5 * MIB), os.urandom(1000)
    begin_parts(gateway, session, size=len(first) + len(second))
    parts = [send_part(gateway, session, 1, first)]
    info = json.loads(call(gateway, session)[2])
    assert info["mode"] == "direct-multipart-staging" and info["phase"] == "uploading" and info["partURLTTLSeconds"] == 900
    assert info["minimumPartSizeBytes"] == 5242880 and info["maximumMultipartPartCount"] == 10000
    assert info["probe"] == {"fileName": "model.gguf", "resolvedInputFormat": "GGUF"} and info["uploadedSizeBytes"] == len(first)
    assert info["multipart"]["uploadedParts"] == [{"partNumber": 1, "etag": parts[0]["etag"].strip('"'), "sizeBytes": len(first)}]
    status, _, text = call(gateway, session, "complete", {"parts": parts})
    assert status == 400 and f"{len(first)} bytes together" in text  # one is missing, and can still come
    parts.append(send_part(gateway, session, 2, second))
    for bad in ([{**parts[0], "etag": "0" * 32}, parts[1]], [parts[0], {"partNumber": 3, "etag": "x"}],
                [{"partNumber": 1, "etag": parts[1]["etag"]}, parts[1]]):
        assert call(gateway, session, "complete", {"parts": bad})[0] == 400
    assert not objects(bucket, session)
    status, _, text = call(gateway, session, "complete", {"parts": [{**part, "etag": part["etag"].strip('"')} for part in parts]})
    assert (status, text) == (201, "upload staged\n")
    assert staged(session) == ("model.gguf", len(first) + len(second)) and content(bucket, session) == first + second
    assert call(gateway, session, "complete", {"parts": parts})[0] == 409


def test_part_sent_again(gateway, session):
    begin_parts(gateway, session)
    parts = [send_part(gateway, session, 1, GGUF), send_part(gateway, session, 2, GGUF)]
    status, _, text = call(gateway, session, "complete", {"parts": parts})
    assert status == 400 and "part 1 has 256 bytes" in text
    time.sleep(1.1)  # the bucket's clock shows seconds
    parts = [send_part(gateway, session, 1, GGUF + bytes(5 * MIB)), parts[1]]  # sent again: SeaweedFS lists both
    info = json.loads(call(gateway, session)[2])
    assert [(part["partNumber"], part["sizeBytes"]) for part in info["multipart"]["uploadedParts"]] == [(1, 5 * MIB + 256), (2, 256)]
    assert info["uploadedSizeBytes"] == 5 * MIB + 512
    status, _, text = call(gateway, session, "complete", {"parts": parts})
    assert status == 201, text


def test_completed_without_a_word(gateway, session, bucket):
    """A replica that died between the bucket and the session: the next call finds the file."""
    begun = begin_parts(gateway, session)
    part = send_part(gateway, session, 1, GGUF)
    bucket.server.client().complete_multipart_upload(
        Bucket=bucket.name, Key=f"raw/{session.uid}/model.gguf", UploadId=begun["uploadID"],
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["etag"]}]})
    status, _, text = call(gateway, session, "complete", {"parts": [part]})
    assert (status, text) == (201, "upload staged\n") and staged(session)[1] == 256


def test_dropped_by_the_bucket(gateway, session, bucket):
    begun = begin_parts(gateway, session)
    bucket.server.client().abort_multipart_upload(Bucket=bucket.name, Key=f"raw/{session.uid}/model.gguf", UploadId=begun["uploadID"])
    session.change({"upload-expires-at": uploads.rfc3339(600)})  # what was told last is a while ago
    for action, body in (("parts", {"partNumbers": [1]}), ("complete", {"parts": [{"partNumber": 1, "etag": "x"}]})):
        status, _, text = call(gateway, session, action, body)
        assert status == 409 and "create it again" in text
    assert call(gateway, session)[0] == 200


def test_abort(gateway, session, bucket):
    begun = begin_parts(gateway, session)
    send_part(gateway, session, 1, GGUF)
    assert call(gateway, session, "abort", b"{}", "POST")[0] == 204
    assert session.data()["phase"] == "aborted" and not objects(bucket, session)
    listed = bucket.server.client().list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])
    assert begun["uploadID"] not in [one["UploadId"] for one in listed]
    assert call(gateway, session, "abort", method="POST")[0] == 409


def test_no_parts_without_a_bucket(start, session, tmp_path):
    with start(store=tmp_path / "store") as gateway:
        assert call(gateway, session, "probe", probe_body())[0] == 200
        status, _, text = call(gateway, session, "init", {"fileName": "model.gguf"})
        assert status == 501 and "bucket" in text
        assert call(gateway, session, method="PUT", body=GGUF)[0] == 201
        assert next((tmp_path / "store" / session.uid).glob("*/m.gguf")).read_bytes() == GGUF


def test_links_are_of_their_part(gateway, session):
    """A link lets its holder do no more than it says."""
    begin_parts(gateway, session)
    url = json.loads(call(gateway, session, "parts", {"partNumbers": [2]})[2])["parts"][0]["url"]
    assert "X-Amz-Expires=900&" in url
    for method, bad in (("PUT", url.replace("partNumber=2", "partNumber=3")), ("PUT", url.replace("Expires=900", "Expires=9000")),
                        ("GET", url), ("DELETE", url), ("PUT", re.sub(r"raw/\w+/", "raw/other/", url))):
        with pytest.raises(urllib.error.HTTPError) as failure:
            urllib.request.urlopen(urllib.request.Request(bad, data=b"x" if method == "PUT" else None, method=method), timeout=20)
        assert failure.value.code == 403


# What goes wrong on the way


class Sending:
    """A PUT whose body comes as the test wants."""

    def __init__(self, gateway, session, size, query=""):
        self.connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=30)
        self.connection.sendall(f"PUT {session.path}{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {session.token}\r\n"
                                f"Content-Length: {size}\r\n\r\n".encode())

    def send(self, content):
        self.connection.sendall(content)

    def answer(self):
        """Status and text."""
        response = http.client.HTTPResponse(self.connection)
        response.begin()
        return response.status, response.read().decode()

    def break_off(self):
        """As when a cable is cut."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.connection.close()


def unfinished(bucket, session):
    """Uploads in parts that the bucket still holds for it."""
    listed = bucket.server.client().list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])
    return [one["Key"] for one in listed if session.uid in one["Key"]]


def test_broken_off(limited, api, bucket):
    """The session is as before, nothing is set aside, nothing lies in the bucket; sent again it is taken."""
    uploads.write_ledger(api)
    session = uploads.Session(api)
    sending = Sending(limited, session, MIB)
    sending.send(GGUF + bytes(MIB // 2))
    data = session.wait(lambda data: "holder" in data)
    assert data["phase"] == "uploading" and data["probeFileName"] == "m.gguf"
    api.wait("it is set aside", lambda: uploads.reservations(api) == {session.id: MIB})
    assert not objects(bucket, session)
    sending.break_off()
    data = session.wait(lambda data: data["phase"] == "issued")
    assert not {"holder", "uploadedSizeBytes", "probeFileName"} & set(data)
    assert uploads.reservations(api) == {} and not objects(bucket, session) and not unfinished(bucket, session)
    assert call(limited, session, method="PUT", body=GGUF)[0] == 201


def test_sent_twice(gateway, session, bucket):
    first = Sending(gateway, session, 200 * 1024)
    first.send(GGUF + bytes(100 * 1024))
    session.wait(lambda data: "holder" in data)
    for action, body in (("", GGUF), ("probe", probe_body()), ("init", {"fileName": "m.gguf"}), ("parts", {"partNumbers": [1]})):
        status, headers, text = call(gateway, session, action, body, "POST" if action else "PUT")
        assert status == 409 and "another request" in text and 1 <= int(headers["Retry-After"]) <= 30
    first.send(bytes(100 * 1024 - len(GGUF)))
    assert first.answer() == (201, "upload staged\n")
    assert call(gateway, session, method="PUT", body=GGUF)[0] == 409
    assert objects(bucket, session) == {"m.gguf": 200 * 1024}


def test_two_at_once(gateway, limited, session, bucket):
    """Of requests to two replicas at one moment one is taken."""
    answers, bodies = [], [GGUF + bytes([n]) * 300_000 for n in range(6)]
    threads = [threading.Thread(target=lambda n=n: answers.append((call([gateway, limited][n % 2], session, method="PUT", body=bodies[n])[0], n)))
               for n in range(6)]
    uploads.write_ledger(session.api)
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    taken = [n for status, n in answers if status == 201]
    assert len(taken) == 1 and {status for status, _ in answers} <= {201, 409, 507}, answers
    assert content(bucket, session) == bodies[taken[0]]


def test_replica_killed(start, gateway, session, bucket):
    """Another replica takes the session over once the hold of the dead one is old; what that one left is not in the way."""
    doomed = start()
    sending = Sending(doomed, session, 40 * MIB)
    sending.send(GGUF + bytes(20 * MIB))
    session.wait(lambda data: "holder" in data)
    api_wait = session.api.wait
    api_wait("a part is in the bucket", lambda: unfinished(bucket, session))
    doomed.kill()
    status, headers, _ = call(gateway, session, method="PUT", body=GGUF)
    assert status == 409 and int(headers["Retry-After"]) <= 30
    session.change(holderRenewedAt=uploads.rfc3339(-31))  # half a minute later
    assert call(gateway, session, method="PUT", body=GGUF)[0] == 201
    assert content(bucket, session) == GGUF and len(objects(bucket, session)) == 1


def test_paused_replica_finds_its_session_taken(start, gateway, session, bucket):
    """It neither ends the upload of the other nor puts its own bytes in its place, wherever it was when it fell asleep."""
    paused = start()
    sending = Sending(paused, session, 300_000)
    sending.send(GGUF + bytes(200_000))
    session.wait(lambda data: "holder" in data)
    os.kill(paused.pid, signal.SIGSTOP)
    session.change(holderRenewedAt=uploads.rfc3339(-31))
    assert call(gateway, session, method="PUT", body=GGUF)[0] == 201
    os.kill(paused.pid, signal.SIGCONT)
    sending.send(bytes(100_000 - len(GGUF)))
    status, text = sending.answer()
    assert status == 409 and "taken over" in text
    assert content(bucket, session) == GGUF and session.data()["phase"] == "uploaded"


def test_aborted_under_way(gateway, session, bucket):
    sending = Sending(gateway, session, 300_000)
    sending.send(GGUF + bytes(200_000))
    session.wait(lambda data: "holder" in data)
    assert call(gateway, session, "abort", method="POST")[0] == 204
    with contextlib.suppress(OSError):
        sending.send(bytes(100_000 - len(GGUF)))
    status, text = sending.answer()
    assert status == 409 and "aborted" in text
    assert session.data()["phase"] == "aborted" and not objects(bucket, session)


def test_large_one_aborted_under_way(gateway, session, bucket):
    """Its parts are gone from the bucket before it hears of that."""
    sending = Sending(gateway, session, 60 * MIB)
    sending.send(GGUF + bytes(20 * MIB))
    session.api.wait("a part is in the bucket", lambda: unfinished(bucket, session))
    assert call(gateway, session, "abort", method="POST")[0] == 204
    assert not unfinished(bucket, session)
    with contextlib.suppress(OSError):
        sending.send(bytes(40 * MIB - len(GGUF)))
    status, text = sending.answer()
    assert status == 409 and "aborted" in text
    assert session.data()["phase"] == "aborted" and not objects(bucket, session) and not unfinished(bucket, session)


def test_crowd(start, api):
    """One more than may come at once is asked to come again, and has lost nothing."""
    gateway, first, second = start("--max-uploads", "1"), uploads.Session(api), uploads.Session(api)
    sending = Sending(gateway, first, 200_000)
    sending.send(GGUF + bytes(100_000))
    first.wait(lambda data: "holder" in data)
    status, headers, text = call(gateway, second, method="PUT", body=GGUF)
    assert status == 503 and int(headers["Retry-After"]) <= 10 and "at once" in text
    assert call(gateway, second)[0] == 200
    sending.send(bytes(100_000 - len(GGUF)))
    assert sending.answer()[0] == 201
    assert call(gateway, second, method="PUT", body=GGUF)[0] == 201


def test_model_deleted_under_way(gateway, session, bucket):
    sending = Sending(gateway, session, 300_000)
    sending.send(GGUF + bytes(200_000))
    session.wait(lambda data: "holder" in data)
    session.api.delete({"kind": "Secret", **session.secret()})
    sending.send(bytes(100_000 - len(GGUF)))
    assert sending.answer()[0] == 404


def test_slow_and_long(gateway, api, bucket):
    """One that began in time does not expire while it goes on, and tells how far it is."""
    session = uploads.Session(api, lasts=3)
    sending = Sending(gateway, session, 300_000)
    sending.send(GGUF + bytes(150_000))
    before = session.wait(lambda data: "holder" in data)
    data = session.wait(lambda data: int(data.get("uploadedSizeBytes", 0)) > 150_000)
    assert data["holderRenewedAt"] > before["holderRenewedAt"]
    expires = session.secret()["metadata"]["annotations"][uploads.PREFIX + "upload-expires-at"]
    assert uploads.rfc3339(1700) < expires <= uploads.rfc3339(1800)
    info = json.loads(call(gateway, session)[2])
    assert info["phase"] == "uploading" and info["uploadedSizeBytes"] == int(data["uploadedSizeBytes"])
    assert gateway.metric("d8_ai_models_upload_active") >= 1
    sending.send(bytes(150_000 - len(GGUF)))
    assert sending.answer()[0] == 201


def test_memory(start, api, bucket):
    """A file of 300 MB costs no more than a part of it; a bucket slower than the client holds the client up."""
    session, size = uploads.Session(api), 300_000_000
    with start() as gateway:
        idle = gateway.rss()
        block = os.urandom(MIB)
        sending = Sending(gateway, session, size)
        digest = hashlib.sha256()
        for at in range(0, size, MIB):
            piece = (GGUF + block if at == 0 else block)[:min(MIB, size - at)]
            digest.update(piece)
            sending.send(piece)
        assert sending.answer()[0] == 201
        peak = gateway.peak_rss() - idle
    assert peak < 60 * MIB, peak
    body, stored = bucket.server.client().get_object(Bucket=bucket.name, Key="raw/" + json.loads(session.data()["stagedHandle"])["key"])["Body"], hashlib.sha256()
    for piece in body.iter_chunks(MIB):
        stored.update(piece)
    assert stored.digest() == digest.digest() and staged(session)[1] == size


def test_stopped_gateway(start, session, bucket):
    """A replica that is told to stop lets a running upload end."""
    gateway = start()
    sending = Sending(gateway, session, 200_000)
    sending.send(GGUF + bytes(150_000))
    session.wait(lambda data: "holder" in data)
    gateway.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    with pytest.raises(OSError):
        gateway.request("GET", "/healthz")
    sending.send(bytes(50_000 - len(GGUF)))
    assert sending.answer()[0] == 201
    assert gateway.process.wait(30) == 0


def test_bucket_down(start, api, weed, bucket, session):
    """500 and a session that can be used again; the answer names nothing of the bucket."""
    with buckets.Proxy(weed) as proxy:
        gateway = start(store=bucket.store("raw", proxy.url))
        proxy.fault = lambda n, method, path: "500" if method in ("PUT", "POST") else None
        status, _, text = call(gateway, session, method="PUT", body=GGUF)
        assert status == 500 and "try again" in text and session.uid not in text and "object" not in text
        assert session.data()["phase"] == "issued" and not objects(bucket, session)
        proxy.fault = lambda n, method, path: "lose" if method == "PUT" and n % 2 else None
        assert call(gateway, session, method="PUT", body=GGUF)[0] == 201


@pytest.fixture(scope="module")
def api_proxy_(cluster, api):
    with api_proxy.ApiProxy(cluster) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def proxied(cluster, api, api_proxy_, start, tmp_path_factory):
    """A gateway whose API server can be made to fail, with the rights that the chart gives it and no others."""
    text = (tools.ROOT / "templates" / "upload-gateway" / "account.yaml").read_text()
    role = next(one for one in yaml.safe_load_all(re.sub(r"\{\{.*?\}\}", "x", text)) if one["kind"] == "Role")
    metadata = {"name": "gateway", "namespace": uploads.NAMESPACE}
    api.create({"kind": "ServiceAccount", "metadata": metadata})
    api.create({"kind": "Role", "metadata": metadata, "rules": role["rules"]})
    api.create({"kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"kind": "Role", "name": "gateway", "apiGroup": "rbac.authorization.k8s.io"},
                "subjects": [{"kind": "ServiceAccount", **metadata}]})
    path = tmp_path_factory.mktemp("kubeconfig") / "kubeconfig"
    path.write_text(kube_api.kubeconfig(cluster, api_proxy_.url, api.token(uploads.NAMESPACE, "gateway")))
    return start("--accounting", uploads.ACCOUNTING, "--capacity-limit", "1Gi", env={"KUBECONFIG": str(path)})


def settled(api, bucket, session, body, status):
    """What must hold of a PUT whatever went wrong: it is there whole, or nothing of it is and it can be sent again."""
    data = session.data()
    if status == 201 or data["phase"] == "uploaded":
        assert data["phase"] == "uploaded" and content(bucket, session) == body
        assert uploads.reservations(api)[session.id] == len(body)
        return True
    assert data["phase"] == "issued" and "holder" not in data, (status, data)
    assert session.id not in uploads.reservations(api)
    return False


@pytest.mark.parametrize("kind", ["500", "409", "cut", "lost", "done-504"])
def test_each_request_to_the_api_server_fails(proxied, api_proxy_, api, bucket, kind):
    uploads.write_ledger(api)
    statuses = []
    for n in range(1, 20):
        session = uploads.Session(api)
        fault = api_proxy_.fail(kind, n)
        status, _, text = call(proxied, session, method="PUT", body=GGUF)
        api_proxy_.heal()
        statuses.append(status)
        assert status in (201, 500), text
        if not settled(api, bucket, session, GGUF, status):
            assert call(proxied, session, method="PUT", body=GGUF)[0] == 201
        if not fault.n_hits:
            break
    assert status == 201 and len(statuses) >= 6, statuses
    assert statuses.count(500) <= 3, statuses


@pytest.mark.parametrize("kind", ["500", "lost"])
def test_each_request_of_parts_fails(proxied, api_proxy_, api, bucket, kind):
    """Each call is simply made again."""
    uploads.write_ledger(api)
    for n in range(1, 40):
        session, fault = uploads.Session(api), api_proxy_.fail(kind, n)

        def again(action, body, *good):
            for _ in range(2):
                status, _, text = call(proxied, session, action, body)
                if status in good:
                    return json.loads(text) if text.startswith("{") else text
            raise AssertionError((kind, n, action, status, text))

        again("probe", probe_body(size=256), 200)
        again("init", {"fileName": "model.gguf"}, 200, 201)
        url = again("parts", {"partNumbers": [1]}, 200)["parts"][0]["url"]
        with urllib.request.urlopen(urllib.request.Request(url, data=GGUF, method="PUT"), timeout=30) as answer:
            etag = answer.headers["ETag"]
        again("complete", {"parts": [{"partNumber": 1, "etag": etag}]}, 201)
        api_proxy_.heal()
        assert session.data()["phase"] == "uploaded" and content(bucket, session) == GGUF
        if not fault.n_hits:
            break
    assert n >= 8


@pytest.mark.parametrize("kind, more", [("503", 0), ("drop", 0), ("lose", 0), ("lose", 17 * MIB)])
def test_each_request_to_the_bucket_fails(start, api, weed, bucket, kind, more):
    """The store's own retries are the answer; 17 MiB go in parts. (An upload in parts whose beginning was lost stays until the session
    ends.)"""
    with buckets.Proxy(weed) as proxy:
        gateway, body = start(store=bucket.store("raw", proxy.url)), GGUF + bytes(more)
        for n in range(1, 20):
            session, first = uploads.Session(api), proxy.n_requests
            proxy.fault = lambda number, method, path: kind if number == first + n else None
            assert call(gateway, session, method="PUT", body=body)[0] == 201
            assert content(bucket, session) == body
            if proxy.n_requests < first + n:
                break
        assert n >= 3


def test_odd_sessions(gateway, api):
    """A Secret of that name that is no session is a fault of ours, not of the client's, and is told to nobody."""
    for change in ({"phase": "done"}, {"tokenHash": None}, {"multipartUploadID": "x"}, {"stagedHandle": "{"}):
        session = uploads.Session(api)
        session.change(**change)
        status, _, text = call(gateway, session)
        assert status == 500 and "try again" in text and "Secret" not in text


# The loop of the documents


def documented_loop(language):
    text = (tools.ROOT / "docs" / language / "upload.md").read_text()
    return re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1]


def test_the_loop_is_the_same_in_both_languages():
    assert documented_loop("en") == documented_loop("ru")
    assert len(documented_loop("en").splitlines()) <= 12


# `make soak-upload` sends more, in parts as they are documented.
LOOP_MIB, LOOP_PART_MIB = (int(os.environ.get(f"AI_MODELS_TESTS_{name}_MIB", usual)) for name, usual in (("UPLOAD", "49"), ("PART", "5")))


def loop_file(path):
    """A GGUF file of LOOP_MIB and a little more, with something of its own at each MiB and holes between."""
    with path.open("wb") as file:
        file.write(GGUF)
        for mib in range(LOOP_MIB):
            file.seek(mib * MIB + len(GGUF))
            file.write(os.urandom(64))
        file.truncate(LOOP_MIB * MIB + 17)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def test_documented_loop(gateway, api, weed, bucket, tmp_path, start):
    """Interrupted at nine tenths by a line that breaks, run again: only the rest is sent."""
    file, n_parts = tmp_path / "my-model.gguf", LOOP_MIB // LOOP_PART_MIB + 1
    sha256, broken = loop_file(file), n_parts * 9 // 10 + 1
    script = documented_loop("en")
    assert "part=$((64 << 20))" in script
    script = script.replace("part=$((64 << 20))", f"part=$(({LOOP_PART_MIB} << 20))").replace("--retry 9", "--retry 1 --retry-delay 0")
    session, sent = uploads.Session(api, expectedSizeBytes=file.stat().st_size), []
    with buckets.Proxy(weed) as proxy:
        through = start(store=bucket.store("raw", proxy.url))

        def fault(n, method, path):
            number = re.search(r"partNumber=(\d+)", path)
            if method == "PUT" and number:
                sent.append(int(number[1]))
                if len(sent) >= broken:
                    return "half"
            return None

        def run():
            return subprocess.run(["bash", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60 + LOOP_MIB,
                                  env={**os.environ, "FILE": str(file), "URL": through.url + session.path, "TOKEN": session.token})

        proxy.fault = fault
        done = run()
        assert done.returncode != 0 and sent == [*range(1, broken + 1), *[broken] * (len(sent) - broken)], (done.stderr, sent)
        info = json.loads(call(gateway, session)[2])
        assert info["uploadedSizeBytes"] == (broken - 1) * LOOP_PART_MIB * MIB and len(info["multipart"]["uploadedParts"]) == broken - 1
        session.change({"upload-expires-at": uploads.rfc3339(60)})  # it took a while
        proxy.fault, before = lambda n, method, path: sent.append(int(re.search(r"partNumber=(\d+)", path)[1])) if "partNumber=" in path else None, len(sent)
        done = run()
    assert done.returncode == 0 and done.stdout == "upload staged\n", done.stderr
    assert sent[before:] == [*range(broken, n_parts + 1)]
    assert int(session.data()["uploadedSizeBytes"]) == file.stat().st_size
    assert bucket.sha256("raw/" + json.loads(session.data()["stagedHandle"])["key"]) == sha256


# At the very end


def test_nothing_secret_in_logs(gateway, session):
    """Tokens, their hashes, links of their own permission, keys of the bucket: in no log of this module's gateways."""
    begin_parts(gateway, session)
    assert call(gateway, session, "complete", {"parts": [send_part(gateway, session, 1, GGUF)]})[0] == 201
    text = "".join(log.read_text() for log in LOGS)
    assert session.token in TOKENS and session.id in text
    for token in TOKENS:
        assert token not in text and hashlib.sha256(token.encode()).hexdigest() not in text
    assert buckets.SECRET not in text and "X-Amz-Signature" not in text and not re.search("Bearer [0-9a-f]{8}", text)
    lines = [json.loads(line) for line in text.splitlines()]
    staged_lines = [line for line in lines if line["msg"] == "upload staged"]
    assert staged_lines
    for line in staged_lines:
        assert {"kind": "Model", "namespace": "team", "name": "m"}.items() <= line.items(), line
