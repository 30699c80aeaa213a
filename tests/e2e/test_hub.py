"""Models of a Hugging Face hub: the local one of tests/servers, with all that can go wrong between."""

import json
import signal
import time

import pytest

from harness import servers
from servers.hf_hub import Hub

from .conftest import CONFIG, gguf_bytes, random_tensors, safetensors_bytes, tree, wait_for_chunks, write_model

MODEL = "owner/name"


@pytest.fixture
def hub():
    with Hub() as hub:
        yield hub


@pytest.fixture
def big(tmp_path):
    """A model whose weights take several windows of reading ahead."""
    return write_model(tmp_path / "big", random_tensors(3, n=6, size=10 << 20))


def push(ai, hub, where=MODEL, ref="m", *options, status=0, env=None):
    return ai("push", "--json", f"{hub.endpoint}/{where}", ref, *options, status=status,
              env={"HF_ENDPOINT": hub.endpoint, **(env or {})})


def refused(ai, hub, reason, where=MODEL, status=3, **options):
    result = push(ai, hub, where, status=status, **options)
    error = result.json["error"]
    assert error["reason"] == reason, error
    assert ai("list", "--json").json["models"] == []
    return error["message"]


def test_the_same_digest_as_from_disk(ai, hub, big, tmp_path):
    hub.add(MODEL, big, info={"pipeline_tag": "text-generation", "cardData": {"license": "apache-2.0"}})
    commit = hub.repositories[MODEL].refs["main"]
    answer = push(ai, hub).json
    assert answer["digest"] == ai("push", "--json", big, "disk").json["digest"]
    assert answer["source"] == {"url": f"{hub.endpoint}/{MODEL}", "revision": commit, "license": "apache-2.0"}
    assert answer["task"] == "text-generation"
    ai("pull", "m", tmp_path / "out")
    assert tree(tmp_path / "out") == {path: data for path, data in tree(big).items() if path != "README.md"}
    # A token goes nowhere else, large files come from the second host, every file of one commit.
    assert all("Authorization" not in request["headers"] for request in hub.asked("cdn"))
    assert all(commit in request["path"] for request in hub.asked("hub", path="/resolve/"))


def test_content_that_is_there_is_not_read(ai, hub, big):
    hub.add(MODEL, big)
    push(ai, hub)
    before = len(hub.asked("cdn"))
    answer = push(ai, hub, MODEL, "again").json
    assert answer["movedBytes"] < 1 << 20
    assert len(hub.asked("cdn")) - before <= 2  # the header


def test_dry_run_reads_little(ai, hub, big):
    hub.add(MODEL, big)
    answer = push(ai, hub, MODEL, "m", "--dry-run").json
    kept = {file["path"] for file in answer["files"] if file["kept"]}
    assert answer["dryRun"] and kept == {"config.json", "tokenizer_config.json", "model.safetensors"}
    assert answer["logicalBytes"] > 60 << 20 and answer["architecture"] == "LlamaForCausalLM"
    sizes = [request["headers"]["Range"] for request in hub.asked("cdn", "GET")]
    assert len(sizes) <= 10 and ai("list", "--json").json["models"] == []  # headers, and samples of the weights


def test_inspect(ai, hub, model):
    hub.add(MODEL, model)
    answer = ai("inspect", "--json", f"{hub.endpoint}/{MODEL}", env={"HF_ENDPOINT": hub.endpoint}).json
    assert answer["format"] == "Safetensors" and answer["source"]["revision"] == hub.repositories[MODEL].refs["main"]


@pytest.mark.parametrize("where", ["tree/a%2Fb", "tree/a/b", "?revision=a%2Fb", "tree/a%2Fb/"])
def test_a_branch_with_a_slash(ai, hub, model, where):
    repository = hub.add(MODEL, {"config.json": b"{}"})
    commit = repository.commit(model, "a/b")
    separator = "" if where.startswith("?") else "/"
    assert push(ai, hub, f"{MODEL}{separator}{where}").json["source"]["revision"] == commit


def test_a_file_and_a_folder(ai, hub, model, tmp_path):
    (model / "gguf").mkdir()
    (model / "gguf" / "q4.gguf").write_bytes(gguf_bytes())
    (model / "gguf" / "q8.gguf").write_bytes(gguf_bytes(1 << 13))
    hub.add(MODEL, model)
    refused(ai, hub, "AmbiguousFormat")
    one = push(ai, hub, f"{MODEL}/blob/main/gguf/q8.gguf").json
    assert [file["path"] for file in one["files"] if file["kept"]] == ["q8.gguf"]
    assert one["digest"] == ai("push", "--json", model / "gguf" / "q8.gguf", "disk").json["digest"]
    folder = push(ai, hub, f"{MODEL}/tree/main/gguf", "f").json
    assert folder["digest"] == ai("push", "--json", model / "gguf", "disk").json["digest"]


def test_pages_and_a_mirror_that_names_its_upstream(ai, model):
    for n in range(9):
        (model / f"extra{n}.txt").write_text("x")
    with Hub(page=2, prefix="/hf", link_host="https://huggingface.co") as hub:
        hub.add(MODEL, model)
        assert push(ai, hub).json["digest"] == ai("push", "--json", model, "disk").json["digest"]
        assert len(hub.asked("hub", path="/tree/")) > 4


def test_renamed_and_oldest_names(ai, hub, model):
    hub.add("gpt2", model)
    hub.renamed["old/name"] = "gpt2"
    answer = push(ai, hub, "old/name").json
    assert answer["source"]["url"] == f"{hub.endpoint}/gpt2"
    assert push(ai, hub, "gpt2", "again").json["digest"] == answer["digest"]


def test_a_branch_that_moves(ai, hub, model):
    """What was found first is what is read, whatever is committed meanwhile (pitfalls A10)."""
    repository = hub.add(MODEL, model)
    hub.fail("resolve", call=lambda: repository.commit({"config.json": b"{}", "model.safetensors": b"x"}))
    assert push(ai, hub).json["digest"] == ai("push", "--json", model, "disk").json["digest"]


def test_the_task_is_what_the_results_agree_on(ai, hub, model):
    def results(*tasks):
        return {"pipeline_tag": "text-generation", "cardData": {"model-index": [{"results": [{"task": {"type": task}} for task in tasks]}]}}

    repository = hub.add(MODEL, model, info=results("feature-extraction", "feature-extraction"))
    assert push(ai, hub).json["task"] == "feature-extraction"
    repository.info = results("feature-extraction", "fill-mask")
    assert push(ai, hub).json["task"] == "text-generation"


def test_private_and_gated(ai, hub, model, tmp_path):
    """Pitfalls A30."""
    hub.add(MODEL, model, private=True, readers=["hf_good"])
    hub.add("owner/gated", model, gated="manual", readers=["hf_good"])
    hub.tokens["hf_other"] = "other"
    assert "HF_TOKEN" in refused(ai, hub, "HubUnauthorized", status=5)
    assert "not accept the token" in refused(ai, hub, "HubUnauthorized", status=5, env={"HF_TOKEN": "hf_bad"})
    refused(ai, hub, "HubNotFound", status=4, env={"HF_TOKEN": "hf_other"})
    assert "accept its terms" in refused(ai, hub, "HubGated", "owner/gated", status=5)
    assert "no access yet" in refused(ai, hub, "HubGated", "owner/gated", status=5, env={"HF_TOKEN": "hf_other"})
    push(ai, hub, env={"HF_TOKEN": " hf_good\n"})
    (tmp_path / "token").write_text("hf_good\n")
    push(ai, hub, "owner/gated", "g", "--token-file", tmp_path / "token")
    assert all("Authorization" not in request["headers"] for request in hub.asked("cdn"))


def test_the_login_of_the_hubs_own_tools(ai, hub, model):
    hub.add(MODEL, model, private=True, readers=["hf_good"])
    folder = ai.home / ".cache" / "huggingface"
    folder.mkdir(parents=True)
    (folder / "token").write_text("hf_good\n")
    refused(ai, hub, "HubUnauthorized", status=5, env={"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"})
    push(ai, hub)


@pytest.mark.parametrize("where, reason, status", [
    ("owner/none", "HubUnauthorized", 5), (f"{MODEL}/tree/none", "HubRevisionNotFound", 4),
    (f"{MODEL}/blob/main/none.gguf", None, 4), ("datasets/owner/name", "UnsupportedSource", 3)])
def test_what_is_not_there(ai, hub, model, where, reason, status):
    hub.add(MODEL, model)
    refused(ai, hub, reason, where, status) if reason else push(ai, hub, where, status=status)


def test_other_urls(ai):
    for url in ("https://example.org/a/b", "ftp://huggingface.co/a/b", "s3://bucket/key"):
        assert ai("push", "--json", url, "m", status=3).json["error"]["reason"] == "UnsupportedSource"
    elsewhere = ai("push", "https://x:secret@example.org/a/b?token=secret", "m", status=3).stderr
    assert "example.org" in elsewhere and "huggingface.co/OWNER/NAME" in elsewhere and "ollama.com/library" in elsewhere and "secret" not in elsewhere
    assert "secret" not in ai("push", "https://x:secret@huggingface.co/a/b?token=secret", "m", status=3).stderr


PASSING = {
    "rate limit": ("api", {"status": 429, "headers": {"RateLimit": '"api";r=0;t=0'}}),
    "retry after": ("api", {"status": 429, "headers": {"Retry-After": "1"}}),
    "server error": ("api", {"status": 500}),
    "resolve error": ("resolve", {"status": 503}),
    "small cut": ("small", {"cut": 3}),
    "cdn error": ("large", {"status": 502}),
    "cdn limit": ("large", {"status": 429, "headers": {"Retry-After": "1"}}),
    "cut": ("large", {"cut": 1000}),
    "wrong range": ("large", {"shift": 7}),
    "stall": ("large", {"stall": 3}),
}


@pytest.mark.parametrize("name", PASSING)
def test_faults_that_pass(ai, hub, big, name):
    on, how = PASSING[name]
    hub.add(MODEL, big)
    fault = hub.fail(on, times=2, **how)
    answer = push(ai, hub, env={"HF_HUB_DOWNLOAD_TIMEOUT": "1"}).json
    assert fault.n_hits == 2
    assert answer["digest"] == ai("push", "--json", big, "disk").json["digest"]


@pytest.mark.parametrize("how", [{"status": 500}, {"drop": True}, {"cut": 5}, {"shift": 3}, {"stall": 2}], ids=str)
def test_every_request_fails_once(ai, hub, model, how):
    hub.add(MODEL, model)
    digest = push(ai, hub).json["digest"]
    n_requests = len(hub.requests)
    for n in range(n_requests):
        hub.faults.clear()
        fault = hub.fail("any", after=n, **how)
        ai.store = ai.home / f"store{n}"
        answer = push(ai, hub, env={"HF_HUB_DOWNLOAD_TIMEOUT": "1"}).json
        assert answer["digest"] == digest and fault.n_hits == 1, n
    assert n_requests > 8


STAYING = {
    "corrupt": ("large", {"corrupt": 40 << 20, "times": 100}, "SourceCorrupt", 7),
    "small corrupt": ("small", {"corrupt": 1, "times": 100}, "SourceCorrupt", 7),
    "longer": ("large", {"total": 5, "times": 100}, "SourceCorrupt", 7),
    "small longer": ("small", {"whole": True, "total": 5, "times": 100}, "SourceChanged", 3),
    "no ranges": ("large", {"whole": True, "times": 100}, "WrongRange", 3),
    "refused": ("large", {"status": 403, "body": b"no entry", "times": 100}, "HubForbidden", 5),
    "hub down": ("api", {"status": 503, "times": 100}, "HubTrouble", 8),
}


@pytest.mark.parametrize("name", STAYING)
def test_faults_that_stay(ai, hub, tmp_path, name):
    on, how, reason, status = STAYING[name]
    hub.add(MODEL, write_model(tmp_path / "big", random_tensors(3, n=8, size=10 << 20)))
    hub.fail(on, **how)
    refused(ai, hub, reason, status=status)


def test_addresses_that_expire(ai, big):
    with Hub(cdn_life_bytes=12 << 20) as hub:
        hub.add(MODEL, big)
        assert push(ai, hub).json["digest"] == ai("push", "--json", big, "disk").json["digest"]
        assert len([request for request in hub.asked("cdn") if request["status"] == 403]) >= 2


def test_a_wrong_model_fails_before_its_weights(ai, hub, model):
    data = safetensors_bytes(random_tensors(1, n=8))
    files = {"config.json": (model / "config.json").read_bytes(), "model-00001-of-00002.safetensors": data}
    hub.add(MODEL, files)
    refused(ai, hub, "ShardMissing")
    assert hub.asked("cdn") == []
    hub.add(MODEL, {"config.json": files["config.json"], "model.safetensors": data[:-1]})
    refused(ai, hub, "FormatInvalid")
    assert len(hub.asked("cdn")) <= 2


def test_headers_of_many_files_come_at_once(ai, hub):
    n = 24
    files = {f"model-{i:05}-of-{n:05}.safetensors": safetensors_bytes({f"w{i}": ("F16", [8], b"0" * 16)})
             for i in range(1, n + 1)}
    index = {"weight_map": {f"w{i}": f"model-{i:05}-of-{n:05}.safetensors" for i in range(1, n + 1)}}
    files |= {"config.json": json.dumps(CONFIG).encode(), "model.safetensors.index.json": json.dumps(index).encode()}
    hub.add(MODEL, files)
    hub.fail("large", times=n, slow=0.3)
    assert push(ai, hub, MODEL, "m", "--dry-run").json["logicalBytes"] > n * 16
    assert hub.most_at_once >= 4 and len(hub.asked("cdn")) == n


def first_bytes(requests):
    """Where the ranges of a transfer begin; looks into headers left out."""
    ranges = [request["headers"]["Range"].removeprefix("bytes=").split("-") for request in requests]
    return [int(first) for first, _ in ranges if int(first) > 0]


def test_a_push_that_is_killed_goes_on(ai, hub, big, tmp_path):
    """What the registry has is not read from the hub again (pitfalls A15)."""
    hub.add(MODEL, big)
    with servers.ours(tmp_path / "registry", log=tmp_path / "log") as server:
        server.wait_ready()
        slow = hub.fail("large", times=1000, slow=0.7)
        running = ai.popen("push", "--quiet", f"{hub.endpoint}/{MODEL}", f"{server.host}/m", env={"HF_ENDPOINT": hub.endpoint})
        while not any(first > 24 << 20 for first in first_bytes(hub.asked("cdn", "GET"))):
            assert running.poll() is None
            time.sleep(0.05)
        wait_for_chunks(tmp_path / "registry", running)
        running.send_signal(signal.SIGKILL)
        running.wait()
        slow.left, before = 0, len(hub.asked("cdn", "GET"))
        digest = push(ai, hub, MODEL, f"{server.host}/m").json["digest"]
    assert min(first_bytes(hub.asked("cdn", "GET")[before:])) >= 8 << 20
    assert digest == ai("push", "--json", big, "disk").json["digest"]


def test_a_resumed_push_of_damaged_content_fails(ai, hub, big, tmp_path):
    """The beginning went in an earlier process and was another than the hub states now."""
    hub.add(MODEL, big)
    with servers.ours(tmp_path / "registry", log=tmp_path / "log") as server:
        server.wait_ready()
        fault = hub.fail("large", times=1000, corrupt=2 << 20, slow=0.7)
        running = ai.popen("push", "--quiet", f"{hub.endpoint}/{MODEL}", f"{server.host}/m", env={"HF_ENDPOINT": hub.endpoint})
        while not any(first > 24 << 20 for first in first_bytes(hub.asked("cdn", "GET"))):
            assert running.poll() is None
            time.sleep(0.05)
        wait_for_chunks(tmp_path / "registry", running)
        running.send_signal(signal.SIGKILL)
        running.wait()
        fault.left = 0
        # The registry finds out, and the content is sent once more from its start.
        digest = push(ai, hub, MODEL, f"{server.host}/m").json["digest"]
    assert digest == ai("push", "--json", big, "disk").json["digest"]


def test_options_that_do_not_fit(ai, model):
    assert ai("push", "--token-file", "x", model, "m", status=2)
    assert ai("push", "--token-file", ai.home / "none", "hf://a/b", "m", status=None).status in (4, 5)
