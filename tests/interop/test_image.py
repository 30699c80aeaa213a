"""tools/build-image: the program as a container image that other tools take and that runs by itself."""

import json
import os
import subprocess
import tarfile
import time
import urllib.error
import urllib.request

import pytest

from harness import servers, tools

UID = 64535


def build(out):
    return subprocess.run([tools.ROOT / "tools" / "build-image", "--program", tools.program(), out], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip()


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    out = tmp_path_factory.mktemp("image") / "layout"
    return build(out), out


@pytest.fixture(scope="module")
def root(image, tmp_path_factory):
    """What a container of it sees as /."""
    digest, layout = image
    root = tmp_path_factory.mktemp("root")
    blobs = layout / "blobs" / "sha256"
    manifest = json.loads((blobs / digest.removeprefix("sha256:")).read_text())
    with tarfile.open(blobs / manifest["layers"][0]["digest"].removeprefix("sha256:")) as layer:
        layer.extractall(root, filter="fully_trusted")
    root.chmod(0o755)
    return root


def inside(root, *command):
    """The command in the image's files and no others, without rights."""
    if os.geteuid() == 0:
        return [tools.need("chroot"), f"--userspec={UID}:{UID}", root, *command]
    return [tools.need("unshare"), "--map-root-user", tools.need("chroot"), root, *command]


def test_the_same_program_gives_the_same_image(image, tmp_path):
    assert build(tmp_path / "again") == image[0]


def test_other_tools_take_it(image, tmp_path):
    digest, layout = image
    subprocess.run([tools.need("skopeo"), "copy", "--quiet", f"oci:{layout}", f"oci-archive:{tmp_path / 'image.tar'}:ai-models:test"], check=True)
    told = json.loads(subprocess.run([tools.need("skopeo"), "inspect", "--config", f"oci:{layout}"], check=True, stdout=subprocess.PIPE).stdout)
    assert told["config"]["User"] == f"{UID}:{UID}"
    assert told["config"]["Entrypoint"] == ["/usr/bin/ai-models"]
    assert sum(path.stat().st_size for path in layout.rglob("*") if path.is_file()) < 60_000_000


def test_it_runs_by_itself(root, tmp_path):
    port = servers.free_port()
    (root / "tmp").chmod(0o1777)
    process = subprocess.Popen(inside(root, "/usr/bin/ai-models", "serve", "--listen", f"127.0.0.1:{port}", "--store", "/tmp/store"),
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                    assert answer.status == 200
                    break
            except urllib.error.URLError:
                assert process.poll() is None and time.monotonic() < end, process.stderr.read(2000)
                time.sleep(0.05)
    finally:
        process.terminate()
        process.wait(20)
    assert process.returncode == 0


def test_wrong_use(image, tmp_path):
    script = tools.ROOT / "tools" / "build-image"
    for arguments, status, words in (([], 2, "Usage"), (["--user", "root", tmp_path / "x"], 2, "Usage"), ([image[1]], 1, "is there already"),
                                     (["--program", tmp_path / "none", tmp_path / "x"], 1, "no program at")):
        done = subprocess.run([script, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert done.returncode == status and words in done.stderr
        assert not (tmp_path / "x").exists()
