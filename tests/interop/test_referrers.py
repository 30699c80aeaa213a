"""What refers to an artifact travels with it: between ours, which has the referrers API, distribution's registry, which has not, and
the local store; ORAS attaches and finds it on both sides."""

import json

import pytest
from harness import clients, tools

KIND = "application/vnd.example.signature"


def attach(dress, reference, file, *, home):
    """Attaches a file to an artifact; returns the digest of what was attached."""
    done = clients.run([tools.oras(), "attach", "--no-tty", "--format", "json", "--disable-path-validation", "--artifact-type", KIND,
                        *dress.oras(), f"{dress.server.host}/{reference}", f"{file.name}:text/plain"], home=home, cwd=file.parent)
    return done.json["digest"]


def referrers(dress, name, digest, *, home):
    """Digests of what ORAS finds, asking as it does whether or not there is an API."""
    done = clients.run([tools.oras(), "discover", "--format", "json", "--depth", "1", *dress.oras(),
                        f"{dress.server.host}/{name}@{digest}"], home=home)
    return {entry["digest"] for entry in done.json.get("referrers") or done.json.get("manifests") or []}


def has_api(dress, name, digest):
    status, _, _ = dress.server.request("GET", f"/v2/{name}/referrers/{digest}")
    return status == 200


def has_fallback_tag(dress, name, digest):
    return dress.server.request("GET", f"/v2/{name}/manifests/{digest.replace(':', '-')}", headers={
        "Accept": "application/vnd.oci.image.index.v1+json"})[0] == 200


@pytest.fixture
def signed(tmp_path):
    """On the registry that the test names: a model, two signatures of it, and a signature of the first one."""

    def make(dress):
        home, model = tmp_path / "home", tmp_path / "model.bin"
        model.write_bytes(bytes(range(256)) * 20000)
        clients.Oras(home).push(f"{dress.server.host}/team/model:v1", model)
        digests = {"model": clients.digest_of(dress.server.request(
            "GET", "/v2/team/model/manifests/v1", headers={"Accept": clients.MANIFEST_TYPE})[2])}
        for name, subject in (("first", "model"), ("second", "model"), ("of-first", "first")):
            file = tmp_path / f"{name}.sig"
            file.write_text(f"{name} signs {digests[subject]}")
            digests[name] = attach(dress, f"team/model@{digests[subject]}", file, home=home)
        return digests

    return make


def check(dress, name, digests, tmp_path):
    home = tmp_path / "home"
    assert referrers(dress, name, digests["model"], home=home) == {digests["first"], digests["second"]}
    assert referrers(dress, name, digests["first"], home=home) == {digests["of-first"]}
    out = tmp_path / f"out-{dress.server.port}-{name.replace('/', '-')}"
    clients.Oras(home).pull(f"{dress.server.host}/{name}@{digests['of-first']}", out)
    assert (out / "of-first.sig").read_text() == f"of-first signs {digests['first']}"


@pytest.mark.parametrize("start", ["ours", "distribution"])
def test_there_and_back(ours, distribution, signed, tmp_path, start):
    source, target = (ours, distribution) if start == "ours" else (distribution, ours)
    client, digests = clients.AiModels(tmp_path / "client"), signed(source)
    answer = client.run("copy", "--referrers", f"{source.server.host}/team/model:v1", f"{target.server.host}/team/model:v1").json
    assert (answer["digest"], answer["referrers"], answer["missingReferrers"]) == (digests["model"], 3, 0)
    check(target, "team/model", digests, tmp_path)
    answer = client.run("copy", "--referrers", f"{target.server.host}/team/model:v1", f"{source.server.host}/team/back:v1").json
    assert answer["referrers"] == 3
    check(source, "team/back", digests, tmp_path)
    for dress, name in ((ours, "team/model" if start == "distribution" else "team/back"),
                        (distribution, "team/model" if start == "ours" else "team/back")):
        assert has_api(dress, name, digests["model"]) == (dress is ours)
        assert has_fallback_tag(dress, name, digests["model"]) == (dress is distribution)


def test_through_the_local_store(ours, distribution, signed, tmp_path):
    """Out of a registry, into another much later; copied twice, nothing is there twice."""
    client, digests = clients.AiModels(tmp_path / "client"), signed(ours)
    assert client.run("copy", "-r", f"{ours.server.host}/team/model:v1", "model:v1").json["referrers"] == 3
    for _ in range(2):
        assert client.run("copy", "-r", "model:v1", f"{distribution.server.host}/kept/model:v1").json["referrers"] == 3
        check(distribution, "kept/model", digests, tmp_path)


def test_only_when_asked(ours, distribution, signed, tmp_path):
    client, digests = clients.AiModels(tmp_path / "client"), signed(ours)
    answer = client.run("copy", f"{ours.server.host}/team/model:v1", f"{distribution.server.host}/team/model:v1").json
    assert "referrers" not in answer
    assert referrers(distribution, "team/model", digests["model"], home=tmp_path / "home") == set()


def test_gone_referrers(ours, distribution, signed, tmp_path):
    """Fallback tags keep naming what was deleted."""
    client, digests = clients.AiModels(tmp_path / "client"), signed(distribution)
    path = f"/v2/team/model/manifests/{digests['second']}"
    assert distribution.server.request("DELETE", path)[0] == 202
    answer = client.run("copy", "-r", f"{distribution.server.host}/team/model:v1", f"{ours.server.host}/team/model:v1").json
    assert (answer["referrers"], answer["missingReferrers"]) == (2, 1)
    assert referrers(ours, "team/model", digests["model"], home=tmp_path / "home") == {digests["first"]}


@pytest.mark.parametrize("side", ["ours", "distribution"])
def test_removed_referrers_are_struck_out(ours, distribution, signed, tmp_path, side):
    dress = ours if side == "ours" else distribution
    client, digests = clients.AiModels(tmp_path / "client"), signed(dress)
    client.run("rm", f"{dress.server.host}/team/model@{digests['second']}")
    assert referrers(dress, "team/model", digests["model"], home=tmp_path / "home") == {digests["first"]}
    assert client.run("copy", "-r", f"{dress.server.host}/team/model:v1", "model:v1").json["missingReferrers"] == 0


def test_too_deep(ours, distribution, tmp_path):
    """Signatures of signatures of signatures end somewhere, and then nothing is visible at the destination."""
    config = clients.put_blob(ours.server, "team/model", clients.EMPTY_CONFIG)
    subject, first = None, None
    for depth in range(12):
        body = json.dumps({
            "schemaVersion": 2, "mediaType": clients.MANIFEST_TYPE, "artifactType": KIND,
            "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": config, "size": 2}, "layers": [],
            "annotations": {"depth": str(depth)}, **({"subject": subject} if subject else {}),
        }).encode()
        subject = {"mediaType": clients.MANIFEST_TYPE, "digest": clients.digest_of(body), "size": len(body)}
        first = first or subject["digest"]
        status, _, answer = ours.server.request("PUT", f"/v2/team/model/manifests/{subject['digest']}", body,
                                                {"Content-Type": clients.MANIFEST_TYPE})
        assert status == 201, answer
    client = clients.AiModels(tmp_path / "client")
    with pytest.raises(clients.CommandFailed, match="more than 8 deep") as failure:
        client.run("copy", "-r", f"{ours.server.host}/team/model@{first}", f"{distribution.server.host}/team/model:v1")
    assert failure.value.status == 6
    assert distribution.server.request("GET", "/v2/team/model/tags/list")[0] == 404
