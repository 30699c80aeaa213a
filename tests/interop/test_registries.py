"""Artifacts travel between our registry and distribution's, both ways, and keep their digests."""

import json

import pytest
from harness import clients, tools


def copy(source, target, name, *, home, more=()):
    clients.run([tools.need("skopeo"), "copy", "--preserve-digests", *more, *source.skopeo("src"), *target.skopeo("dest"),
                 f"docker://{source.server.host}/{name}", f"docker://{target.server.host}/{name}"], home=home)


def raw(dress, name, *, home):
    return clients.run([tools.need("skopeo"), "inspect", "--raw", *dress.skopeo(""), f"docker://{dress.server.host}/{name}"],
                       home=home).stdout.encode()


def put_image(server, data, tag):
    """An image of one layer, as skopeo wants it; returns its manifest's digest and size."""
    layer = clients.put_blob(server, "team/image", data)
    config_data = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Labels": {"tag": tag}},
                              "rootfs": {"type": "layers", "diff_ids": [layer]}}).encode()
    config = clients.put_blob(server, "team/image", config_data)
    body = json.dumps({
        "schemaVersion": 2, "mediaType": clients.MANIFEST_TYPE,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config, "size": len(config_data)},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": layer, "size": len(data)}],
    }).encode()
    status, _, answer = server.request("PUT", f"/v2/team/image/manifests/{tag}", body, {"Content-Type": clients.MANIFEST_TYPE})
    assert status == 201, answer
    return clients.digest_of(body), len(body)


def test_there_and_back(ours, distribution, tmp_path, weights):
    """skopeo, whole images with a layer of many chunks: ours → distribution → ours under another name."""
    home = tmp_path / "home"
    digest, _ = put_image(ours.server, weights.read_bytes(), "v1")
    copy(ours, distribution, "team/image:v1", home=home)
    assert clients.digest_of(raw(distribution, "team/image:v1", home=home)) == digest
    clients.run([tools.need("skopeo"), "copy", "--preserve-digests", *distribution.skopeo("src"), *ours.skopeo("dest"),
                 f"docker://{distribution.server.host}/team/image:v1", f"docker://{ours.server.host}/team/back:v1"], home=home)
    assert clients.digest_of(raw(ours, "team/back:v1", home=home)) == digest
    layer = f"sha256:{clients.sha256_of(weights)}"
    for dress, name in ((distribution, "team/image"), (ours, "team/back")):
        status, _, body = dress.server.request("GET", f"/v2/{name}/blobs/{layer}")
        assert status == 200 and body == weights.read_bytes()


@pytest.mark.parametrize("start", ["ours", "distribution"])
def test_index(ours, distribution, tmp_path, start):
    source, target = (ours, distribution) if start == "ours" else (distribution, ours)
    home, manifests = tmp_path / "home", []
    for number, architecture in enumerate(("amd64", "arm64")):
        digest, size = put_image(source.server, bytes([number]) * 3000, architecture)
        manifests.append({"mediaType": clients.MANIFEST_TYPE, "digest": digest, "size": size,
                          "platform": {"architecture": architecture, "os": "linux"}})
    kind = "application/vnd.oci.image.index.v1+json"
    body = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": manifests}).encode()
    assert source.server.request("PUT", "/v2/team/image/manifests/all", body, {"Content-Type": kind})[0] == 201
    copy(source, target, "team/image:all", home=home, more=["--all"])
    assert raw(target, "team/image:all", home=home) == body
    for entry in manifests:
        path = f"/v2/team/image/manifests/{entry['digest']}"
        assert target.server.request("HEAD", path, headers={"Accept": clients.MANIFEST_TYPE})[0] == 200


@pytest.mark.parametrize("start", ["ours", "distribution"])
def test_oras_copy(ours, distribution, tmp_path, weights, start):
    """An artifact that is no image."""
    source, target = (ours, distribution) if start == "ours" else (distribution, ours)
    home, name = tmp_path / "home", "team/model:v1"
    clients.Oras(home).push(f"{source.server.host}/{name}", weights)
    clients.run([tools.oras(), "copy", "--no-tty", "--from-plain-http", "--to-plain-http", f"{source.server.host}/{name}",
                 f"{target.server.host}/{name}"], home=home)
    assert raw(source, name, home=home) == raw(target, name, home=home)
    clients.Oras(home).pull(f"{target.server.host}/{name}", tmp_path / "out")
    assert clients.sha256_of(tmp_path / "out" / weights.name) == clients.sha256_of(weights)


def test_same_digest_everywhere(ours, distribution, tmp_path):
    """Our own command pushes the real model to both: one digest, and ORAS gets the very files back from both."""
    client = clients.AiModels(tmp_path / "client")
    digests = {client.run("push", tools.real_model(), f"{dress.server.host}/team/minilm:v1").json["digest"]
               for dress in (ours, distribution)}
    assert len(digests) == 1
    pulled = []
    for side, dress in (("from-ours", ours), ("from-theirs", distribution)):
        clients.Oras(tmp_path / "home").pull(f"{dress.server.host}/team/minilm:v1", tmp_path / side)
        client.run("pull", f"{dress.server.host}/team/minilm:v1", tmp_path / f"{side}-own")
        pulled += [clients.folder_digests(tmp_path / side), clients.folder_digests(tmp_path / f"{side}-own")]
    assert all(folder == pulled[0] for folder in pulled)
    source = clients.folder_digests(tools.real_model())
    assert pulled[0] and all(source[name] == digest for name, digest in pulled[0].items())
    assert "model.safetensors" in pulled[0] and "config.json" in pulled[0]
