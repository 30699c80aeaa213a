"""The local hub of tests/servers is one: the hub's own client works with it."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from servers.hf_hub import Hub

FILES = {"config.json": b"{}", "a/b c/d.txt": b"text\n" * 1000, "model.safetensors": os.urandom(3 << 20),
         "README.md": b"# x\n"}

SNAPSHOT = """
import json, sys, huggingface_hub
try:
    print(json.dumps({"folder": huggingface_hub.snapshot_download(sys.argv[1], revision=sys.argv[2] or None)}))
except Exception as error:
    print(json.dumps({"error": type(error).__name__}))
"""


@pytest.fixture
def hub():
    with Hub(page=2) as hub:
        hub.add("owner/name", FILES)
        hub.repositories["owner/name"].commit({**FILES, "more.json": b"[]"}, "a/b")
        hub.add("owner/gated", FILES, gated="auto", readers=["hf_good"])
        hub.add("owner/private", FILES, private=True, readers=["hf_good"])
        hub.renamed["old/name"] = "owner/name"
        yield hub


def environment(hub, home, token=None):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return {**kept, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1", **({"HF_TOKEN": token} if token else {})}


def content(folder):
    folder = pathlib.Path(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and ".cache" not in path.parts}


def snapshot(hub, home, name, revision="", token=None):
    done = subprocess.run([sys.executable, "-c", SNAPSHOT, name, revision], env=environment(hub, home, token), timeout=120,
                          check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name, revision, token", [
    ("owner/name", "", None), ("owner/name", "a/b", None), ("old/name", "main", None), ("owner/gated", "", "hf_good"),
    ("owner/private", "", "hf_good")])
def test_snapshot_download(hub, tmp_path, name, revision, token):
    more = {"more.json": b"[]"} if revision == "a/b" else {}
    assert content(snapshot(hub, tmp_path, name, revision, token)["folder"]) == {**FILES, **more}
    assert all("authorization" not in map(str.lower, request["headers"]) for request in hub.asked("cdn"))


@pytest.mark.parametrize("name, revision, token, error", [
    ("owner/none", "", None, "RepositoryNotFoundError"), ("owner/name", "none", None, "RevisionNotFoundError"),
    ("owner/private", "", None, "RepositoryNotFoundError"), ("owner/gated", "", None, "GatedRepoError")])
def test_refusals_are_understood(hub, tmp_path, name, revision, token, error):
    assert snapshot(hub, tmp_path, name, revision, token)["error"] == error


def test_hf_download(hub, tmp_path):
    command = [pathlib.Path(sys.executable).parent / "hf", "download", "owner/name", "--local-dir", tmp_path / "out"]
    subprocess.run(command, env=environment(hub, tmp_path / "home"), check=True, timeout=120, stdout=subprocess.DEVNULL)
    assert content(tmp_path / "out") == FILES


def test_it_goes_on_after_a_cut(hub, tmp_path):
    hub.fail("large", cut=1 << 20)
    assert content(snapshot(hub, tmp_path, "owner/name")["folder"]) == FILES
