"""The commands on the local store."""

import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import zipfile

import pytest

from .conftest import CONFIG, Command, gguf_bytes, random_tensors, safetensors_bytes, tree, write_model

KEPT = {"config.json", "tokenizer_config.json", "model.safetensors"}


def pushed(ai, path, reference="m:v1", *options):
    return ai("push", "--json", *options, path, reference).json


def test_push_pull_gives_the_same_files(ai, model, tmp_path):
    answer = pushed(ai, model)
    assert {f["path"] for f in answer["files"] if f["kept"]} == KEPT
    assert [f["path"] for f in answer["files"] if not f["kept"]] == ["README.md"]
    pulled = ai("pull", "--json", "m:v1", tmp_path / "out").json
    assert pulled["digest"] == answer["digest"] and not pulled["alreadyThere"] and pulled["files"] == 3
    assert tree(tmp_path / "out") == {name: data for name, data in tree(model).items() if name in KEPT}
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    assert all((path.stat().st_mode & 0o777) == 0o644 for path in (tmp_path / "out").iterdir())


def test_pull_again_is_done_at_once_and_notices_a_change(ai, model, tmp_path):
    pushed(ai, model)
    ai("pull", "m:v1", tmp_path / "out")
    assert ai("pull", "--json", "m:v1", tmp_path / "out").json["alreadyThere"]
    weights = tmp_path / "out" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    refused = ai("pull", "--json", "m:v1", tmp_path / "out", status=3)
    assert refused.json["error"]["reason"] == "DirectoryInUse" and "--force" in refused.stderr
    ai("pull", "--force", "m:v1", tmp_path / "out")
    assert weights.read_bytes() == (model / "model.safetensors").read_bytes()
    assert not list(tmp_path.glob(".out*"))


def test_pull_into_an_empty_directory_and_through_a_link(ai, model, tmp_path):
    pushed(ai, model)
    (tmp_path / "empty").mkdir()
    ai("pull", "m:v1", tmp_path / "empty")
    assert set(tree(tmp_path / "empty")) == KEPT
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    ai("pull", "m:v1", tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and set(tree(tmp_path / "real")) == KEPT


def test_pull_refuses_files_and_the_current_directory(ai, model, tmp_path):
    pushed(ai, model)
    (tmp_path / "file").write_text("x")
    ai("pull", "m:v1", tmp_path / "file", status=3)
    (tmp_path / "here").mkdir()
    assert "name a new one" in ai("pull", "m:v1", ".", status=3, cwd=tmp_path / "here").stderr
    ai("pull", "m:v1", tmp_path / "no" / "such" / "parent", status=4)


def test_the_real_model(ai, real_model, tmp_path):
    answer = pushed(ai, real_model, "minilm")
    assert answer["format"] == "Safetensors" and answer["family"] == "bert" and answer["architecture"] == "BertModel"
    seen = ai("inspect", "--json", "minilm").json
    assert seen["digest"] == answer["digest"] and 22_000_000 < seen["parameterCount"] < 23_000_000
    assert seen["storedBytes"] <= 0.84 * seen["logicalBytes"]
    assert "Parameters" in ai("inspect", "minilm:latest").stdout
    ai("pull", "minilm", tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (real_model / "model.safetensors").read_bytes()
    assert (tmp_path / "out" / "1_Pooling" / "config.json").exists()
    assert ai("verify", "--json", "minilm").json["intact"]


def test_the_digest_depends_on_content_alone(ai, model, tmp_path):
    first = pushed(ai, model)["digest"]
    other = tmp_path / "elsewhere" / "named otherwise"
    old = os.umask(0o077)
    try:
        other.mkdir(parents=True)
        for name in sorted(tree(model), reverse=True):
            shutil.copyfile(model / name, other / name)
            os.utime(other / name, (1, 1))
    finally:
        os.umask(old)
    second = Command(tmp_path / "home2")
    assert pushed(second, other, "other/name:tag")["digest"] == first


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.zst", "zip", "zip-stored"])
def test_archives_give_the_digest_of_the_directory(ai, model, tmp_path, kind):
    wanted = pushed(ai, model)["digest"]
    path = tmp_path / "archive.bin"  # the name tells nothing
    if kind.startswith("zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED if kind == "zip-stored" else zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(model.iterdir()):
                archive.write(file, f"top/{file.name}")
    else:
        with tarfile.open(tmp_path / "plain", "w:gz" if kind == "tar.gz" else "w") as archive:
            archive.add(model, "top")
        if kind == "tar.zst":
            import zstandard
            path.write_bytes(zstandard.ZstdCompressor().compress((tmp_path / "plain").read_bytes()))
        else:
            (tmp_path / "plain").rename(path)
    spool = tmp_path / "spool"
    spool.mkdir()
    answer = ai("push", "--json", path, "a:v1", env={"TMPDIR": str(spool)}).json
    assert answer["digest"] == wanted
    assert not list(spool.iterdir())


def test_single_files(ai, tmp_path):
    (tmp_path / "tiny.gguf").write_bytes(gguf_bytes())
    answer = pushed(ai, tmp_path / "tiny.gguf", "gguf")
    assert answer["format"] == "GGUF" and answer["contextWindowTokens"] == 2048
    ai("pull", "gguf", tmp_path / "out")
    assert tree(tmp_path / "out") == {"tiny.gguf": gguf_bytes()}


def test_dry_run_stores_nothing(ai, model):
    answer = pushed(ai, model, "m:v1", "--dry-run")
    assert answer["dryRun"] and answer["format"] == "Safetensors" and "digest" not in answer
    assert not ai.store.exists()


def test_list_counts_shared_bytes_once(ai, model, tmp_path):
    assert ai("list", "--json").json == {"models": [], "logicalBytes": 0, "storedBytes": 0}
    pushed(ai, model)
    tensors = random_tensors(1)
    tensors["layer.3.weight"] = random_tensors(2)["layer.3.weight"]
    pushed(ai, write_model(tmp_path / "tuned", tensors), "m:v2")
    listing = ai("list", "--json").json
    assert [(m["repository"], m["tag"]) for m in listing["models"]] == [("m", "v1"), ("m", "v2")]
    one = listing["models"][0]
    assert one["logicalBytes"] > 12 << 20 and listing["storedBytes"] < 1.4 * one["storedBytes"]
    assert ai("list", "--names").stdout == "m:v1\nm:v2\n"
    assert ai("list", "nothing", status=4).stderr.startswith("ai-models list: the local store has no repository nothing")


def test_rm_frees_space(ai, model, tmp_path):
    pushed(ai, model)
    ai("copy", "m:v1", "other:v1")
    before = sum(f.stat().st_size for f in ai.store.rglob("*") if f.is_file())
    ai("rm", "m:v1")
    ai("inspect", "m:v1", status=4)
    assert ai("verify", "--json", "other:v1").json["intact"]
    answer = ai("rm", "--json", "other:v1").json
    after = sum(f.stat().st_size for f in ai.store.rglob("*") if f.is_file())
    assert after < before / 100 and answer["freedBytes"] > 12 << 20
    assert ai("list", "--json").json["models"] == []
    ai("rm", "other:v1", status=4)


def test_rm_keeps_what_another_tag_names(ai, model):
    pushed(ai, model)
    pushed(ai, model, "m:v2")
    assert ai("rm", "--json", "m:v1").json["removedManifests"] == 0
    assert ai("verify", "--json", "m:v2").json["intact"]


def test_copy_within_the_store_moves_nothing(ai, model):
    digest = pushed(ai, model)["digest"]
    answer = ai("copy", "--json", "m:v1", "team/renamed:v9").json
    assert answer["digest"] == digest and answer["movedBytes"] == 0
    assert ai("inspect", "--json", f"team/renamed@{digest}").json["digest"] == digest


def test_inspect_a_path_and_json_keys(ai, model):
    seen = ai("inspect", "--json", model).json
    assert seen["path"] == str(model) and seen["contextWindowTokens"] == CONFIG["max_position_embeddings"]
    pushed(ai, model)
    keys = {"reference", "digest", "mediaType", "artifactType", "logicalBytes", "storedBytes", "format", "family",
            "architecture", "task", "precision", "parameterCount", "contextWindowTokens", "weightsBytes",
            "endpointTypes", "features", "warnings", "files"}
    answer = ai("inspect", "--json", "m:v1").json
    assert set(answer) == keys
    assert set(answer["files"][0]) == {"path", "sizeBytes", "digest", "mediaType", "role"}


def test_shards_must_agree_with_their_index(ai, tmp_path):
    folder = write_model(tmp_path / "sharded")
    (folder / "model.safetensors").unlink()
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    tensors = random_tensors(1, n=2, size=1 << 16)
    index = {"metadata": {}, "weight_map": {}}
    for file, (name, tensor) in zip(names, tensors.items()):
        (folder / file).write_bytes(safetensors_bytes({name: tensor}))
        index["weight_map"][name] = file
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert pushed(ai, folder)["format"] == "Safetensors"
    (folder / names[1]).unlink()
    refused = ai("push", "--json", folder, "bad", status=3)
    assert names[1] in refused.stderr and refused.json["error"]["reason"].startswith("Shard")


def test_nothing_is_written_outside_the_store_and_the_target(ai, model, tmp_path):
    pushed(ai, model)
    ai("pull", "m:v1", tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"home", "model", "out"}
    assert {path.name for path in ai.home.iterdir()} <= {"store", ".cache"}


def test_stdout_that_cannot_be_written_is_an_error(ai, model):
    pushed(ai, model)
    with open("/dev/full", "w") as full:
        done = subprocess.run([ai.program, "list"], env=ai.environment(), stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 6 and "standard output" in done.stderr


def test_the_installed_completion_is_the_generated_one(ai):
    root = pathlib.Path(__file__).resolve().parents[2]
    assert ai("completion", "bash").stdout == (root / "completions" / "ai-models.bash").read_text()
    assert ai("completion", "zsh").stdout == (root / "completions" / "_ai-models").read_text()
