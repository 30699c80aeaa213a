"""Public faults of other programs that ours must not repeat (rows A and B of the pitfalls of sources), over the local hub.

Each test names its rows. What a row asks of one function alone is tested beside that function: `git grep "pitfalls A"`."""

import json
import os
import threading
import time

import pytest

from harness import servers
from servers.hf_hub import Hub

from .conftest import CONFIG, gguf_bytes, random_tensors, safetensors_bytes, tree, write_model

HTML = b"<!DOCTYPE html><html><body>Sign in</body></html>"


@pytest.fixture(scope="module")
def shared_hub():
    with Hub(page=3) as hub:
        yield hub


@pytest.fixture
def hub(shared_hub):
    """The module's hub, without faults; repositories stay but are named anew by each test."""
    shared_hub.faults.clear()
    shared_hub.requests.clear()
    return shared_hub


@pytest.fixture
def name(hub):
    return f"owner/model{len(hub.repositories)}"


def push(ai, hub, where, ref="m", *options, status=0, env=None):
    return ai("push", "--json", f"{hub.endpoint}/{where}", ref, *options, status=status,
              env={"HF_ENDPOINT": hub.endpoint, **(env or {})})


def refused(ai, hub, where, reason, says, status=3, **options):
    result = push(ai, hub, where, status=status, **options)
    error = result.json["error"]
    assert error["reason"] == reason, error
    assert all(word in error["message"] for word in ([says] if isinstance(says, str) else says)), error
    assert ai("list", "--json").json["models"] == []
    return error["message"]


def same_as_disk(ai, answer, folder):
    return answer["digest"] == ai("push", "--json", folder, "disk").json["digest"]


@pytest.fixture
def weights(tmp_path):
    """Small files and weights of a little more than a window of reading ahead."""
    return write_model(tmp_path / "weights", random_tensors(5, n=3, size=3 << 20))


# Lists


def test_a1_a2_every_page_counts(ai, hub, name, model):
    """A list that ends early is no model, and the missing file is named."""
    hub.add(name, model)
    answer = push(ai, hub, name).json
    assert same_as_disk(ai, answer, model) and len(hub.asked("hub", path="/tree/")) == 2
    ai.store = ai.home / "other"
    hub.fail("api", "/tree/", times=100, headers={"Link": None})
    refused(ai, hub, name, "HubIncomplete", ["not complete", "tokenizer_config.json"], status=8)


def test_a6_a7_a9_a12_sizes_and_hashes_are_the_hubs_own(ai, hub, name, weights):
    """Redirects have bodies of 900 bytes, parts their own lengths and the second host other ETags."""
    hub.add(name, weights)
    assert same_as_disk(ai, push(ai, hub, name).json, weights)
    assert hub.asked("cdn", "HEAD") == [] and hub.asked("cdn", "GET")
    assert all("Range" in request["headers"] for request in hub.asked("cdn"))
    assert all(request["status"] in (302, 307) for request in hub.asked("hub", "HEAD", ".safetensors"))


@pytest.mark.parametrize("lacks", [("head",), ("commit",), ("tree",), ("tree", "commit", "head", "lengths"), ("lengths",)],
                         ids="+".join)
def test_a7_a17_a28_mirrors_that_lack_something(ai, weights, lacks):
    """No HEAD, no tree, no commit in the answers, no lengths of small files: what the list says is enough."""
    with Hub(prefix="/mirror", lacks=lacks) as mirror:
        mirror.add("owner/name", weights)
        assert same_as_disk(ai, push(ai, mirror, "owner/name").json, weights)


def test_a28_a_mirror_without_hashes(ai, weights):
    with Hub(lacks=("hashes",)) as mirror:
        mirror.add("owner/name", weights)
        refused(ai, mirror, "owner/name", "HubIncomplete", ["config.json", "no hash"])
        assert mirror.asked("cdn") == []


def test_a29_commits_of_another_length(ai, hub, name, model):
    repository = hub.add(name, model, long_commits=True)
    answer = push(ai, hub, name).json
    assert answer["source"]["revision"] == repository.refs["main"] and len(answer["source"]["revision"]) == 64
    assert same_as_disk(ai, answer, model)


@pytest.mark.parametrize("path", ["../evil.json", "a/../../evil.json", "..\\evil.json", "/etc/evil.json", "a//evil.json",
                                  "./evil.json", "a\x07evil.json", "C:\\evil.json"])
def test_a25_names_that_lead_elsewhere(ai, hub, name, model, path):
    """Nothing is written, wherever the name would lead."""
    files = {file: data for file, data in tree(model).items()}
    hub.add(name, {**files, path: b"{}"})
    refused(ai, hub, name, "FileRejected", "unsafe")
    assert hub.asked("cdn") == [] and list(ai.home.rglob("evil*")) == []


def test_a27_long_names(ai, hub, name, model, tmp_path):
    """Names as long as a file system allows, of files and of the directory that they are pulled into."""
    long_name, folder = "n" * 238 + "_config.json", "d" * 250
    files = {**tree(model), long_name: b"{}", "w" * 238 + ".safetensors": safetensors_bytes(random_tensors(9, n=1, size=64))}
    hub.add(name, files)
    push(ai, hub, name)
    ai("pull", "m", tmp_path / folder)
    assert tree(tmp_path / folder).keys() == files.keys() - {"README.md"}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


# Transfers


@pytest.mark.parametrize("on, how", [
    ("large", {"whole": True}), ("large", {"cut": 100000}), ("large", {"stall": 3, "stall_at": 100000}),
    ("small", {"stall": 3, "stall_at": 2}), ("small", {"chunked": True}), ("large", {"chunked": True})],
    ids=lambda value: value if isinstance(value, str) else "-".join(value))
def test_a12_a14_a17_a21_transfers_that_go_wrong(ai, hub, name, weights, on, how):
    """All of a file where a part was asked for, an early end, silence in the middle, no length."""
    hub.add(name, weights)
    fault = hub.fail(on, times=2, **how)
    assert same_as_disk(ai, push(ai, hub, name, env={"HF_HUB_DOWNLOAD_TIMEOUT": "1"}).json, weights)
    assert fault.n_hits == 2


def test_a17_compressed_against_our_wish(ai, hub, name, weights):
    hub.add(name, weights)
    hub.fail("small", "config.json", times=100, compress=True)
    message = refused(ai, hub, name, "HubAnswer", ["config.json", "gzip"])
    assert "hash" not in message
    assert all(request["headers"].get("Accept-Encoding") == "identity" for request in hub.requests)


def test_a19_less_than_the_pointer_says(ai, hub, name, weights):
    """The object is shorter than its pointer: said at once, and asked for no more than once."""
    hub.add(name, weights)
    hub.fail("large", times=1000, short=5)
    refused(ai, hub, name, "SourceCorrupt", ["model.safetensors", "damaged"], status=7)
    assert len(hub.asked("cdn")) <= 2


@pytest.mark.parametrize("kind, body", [
    ("text/plain", b"go away, asker of /x?X-Amz-Signature=0123"),
    ("application/xml", b"<Error><Code>AccessDenied</Code><Message>go away</Message><Sent>Signature=0123</Sent></Error>")])
def test_a20_no_entry_at_the_second_host(ai, hub, name, weights, kind, body):
    """One new address, then the answer's own words."""
    hub.add(name, weights)
    hub.fail("large", times=1000, status=403, body=body, headers={"Content-Type": kind})
    begin = time.monotonic()
    refused(ai, hub, name, "HubForbidden", ["model.safetensors", "go away"], status=5)
    assert len(hub.asked("cdn")) == 2 and time.monotonic() - begin < 10


def test_a10_a24_one_commit_and_no_raw_pages(ai, hub, name, model):
    """A pasted /raw/ address is a file's, and is never asked for as such."""
    (model / "q8.gguf").write_bytes(gguf_bytes())
    repository = hub.add(name, model)
    commit = repository.refs["main"]
    hub.fail("resolve", call=lambda: repository.commit({"q8.gguf": b"another"}))
    answer = push(ai, hub, f"{name}/raw/main/q8.gguf").json
    assert answer["source"]["revision"] == commit and same_as_disk(ai, answer, model / "q8.gguf")
    assert hub.asked(path="/raw/") == hub.asked(path="/blob/") == hub.asked(path="/resolve/main/") == []


@pytest.mark.parametrize("on, path, says", [
    ("api", "", ["web page", "HF_ENDPOINT"]), ("api", "/tree/", ["web page", "HF_ENDPOINT"]),
    ("small", "config.json", ["config.json", "web page"]), ("large", "", ["model.safetensors", "web page"])])
def test_a32_a_web_page_instead(ai, hub, name, model, on, path, says):
    """A login page of a proxy, or a hub's own page, with status 200."""
    hub.add(name, model)
    hub.fail(on, path, times=1000, status=200, body=HTML, headers={"Content-Type": "text/html"})
    refused(ai, hub, name, "HubAnswer", says)


def test_a32_a_web_page_as_weights(ai, hub, name, model):
    """The page itself was uploaded as the model."""
    hub.add(name, {**tree(model), "model.safetensors": HTML})
    refused(ai, hub, name, "FormatInvalid", ["model.safetensors", "web page"])


@pytest.mark.parametrize("form", ["{0}/", "{0}.git", "{0}/tree/main", "{0}/blob/main/model.safetensors", "{0}?revision=main",
                                  "{0}/tree/main/", " {0} "])
def test_a31_pasted_addresses(ai, hub, name, model, form):
    hub.add(name, {file: data for file, data in tree(model).items()})
    where = form.format(f"{hub.endpoint}/{name}")
    if "/blob/" in form:  # weights alone are no model of this format, but the address was understood
        answer = ai("push", "--json", where, "m", status=3, env={"HF_ENDPOINT": hub.endpoint}).json
        assert answer["error"]["reason"] == "UnsupportedFormat"
        return
    assert same_as_disk(ai, ai("push", "--json", where, "m", env={"HF_ENDPOINT": hub.endpoint}).json, model)


def test_a16_two_pushes_at_once(ai, hub, name, tmp_path):
    """Of the same model, from the same home and therefore with the same notes, to the same registry: neither harms the other."""
    big = write_model(tmp_path / "big", random_tensors(6, n=6, size=8 << 20))
    hub.add(name, big)
    hub.fail("large", times=1000, slow=0.1)
    with servers.ours(tmp_path / "registry", log=tmp_path / "log") as server:
        server.wait_ready()
        results = []

        def run(ref):
            results.append(push(ai, hub, name, f"{server.host}/m:{ref}", status=None))

        threads = [threading.Thread(target=run, args=(f"v{n}",)) for n in range(3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert [result.status for result in results] == [0, 0, 0], [result.stderr for result in results]
        assert len({result.json["digest"] for result in results}) == 1
        assert ai("verify", "--json", f"{server.host}/m:v1").json["intact"]
    assert same_as_disk(ai, results[0].json, big)


# Content of repositories: each is refused by its headers, before its weights are fetched

SHARDS = {f"model-0000{i}-of-00002.safetensors": safetensors_bytes({f"w{i}": ("F16", [512, 1024], os.urandom(1 << 20))})
          for i in (1, 2)}
INDEX = {"metadata": {"total_size": 2 << 20}, "weight_map": {f"w{i}": f"model-0000{i}-of-00002.safetensors" for i in (1, 2)}}
SHARD1, SHARD2 = SHARDS
STALE = {f"w{i}": f"model-{i:05}-of-00003.safetensors" for i in (1, 2, 3)}


def repository(*changes, index=INDEX):
    files = {"config.json": json.dumps(CONFIG).encode(), **SHARDS, "model.safetensors.index.json": json.dumps(index).encode()}
    for change in changes:
        files |= change
    return {path: data for path, data in files.items() if data is not None}


PIPELINE = {"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"],
            "text_encoder": ["transformers", "CLIPTextModel"], "vae": ["diffusers", "AutoencoderKL"]}
ONE = safetensors_bytes({"w": ("F16", [8], b"0" * 16)})


def pipeline(weights):
    configs = {f"{part}/config.json": b"{}" for part in ("unet", "text_encoder", "vae")}
    return {"model_index.json": json.dumps(PIPELINE).encode(), **configs, **{path: ONE for path in weights}}


BAD_REPOSITORIES = {
    "b34-shard-one-byte-short": (repository({SHARD2: SHARDS[SHARD2][:-1]}), "FormatInvalid", [SHARD2, "truncated"]),
    "b34-shard-shorter-than-its-header": (repository({SHARD2: SHARDS[SHARD2][:20]}), "FormatInvalid", [SHARD2, "truncated"]),
    "b35-one-byte-more": (repository({SHARD2: SHARDS[SHARD2] + b"x"}), "FormatInvalid", [SHARD2, "1 surplus byte"]),
    "b36-shard-missing": (repository({SHARD2: None}), "ShardMissing", [SHARD2]),
    "b36-shard-missing-without-index": (repository({SHARD2: None, "model.safetensors.index.json": None}), "ShardMissing", ["2"]),
    "b36-tensor-not-in-its-shard": (repository(index={"weight_map": {**INDEX["weight_map"], "w3": SHARD2}}), "ShardMismatch", ["w3"]),
    "b36-tensor-not-in-the-index": (repository({SHARD2: safetensors_bytes({"w2": ("F16", [8], b"0" * 16), "w9": ("F16", [8], b"0" * 16)})}),
                                    "ShardMismatch", ["w9", SHARD2]),
    "b37-index-of-another-set": (repository(index={"weight_map": STALE}), "StaleIndex", ["of-00003", "of-00002"]),
    "b42-components-without-the-variant": (
        pipeline(["unet/diffusion_pytorch_model.fp16.safetensors", "text_encoder/model.fp16.safetensors",
                  "vae/diffusion_pytorch_model.safetensors"]), "PipelineIncomplete", ["without a variant", "unet", "text_encoder"]),
    "b42-components-without-weights": (
        pipeline(["unet/diffusion_pytorch_model.safetensors"]), "PipelineIncomplete", ["text_encoder", "vae"]),
}


@pytest.mark.parametrize("case", BAD_REPOSITORIES)
def test_b34_b35_b36_b37_b42_bad_repositories(ai, hub, name, case):
    files, reason, says = BAD_REPOSITORIES[case]
    hub.add(name, files)
    message = refused(ai, hub, name, reason, says)
    if case == "b42-components-without-weights":
        assert "unet" not in message.replace(name, "")
    read = [request["headers"]["Range"].removeprefix("bytes=").split("-") for request in hub.asked("cdn")]
    assert all(int(last) - int(first) < 256 << 10 for first, last in read)


def test_b38_the_index_decides(ai, hub, name):
    """Both layouts of the same weights: one is taken, the other is left out and said to be."""
    hub.add(name, repository({"consolidated.safetensors": ONE, "pytorch_model.bin": b"\x80\x02."}))
    files = {file["path"]: file for file in push(ai, hub, name).json["files"]}
    assert [path for path, file in files.items() if file["kept"] and path.endswith((".safetensors", ".bin"))] == [SHARD1, SHARD2]
    assert "another copy" in files["consolidated.safetensors"]["why"]


def test_a23_a_total_that_is_wrong(ai, hub, name):
    """What the tensors add up to is what there is, whatever the card and the index say of themselves."""
    index = {**INDEX, "metadata": {"total_size": 7, "total_parameters": 333312}}
    hub.add(name, repository(index=index), info={"safetensors": {"parameters": {"F16": 333312}, "total": 333312}})
    answer = push(ai, hub, name).json
    assert answer["parameterCount"] == 2 * 512 * 1024 and len(answer["warnings"]) == 1


@pytest.mark.parametrize("change, context", [
    ({"rope_scaling": None, "sliding_window": None, "num_key_value_heads": None}, 4096),  # B44
    ({"max_position_embeddings": 10**30}, None), ({"max_position_embeddings": -1}, None),  # B45
    ({"max_position_embeddings": "a lot"}, None), ({"max_position_embeddings": 10**9}, 10**9),
    ({"max_position_embeddings": 8192, "model_max_length": 131072}, 131072)])  # B46
def test_b44_b45_b46_what_a_configuration_claims(ai, hub, name, model, change, context):
    """It is told as it is declared, and stops nothing."""
    hub.add(name, {**tree(model), "config.json": json.dumps({**CONFIG, **change}).encode(), "tokenizer_config.json": b"{}"})
    assert push(ai, hub, name).json.get("contextWindowTokens") == context


def test_b49_the_template_beside_the_tokenizer(ai, hub, name, model):
    """chat_template.jinja is kept and preferred to the one inside."""
    inner = json.dumps({"chat_template": "{% if tools %}"}).encode()
    files = {**tree(model), "tokenizer_config.json": inner}
    hub.add(name, files)
    assert push(ai, hub, name).json["features"] == ["ToolCalling"]
    hub.add(name, {**files, "chat_template.jinja": b"{{ messages }}"})
    answer = push(ai, hub, name).json
    assert answer["features"] == [] and {"path": "chat_template.jinja", "sizeBytes": 14, "role": "companion", "kept": True}.items() <= next(
        file for file in answer["files"] if file["path"] == "chat_template.jinja").items()
