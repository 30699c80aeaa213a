"""When things are bad: hostile input, damage, full disks, kills."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import tarfile
import threading
import time

import pytest

from .conftest import Command, gguf_bytes, random_tensors, safetensors_bytes, tree, write_model


def refused(ai, path, reason=None, status=3):
    result = ai("push", "--json", path, "bad", status=status)
    assert reason is None or result.json["error"]["reason"] == reason, result.stdout
    assert ai("list", "--json").json["models"] == []
    return result.stderr


HEADERS = {
    "huge length": (2**63).to_bytes(8, "little") + b"{}",
    "length beyond the file": (1000).to_bytes(8, "little") + b"{}",
    "not json": (8).to_bytes(8, "little") + b"{{{{{{{{",
    "empty": b"",
    "seven bytes": b"1234567",
    "web page": b"<!DOCTYPE html><html>" + b" " * 100,
}


@pytest.mark.parametrize("name", HEADERS)
def test_hostile_safetensors(ai, model, name):
    (model / "model.safetensors").write_bytes(HEADERS[name])
    assert "model.safetensors" in refused(ai, model)


@pytest.mark.parametrize("change", ["short", "long", "overlap", "hole"])
def test_weights_that_do_not_add_up(ai, model, change):
    data = safetensors_bytes(random_tensors(1, n=2, size=1024))
    edits = {
        "short": lambda d: d[:-1],
        "long": lambda d: d + b"x",
        "overlap": lambda d: d.replace(b"[1024, 2048]", b"[   0, 1024]"),
        "hole": lambda d: d.replace(b"[0, 1024]", b"[8, 1024]"),
    }
    (model / "model.safetensors").write_bytes(edits[change](data))
    refused(ai, model, "FormatInvalid")


def test_lfs_pointers_are_named(ai, model):
    (model / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    assert "git lfs pull" in refused(ai, model, "LfsPointer")


def test_pickle_where_weights_should_be(ai, model):
    (model / "model.safetensors").write_bytes(b"\x80\x02}q\x00." + b"\0" * 100)
    refused(ai, model)


def test_gguf_one_byte_short(ai, tmp_path):
    (tmp_path / "m.gguf").write_bytes(gguf_bytes()[:-1])
    refused(ai, tmp_path / "m.gguf")


def add_member(archive, name, **fields):
    member = tarfile.TarInfo(name)
    for key, value in fields.items():
        setattr(member, key, value)
    archive.addfile(member)


@pytest.mark.parametrize("name,fields", [
    ("../evil", {}), ("/etc/evil", {}), ("link", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
    ("hard", {"type": tarfile.LNKTYPE, "linkname": "config.json"}), ("device", {"type": tarfile.CHRTYPE}),
    ("config.json", {}),
])
def test_hostile_archives(ai, model, tmp_path, name, fields):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for file in sorted(model.iterdir()):
            archive.add(file, file.name)
        add_member(archive, name, **fields)
    refused(ai, tmp_path / "a.tar")
    assert not (tmp_path / "evil").exists()


def test_special_files_and_links_to_directories(ai, model, tmp_path):
    os.mkfifo(model / "pipe")
    assert "pipe" in refused(ai, model, "FileRejected")
    (model / "pipe").unlink()
    (model / "loop").symlink_to(".")
    assert "loop" in refused(ai, model, "FileRejected")


def test_missing_things(ai, tmp_path):
    ai("push", tmp_path / "nothing", "m", status=4)
    assert "MANIFEST_UNKNOWN" in ai("pull", "--json", "nothing:v1", tmp_path / "out", status=4).stdout or True
    assert not (tmp_path / "out").exists()


def chunk_files(ai):
    return [path for path in (ai.store / "_ai_models" / "chunks").rglob("*") if path.is_file()]


def stored_objects(ai):
    return sorted(path for path in (ai.store / "docker").rglob("*") if path.is_file()) + sorted(chunk_files(ai))


def flip(path, at=0.5):
    data = bytearray(path.read_bytes())
    data[int((len(data) - 1) * at)] ^= 0x10
    path.write_bytes(data)


def test_a_flipped_bit_in_any_stored_object(ai, model, tmp_path):
    ai("push", model, "m:v1")
    for number, path in enumerate(stored_objects(ai)):
        original = path.read_bytes()
        for at in (0, 0.5, 1):
            flip(path, at)
            verify = ai("verify", "--json", "m:v1", status=None)
            pull = ai("pull", "--json", "m:v1", tmp_path / "out", status=None)
            if pull.status == 0:
                # A link counts by being there, whatever it holds; the config is no part of what is pulled.
                assert "/_" in str(path.relative_to(ai.store)) or verify.status == 7, path
                assert tree(tmp_path / "out").keys() == {"config.json", "tokenizer_config.json", "model.safetensors"}
                subprocess.run(["rm", "-r", tmp_path / "out"], check=True)
            else:
                assert (verify.status, pull.status) == (7, 7), (path, at, verify.stderr, pull.stderr)
                assert not (tmp_path / "out").exists()
            path.write_bytes(original)
    assert ai("verify", "--json", "m:v1").json["intact"]


def test_verify_names_every_damaged_chunk(ai, model):
    ai("push", model, "m:v1")
    chunks = chunk_files(ai)
    flip(chunks[0], 0.9)
    chunks[1].unlink()
    report = ai("verify", "--json", "m:v1", status=7).json
    assert not report["intact"]
    assert {damage["object"] for damage in report["damages"]} == {f"chunk {chunk.name}" for chunk in chunks[:2]}
    assert all(damage["file"] == "model.safetensors" for damage in report["damages"])


def test_a_missing_chunk(ai, model, tmp_path):
    ai("push", model, "m:v1")
    chunk_files(ai)[0].unlink()
    result = ai("pull", "--json", "m:v1", tmp_path / "out", status=None)
    assert result.status in (4, 7) and "chunk" in result.stderr
    assert not (tmp_path / "out").exists()
    ai("push", model, "m:v1")
    ai("pull", "m:v1", tmp_path / "out")


def test_a_full_disk(ai, model, tmp_path):
    ai("push", model, "m:v1")
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small]).returncode != 0:
        pytest.skip("cannot mount here")
    try:
        result = ai("pull", "--json", "m:v1", small / "out", status=6)
        assert result.json["error"]["reason"] == "InsufficientStorage"
        assert list(small.iterdir()) == []
        other = Command(tmp_path / "home2", small / "store")
        assert other("push", "--json", model, "m:v1", status=6).json["error"]["reason"] == "InsufficientStorage"
        assert other("list", "--json", status=None).json["models"] == []
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_limit_on_file_size(ai, model, tmp_path):
    ai("push", model, "m:v1")
    result = ai("pull", "m:v1", tmp_path / "out", status=6,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
    assert "model.safetensors" in result.stderr
    assert not (tmp_path / "out").exists()
    ai("pull", "m:v1", tmp_path / "out")


def test_a_read_only_directory(ai, model, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    ai("push", model, "m:v1")
    place = tmp_path / "ro"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place]).returncode != 0:
        pytest.skip("cannot mount here")
    try:
        subprocess.run(["cp", "-r", ai.store, place / "store"], check=True)
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        ai("pull", "m:v1", place / "out", status=5)
        reader = Command(tmp_path / "home2", place / "store")
        assert reader("verify", "--json", "m:v1").json["intact"]
        reader("pull", "m:v1", tmp_path / "out")
        assert reader("push", "--json", model, "m:v2", status=5).json["error"]["reason"] == "ReadOnlyStorage"
    finally:
        subprocess.run(["umount", place], check=True)


def kill_after(process, seconds):
    time.sleep(seconds)
    process.kill()
    process.wait()


def test_kill_during_pull_then_resume(ai, tmp_path):
    big = write_model(tmp_path / "big", random_tensors(3, n=24, size=8 << 20))
    ai("push", big, "big:v1")
    begin = time.monotonic()
    ai("pull", "big:v1", tmp_path / "whole")
    whole = time.monotonic() - begin
    resumed = 0
    for step in range(8):
        process = ai.popen("pull", "-q", "big:v1", tmp_path / "out", stdout=subprocess.DEVNULL)
        kill_after(process, whole * (step + 1) / 10)
        if process.returncode != -signal.SIGKILL:
            break
        assert not (tmp_path / "out").exists()
        partial = [path for path in tmp_path.glob(".out.partial-*") if (path / "model.safetensors").exists()]
        if partial:
            resumed += 1
    answer = ai("pull", "--json", "big:v1", tmp_path / "out").json
    assert resumed and (answer["keptBytes"] > 0 or answer["alreadyThere"])
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (big / "model.safetensors").read_bytes()
    assert not list(tmp_path.glob(".out*"))


def test_what_lies_in_a_partial_pull_is_not_trusted(ai, model, tmp_path):
    digest = ai("push", "--json", model, "m:v1").json["digest"]
    partial = tmp_path / f".out.partial-{digest.split(':')[1][:12]}"
    partial.mkdir()
    (partial / "model.safetensors").write_bytes(b"wrong" * 3000000)
    (partial / "config.json").write_bytes(b"{")
    (partial / "leftover").mkdir()
    (partial / "leftover" / "file").write_text("x")
    ai("pull", "m:v1", tmp_path / "out")
    assert set(tree(tmp_path / "out")) == {"config.json", "tokenizer_config.json", "model.safetensors"}
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()


def test_a_planted_link_is_not_followed(ai, model, tmp_path):
    digest = ai("push", "--json", model, "m:v1").json["digest"]
    victim = tmp_path / "victim"
    victim.mkdir()
    partial = tmp_path / f".out.partial-{digest.split(':')[1][:12]}"
    partial.symlink_to(victim)
    ai("pull", "m:v1", tmp_path / "out", status=None)
    assert list(victim.iterdir()) == []
    partial.unlink(missing_ok=True)
    partial.mkdir()
    (partial / "config.json").symlink_to(victim / "config.json")
    ai("pull", "m:v1", tmp_path / "out2")
    ai("pull", "m:v1", tmp_path / "out", status=None)
    assert list(victim.iterdir()) == []


def test_two_pulls_at_once(ai, model, tmp_path):
    ai("push", model, "m:v1")
    statuses = []

    def pull():
        statuses.append(ai("pull", "--json", "m:v1", tmp_path / "out", status=None))

    threads = [threading.Thread(target=pull) for _ in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert any(result.status == 0 for result in statuses)
    for result in statuses:
        assert result.status == 0 or result.json["error"]["reason"] == "DirectoryBusy", result.stderr
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()


def test_an_interrupt_ends_in_order(ai, tmp_path):
    """Whenever it comes: one line says what happened, one how to go on, and no thread is left behind (the sanitizers see those)."""
    big = write_model(tmp_path / "big", random_tensors(3, n=32, size=8 << 20))
    statuses = set()
    for delay in (0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.1, 0.15, 0.2):
        process = ai.popen("push", "-q", big, "big:v1", stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        if process.returncode == -signal.SIGINT:
            continue  # it had not begun
        statuses.add(process.returncode)
        assert process.returncode in (130, 0), stderr
        if process.returncode == 0:  # it was through already
            ai("rm", "big:v1")
            continue
        assert "cancelled" in stderr and "run the same command again" in stderr
        assert len(stderr.splitlines()) == 2, stderr
        assert ai("list", "--json", status=None).json["models"] == []
    assert 130 in statuses


def test_kill_during_push_leaves_a_good_store(ai, tmp_path):
    big = write_model(tmp_path / "big", random_tensors(3, n=16, size=8 << 20))
    for delay in (0.05, 0.15, 0.3):
        process = ai.popen("push", "-q", big, "big:v1", stdout=subprocess.DEVNULL)
        kill_after(process, delay)
    ai("push", big, "big:v1")
    assert ai("verify", "--json", "big:v1").json["intact"]


def peak_rss(process):
    """In bytes, watched until the process ends."""
    peak = 0
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as status:
                values = dict(line.split(":", 1) for line in status)
        except OSError:
            break
        if values["Name"].strip() == "ai-models" and "VmHWM" in values:
            peak = max(peak, int(values["VmHWM"].split()[0]) << 10)
        time.sleep(0.01)
    assert process.wait() == 0
    return peak


def test_memory_stays_bounded(ai, tmp_path):
    if b"__asan_init" in pathlib.Path(ai.program).read_bytes():
        pytest.skip("the sanitizer keeps freed memory")
    big = write_model(tmp_path / "big", random_tensors(3, n=40, size=8 << 20))
    for arguments in (("push", big, "big:v1"), ("pull", "big:v1", tmp_path / "out"), ("verify", "big:v1")):
        peak = peak_rss(ai.popen(*arguments, "-q", stdout=subprocess.DEVNULL))
        assert 0 < peak < 128 << 20, (arguments[0], peak)
