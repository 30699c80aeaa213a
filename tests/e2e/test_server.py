"""The commands against a registry: ours over the chunk wire, distribution over plain OCI, and one that lies."""

import base64
import gzip
import hashlib
import http.server
import io
import json
import os
import subprocess
import tarfile
import threading
import time

import pytest

from harness import servers, tools

from .conftest import Command, random_tensors, tree, write_model

KEPT = {"config.json", "tokenizer_config.json", "model.safetensors"}


def serve(tmp_path, *options, **more):
    program = os.environ.get("AI_MODELS_BIN") or tools.program()
    return servers.ours(tmp_path / "server", *options, log=tmp_path / "server.log", program=program, **more)


@pytest.fixture
def registry(tmp_path):
    with serve(tmp_path) as server:
        yield server


@pytest.fixture
def other(tmp_path):
    """A second machine."""
    return Command(tmp_path / "home2")


def test_push_pull_inspect_verify_list_rm(ai, other, model, registry, tmp_path):
    reference = f"{registry.host}/team/m:v1"
    pushed = ai("push", "--json", model, reference).json
    assert not ai.store.exists()  # nothing is kept here on the way
    pulled = other("pull", "--json", reference, tmp_path / "out").json
    assert pulled["digest"] == pushed["digest"]
    assert tree(tmp_path / "out") == {name: data for name, data in tree(model).items() if name in KEPT}
    seen = other("inspect", "--json", reference).json
    assert seen["contextWindowTokens"] == 4096 and seen["format"] == "Safetensors"
    assert other("verify", "--json", reference).json["intact"]
    assert other("list", "--json", f"{registry.host}/team/m").json["tags"] == ["v1"]
    other("rm", reference)
    other("pull", reference, tmp_path / "out2", status=4)
    assert not (tmp_path / "out2").exists()


def test_pushing_again_sends_next_to_nothing(ai, model, registry):
    first = ai("push", "--json", model, f"{registry.host}/m:v1").json
    again = ai("push", "--json", model, f"{registry.host}/m:v2").json
    assert first["movedBytes"] > 12 << 20 and again["movedBytes"] < 1 << 20
    assert again["digest"] == first["digest"]


def test_a_second_fine_tune_moves_few_bytes(ai, other, registry, tmp_path):
    tensors = random_tensors(5, n=10)
    ai("push", write_model(tmp_path / "base", tensors), f"{registry.host}/m:base")
    tensors["layer.4.weight"] = random_tensors(6, n=5)["layer.4.weight"]
    tuned = write_model(tmp_path / "tuned", tensors)
    pushed = ai("push", "--json", tuned, f"{registry.host}/m:tuned").json
    assert pushed["movedBytes"] < 0.15 * pushed["logicalBytes"]
    other("copy", f"{registry.host}/m:base", "m:base")
    pulled = other("pull", "--json", f"{registry.host}/m:tuned", tmp_path / "out").json
    assert pulled["movedBytes"] < 0.15 * pulled["logicalBytes"] and pulled["localBytes"] > 0.8 * pulled["logicalBytes"]
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (tuned / "model.safetensors").read_bytes()


def test_copy_keeps_the_digest_everywhere(ai, model, registry):
    digest = ai("push", "--json", model, "m:v1").json["digest"]
    for source, target in (("m:v1", f"{registry.host}/a:v1"), (f"{registry.host}/a:v1", f"{registry.host}/b:v1"),
                           (f"{registry.host}/b@{digest}", "back:v1")):
        assert ai("copy", "--json", source, target).json["digest"] == digest
    assert ai("copy", "--json", f"{registry.host}/a:v1", f"{registry.host}/c:v1").json["movedBytes"] == 0
    assert ai("verify", "--json", "back:v1").json["intact"]


@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_copy_mends_a_damaged_store(ai, other, model, registry, damage):
    """What the documents promise: a damaged model is mended by copying it from another place."""
    ai("push", model, f"{registry.host}/m:v1")
    other("copy", f"{registry.host}/m:v1", "m:v1")
    chunks = [path for path in (other.store / "_ai_models" / "chunks").rglob("*") if path.is_file()]
    blobs = [path for path in (other.store / "docker/registry/v2/blobs").rglob("*") if path.is_file()]
    assert chunks and len(blobs) > 3
    for path in [*chunks[::2], *blobs]:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0x10
        path.unlink()
        if damage == "flip":
            path.write_bytes(data)
    other("verify", "m:v1", status=7 if damage == "flip" else 4)
    other("copy", f"{registry.host}/m:v1", "m:v1")
    assert other("verify", "--json", "m:v1").json["intact"]


def test_kill_during_pull_over_the_wire(ai, registry, tmp_path):
    big = write_model(tmp_path / "big", random_tensors(3, n=24, size=8 << 20))
    reference = f"{registry.host}/big:v1"
    ai("push", big, reference)
    for delay in (0.2, 0.35, 0.5):
        process = ai.popen("pull", "-q", reference, tmp_path / "out", stdout=subprocess.DEVNULL)
        time.sleep(delay)
        process.kill()
        process.wait()
    answer = ai("pull", "--json", reference, tmp_path / "out").json
    assert answer["alreadyThere"] or answer["keptBytes"] > 0
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (big / "model.safetensors").read_bytes()


def test_oras_pulls_the_same_bytes(ai, model, registry, tmp_path):
    reference = f"{registry.host}/m:v1"
    ai("push", model, reference)
    subprocess.run([tools.oras(), "pull", "--plain-http", "-o", tmp_path / "oras", reference], check=True,
                   stdout=subprocess.DEVNULL, env=ai.environment())
    assert tree(tmp_path / "oras") == {name: data for name, data in tree(model).items() if name in KEPT}


def test_what_oras_pushed_can_be_pulled(ai, registry, tmp_path):
    (tmp_path / "files" / "sub").mkdir(parents=True)
    (tmp_path / "files" / "a.txt").write_bytes(b"a" * 5)
    (tmp_path / "files" / "sub" / "b.bin").write_bytes(os.urandom(3 << 20))
    reference = f"{registry.host}/files:v1"
    subprocess.run([tools.oras(), "push", "--plain-http", reference, "a.txt", "sub/b.bin"], check=True,
                   stdout=subprocess.DEVNULL, cwd=tmp_path / "files", env=ai.environment())
    ai("pull", reference, tmp_path / "out")
    assert tree(tmp_path / "out") == tree(tmp_path / "files")


def test_a_foreign_registry(ai, other, model, tmp_path):
    with servers.distribution(tmp_path / "foreign", log=tmp_path / "foreign.log") as server:
        reference = f"{server.host}/team/m:v1"
        digest = ai("push", "--json", model, reference).json["digest"]
        assert other("pull", "--json", reference, tmp_path / "out").json["digest"] == digest
        assert set(tree(tmp_path / "out")) == KEPT
        assert other("verify", "--json", reference).json["intact"]
        assert other("inspect", "--json", reference).json["family"] == "llama"
        assert other("copy", "--json", reference, "mine:v1").json["digest"] == digest
        assert other("verify", "--json", "mine:v1").json["intact"]


def test_logins(ai, model, tmp_path):
    (tmp_path / "users").write_text("ai-models:secret\nreader:other\n")
    with serve(tmp_path, "--plain-users", tmp_path / "users") as server:
        reference = f"{server.host}/m:v1"
        assert "--username" in ai("push", model, reference, status=5).stderr
        ai("push", model, reference, "--username", "ai-models", "--password-stdin", input="wrong\n", status=5)
        ai("push", model, reference, "--username", "ai-models", "--password-stdin", input="secret\n")
        (tmp_path / "password").write_text("other\n")
        reader = ("-u", "reader", "--password-file", tmp_path / "password")
        ai("verify", reference, *reader)
        ai("rm", reference, *reader, status=5)
        config = {"auths": {server.host: {"auth": base64.b64encode(b"reader:other").decode()}}}
        (tmp_path / "auth.json").write_text(json.dumps(config))
        ai("verify", reference, env={"REGISTRY_AUTH_FILE": str(tmp_path / "auth.json")})
        result = ai("copy", reference, "mine:v1", "--from-username", "reader", "--from-password-file", tmp_path / "password")
        assert "secret" not in result.stdout + result.stderr


def test_tls(ai, model, tmp_path):
    certificate, key = servers.make_certificate(tmp_path, "127.0.0.1")
    with serve(tmp_path, tls=(certificate, key)) as server:
        reference = f"https://{server.host}/m:v1"
        assert "--ca-file" in ai("push", model, reference, status=3).stderr
        ai("push", model, reference, "--ca-file", certificate)
        ai("verify", reference, "--insecure")


def test_nobody_there(ai, model):
    result = ai("push", "--json", model, f"127.0.0.1:{servers.free_port()}/m:v1", status=8)
    assert result.json["error"]["code"] == "UNAVAILABLE" and "again" in result.stderr


def blob(data, media_type, **annotations):
    return {"mediaType": media_type, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data),
            "annotations": annotations}


class Registry:
    """A registry that serves what it was given, or something else."""

    def __init__(self):
        self.blobs, self.manifests, self.lies = {}, {}, {}
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                registry.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def put(self, layers, tag="v1"):
        """`layers`: (content, media type, path)."""
        config = b"{}"
        descriptors = [blob(data, kind, **({"org.cncf.model.filepath": path} if path else {})) for data, kind, path in layers]
        for data in [config, *(data for data, _, _ in layers)]:
            self.blobs[f"sha256:{hashlib.sha256(data).hexdigest()}"] = data
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "artifactType": "application/vnd.cncf.model.manifest.v1+json",
            "config": blob(config, "application/vnd.cncf.model.config.v1+json"), "layers": descriptors}).encode()
        self.manifests[tag] = self.manifests[f"sha256:{hashlib.sha256(manifest).hexdigest()}"] = manifest
        return [descriptor["digest"] for descriptor in descriptors]

    def answer(self, request):
        kind, name = request.path.split("/")[-2:]
        if request.path == "/v2/":
            return self.send(request, 200, b"{}", {})
        if kind == "manifests" and name in self.manifests:
            return self.send(request, 200, self.manifests[name],
                             {"Content-Type": "application/vnd.oci.image.manifest.v1+json"})
        if kind == "blobs" and name in self.blobs:
            lie = self.lies.get(name)
            return lie(request, self.blobs[name]) if lie else self.send(request, 200, self.blobs[name], {})
        return self.send(request, 404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}', {})

    @staticmethod
    def send(request, status, body, headers, length=None):
        request.send_response(status)
        for key, value in {"Content-Length": str(len(body) if length is None else length), **headers}.items():
            request.send_header(key, value)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)


RAW = "application/vnd.cncf.model.weight.v1.raw"


@pytest.fixture
def liar():
    registry = Registry()
    yield registry
    registry.server.shutdown()


LIES = {
    "other bytes": (lambda q, d: Registry.send(q, 200, bytes(len(d)), {}), 7),
    "too few": (lambda q, d: Registry.send(q, 200, d[:-1], {}), None),
    "too many": (lambda q, d: Registry.send(q, 200, d + b"x" * 100000, {}), None),
    "nothing": (lambda q, d: Registry.send(q, 404, b"", {}), 4),
    "an error page": (lambda q, d: Registry.send(q, 200, b"<html>" + d[6:], {}), 7),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_registry_that_lies(ai, liar, tmp_path, lie):
    data = os.urandom(2 << 20)
    (digest,) = liar.put([(data, RAW, "model.gguf")])
    liar.lies[digest], status = LIES[lie]
    result = ai("pull", "--json", f"{liar.host}/m:v1", tmp_path / "out", status=None)
    assert result.status == (status or result.status), result.stderr
    if result.status == 0:  # what comes after the last byte that was asked for does not matter
        assert lie == "too many" and tree(tmp_path / "out") == {"model.gguf": data}
        return
    assert result.status in (3, 4, 7, 8) and not (tmp_path / "out").exists()
    del liar.lies[digest]
    ai("pull", f"{liar.host}/m:v1", tmp_path / "out")
    assert tree(tmp_path / "out") == {"model.gguf": data}


@pytest.mark.parametrize("path", ["../x", "/x", "a//b", "a\\b", ".", "a/../b", "x/", ""])
def test_unsafe_paths(ai, liar, tmp_path, path):
    liar.put([(b"data", RAW, path)])
    ai("pull", f"{liar.host}/m:v1", tmp_path / "out", status=3)
    assert {entry.name for entry in tmp_path.iterdir()} <= {"home"}


def test_clashing_paths(ai, liar, tmp_path):
    liar.put([(b"one", RAW, "a"), (b"two", RAW, "A")])
    ai("pull", f"{liar.host}/m:v1", tmp_path / "out", status=3)
    liar.put([(b"one", RAW, "a"), (b"two", RAW, "a/b")])
    ai("pull", f"{liar.host}/m:v1", tmp_path / "out", status=3)


def make_tar(*members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if content is None:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            else:
                member.size, member.mode = len(content), 0o4755
            archive.addfile(member, io.BytesIO(content or b""))
    return buffer.getvalue()


def pack(kind, data):
    if kind == "tar+zstd":
        import zstandard
        return zstandard.ZstdCompressor().compress(data)
    return gzip.compress(data) if kind == "tar+gzip" else data


@pytest.mark.parametrize("kind", ["tar", "tar+gzip", "tar+zstd"])
def test_archive_layers_of_others(ai, liar, tmp_path, kind):
    data = os.urandom(100000)
    layer = pack(kind, make_tar(("model/a.bin", data), ("model/sub/b", b"b")))
    liar.put([(layer, f"application/vnd.cncf.model.weight.v1.{kind}", "model"), (b"c", RAW, "model/c.json")])
    ai("pull", f"{liar.host}/m:v1", tmp_path / "out")
    assert tree(tmp_path / "out") == {"model/a.bin": data, "model/sub/b": b"b", "model/c.json": b"c"}
    assert (tmp_path / "out" / "model" / "a.bin").stat().st_mode & 0o7777 == 0o644


@pytest.mark.parametrize("members", [
    (("../x", b""),), (("/x", b""),), (("link", None),), (("a", b"1"), ("a", b"2")), (("c.json", b"1"),),
])
def test_hostile_archive_layers(ai, liar, tmp_path, members):
    layer = make_tar(*members)
    liar.put([(layer, "application/vnd.cncf.model.weight.v1.tar", None), (b"c", RAW, "c.json")])
    ai("pull", f"{liar.host}/m:v1", tmp_path / "out", status=3)
    assert not (tmp_path / "out").exists() and not (tmp_path / "x").exists()


def test_an_index_lists_its_choices(ai, liar, tmp_path):
    liar.put([(b"one", RAW, "a")], "one")
    liar.put([(b"two", RAW, "b")], "two")
    kind = "application/vnd.oci.image.manifest.v1+json"
    children = [blob(liar.manifests[tag], kind) for tag in ("one", "two")]
    index = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": children})
    liar.manifests["both"] = index.encode()
    result = ai("pull", "--json", f"{liar.host}/m:both", tmp_path / "out", status=None)
    assert result.status == 3, result.stderr
