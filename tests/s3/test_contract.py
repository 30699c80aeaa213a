"""The port's contract against buckets: the same table that the directory passes (src/storage/object_store-test.c). A real
store, one that keeps all S3 promises, and some that do not."""

import os
import re
import subprocess
import time

import pytest

from harness import buckets, small_s3, tools

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": buckets.KEY, "AWS_SECRET_ACCESS_KEY": buckets.SECRET}


def run_contract(url, environment, part="", least=13):
    program = tools.program().parents[1] / "storage" / "object_store-test"
    done = subprocess.run([program, "-p", f"/object-store/s3{part}"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=500, env={**os.environ, **environment, "AI_MODELS_TEST_S3": url})
    passed = re.findall(r"^ok \d+ (\S+)", done.stdout, re.MULTILINE)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-3000:]
    assert len(passed) >= least, passed
    assert buckets.SECRET not in output
    return re.findall(r'bucket probed bucket=\S+ has="([^"]*)"', output)[0].split()


def test_real(bucket):
    has = run_contract(f"s3://{bucket.name}?endpoint={bucket.server.url}", bucket.environment())
    assert "if_none_match" in has and "checksum" in has and "byte_order" not in has
    assert not [key for key in bucket.objects() if ".probe/" in key], "the probe left something"
    uploads = bucket.server.client().list_multipart_uploads(Bucket=bucket.name)
    assert not uploads.get("Uploads"), "an upload in parts was neither completed nor aborted"


@pytest.mark.parametrize("lacks, missing", [
    ([], set()),
    (["conditions", "batch"], {"if_none_match", "if_match", "batch_delete"}),
    (["conditions-header"], {"if_none_match"}),  # what is refused is not done either: if_match holds
    (["checksum"], {"checksum"}),
    (["checksum-header"], {"checksum"}),
])
def test_small(lacks, missing):
    with small_s3.SmallS3(*lacks) as server:
        has = run_contract(f"s3://small?endpoint={server.url}", ENVIRONMENT)
        assert {"writable", "checksum", "if_none_match", "if_match", "list_at_once", "byte_order", "batch_delete"} - set(has) == missing
        assert not [key for key in server.objects if ".probe/" in key], "the probe left something"
        sums = [path for method, path in server.requests if method == "PUT"]
        assert len(sums) > 1234
        assert not server.uploads, "an upload in parts was neither completed nor aborted"


@pytest.mark.parametrize("how", [["error"], ["lose"], ["error", "error", "lose"]])
def test_completion_fails(how):
    """A completion that failed inside its 200 is tried again; one that was done, but said otherwise, is found out."""
    with small_s3.SmallS3() as server:
        server.completions_to_fail = list(how)
        run_contract(f"s3://small?endpoint={server.url}", ENVIRONMENT, "/create-at", least=1)
        assert not server.completions_to_fail and not server.uploads


def test_stale_uploads():
    """What was begun a day ago and never ended is dropped when the store is opened; what others may still be about is not."""
    with small_s3.SmallS3() as server:
        day = 24 * 3600
        server.uploads = {"old": ("p/raw/x", {}, time.time() - day - 60, {}), "young": ("p/raw/y", {}, time.time() - day + 600, {}),
                          "other": ("q/raw/x", {}, time.time() - 2 * day, {})}
        server.put("p/ai-models-store.json", {}, b'{"format":"ai-models-store","version":1}\n')
        done = subprocess.run([tools.program(), "list", "--json", "--store", f"s3://small/p?endpoint={server.url}"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT})
        assert done.returncode == 0, done.stderr
        assert set(server.uploads) == {"young", "other"}
