"""Models of an Ollama registry: the local one of tests/servers, with all that can go wrong between."""

import concurrent.futures
import json
import re
import signal
import time

import pytest

from harness import servers
from servers.hf_hub import Hub
from servers.ollama import Part, Registry

from .conftest import Command, gguf_bytes, stored_bytes, tree

NAME = "library/tiny:8b"
FILE = "tiny-8b-q4_k_m.gguf"


@pytest.fixture
def registry():
    with Registry() as registry:
        yield registry


@pytest.fixture(scope="module")
def big():
    """Takes several windows of reading ahead."""
    return gguf_bytes(60 << 20)


@pytest.fixture(scope="module")
def big_digest(big, tmp_path_factory):
    """Of the artifact that the same file gives from disk."""
    folder = tmp_path_factory.mktemp("disk")
    return disk_digest(Command(folder / "home"), folder / "model", {FILE: big})


def push(ai, registry, where=NAME, ref="m", *options, status=0, env=None):
    return ai("push", "--json", f"https://ollama.com/{where}", ref, *options, status=status,
              env={"OLLAMA_REGISTRY": registry.endpoint, **(env or {})})


def refused(ai, registry, reason, where=NAME, status=3, **options):
    result = push(ai, registry, where, status=status, **options)
    error, said = result.json["error"], result.stderr + result.stdout
    assert error["reason"] == reason, error
    assert "Signature" not in said and not any(token in said for token in registry.issued)
    assert ai("list", "--json").json["models"] == []
    return error["message"]


def ranges(registry):
    """First and last byte of all that the second host was asked for."""
    found = [re.fullmatch(r"bytes=(\d+)-(\d+)", request["headers"]["Range"]) for request in registry.asked("cdn")]
    return [(int(each[1]), int(each[2])) for each in found]


def disk_digest(ai, folder, files):
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return ai("push", "--json", folder, "disk").json["digest"]


def kept(answer):
    return [file["path"] for file in answer["files"] if file["kept"]]


PARTS = [("template", b"{{ .Prompt }}"), ("system", b""), ("params", b'{"num_ctx": 8192, "stop": ["</s>"]}'),
         ("license", b"   Apache License\n   Version 2.0, January 2004\n"), ("license", b"See above."), ("new-kind", b"x")]


def test_the_same_digest_as_from_disk(ai, registry, big, tmp_path, big_digest):
    model = registry.add(NAME, [PARTS[0], ("model", big), *PARTS[1:]])
    answer = push(ai, registry).json
    assert answer["digest"] == big_digest
    assert answer["source"] == {"url": f"{registry.endpoint}/{NAME}", "license": "apache-2.0",
                                "revision": f"8b@{model.layers[1].digest}"}
    facts = {"format": "GGUF", "family": "llama", "quantization": "Q4_K_M", "contextWindowTokens": 8192}
    assert {key: answer[key] for key in facts} == facts
    left_out = {file["path"]: file["why"] for file in answer["files"] if not file["kept"]}
    assert set(left_out) == {"ollama/template", "ollama/system", "ollama/params.json", "LICENSE", "LICENSE.2", "ollama/other"}
    assert all(left_out.values())
    ai("pull", "m", tmp_path / "out")
    assert tree(tmp_path / "out") == {FILE: big}
    assert all("Authorization" not in request["headers"] for request in registry.asked("cdn"))


def test_what_the_file_says_is_believed(ai, registry):
    """The registry's words are for what the file does not tell."""
    registry.add(NAME, [("model", gguf_bytes(fields={"general.architecture": "llama", "general.file_type": 1,
                                                     "llama.context_length": 4096}))])
    answer = push(ai, registry).json
    assert answer["quantization"] == "F16" and answer["contextWindowTokens"] == 4096
    assert kept(answer) == [FILE]


@pytest.mark.parametrize("config, name", [({"file_type": None}, "tiny-8b.gguf"), ({"file_type": "unknown"}, "tiny-8b.gguf"),
                                          ({"file_type": "IQ2/XS"}, "tiny-8b-iq2-xs.gguf"),
                                          ({"model_family": None, "model_type": None}, FILE)])
def test_the_name_of_the_file(ai, registry, config, name):
    registry.add(NAME, [("model", gguf_bytes())], config)
    assert kept(push(ai, registry).json) == [name]


def test_dry_run_and_inspect_read_little(ai, registry, big):
    registry.add(NAME, [("model", big), *PARTS])
    answer = push(ai, registry, NAME, "m", "--dry-run").json
    assert answer["dryRun"] and kept(answer) == [FILE] and answer["logicalBytes"] == len(big)
    # The beginning, and some pieces of the weights from which the size in the store is estimated.
    of_dry_run = ranges(registry)
    assert sum(last - first + 1 for first, last in of_dry_run) < 11 << 20 and 0 < answer["estimatedStoredBytes"] < 1.1 * len(big)
    seen = ai("inspect", "--json", "ollama.com/" + NAME, env={"OLLAMA_REGISTRY": registry.endpoint}).json
    assert seen["source"] == answer["source"] and seen["contextWindowTokens"] == 8192
    # Config, parameters, the first license, and of the model not more than its beginning.
    of_inspect = ranges(registry)[len(of_dry_run):]
    assert max(last for _, last in of_inspect) == (1 << 20) - 1 and len(of_inspect) == 5
    assert ai("list", "--json").json["models"] == []


def test_content_that_is_there_is_not_read(ai, registry, big):
    registry.add(NAME, [("model", big)])
    push(ai, registry)
    before = len(registry.asked("cdn"))
    assert push(ai, registry, NAME, "again").json["movedBytes"] < 1 << 20
    assert len(registry.asked("cdn")) - before == 3  # the config and the header


ADDRESSES = ["https://ollama.com/library/tiny:8b", "ollama.com/library/tiny:8b", "https://www.ollama.com/library/tiny:8b?x=1",
             "registry.ollama.ai/library/tiny:8b", "ollama://tiny:8b", "ollama://library/tiny:8b"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_addresses(ai, registry, address):
    registry.add(NAME, [("model", gguf_bytes())])
    environment = {"OLLAMA_REGISTRY": registry.endpoint}
    assert kept(ai("push", "--json", address, "m", env=environment).json) == [FILE]


def test_addresses_of_users_and_of_the_mirror(ai, registry):
    registry.add("someone/model_x:latest", [("model", gguf_bytes())])
    answer = push(ai, registry, "someone/model_x").json
    assert kept(answer) == ["model_x-latest-q4_k_m.gguf"]
    environment = {"OLLAMA_REGISTRY": registry.endpoint + "/"}
    mirror = ai("push", "--json", f"{registry.endpoint}/someone/model_x:latest", "n", env=environment).json
    assert mirror["digest"] == answer["digest"]


@pytest.mark.parametrize("where, says", [("library/tiny/tags", "a model's tags"), ("library", "list of all models"),
                                         ("search?q=hidden", "a search"), ("tiny:8b", "/library/"),
                                         ("library/tiny:8b/blobs/163553aea1b1", "one part"), ("blog/x", "blog")])
def test_pages_that_are_no_model(ai, registry, where, says):
    message = refused(ai, registry, "UnsupportedSource", where)
    assert says in message and "hidden" not in message
    assert registry.requests == []


def test_what_does_not_fit(ai, registry, tmp_path):
    (tmp_path / "token").write_text("x")
    registry.add(NAME, [("model", gguf_bytes())])
    assert "without a token" in push(ai, registry, NAME, "m", "--token-file", tmp_path / "token", status=2).stderr
    said = ai("push", "https://x:secret@ollama.com/library/tiny", "m", status=3).stderr
    assert "secret" not in said
    assert push(ai, registry, env={"OLLAMA_REGISTRY": "ftp://x"}, status=3)


def split(n, count, **changes):
    fields = {"split.no": n, "split.count": count, "split.tensors.count": count, **changes}
    if n == 0:
        fields = {"general.architecture": "llama", "llama.context_length": 2048, **fields}
    return gguf_bytes(fields=fields, tensor=f"blk.{n}.attn_q.weight", seed=n)


def test_a_split_model(ai, registry, tmp_path):
    parts = [split(n, 3) for n in range(3)]
    registry.add(NAME, [("model", part) for part in parts])
    answer = push(ai, registry).json
    names = [f"tiny-8b-q4_k_m-0000{n + 1}-of-00003.gguf" for n in range(3)]
    assert kept(answer) == names
    assert answer["digest"] == disk_digest(ai, tmp_path / "disk", dict(zip(names, parts)))


@pytest.mark.parametrize("parts", [[gguf_bytes(), gguf_bytes()], [gguf_bytes(), gguf_bytes(seed=9)], [split(0, 3), split(1, 3)],
                                   [split(1, 2), split(0, 2)]], ids=["twice", "two", "incomplete", "order"])
def test_several_models_that_are_no_parts_of_one(ai, registry, parts):
    registry.add(NAME, [("model", part) for part in parts])
    assert "no parts of one" in refused(ai, registry, "UnsupportedFormat")


def test_a_projector_and_an_adapter(ai, registry, tmp_path):
    projector = gguf_bytes(fields={"general.architecture": "clip", "general.type": "mmproj"}, tensor="v.patch_embd.weight")
    adapter = gguf_bytes(fields={"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora"},
                         tensor="blk.0.attn_q.weight.lora_a")
    registry.add(NAME, [("projector", projector), ("model", gguf_bytes()), ("adapter", adapter), ("draft", gguf_bytes(1 << 13))])
    answer = push(ai, registry).json
    files = {FILE: gguf_bytes(), "mmproj.gguf": projector, "adapter.gguf": adapter}
    assert kept(answer) == list(files)
    assert answer["digest"] == disk_digest(ai, tmp_path / "disk", files)


@pytest.mark.parametrize("layers, config, says", [
    ([], {"remote_host": "https://ollama.com:443", "model_format": ""}, "runs at https://ollama.com:443"),
    ([("tensor", b"x"), ("json", b"{}")], {"model_format": "safetensors"}, "tensor by tensor"),
    ([("model", b"x")], {"model_format": "ggml"}, "ggml"), ([("license", b"x")], {}, "no file with its weights")])
def test_models_without_a_gguf_file(ai, registry, layers, config, says):
    registry.add(NAME, layers, config)
    assert says in refused(ai, registry, "UnsupportedFormat")


def test_a_wrong_file_fails_before_its_weights(ai, registry, big):
    registry.add(NAME, [("model", b"GGML" + big[4:])])
    refused(ai, registry, "FormatInvalid")
    assert len(ranges(registry)) <= 3 and max(last for _, last in ranges(registry)) < 1 << 20


def test_a_config_that_is_a_layer_too(ai, registry):
    """Everything is looked at by its descriptor, not once for each digest."""
    model = registry.add(NAME, [("model", gguf_bytes()), ("params", b"")])
    model.layers[1] = model.config
    model.manifest["layers"][1] = {**model.config.descriptor(), "mediaType": "application/vnd.ollama.image.params"}
    assert kept(push(ai, registry).json) == [FILE]


# Part D of pitfalls-sources.md.

@pytest.mark.parametrize("blobs", ["cdn", "direct", "located", "relative", "hops"])
def test_67_where_the_parts_are(big, ai, blobs, big_digest):
    with Registry(blobs=blobs, prefix="/mirror") as registry:
        registry.add(NAME, [("model", big), *PARTS])
        assert push(ai, registry).json["digest"] == big_digest
        # Where the registry would send all of a part when asked where it is, it is not let.
        assert sum(request["status"] == 200 for request in registry.asked(path="/blobs/")) == 0
        assert all(request["method"] == "GET" for request in registry.requests)  # HEAD tells nothing here


@pytest.mark.parametrize("blobs", ["direct", "located", "relative"])
def test_67_parts_that_come_whole(ai, tmp_path, blobs):
    """A registry without redirects that knows no ranges either."""
    with Registry(blobs=blobs) as registry:
        registry.add(NAME, [("model", gguf_bytes(1 << 20)), *PARTS])
        registry.fail("blob", times=1000, whole=True)
        assert push(ai, registry).json["digest"] == disk_digest(ai, tmp_path / "disk", {FILE: gguf_bytes(1 << 20)})


def test_69_a_newer_client_is_asked_for(ai):
    with Registry(wants="ollama/0.12") as registry:
        registry.add(NAME, [("model", gguf_bytes())])
        message = refused(ai, registry, "HubClientRefused")
        assert "requires a newer version of Ollama" in message and "OLLAMA_USER_AGENT" in message and "\n" not in message
        assert len(registry.requests) == 1
        push(ai, registry, env={"OLLAMA_USER_AGENT": "ollama/0.12.3 (amd64 linux)"})


DOCUMENTS = {
    "web page": (b"<!DOCTYPE html><html></html>", "web page"), "truncated": (b'{"schemaVersion":2,"layers":[', "not JSON"),
    "garbage": (b'{"schemaVersion":2}x', "not JSON"), "array": (b"[]", "no JSON object"), "version": (b"{}", "schema version"),
    "empty": (b"", "not JSON"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_70_what_is_no_manifest(ai, registry, name):
    body, says = DOCUMENTS[name]
    registry.add(NAME, [("model", gguf_bytes())]).manifest = body
    assert says in refused(ai, registry, "HubAnswer")


def test_70_a_web_page_for_a_browsers_name(ai, registry):
    registry.add(NAME, [("model", gguf_bytes())])
    assert "web page" in refused(ai, registry, "HubAnswer", env={"OLLAMA_USER_AGENT": "Mozilla/5.0"})


@pytest.mark.parametrize("to", ["store", "registry"])
def test_71_damaged_once_is_read_again(ai, registry, big, tmp_path, to, big_digest):
    damaged, readings = bytearray(big), []
    damaged[40 << 20] ^= 1

    def sign(part):
        """The second address for the model is where its first whole reading goes; the first is for its header."""
        readings.extend([part] if part.path == "model" else [])
        return Registry.sign(registry, Part("model", bytes(damaged)) if len(readings) == 2 and part.path == "model" else part)

    registry.add(NAME, [("model", big)])
    registry.sign = sign
    with servers.ours(tmp_path / "registry", log=tmp_path / "log") as server:
        server.wait_ready()
        answer = push(ai, registry, NAME, "m" if to == "store" else f"{server.host}/m").json
    assert len(readings) == 3
    assert answer["digest"] == big_digest


def test_71_damaged_for_good(ai, registry, big):
    registry.add(NAME, [("model", big)])
    registry.fail("large", "model", times=1000, corrupt=40 << 20)
    assert FILE in refused(ai, registry, "SourceCorrupt", status=7)
    assert sum(first == 0 for first, _ in ranges(registry)) == 5  # the config, the header in two steps, two whole readings


@pytest.mark.parametrize("kind", ["params", "license", "application/vnd.docker.container.image.v1+json"])
def test_71_small_parts_are_verified_too(ai, registry, kind):
    registry.add(NAME, [("model", gguf_bytes()), *PARTS])
    fault = registry.fail("large", kind, times=1, corrupt=3)
    push(ai, registry)
    assert fault.n_hits == 1
    registry.fail("large", kind, times=100, corrupt=3)
    assert push(ai, registry, NAME, "again", status=7).json["error"]["reason"] == "SourceCorrupt"


def test_71_an_empty_body(ai, registry, big):
    """Its hash, e3b0c442..., is what another client complained about."""
    registry.add(NAME, [("model", big)])
    registry.fail("large", "model", times=1000, status=200)
    message = refused(ai, registry, "SourceCorrupt", status=7)
    assert FILE in message and str(len(big)) in message


@pytest.mark.parametrize("address, files", [
    ("hf.co/owner/name:q8_0", ["tiny-Q8_0-00001-of-00002.gguf", "tiny-Q8_0-00002-of-00002.gguf"]),
    ("https://hf.co/owner/name:Q4_K_M", ["tiny-Q4_K_M.gguf"]), ("hf.co/owner/name:tiny-Q4_K_M.gguf", ["tiny-Q4_K_M.gguf"])])
def test_72_names_of_the_other_hub_go_to_its_own_api(ai, registry, address, files):
    """Its emulation of this registry refuses split models."""
    with Hub() as hub:
        hub.add("owner/name", {"tiny-Q4_K_M.gguf": gguf_bytes(), "tiny-Q8_0-00001-of-00002.gguf": split(0, 2),
                               "tiny-Q8_0-00002-of-00002.gguf": split(1, 2), "mmproj-Q8_0.gguf": gguf_bytes()})
        environment = {"OLLAMA_REGISTRY": registry.endpoint, "HF_ENDPOINT": hub.endpoint}
        assert kept(ai("push", "--json", address, "m", env=environment).json) == files
        message = ai("push", "--json", "hf.co/owner/name:Q5_0", "m", status=4, env=environment).json["error"]["message"]
    assert "tiny-Q4_K_M.gguf" in message and registry.requests == []


def test_73_no_list_of_tags_is_asked_for(ai, registry):
    registry.add(NAME, [("model", gguf_bytes())])
    push(ai, registry)
    assert "check the name and the tag" in push(ai, registry, "library/tiny:none", "n", status=4).json["error"]["message"]
    assert not registry.asked(path="tags") and not registry.asked(path="_catalog")


HEX = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize("digest", ["sha256:../../../../etc/passwd", f"sha256:{HEX.upper()}", f"sha256-{HEX}", f"sha512:{HEX * 2}",
                                    HEX, f"sha256:{HEX}/../x", f"sha256:{HEX[:-1]}", ""])
@pytest.mark.parametrize("of", ["config", "layer"])
def test_74_digests_of_another_form(ai, registry, digest, of):
    manifest = registry.add(NAME, [("model", gguf_bytes())]).manifest
    (manifest["config"] if of == "config" else manifest["layers"][0])["digest"] = digest
    assert "digest" in refused(ai, registry, "HubAnswer")
    assert len(registry.requests) == 1


def test_74_tokens(ai, big, big_digest):
    with Registry(private=["library/tiny"], token_calls=4) as registry:
        registry.add(NAME, [("model", big)])
        assert push(ai, registry).json["digest"] == big_digest
        asked = registry.asked(path="/token")
        assert asked and "scope=repository%3Alibrary%2Ftiny%3Apull" in asked[0]["path"]
        assert all("Authorization" not in request["headers"] for request in registry.asked("cdn"))


@pytest.mark.parametrize("realm", ["https://elsewhere.example/token", "http://localhost:{port}/token", "ftp://127.0.0.1/token",
                                   "https://ollama.com/token", "token"])
def test_74_a_token_service_elsewhere(ai, realm):
    with Registry(private=["library/tiny"]) as registry:
        registry.realm = realm.format(port=registry.cdn_server.server_port)
        registry.add(NAME, [("model", gguf_bytes())])
        refused(ai, registry, "RealmRefused")
        assert len(registry.requests) == 1


def test_74_private_models(ai):
    with Registry(private=["library/tiny"]) as registry:
        registry.add(NAME, [("model", gguf_bytes())])
        registry.fail("token", times=100, status=401)
        assert "private" in refused(ai, registry, "HubUnauthorized", status=5)
    with Registry() as registry:
        registry.fail("manifest", times=100, status=403)
        assert "login" in refused(ai, registry, "HubForbidden", status=5)


PASSING = {
    "rate limit": ("manifest", "", {"status": 429, "headers": {"Retry-After": "1"}}),
    "registry error": ("manifest", "", {"status": 500}),
    "manifest cut": ("manifest", "", {"cut": 30}),
    "part error": ("blob", "", {"status": 503}),
    "part dropped": ("blob", "", {"drop": True}),
    "cdn error": ("large", "model", {"status": 502}),
    "cdn limit": ("large", "model", {"status": 429, "headers": {"Retry-After": "1"}}),
    "cut": ("large", "model", {"cut": 1000}),
    "wrong range": ("large", "model", {"shift": 7}),
    "stall": ("large", "model", {"stall": 3}),
}


@pytest.mark.parametrize("name", PASSING)
def test_faults_that_pass(ai, registry, big, name, big_digest):
    on, part, how = PASSING[name]
    registry.add(NAME, [("model", big)])
    fault = registry.fail(on, part, times=2, **how)
    answer = push(ai, registry, env={"OLLAMA_DOWNLOAD_TIMEOUT": "1"}).json
    assert fault.n_hits == 2
    assert answer["digest"] == big_digest


@pytest.mark.parametrize("how", [{"status": 500}, {"drop": True}, {"cut": 5}, {"shift": 3}, {"stall": 2}], ids=str)
def test_every_request_fails_once(tmp_path, how):
    def run(n):
        """Digest, requests and hits with a fault at the n-th request; None: without."""
        with Registry() as registry:
            registry.add(NAME, [("model", gguf_bytes(1 << 16)), *PARTS])
            fault = registry.fail("any", after=n or 0, times=0 if n is None else 1, **how)
            answer = push(Command(tmp_path / f"home{n}"), registry, env={"OLLAMA_DOWNLOAD_TIMEOUT": "1"}).json
            return answer["digest"], len(registry.requests), fault.n_hits

    digest, n_requests, _ = run(None)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, range(n_requests)))
    assert n_requests > 8 and [(each[0], each[2]) for each in results] == [(digest, 1)] * n_requests


STAYING = {
    "longer": ("large", {"total": 5}, "SourceCorrupt", 7),
    "refused": ("large", {"status": 403, "body": b"no entry"}, "HubForbidden", 5),
    "gone": ("blob", {"status": 404}, "HubNotFound", 4),
    "page for a part": ("large", {"status": 200, "body": b"<html></html>"}, "SourceCorrupt", 7),
    "registry down": ("manifest", {"status": 503}, "HubTrouble", 8),
    "rate limit": ("manifest", {"status": 429, "headers": {"Retry-After": "0"}}, "HubRateLimited", 8),
    "bad name": ("manifest", {"status": 400}, "HubNotFound", 3),
    "page for an error": ("manifest", {"status": 404, "body": b"<html>sorry</html>", "headers": {"Content-Type": "text/html"}},
                          "HubNotFound", 4),
}


@pytest.mark.parametrize("name", STAYING)
def test_faults_that_stay(ai, registry, name):
    on, how, reason, status = STAYING[name]
    registry.add(NAME, [("model", gguf_bytes(1 << 21))])
    registry.fail(on, "model" if on == "large" else "", times=1000, **how)
    assert "html" not in refused(ai, registry, reason, status=status)


def test_messages_name_the_model_once(ai, registry):
    registry.add(NAME, [("model", gguf_bytes()), *PARTS])
    faults = [("manifest", {"status": 404}), ("blob", {"status": 404}), ("blob", {"status": 503}), ("large", {"corrupt": 3})]
    for on, how in faults:
        registry.faults.clear()
        registry.fail(on, times=1000, **how)
        message = push(ai, registry, status=None).json["error"]["message"]
        assert message.startswith(f"{registry.endpoint}/{NAME}") and message.count(registry.endpoint) == 1, message
        assert "part" in message or how != {"status": 404} or on == "manifest"


def test_no_ranges(ai, registry):
    """What is far into a large file cannot be had."""
    registry.add(NAME, [("model", gguf_bytes(80 << 20))])
    registry.fail("large", "model", times=1000, whole=True)
    refused(ai, registry, "WrongRange")


def test_shorter_than_the_manifest_says(ai, registry, big):
    model = registry.add(NAME, [("model", big)])
    model.layers[0].data = big[:-100]
    model.layers[0].digest = model.manifest["layers"][0]["digest"]
    assert "damaged" in refused(ai, registry, "SourceCorrupt", status=7)


def test_too_large_to_be_what_they_are(ai, registry):
    model = registry.add(NAME, [("model", gguf_bytes()), ("params", b" " * (256 << 10) + b"{}")])
    assert push(ai, registry, status=6).json["error"]["message"]
    model.manifest["layers"].pop()
    model.manifest["x"] = " " * (4 << 20)
    assert push(ai, registry, status=6)
    del model.manifest["x"]
    model.manifest["config"]["size"] = 1 << 40
    assert push(ai, registry, status=6)
    assert max(last for _, last in ranges(registry)) < 1 << 10  # nothing of it was read


def test_a_registry_that_is_not_there(ai):
    port = servers.free_port()
    result = ai("push", "--json", "https://ollama.com/library/x", "m", status=8, env={"OLLAMA_REGISTRY": f"http://127.0.0.1:{port}"})
    assert f"127.0.0.1:{port}" in result.json["error"]["message"] and "OLLAMA_REGISTRY" in result.json["error"]["message"]


def test_addresses_that_expire(ai, big, big_digest):
    with Registry(cdn_life_bytes=32 << 20) as registry:
        registry.add(NAME, [("model", big)])
        assert push(ai, registry).json["digest"] == big_digest
        assert len([request for request in registry.asked("cdn") if request["status"] == 403]) >= 1


def test_a_push_that_is_killed_goes_on(ai, registry, big, tmp_path, big_digest):
    """What our registry has is not read again."""
    registry.add(NAME, [("model", big)])
    with servers.ours(tmp_path / "registry", log=tmp_path / "log") as server:
        server.wait_ready()
        slow = registry.fail("large", "model", times=1000, slow=0.7)
        running = ai.popen("push", "--quiet", f"https://ollama.com/{NAME}", f"{server.host}/m",
                           env={"OLLAMA_REGISTRY": registry.endpoint})
        while stored_bytes(tmp_path / "registry") < 24 << 20:
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
        running.wait()
        time.sleep(1)  # until what it had asked for is answered
        slow.left, before = 0, len(ranges(registry))
        digest = push(ai, registry, NAME, f"{server.host}/m").json["digest"]
    assert min(first for first, _ in ranges(registry)[before:] if first > 0) >= 8 << 20
    assert digest == big_digest


def test_a_tag_that_moves(ai, registry, tmp_path):
    """What was found first is what is read."""
    first = registry.add(NAME, [("model", gguf_bytes())])
    registry.fail("blob", call=lambda: registry.models.update({"library/tiny:old": first})
                  or registry.add(NAME, [("model", gguf_bytes(seed=9))]))
    assert push(ai, registry).json["digest"] == disk_digest(ai, tmp_path / "disk", {FILE: gguf_bytes()})


def test_the_config_has_what_the_files_say(ai, registry, tmp_path):
    """What the registry declares is reported, and is no part of the artifact."""
    registry.add(NAME, [("model", gguf_bytes())], {"model_family": "other", "model_type": "99B", "file_type": "Q8_0"})
    answer = push(ai, registry).json
    assert answer["family"] == "other" and answer["quantization"] == "Q8_0"
    assert answer["digest"] == disk_digest(ai, tmp_path / "disk", {"tiny-8b-q8_0.gguf": gguf_bytes()})
    assert "other" not in json.dumps(ai("inspect", "--json", "m").json)
