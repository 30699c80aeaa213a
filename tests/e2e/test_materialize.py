"""The materializer against our registry: one model, whole on a volume, whatever happens on the way."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest
from harness import clients, tools
from harness.grants import grant
from harness.materializer import JOB_UID, MARKER, REPOSITORY, Job, Source, tree

from .conftest import write_model

SIZE = 96 << 20
CHUNK = (8 << 20) + 4096  # as it travels


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    source = Source(folder)
    source.push(write_model(folder / "model", {"w": ("F16", [SIZE // 2], random.Random(7).randbytes(SIZE))}))
    yield source
    source.server.stop()


@pytest.fixture
def job(source):
    job = Job(source)
    yield job
    job.remove()


def test_as_a_restricted_pod_has_it(job):
    """No root, no capability, everything read-only but the volume and the termination message, a tight limit of memory."""
    job.end.touch()
    os.chown(job.end, JOB_UID, JOB_UID)
    script = ('mount --bind "$1" "$1" && mount --bind "$2" "$2" && mount -o remount,bind,ro / && shift 2 && exec setpriv --reuid '
              f"{JOB_UID} --regid {JOB_UID} --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \"$@\"")
    program = shutil.copy(tools.program(), job.root / "ai-models")
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", job.volume, job.end, program, *job.command()[1:]]
    done = clients.run(command, home=job.root / "home", cwd="/")
    result = job.outcome()["result"]
    assert result == {"digest": job.source.digest, "sizeBytes": sum(map(len, tree(job.volume / "model").values())), "files": 3,
                      "movedBytes": result["movedBytes"], "alreadyThere": False}
    job.check_whole()
    assert (job.volume / "model").stat().st_uid == JOB_UID
    assert done.peak_rss <= 128 << 20


def test_what_is_there_is_verified_and_left(job):
    job.run()
    times = {path: path.stat().st_mtime_ns for path in job.volume.rglob("*")}
    read = job.source.read_bytes()
    assert job.run()["result"]["alreadyThere"] is True
    assert job.source.read_bytes() == read
    assert {path: path.stat().st_mtime_ns for path in job.volume.rglob("*")} == times
    # Killed before its last step: the model is whole, its marker is not there.
    (job.volume / MARKER).unlink()
    assert job.run()["result"]["movedBytes"] == 0
    job.check_whole()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_goes_on_where_it_was_stopped(job, how):
    read = job.source.read_bytes()
    process = job.start_until(0.5 * SIZE)
    begin = time.monotonic()
    process.send_signal(how)
    assert process.wait(30) == (-9 if how == signal.SIGKILL else 130)
    assert time.monotonic() - begin < 5
    assert not job.is_shown() and job.grown() >= 0.5 * SIZE
    if how == signal.SIGTERM:
        assert "goes on where it stopped" in job.outcome()["interrupted"]["message"]
    begin = time.monotonic()
    job.run()
    assert time.monotonic() - begin < 15  # a holder that died on this machine is not waited for
    job.check_whole()
    assert job.source.read_bytes() - read - sum(path.stat().st_size for path in (job.volume / "model").iterdir()) <= 32 << 20


def test_two_at_once(job):
    read = job.source.read_bytes()
    both = [job.start(log=f"log-{i}") for i in range(2)]
    assert [process.wait(60) for process in both] == [0, 0], [(job.root / f"log-{i}").read_text() for i in range(2)]
    job.check_whole()
    assert job.source.read_bytes() - read <= SIZE + (32 << 20)  # the second waited


def test_a_holder_elsewhere_that_fell_silent(job):
    """Of another machine: its lock says nothing here. It is waited for, taken over, and cannot spoil anything when it wakes up."""
    process = job.start_until(0.3 * SIZE)
    process.send_signal(signal.SIGSTOP)
    alive = next(job.volume.glob(".work/*/alive"))
    alive.write_text("another machine\n")
    second = job.start("--stale-after", 4, log="log-2")
    time.sleep(3)
    assert second.poll() is None and not job.is_shown()
    os.utime(alive, (1, 1))  # it lives
    assert second.wait(60) == 0
    job.check_whole()
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0
    assert "took over" in (job.root / "log").read_text()
    job.check_whole()


def test_full_volume(job):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", job.volume], check=True)
    message = job.failure("VolumeFull", 6, retry=False)
    assert "MB more" in message and "67.1 MB are free" in message and "enlarge the claim" in message
    assert not job.is_shown()
    subprocess.run(["mount", "-o", "remount,size=400m", job.volume], check=True)
    job.run()
    job.check_whole()


def test_read_only_volume(job):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", job.volume], check=True)
    assert "must be writable" in job.failure("VolumeReadOnly", 5, retry=False)


def test_volume_of_another_user(job):
    job.volume.chmod(0o755)
    job.end.touch()
    job.end.chmod(0o666)
    program = shutil.copy(tools.program(), job.root / "ai-models")
    done = subprocess.run(["setpriv", "--reuid", str(JOB_UID), "--regid", str(JOB_UID), "--clear-groups", program, *job.command()[1:]], cwd="/",
                          stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 5 and job.outcome()["failure"]["reason"] == "VolumeDenied"


def test_grants(job):
    digest, other = job.source.digest, "sha256:" + "0" * 64
    for token, artifact, reason, status, retry in (
        (grant(digest, REPOSITORY, exp=int(time.time()) - 1), None, "GrantExpired", 5, True),
        (grant(digest, REPOSITORY, salt="another"), None, "GrantExpired", 5, True),
        (grant(other, REPOSITORY), None, "GrantRefused", 5, False),
        (grant(digest, "team/other"), None, "GrantRefused", 5, False),
        (grant(other, REPOSITORY), f"{REPOSITORY}@{other}", "ModelMissing", 4, False),
    ):
        job.give(token)
        job.failure(reason, status, retry=retry, artifact=artifact)
        assert not job.is_shown()


def test_a_grant_that_ends_midway(job):
    job.give(grant(job.source.digest, REPOSITORY, exp=int(time.time()) + 2))
    process = job.start_until(0.2 * SIZE)
    process.send_signal(signal.SIGSTOP)
    time.sleep(3.1)
    process.send_signal(signal.SIGCONT)
    assert process.wait(30) == 5
    assert job.outcome()["failure"]["reason"] == "GrantExpired" and not job.is_shown()
    kept = job.grown()
    assert kept >= 0.2 * SIZE
    job.give(grant(job.source.digest, REPOSITORY))
    assert job.run()["result"]["movedBytes"] <= SIZE - kept + (32 << 20)
    job.check_whole()


def test_a_registry_that_is_away_for_a_while(job):
    process = job.start_until(0.3 * SIZE)
    process.send_signal(signal.SIGSTOP)
    job.source.server.kill()
    process.send_signal(signal.SIGCONT)
    time.sleep(3)
    assert process.poll() is None
    job.source.start()
    assert process.wait(60) == 0, (job.root / "log").read_text()
    job.check_silence((job.root / "log").read_text())
    job.check_whole()


def test_a_registry_that_stays_away(job):
    job.source.server.kill()
    begin = time.monotonic()
    message = job.failure("RegistryAway", 8, "--patience", 1, retry=True)
    assert "the module's registry" in message and "Deployment dmcr" in message and time.monotonic() - begin < 40
    job.source.start()


def damage(volume):
    with (volume / "model" / "model.safetensors").open("r+b") as file:
        file.seek(SIZE // 2)
        file.write(b"damaged")


def replace_by_link(volume):
    path = volume / "model" / "config.json"
    path.unlink()
    path.symlink_to("/etc/passwd")


def replace_folder(volume):
    shutil.rmtree(volume / "model")
    (volume / "model").write_text("a file")


@pytest.mark.parametrize("how, most", [
    (damage, CHUNK),
    (lambda volume: (volume / "model" / "config.json").unlink(), 4096),
    (lambda volume: (volume / "model" / "extra").write_text("x"), 0),
    (replace_by_link, 4096),
    (lambda volume: os.truncate(volume / "model" / "model.safetensors", SIZE - 5), CHUNK),
    (replace_folder, 2 * SIZE),
    (lambda volume: (volume / MARKER).write_text("{"), 0),
], ids=["damaged", "missing", "extra", "link", "short", "no-folder", "marker"])
def test_mends(job, how, most):
    job.run()
    how(job.volume)
    assert job.run()["result"]["movedBytes"] <= most
    job.check_whole()


def test_what_nfs_keeps_of_an_open_file_is_no_part_of_the_model(job):
    """It can neither be removed nor does it harm: whoever has it open lets it go."""
    job.run()
    remnant = job.volume / "model" / ".nfs00000000016e360400000001"
    remnant.write_text("a file that was removed while a Pod had it open")
    assert job.run()["result"]["alreadyThere"] is True
    remnant.unlink()
    job.check_whole()


def test_another_model_is_replaced(job):
    (job.volume / "model").mkdir()
    (job.volume / "model" / "old").write_text("old")
    (job.volume / ".work" / ("0" * 12 + ".0b7a2a3c-7d35-4f0e-9d6a-0123456789ab") / "files").mkdir(parents=True)
    job.run()
    job.check_whole()


def test_odd_files(job):
    """Names as long as they may be, deep folders, an empty file, one that is mostly holes, many."""
    files = {"n" * 255: b"long", "/".join(["d" * 200] * 5)[:1024]: b"deep", "empty": b"", "zeros": bytes(20 << 20), "a b/ü/#?%": b"odd",
             **{f"many/{i}": b"%d" % i for i in range(100)}}
    digest = job.source.put(files)
    job.give(grant(digest, REPOSITORY))
    assert job.run(artifact=f"{REPOSITORY}@{digest}")["result"]["files"] == len(files)
    assert tree(job.volume / "model") == files


def test_misuse(job):
    for options in (["--artifact", "model:v1"], ["--patience", "x"]):
        done = subprocess.run([*job.command(), *options], capture_output=True, text=True, timeout=30)
        assert done.returncode == 2 and re.search(r"artifact|patience", done.stderr), done.stderr
