"""A test cluster by hand (tools/cluster): it comes up, is told of, and once it has ended nothing of it is left on this machine."""

import os
import pathlib
import subprocess
import urllib.request

from harness import by_hand, outside, tools
from harness import cluster as clusters


def call(state, what):
    return subprocess.run([tools.ROOT / "tools" / "cluster", what], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env={**os.environ, "XDG_STATE_HOME": str(state)})


def left(folder):
    """Processes, mounts and the bridge of a cluster."""
    found = [line for line in pathlib.Path("/proc/mounts").read_text().splitlines() if folder in line]
    found += subprocess.run([tools.need("pgrep"), "-af", folder], capture_output=True, text=True).stdout.splitlines()
    found += subprocess.run([tools.need("ip"), "link", "show", clusters.BRIDGE], capture_output=True, text=True).stdout.splitlines()
    return found


def test_by_hand(tmp_path):
    folder = tmp_path / "ai-models-cluster"
    try:
        first = call(tmp_path, "up")
        assert first.returncode == 0, first.stderr
        assert f"export KUBECONFIG={folder}/admin.kubeconfig" in first.stdout
        assert call(tmp_path, "up").stdout in first.stdout and call(tmp_path, "status").stdout in first.stdout
        cluster = clusters.Cluster.attach(folder)
        assert b"localhost/ai-models" in cluster.ctr("images", "list").stdout
        told = by_hand.outside_of(folder)
        with urllib.request.urlopen(f"{told['hub']}/api/models/{outside.HUB_MODEL}", timeout=10) as answer:
            assert answer.status == 200
    finally:
        ended = call(tmp_path, "down")
    assert ended.returncode == 0 and not folder.exists() and not left(str(folder))
    assert call(tmp_path, "down").returncode == 0 and call(tmp_path, "status").returncode == 1
