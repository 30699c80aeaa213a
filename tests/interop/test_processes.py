"""Several server processes over one folder; their ends: drained and killed."""

import concurrent.futures
import socket
import threading
import time

import pytest
from harness import clients, servers

MIB = 1 << 20


@pytest.fixture
def pair(tmp_path):
    """Two processes, one store."""
    with servers.ours(tmp_path / "store", log=tmp_path / "one.log").wait_ready() as one:
        with servers.ours(tmp_path / "store", log=tmp_path / "two.log").wait_ready() as two:
            yield one, two


class Upload:
    """An upload session, spoken by hand; any server of the store may be asked."""

    def __init__(self, server, repository="team/model"):
        self.repository = repository
        status, headers, _ = server.request("POST", f"/v2/{repository}/blobs/uploads/")
        assert status == 202
        self.path = clients.path_of(headers["Location"])

    def offset(self, server):
        status, headers, body = server.request("GET", self.path)
        assert status == 204, (status, body)
        first, last = map(int, headers["Range"].split("-"))
        assert first == 0
        return last + 1 if last else 0

    def patch(self, server, data, begin):
        return server.request("PATCH", self.path, data, {
            "Content-Type": "application/octet-stream", "Content-Range": f"{begin}-{begin + len(data) - 1}"})

    def put(self, server, digest):
        return server.request("PUT", f"{self.path}{'&' if '?' in self.path else '?'}digest={digest}", b"",
                              {"Content-Type": "application/octet-stream"})

    def send_partly(self, server, data, total, begin=0):
        """A PATCH that stays open after `data`: the connection."""
        sock = socket.create_connection((server.address, server.port), timeout=60)
        sock.sendall(f"PATCH {self.path} HTTP/1.1\r\nHost: {server.host}\r\nContent-Type: application/octet-stream\r\n"
                     f"Content-Range: {begin}-{total - 1}\r\nContent-Length: {total - begin}\r\n\r\n".encode())
        sock.sendall(data)
        return sock


def read_status(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            break
        data += more
    return int(data.split()[1]) if data.startswith(b"HTTP/1.1 ") else None


def pull(server, digest, repository="team/model"):
    status, _, body = server.request("GET", f"/v2/{repository}/blobs/{digest}")
    return body if status == 200 else None


def test_upload_goes_on_elsewhere(pair, weights):
    one, two = pair
    data, digest = weights.read_bytes(), f"sha256:{clients.sha256_of(weights)}"
    upload = Upload(one)
    cut = 11 * MIB + 12345
    assert upload.patch(one, data[:cut], 0)[0] == 202
    assert upload.offset(two) == cut
    assert upload.patch(two, data[cut:2 * cut], cut)[0] == 202
    assert upload.patch(one, data[2 * cut:], 2 * cut)[0] == 202
    assert upload.put(two, digest)[0] == 201
    assert pull(one, digest) == data and pull(two, digest) == data


def test_killed_in_the_middle(pair, weights):
    """kill -9 while a body arrives: what a PATCH acknowledged is there, and the other process takes over."""
    one, two = pair
    data, digest = weights.read_bytes(), f"sha256:{clients.sha256_of(weights)}"
    upload = Upload(one)
    acknowledged = 9 * MIB
    assert upload.patch(one, data[:acknowledged], 0)[0] == 202
    with upload.send_partly(one, data[acknowledged:acknowledged + 20 * MIB], len(data), acknowledged):
        time.sleep(0.1)
        one.kill()
    offset = upload.offset(two)
    assert offset >= acknowledged
    assert pull(two, digest) is None
    assert upload.patch(two, data[offset:], offset)[0] == 202
    assert upload.put(two, digest)[0] == 201
    assert pull(two, digest) == data


def test_one_sees_what_the_other_does(pair):
    one, two = pair
    layer = clients.put_blob(one, "team/model", b"layer")
    digest = clients.put_artifact(two, "team/model", "v1", [("application/octet-stream", layer, 5)])
    for server in pair:
        status, headers, _ = server.request("GET", "/v2/team/model/manifests/v1", headers={"Accept": clients.MANIFEST_TYPE})
        assert status == 200 and headers["Docker-Content-Digest"] == digest
    assert one.request("DELETE", f"/v2/team/model/manifests/{digest}")[0] == 202
    assert two.request("GET", "/v2/team/model/manifests/v1", headers={"Accept": clients.MANIFEST_TYPE})[0] == 404


def test_one_blob_by_many_writers(pair, weights):
    """The same blob through both processes, four times at once."""
    data, digest = weights.read_bytes(), f"sha256:{clients.sha256_of(weights)}"

    def push(number):
        upload, server = Upload(pair[number % 2], f"team/model{number}"), pair[number % 2]
        assert upload.patch(server, data, 0)[0] == 202
        return upload.put(server, digest)[0]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(push, range(4))) == [201] * 4
    assert all(pull(pair[(number + 1) % 2], digest, f"team/model{number}") == data for number in range(4))


def test_our_client_when_its_server_is_killed(tmp_path, weights):
    """The address is taken over by another process of the same store: the push, asked again, goes on and is right."""
    client = clients.AiModels(tmp_path / "client")
    store, model = tmp_path / "store", tmp_path / "model"
    model.mkdir()
    (model / weights.name).symlink_to(weights)
    (model / "config.json").write_text('{"model_type": "bert"}')
    with servers.ours(store, log=tmp_path / "one.log").wait_ready() as one:
        reference = f"{one.host}/team/model:v1"
        pushing = client.popen("push", model, reference, log=tmp_path / "push.log")
        time.sleep(0.15)
        one.kill()
        pushing.wait(120)
        with servers.ours(store, log=tmp_path / "two.log", port=one.port).wait_ready():
            client.run("push", model, reference)
            client.run("verify", reference)
            client.run("pull", reference, tmp_path / "out")
    assert clients.sha256_of(tmp_path / "out" / weights.name) == clients.sha256_of(weights)


def test_drain_lets_requests_end(tmp_path, weights):
    data, digest = weights.read_bytes(), f"sha256:{clients.sha256_of(weights)}"
    with servers.ours(tmp_path / "store", log=tmp_path / "log").wait_ready() as server:
        upload = Upload(server)
        half = len(data) // 2
        with upload.send_partly(server, data[:half], len(data)) as sock:
            ended = threading.Thread(target=server.stop)
            ended.start()
            time.sleep(0.3)
            assert server.process.poll() is None
            with pytest.raises(OSError):
                socket.create_connection((server.address, server.port), timeout=2).close()
            sock.sendall(data[half:])
            assert read_status(sock) == 202
        ended.join(30)
        assert server.process.returncode == 0
    with servers.ours(tmp_path / "store", log=tmp_path / "log").wait_ready() as server:
        assert upload.put(server, digest)[0] == 201
        assert pull(server, digest) == data


def test_drain_when_idle_is_quick(tmp_path):
    with servers.ours(tmp_path / "store", log=tmp_path / "log").wait_ready() as server:
        idle = [socket.create_connection((server.address, server.port)) for _ in range(20)]
        begin = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begin < 5
        for sock in idle:
            sock.close()


def test_drain_saves_what_cannot_end(tmp_path, weights):
    """A sender that stalls is cut when the time is over; what it sent is kept."""
    data, digest = weights.read_bytes(), f"sha256:{clients.sha256_of(weights)}"
    with servers.ours(tmp_path / "store", log=tmp_path / "log").wait_ready() as server:
        upload = Upload(server)
        half = len(data) // 2
        with upload.send_partly(server, data[:half], len(data)):
            time.sleep(0.5)
            assert server.stop(timeout=60) == 0
    with servers.ours(tmp_path / "store", log=tmp_path / "log").wait_ready() as server:
        offset = upload.offset(server)
        assert offset == half
        assert upload.patch(server, data[offset:], offset)[0] == 202
        assert upload.put(server, digest)[0] == 201
        assert pull(server, digest) == data
