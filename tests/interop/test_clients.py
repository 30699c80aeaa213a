"""ORAS, skopeo and curl against our server, plain and with TLS and users; copies to and from distribution's registry."""

import hashlib
import json
import os
import subprocess

import pytest

from harness import clients, servers, tools


def write_sample(folder):
    """A few MiB that need chunks, and a small file."""
    folder.mkdir()
    (folder / "weights.bin").write_bytes(os.urandom(3_000_000) + bytes(2_000_000) + os.urandom(4_000_001))
    (folder / "note.txt").write_text("small\n")
    return folder


def manifest_digest(server, reference, headers=None):
    repository, _, tag = reference.rpartition(":")
    status, answer, body = server.request("GET", f"/v2/{repository}/manifests/{tag}", None,
                                          {"Accept": clients.MANIFEST_TYPE, **(headers or {})})
    assert status == 200
    assert answer["Docker-Content-Digest"] == f"sha256:{hashlib.sha256(body).hexdigest()}"
    return answer["Docker-Content-Digest"]


def test_oras_push_and_pull(tmp_path):
    sample = write_sample(tmp_path / "sample")
    with servers.ours(tmp_path / "store", log=tmp_path / "log") as server:
        server.wait_ready()
        oras = clients.Oras(tmp_path / "home")
        oras.push(f"{server.host}/team/sample:v1", sample / "weights.bin")
        oras.pull(f"{server.host}/team/sample:v1", tmp_path / "back")
        assert clients.sha256_of(tmp_path / "back" / "weights.bin") == clients.sha256_of(sample / "weights.bin")


def skopeo(*arguments):
    done = subprocess.run([tools.need("skopeo"), *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_skopeo_copies_both_ways(tmp_path):
    sample = write_sample(tmp_path / "sample")
    with servers.ours(tmp_path / "store", log=tmp_path / "log") as ours, \
            servers.distribution(tmp_path / "theirs", log=tmp_path / "their-log") as theirs:
        ours.wait_ready()
        theirs.wait_ready()
        clients.Oras(tmp_path / "home").push(f"{ours.host}/team/sample:v1", sample / "weights.bin")
        plain = ["--src-tls-verify=false", "--dest-tls-verify=false", "--insecure-policy"]
        layout = f"oci:{tmp_path / 'image'}:v1"
        # An image, since skopeo wants one: made by hand as a layout, then copied round.
        make_image(tmp_path / "image")
        skopeo("copy", "--insecure-policy", "--dest-tls-verify=false", layout, f"docker://{ours.host}/team/image:v1")
        skopeo("copy", *plain, f"docker://{ours.host}/team/image:v1", f"docker://{theirs.host}/team/image:v1")
        skopeo("copy", *plain, f"docker://{theirs.host}/team/image:v1", f"docker://{ours.host}/other/image:v2")
        digests = {manifest_digest(ours, "team/image:v1"), manifest_digest(theirs, "team/image:v1"),
                   manifest_digest(ours, "other/image:v2")}
        assert len(digests) == 1


def make_image(folder):
    """A one-layer OCI image layout."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def add(data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    layer_data = os.urandom(2_500_000)
    layer = add(layer_data, "application/vnd.oci.image.layer.v1.tar")
    config = add(json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}
                            ).encode(), "application/vnd.oci.image.config.v1+json")
    manifest = add(json.dumps({"schemaVersion": 2, "mediaType": clients.MANIFEST_TYPE, "config": config, "layers": [layer]}
                              ).encode(), clients.MANIFEST_TYPE)
    manifest["annotations"] = {"org.opencontainers.image.ref.name": "v1"}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')


def test_curl_pushes_and_reads_ranges(tmp_path):
    data = os.urandom(5_000_000)
    (tmp_path / "blob").write_bytes(data)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    with servers.ours(tmp_path / "store", log=tmp_path / "log") as server:
        server.wait_ready()

        def curl(*arguments):
            return subprocess.run([tools.need("curl"), "-sS", "--fail-with-body", *map(str, arguments)], capture_output=True, check=True)

        started = curl("-X", "POST", "-D", "-", f"{server.url}/v2/team/blob/blobs/uploads/").stdout.decode()
        location = next(line.split(": ", 1)[1] for line in started.splitlines() if line.lower().startswith("location"))
        curl("-T", tmp_path / "blob", f"{server.url}{location}?digest={digest}")
        for spec, expected in [("0-9", data[:10]), ("4999990-", data[-10:]), ("-7", data[-7:]), ("262143-524289", data[262143:524290])]:
            assert curl("-r", spec, f"{server.url}/v2/team/blob/blobs/{digest}").stdout == expected


@pytest.mark.parametrize("user, may_push", [("ai-models", True), ("ai-models-reader", False)])
def test_users_over_tls(tmp_path, user, may_push):
    sample = write_sample(tmp_path / "sample")
    certificate = servers.make_certificate(tmp_path, "127.0.0.1")
    users = tmp_path / "users"
    users.write_text("")
    for name in ("ai-models", "ai-models-reader"):
        subprocess.run([tools.need("htpasswd"), "-bB", users, name, f"secret of {name}"], check=True, capture_output=True)
    with servers.ours(tmp_path / "store", "--htpasswd", users, log=tmp_path / "log", tls=certificate) as server:
        server.wait_ready()
        options = ["--ca-file", str(certificate[0]), "--username", user, "--password", f"secret of {user}"]
        oras = clients.Oras(tmp_path / "home", plain_http=False, options=options)
        if may_push:
            oras.push(f"{server.host}/team/sample:v1", sample / "weights.bin")
            oras.pull(f"{server.host}/team/sample:v1", tmp_path / "back")
            assert clients.sha256_of(tmp_path / "back" / "weights.bin") == clients.sha256_of(sample / "weights.bin")
        else:
            with pytest.raises(clients.CommandFailed):
                oras.push(f"{server.host}/team/sample:v1", sample / "weights.bin")
        assert server.request("GET", "/v2/")[0] == 401
    assert f"secret of {user}" not in (tmp_path / "log").read_text()


def test_another_process_continues_an_upload(tmp_path):
    data = os.urandom(20_000_000)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    with servers.ours(tmp_path / "store", log=tmp_path / "log1") as first, \
            servers.ours(tmp_path / "store", log=tmp_path / "log2") as second:
        first.wait_ready()
        second.wait_ready()
        _, headers, _ = first.request("POST", "/v2/team/blob/blobs/uploads/", b"")
        location = headers["Location"]
        assert first.request("PATCH", location, data[:9_000_000], {"Content-Type": "application/octet-stream"})[0] == 202
        first.kill()
        status, headers, _ = second.request("GET", location)
        assert status == 204 and headers["X-Ai-Models-Upload-Offset"] == "9000000"
        assert second.request("PATCH", location, data[9_000_000:], {"Content-Range": f"9000000-{len(data) - 1}"})[0] == 202
        assert second.request("PUT", f"{location}?digest={digest}", b"")[0] == 201
        assert second.request("GET", f"/v2/team/blob/blobs/{digest}")[2] == data
