"""Every request to the bucket fails in turn, in every way: once, where the client must not notice; and from then on, where
nothing half-made may be seen and the next push must go on."""

import json
import random

import pytest

from harness import buckets, clients, small_s3

KINDS = ["500", "drop", "lose"]
STEP = 5  # every fifth request of a push, another one for each kind: delivery/store_faults-test.c strikes each


def tiny_model(folder, seed):
    """One weight file of some chunks that nobody else has."""
    folder.mkdir()
    shape = [256, 600]
    size = shape[0] * shape[1] * 4
    header = json.dumps({f"t{i}": {"dtype": "F32", "shape": shape, "data_offsets": [i * size, (i + 1) * size]}
                         for i in range(3)}).encode()
    header += b" " * (-len(header) % 8)
    data = random.Random(seed).randbytes(3 * size)
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    (folder / "config.json").write_text('{"architectures": ["BertModel"], "model_type": "bert"}')
    return folder


@pytest.fixture
def small():
    with small_s3.SmallS3() as server:
        yield server


def store_of(proxy):
    return f"s3://small/models?endpoint={proxy.url}"


@pytest.fixture
def faulty(small, tmp_path):
    """A server of ours whose requests to the bucket pass a proxy."""
    from harness import servers

    class Target:
        port = small.httpd.server_port

    with buckets.Proxy(Target) as proxy:
        env = {"AWS_ACCESS_KEY_ID": buckets.KEY, "AWS_SECRET_ACCESS_KEY": buckets.SECRET}
        server = servers.ours(store_of(proxy), log=tmp_path / "server.log", env=env).wait_ready()
        yield server, proxy
        server.kill()


def count_requests(proxy, action):
    before = proxy.n_requests
    action()
    return proxy.n_requests - before


def fault_from(proxy, nth, kind, stays):
    begin = proxy.n_requests
    struck = []

    def fault(n, method, path):
        hit = n - begin >= nth if stays else n - begin == nth
        if hit:
            struck.append(method)
        return kind if hit else None

    proxy.fault = fault
    return struck


@pytest.mark.parametrize("kind", KINDS)
def test_one_request_fails(faulty, tmp_path, kind):
    server, proxy = faulty
    ours = clients.AiModels(tmp_path / "home")
    n_requests = count_requests(proxy, lambda: ours.run("push", tiny_model(tmp_path / "m0", 0), f"{server.host}/t/m0:v1"))
    assert n_requests > 15
    for nth in range(1 + KINDS.index(kind) % STEP, n_requests + 1, STEP):
        model = tiny_model(tmp_path / f"m{nth}", nth)
        struck = fault_from(proxy, nth, kind, stays=False)
        pushed = ours.run("push", model, f"{server.host}/t/m{nth}:v1").json
        proxy.fault = lambda *_: None
        assert len(struck) == 1 or nth > n_requests - 5
        clients.AiModels(tmp_path / f"home{nth}").run("pull", f"{server.host}/t/m{nth}:v1", tmp_path / f"back{nth}")
        assert clients.folder_digests(tmp_path / f"back{nth}") == clients.folder_digests(model), (nth, pushed)


def test_bucket_goes_away(faulty, tmp_path):
    server, proxy = faulty
    ours = clients.AiModels(tmp_path / "home")
    n_requests = count_requests(proxy, lambda: ours.run("push", tiny_model(tmp_path / "m0", 0), f"{server.host}/t/m0:v1"))
    for nth in (3, n_requests // 2, n_requests - 5):
        model = tiny_model(tmp_path / f"m{nth}", 1000 + nth)
        struck = fault_from(proxy, nth, "drop", stays=True)
        pushing = ours.popen("push", model, f"{server.host}/t/away{nth}:v1", log=tmp_path / "push.log")
        end_status = None
        try:
            end_status = pushing.wait(3)
        except Exception:  # noqa: BLE001: it may as well still be trying
            pushing.kill()
            pushing.wait()
        assert end_status != 0 and struck
        proxy.fault = lambda *_: None
        assert server.request("GET", f"/v2/t/away{nth}/manifests/v1")[0] == 404, "visible before it is whole"
        ours.run("push", model, f"{server.host}/t/away{nth}:v1")
        clients.AiModels(tmp_path / f"home{nth}").run("pull", f"{server.host}/t/away{nth}:v1", tmp_path / f"back{nth}")
        assert clients.folder_digests(tmp_path / f"back{nth}") == clients.folder_digests(model)
