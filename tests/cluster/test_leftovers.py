"""A test cluster that has ended has left nothing on this machine."""

import pathlib
import subprocess

from harness import cluster as clusters
from harness import tools


def test_nothing_stays(tmp_path):
    with clusters.Cluster(tmp_path / "c") as cluster:
        folder = str(cluster.folder)
    assert folder not in pathlib.Path("/proc/mounts").read_text()
    assert subprocess.run([tools.need("ip"), "link", "show", clusters.BRIDGE], capture_output=True).returncode != 0
    assert subprocess.run([tools.need("pgrep"), "-f", folder], capture_output=True).returncode != 0
