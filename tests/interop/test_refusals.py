"""What our server refuses, as distribution-spec has it."""

from harness import clients


def test_manifest_without_its_blobs(ours):
    """Unless the operator says otherwise (--accept-sparse-manifests)."""
    manifest = (b'{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",'
                b'"config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":2,'
                b'"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},"layers":[]}')
    status, _, body = ours.server.request("PUT", "/v2/team/model/manifests/v1", manifest,
                                          {"Content-Type": clients.MANIFEST_TYPE})
    assert status in (400, 404) and b"MANIFEST_BLOB_UNKNOWN" in body
