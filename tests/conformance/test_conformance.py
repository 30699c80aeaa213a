"""The OCI conformance suite against our server: everything passes, and nothing may be skipped."""

import pathlib
import subprocess

import pytest

from harness import servers

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("options", [["--accept-sparse-manifests"]], ids=["all switches"])
def test_conformance(tmp_path, options):
    with servers.ours(tmp_path / "store", *options, log=tmp_path / "log") as server:
        server.wait_ready()
        done = subprocess.run([ROOT / "tests" / "conformance" / "run", "--strict", "--results", tmp_path / "results", server.url],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
        assert " 0 failed, 0 skipped" in done.stdout
        assert server.stop() == 0


def test_sparse_manifest_is_refused_by_default(tmp_path):
    with servers.ours(tmp_path / "store", log=tmp_path / "log") as server:
        server.wait_ready()
        manifest = (b'{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",'
                    b'"config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":2,'
                    b'"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},"layers":[]}')
        status, _, body = server.request("PUT", "/v2/team/model/manifests/v1", manifest,
                                         {"Content-Type": "application/vnd.oci.image.manifest.v1+json"})
        assert status in (400, 404) and b"MANIFEST_BLOB_UNKNOWN" in body
