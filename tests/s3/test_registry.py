"""A registry that stands on a bucket: whole ways through it, outages, and what is left in the bucket."""

import time

import pytest

from harness import buckets, clients, servers, tools


def wait_until(condition, timeout=60):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def status(server, path):
    return server.request("GET", path)[0]


def test_push_pull(bucket, serve, ours, model, tmp_path):
    server = serve(bucket).wait_ready()
    pushed = ours.run("push", model, f"{server.host}/team/m:v1").json
    on_disk = clients.AiModels(tmp_path / "disk").run("push", model, "m:v1").json
    assert pushed["digest"] == on_disk["digest"]
    assert all(key.startswith("models/") for key in bucket.objects())
    back = tmp_path / "back"
    ours.run("pull", f"{server.host}/team/m:v1", back)
    kept = {path: digest for path, digest in clients.folder_digests(model).items() if path in clients.folder_digests(back)}
    assert clients.folder_digests(back) == kept and "model.safetensors" in kept
    by_oras = clients.Oras(tmp_path / "oras")
    by_oras.pull(f"{server.host}/team/m:v1", tmp_path / "by-oras")
    assert clients.sha256_of(tmp_path / "by-oras" / "model.safetensors") == kept["model.safetensors"]
    # The same again moves nothing; another process over the same bucket has it too.
    before = bucket.objects()
    assert ours.run("push", model, f"{server.host}/team/m:v2").json["movedBytes"] < 10_000
    assert {key for key in bucket.objects() if "/chunks/" in key} == {key for key in before if "/chunks/" in key}
    second = serve(bucket).wait_ready()
    clients.AiModels(tmp_path / "third").run("pull", f"{second.host}/team/m:v2", tmp_path / "again")
    assert clients.folder_digests(tmp_path / "again") == kept


def test_requests_are_counted(bucket, serve, ours, model, tmp_path):
    """/metrics counts what the bucket's server counts."""
    server = serve(bucket).wait_ready()
    begin = bucket.counted("request_total") - server.metric("object_store_requests_total")
    ours.run("push", model, f"{server.host}/team/m:v1")
    ours.run("pull", f"{server.host}/team/m:v1", tmp_path / "back")
    assert server.metric("object_store_requests_total") > 20
    assert bucket.counted("request_total") - server.metric("object_store_requests_total") == begin


def test_secrets_stay_secret(bucket, serve, ours, model):
    server = serve(bucket, "--log-level", "debug").wait_ready()
    ours.run("push", model, f"{server.host}/team/m:v1")
    log = server.log.read_text()
    assert "bucket probed" in log
    assert bucket.server.secret not in log and "AWS4-HMAC" not in log and "Signature=" not in log


@pytest.mark.parametrize("change, part", [({"secret": "not-the-secret"}, "AWS_SECRET_ACCESS_KEY"), ({"key": "nobody"}, "AWS_ACCESS_KEY_ID")])
def test_wrong_keys(bucket, serve, change, part):
    with pytest.raises(servers.ServerFailed) as failure:
        serve(bucket, **change)
    assert part in str(failure.value) and "not-the-secret" not in str(failure.value)


def test_marker(bucket, serve, tmp_path):
    """A bucket is known as a store by its marker, as a directory is."""
    listing = [tools.program(), "list", "--json", "--store", bucket.store("mine")]
    env = ["env", *(f"{key}={value}" for key, value in bucket.environment().items())]
    assert clients.run([*env, *listing], home=tmp_path).json["models"] == []
    assert not bucket.objects(), "looking wrote something"
    serve(bucket, prefix="mine").wait_ready().kill()
    assert bucket.content("mine/ai-models-store.json").startswith(b'{"format":"ai-models-store"')
    assert clients.run([*env, *listing], home=tmp_path).json["models"] == []
    bucket.server.client().put_object(Bucket=bucket.name, Key="mine/ai-models-store.json",
                                      Body=b'{"format":"ai-models-store","version":2}')
    with pytest.raises(servers.ServerFailed, match="newer"):
        serve(bucket, prefix="mine")


def test_missing_bucket(shared_weed, serve):
    with pytest.raises(servers.ServerFailed, match="create the bucket"):
        serve(buckets.Bucket(shared_weed, "t-not-there"))


@pytest.mark.parametrize("endpoint, part", [
    (f"http://127.0.0.1:{servers.free_port()}", "127.0.0.1"),
    ("http://no-such-host.invalid", "no-such-host.invalid"),
])
def test_no_server(tmp_path, endpoint, part):
    """Nobody listens, or the name is no host's: said soon, with the host."""
    begin = time.monotonic()
    with pytest.raises(servers.ServerFailed) as failure:
        servers.ours(f"s3://models?endpoint={endpoint}", log=tmp_path / "server.log",
                     env={"AWS_ACCESS_KEY_ID": buckets.KEY, "AWS_SECRET_ACCESS_KEY": buckets.SECRET})
    assert part in str(failure.value) and buckets.SECRET not in str(failure.value)
    assert time.monotonic() - begin < 60


def test_read_only_keys(bucket, serve, ours, model, tmp_path):
    server = serve(bucket).wait_ready()
    ours.run("push", model, f"{server.host}/team/m:v1")
    reading = serve(bucket, key="reader").wait_ready()
    ours.run("pull", f"{reading.host}/team/m:v1", tmp_path / "back")
    with pytest.raises(clients.CommandFailed) as failure:
        ours.run("push", model, f"{reading.host}/team/other:v1")
    assert "503" in failure.value.stderr


def test_outage(weed, serve, ours, model, tmp_path):
    """The bucket's server dies in the middle of a push and comes back: not ready meanwhile, alive all the time, nothing half
    visible, and the push goes on."""
    bucket = weed.bucket("t-outage")
    server = serve(bucket).wait_ready()
    assert status(server, "/readyz") == 200
    pushing = ours.popen("push", model, f"{server.host}/team/m:v1", log=tmp_path / "push.log")
    wait_until(lambda: any("/chunks/" in key for key in bucket.objects()))
    weed.stop()
    assert status(server, "/readyz") == 503
    assert status(server, "/healthz") == 200
    weed.start()
    wait_until(lambda: status(server, "/readyz") == 200)
    clients.wait(pushing, 120)
    ours.run("push", model, f"{server.host}/team/m:v1")
    clients.AiModels(tmp_path / "third").run("pull", f"{server.host}/team/m:v1", tmp_path / "back")
    assert clients.sha256_of(tmp_path / "back" / "model.safetensors") == clients.sha256_of(model / "model.safetensors")


FAULTS = ["500", "503", "drop", "half", "lose", "cut"]


@pytest.mark.parametrize("kind", FAULTS)
def test_every_seventh_request_fails(bucket, serve, ours, model, tmp_path, kind):
    """Single failures are not even seen by the client."""
    with buckets.Proxy(bucket.server) as proxy:
        server = serve(bucket, endpoint=proxy.url).wait_ready()
        proxy.fault = lambda n, method, path: kind if n % 7 == 0 and not (kind == "cut" and method != "GET") else None
        pushed = ours.run("push", model, f"{server.host}/team/m:v1").json
        clients.AiModels(tmp_path / "other").run("pull", f"{server.host}/team/m:v1", tmp_path / "back")
        assert proxy.n_requests > 20
    assert clients.sha256_of(tmp_path / "back" / "model.safetensors") == clients.sha256_of(model / "model.safetensors")
    on_disk = clients.AiModels(tmp_path / "disk").run("push", model, "m:v1").json
    assert pushed["digest"] == on_disk["digest"]


def test_tls(shared_weed, bucket, serve, tmp_path):
    """Over TLS with a CA of one's own; without it, or with another, nothing is sent, and the message says what is trusted."""
    other = servers.make_certificate(tmp_path, "127.0.0.1")[0]
    for ca_file, trusted in (("", "this system"), (f"&ca-file={other}", str(other))):
        with pytest.raises(servers.ServerFailed, match="certificate") as failure:
            serve(bucket, endpoint=f"{shared_weed.tls_url}{ca_file}")
        assert f"trusted are the CAs of {trusted}" in str(failure.value) and "AWS_CA_BUNDLE" in str(failure.value)
    assert not bucket.objects()
    server = serve(bucket, endpoint=f"{shared_weed.tls_url}&ca-file={shared_weed.tls[0]}").wait_ready()
    assert status(server, "/readyz") == 200


def test_local_commands(bucket, ours, model, tmp_path):
    """A bucket as the local store of the commands."""
    there = clients.AiModels(tmp_path / "there", store=None)
    there.store = bucket.store("mine")
    there.run = lambda name, *arguments: clients.run(
        ["env", *(f"{key}={value}" for key, value in bucket.environment().items()),
         *there.command(name, "--json", "--quiet", *arguments)], home=there.home)
    pushed = there.run("push", model, "m:v1").json
    assert there.run("list").json["models"][0]["digest"] == pushed["digest"]
    assert there.run("verify", "m:v1").json
    there.run("pull", "m:v1", tmp_path / "back")
    assert clients.sha256_of(tmp_path / "back" / "model.safetensors") == clients.sha256_of(model / "model.safetensors")
    removed = there.run("rm", "m:v1").json
    assert removed["removedManifests"] == 1 and "freedBytes" not in removed
    assert there.run("list").json["models"] == []
