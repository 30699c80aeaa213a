"""A push from a hub as a whole: what a killed one reads again, what it needs of memory, what it answers."""

import os
import pathlib
import signal
import time

import pytest

from harness import clients, servers
from servers.hf_hub import Hub

from .conftest import random_tensors, write_model

MODEL = "owner/name"
MIB = 1 << 20
SIZE = 120 * MIB


@pytest.fixture
def hub():
    with Hub() as hub:
        yield hub


@pytest.fixture
def large(tmp_path):
    return write_model(tmp_path / "large", random_tensors(5, n=SIZE // (10 * MIB), size=10 * MIB))


def push(ai, hub, reference, *options, status=0):
    return ai("push", "--json", f"{hub.endpoint}/{MODEL}", reference, *options, status=status, env={"HF_ENDPOINT": hub.endpoint})


def ranges(hub, since=0):
    """(first, last) of what was asked of the second host."""
    asked = [request["headers"]["Range"].removeprefix("bytes=").split("-") for request in hub.asked("cdn", "GET")[since:]]
    return [(int(first), int(last)) for first, last in asked]


def killed_at(ai, hub, reference, reached):
    """Kills a push when so much of the file was asked for; how many requests there were by then."""
    slow = hub.fail("large", times=10000, slow=0.15)
    running = ai.popen("push", "--quiet", f"{hub.endpoint}/{MODEL}", reference, env={"HF_ENDPOINT": hub.endpoint})
    while max((last for _, last in ranges(hub)), default=0) < reached:
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.wait()
    slow.left = 0
    return len(hub.asked("cdn", "GET"))


def read_after(hub, since):
    """Bytes asked for after the kill, without looks at the file's head."""
    return sum(last + 1 - first for first, last in ranges(hub, since) if last >= MIB)


def test_a_killed_push_to_a_registry_reads_little_again(ai, hub, large, tmp_path):
    hub.add(MODEL, large)
    with servers.ours(tmp_path / "registry", log=tmp_path / "log") as server:
        server.wait_ready()
        n_requests = killed_at(ai, hub, f"{server.host}/m", 90 * MIB)
        digest = push(ai, hub, f"{server.host}/m").json["digest"]
    # Fetched and not stored yet: a few windows, and what was being cut, encoded and sent.
    assert read_after(hub, n_requests) <= SIZE - 90 * MIB + 40 * MIB
    assert digest == ai("push", "--json", large, "disk").json["digest"]


def test_a_killed_push_into_the_local_store_goes_on(ai, hub, large):
    hub.add(MODEL, large)
    n_requests = killed_at(ai, hub, "m", 110 * MIB)
    digest = push(ai, hub, "m").json["digest"]
    assert read_after(hub, n_requests) <= SIZE - 48 * MIB + 10 * MIB  # the session saves itself every 48 MiB
    assert digest == ai("push", "--json", large, "disk").json["digest"]
    assert not any((ai.store / "_ai_models" / "uploads").rglob("state-*"))
    ai("verify", "m")


def test_a_push_that_is_stopped_goes_on_where_it_was(ai, hub, large):
    hub.add(MODEL, large)
    broken = hub.fail("large", times=10000, after=20, status=403)
    push(ai, hub, "m", status=5)
    broken.left, n_requests = 0, len(hub.asked("cdn", "GET"))
    push(ai, hub, "m")
    assert 0 < read_after(hub, n_requests) <= SIZE - 20 * MIB


def test_two_pushes_of_the_same_at_a_time(ai, hub, large):
    """Both have the same name for their session; both end well."""
    hub.add(MODEL, large)
    command = ("push", "--quiet", f"{hub.endpoint}/{MODEL}")
    running = [ai.popen(*command, f"m:{n}", env={"HF_ENDPOINT": hub.endpoint}) for n in range(2)]
    assert [process.wait(120) for process in running] == [0, 0]
    ai("verify", "m:0")
    ai("verify", "m:1")


def test_memory(ai, hub, tmp_path):
    """Far less than the model, whatever there is of it."""
    hub.add(MODEL, write_model(tmp_path / "huge", random_tensors(6, n=8, size=60 * MIB)))
    if b"__asan_init" in pathlib.Path(ai.program).read_bytes():
        pytest.skip("the sanitizer keeps freed memory")
    with servers.ours(tmp_path / "registry", log=tmp_path / "log") as server:
        server.wait_ready()
        for reference in (f"{server.host}/m", "m"):
            done = clients.run([ai.program, "push", "--quiet", "--store", ai.store, f"{hub.endpoint}/{MODEL}", reference],
                               home=ai.home, env={"HF_ENDPOINT": hub.endpoint})
            assert done.peak_rss < 280 * MIB, done.peak_rss / MIB
        assert server.peak_rss() < 120 * MIB


def test_the_answer(ai, hub, model):
    hub.add(MODEL, model, info={"cardData": {"license": "mit"}})
    answer = push(ai, hub, "m").json
    kept = {file["path"]: file.get("digest") for file in answer["files"] if file["kept"]}
    assert kept == {path: f"sha256:{clients.sha256_of(model / path)}" for path in kept} and len(kept) > 1
    left_out = [file for file in answer["files"] if not file["kept"]]
    assert left_out and all(file["why"] and "digest" not in file for file in left_out)
    assert answer["source"]["revision"] == hub.repositories[MODEL].refs["main"] and answer["source"]["license"] == "mit"


def test_the_size_to_expect(ai, hub, tmp_path):
    """From pieces of the weights: half of these shrink to nothing."""
    noise, zeros = os.urandom(20 * MIB), bytes(20 * MIB)
    tensors = {"a": ("F16", [10 * MIB], noise), "b": ("F16", [10 * MIB], zeros)}
    hub.add(MODEL, write_model(tmp_path / "half", tensors))
    answer = push(ai, hub, "m", "--dry-run").json
    assert 15 * MIB < answer["estimatedStoredBytes"] < 25 * MIB
    assert sum(last + 1 - first for first, last in ranges(hub)) <= 10 * MIB
    said = ai("push", "--dry-run", f"{hub.endpoint}/{MODEL}", "m", env={"HF_ENDPOINT": hub.endpoint})
    assert "in the store (estimated" in said.stdout


def test_a_long_pause_is_told(ai, hub, model):
    hub.add(MODEL, model)
    hub.fail("api", status=429, headers={"Retry-After": "5"})
    result = push(ai, hub, "m")
    assert "pause" in result.stderr and "429" in result.stderr
    hub.fail("api", status=429, headers={"Retry-After": "1"})
    assert "pause" not in push(ai, hub, "again").stderr
