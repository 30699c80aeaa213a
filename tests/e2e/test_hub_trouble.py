"""When things are bad between a hub, a registry and a store: the message says which file, which host and what to do, the store stays
consistent, and the next run goes on. That no token and no signature is shown, each run of a command looks for itself."""

import http.server
import os
import signal
import ssl
import subprocess
import threading
import time

import pytest

from harness import servers
from servers.hf_hub import Hub

from .conftest import Command, assert_no_secrets, random_tensors, wait_for_chunks, write_model

MODEL = "owner/name"
TOKEN = {"HF_TOKEN": "hf_good"}


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """A model whose weights take several windows of reading ahead."""
    return write_model(tmp_path_factory.mktemp("data") / "big", random_tensors(3, n=6, size=8 << 20))


@pytest.fixture
def hub(big):
    with Hub() as hub:
        hub.add(MODEL, big)
        yield hub


@pytest.fixture
def registry(tmp_path):
    with servers.ours(tmp_path / "registry", log=tmp_path / "log") as server:
        yield server.wait_ready()


def push(ai, endpoint, ref="m", *options, status=0, env=None):
    return ai("push", "--json", *options, f"{endpoint}/{MODEL}", ref, status=status, env={"HF_ENDPOINT": endpoint, **TOKEN, **(env or {})})


def same_as_disk(ai, answer, folder):
    return answer["digest"] == ai("push", "--json", folder, "disk").json["digest"]


def told(result, *words):
    message = result.json["error"]["message"]
    assert all(word in message for word in words), message
    assert message in result.stderr


# No way there


@pytest.mark.parametrize("endpoint, words", [
    ("https://hub.invalid", ["hub.invalid", "resolve host", "is the address right", "HF_ENDPOINT"]),
    ("http://127.0.0.1:{port}", ["127.0.0.1 port {port}", "is the address right"])])
def test_no_such_host_and_nobody_there(ai, endpoint, words):
    port = servers.free_port()
    result = push(ai, endpoint.format(port=port), status=8)
    told(result, *(word.format(port=port) for word in words))
    assert result.json["error"]["reason"] == "HostUnreachable" and "run the same command again" in result.stderr


def test_no_registry_there(ai, big):
    host = f"127.0.0.1:{servers.free_port()}"
    result = ai("push", "--json", big, f"{host}/m", status=8)
    told(result, host, "does the registry run there")


def test_a_certificate_that_is_not_trusted(ai, big, tmp_path):
    """The message names who signed it, and where to name them; then it works."""
    certificate, key = servers.make_certificate(tmp_path, "127.0.0.1", "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Hub(tls=context) as hub:
        hub.add(MODEL, big)
        result = push(ai, hub.endpoint, status=3)
        told(result, hub.endpoint, 'signed by "CN = 127.0.0.1"', "SSL_CERT_FILE")
        assert result.json["error"]["reason"] == "CertificateNotTrusted" and hub.requests == []
        assert same_as_disk(ai, push(ai, hub.endpoint, env={"SSL_CERT_FILE": str(certificate)}).json, big)
    with servers.ours(tmp_path / "registry", log=tmp_path / "log", tls=(certificate, key)) as server:
        result = ai("push", "--json", big, f"https://{server.host}/m", status=3)
        told(result, server.host, 'signed by "CN = 127.0.0.1"', "--ca-file")
        ai("push", "--ca-file", certificate, big, f"https://{server.host}/m")


class ProxyHandler(http.server.BaseHTTPRequestHandler):
    def do_CONNECT(self):
        self.send_response(407)
        self.send_header("Proxy-Authenticate", "Basic realm=proxy")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_POST = do_CONNECT

    def log_message(self, *_):
        pass


def test_a_proxy_that_asks_for_a_login(ai, big):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), ProxyHandler) as proxy:
        threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        address = {"https_proxy": f"http://user:x-secret@127.0.0.1:{proxy.server_port}"}
        address["http_proxy"] = address["https_proxy"]
        secure = push(ai, "https://hub.example", status=5, env=address)
        told(secure, "hub.example", f"the proxy at 127.0.0.1 port {proxy.server_port} asks for a login", "https_proxy")
        told(push(ai, "http://hub.example", status=5, env=address), "hub.example", "asks for a login", "http_proxy")
        result = ai("push", "--json", big, "registry.example/m", status=5, env=address)
        told(result, "registry.example", "asks for a login")
        assert "--username" not in result.stderr  # that is the registry's login
        proxy.shutdown()


def test_http_and_https_mistaken_for_one_another(ai, model, tmp_path):
    certificate = servers.make_certificate(tmp_path, "127.0.0.1")
    with servers.ours(tmp_path / "registry", log=tmp_path / "log") as server:
        server.wait_ready()
        told(ai("push", "--json", model, f"https://{server.host}/m", status=8), server.host, "http://", "--plain-http")
    for start in (servers.ours, servers.distribution):
        with start(tmp_path / start.__name__, log=tmp_path / f"{start.__name__}.log", tls=certificate) as server:
            server.wait_ready()
            told(ai("push", "--json", model, f"http://{server.host}/m", status=None), server.host, "https://")


# The source is another than it was


@pytest.mark.parametrize("headers, what", [
    ({"X-Linked-ETag": f'"{"5" * 64}"'}, "hash"), ({"X-Linked-Size": "5"}, "size"), ({"X-Repo-Commit": "5" * 40}, "commit")])
def test_a_source_that_changes_while_it_is_read(ai, big, registry, headers, what):
    """Addresses expire in the middle, and when a new one is asked for, the file has become another. What the registry has by then is
    not read again once all is as it was."""
    with Hub(cdn_life_bytes=20 << 20) as hub:
        hub.add(MODEL, big)
        fault = hub.fail("resolve", ".safetensors", after=2, times=1000, headers=headers)  # the header, then the weights
        result = push(ai, hub.endpoint, f"{registry.host}/m", "-v", status=3)
        told(result, MODEL, "model.safetensors", f"its {what} is now", "push again")
        assert result.json["error"]["reason"] == "SourceChanged" and fault.n_hits > 0
        assert ai("inspect", "--json", f"{registry.host}/m", status=4)
        fault.left = 0
        assert same_as_disk(ai, push(ai, hub.endpoint, f"{registry.host}/m").json, big)
        ai("verify", f"{registry.host}/m")


@pytest.mark.parametrize("how, word", [({"corrupt": 30 << 20}, "SHA-256"), ({"short": 9}, "damaged"), ({"total": 9}, "damaged")], ids=str)
def test_a_source_that_is_not_what_it_promised(ai, hub, big, registry, how, word):
    """To a registry and into a store: nothing of it can be seen, and when the source is mended the same command works."""
    for where in (f"{registry.host}/m", "m"):
        fault = hub.fail("large", times=1000, **how)
        result = push(ai, hub.endpoint, where, status=7)
        told(result, MODEL, "model.safetensors", word)
        assert result.json["error"]["reason"] == "SourceCorrupt" and "tell its owner" in result.stderr
        assert ai("inspect", "--json", where, status=4)
        fault.left = 0
        answer = push(ai, hub.endpoint, where).json
        assert ai("verify", "--json", where).json["intact"]
    assert same_as_disk(ai, answer, big)


# The other end


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MiB; `grow` makes it large."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place]).returncode != 0:
        pytest.skip("cannot mount here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def grow(place):
    subprocess.run(["mount", "-o", "remount,size=512m", place], check=True)


def test_the_disk_of_the_store_is_full(hub, big, small_disk, tmp_path):
    ai = Command(tmp_path / "home", small_disk / "store")
    result = push(ai, hub.endpoint, status=6)
    told(result, "model.safetensors", str(small_disk))
    assert result.json["error"]["reason"] == "InsufficientStorage" and "free some space" in result.stderr
    assert ai("list", "--json").json["models"] == []
    grow(small_disk)
    answer = push(ai, hub.endpoint).json
    assert ai("verify", "--json", "m").json["intact"] and same_as_disk(ai, answer, big)


def test_the_disk_of_the_registry_is_full(ai, hub, big, small_disk, tmp_path):
    with servers.ours(small_disk / "registry", log=tmp_path / "log") as server:
        server.wait_ready()
        result = push(ai, hub.endpoint, f"{server.host}/m", status=6)
        told(result, "model.safetensors", server.host, "status 507")
        assert result.json["error"]["reason"] == "InsufficientStorage"
        grow(small_disk)
        assert same_as_disk(ai, push(ai, hub.endpoint, f"{server.host}/m").json, big)
        assert ai("verify", "--json", f"{server.host}/m").json["intact"]


def first_bytes(hub):
    """Where the ranges of transfers begin; looks into headers left out."""
    ranges = [request["headers"]["Range"].removeprefix("bytes=").split("-") for request in hub.asked("cdn", "GET")]
    return [int(first) for first, _ in ranges if int(first) > 0]


def start_push(ai, hub, where, reach, store):
    """A push that has read so far from the hub, and has brought some of it into the store."""
    hub.fail("large", times=1000, slow=0.25)
    running = ai.popen("push", "--quiet", f"{hub.endpoint}/{MODEL}", where, env={"HF_ENDPOINT": hub.endpoint, **TOKEN},
                       stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    end = time.monotonic() + 60
    while not any(first >= reach for first in first_bytes(hub)):
        assert running.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    wait_for_chunks(store, running)
    return running


def test_the_registry_restarts_in_the_middle(ai, hub, big, tmp_path):
    """Killed and started again at the same place: the push does not end for it."""
    port = servers.free_port()
    with servers.ours(tmp_path / "registry", log=tmp_path / "log", port=port) as server:
        server.wait_ready()
        running = start_push(ai, hub, f"{server.host}/m", 24 << 20, tmp_path / "registry")
        server.kill()
    time.sleep(0.3)
    with servers.ours(tmp_path / "registry", log=tmp_path / "log", port=port) as server:
        _, stderr = running.communicate(timeout=120)
        assert running.returncode == 0, stderr
        assert ai("verify", "--json", f"{server.host}/m").json["intact"]


@pytest.mark.parametrize("where", ["registry", "store"])
def test_an_interrupt_says_how_to_go_on(ai, hub, big, registry, tmp_path, where):
    """Ctrl-C: status 130, two lines, nothing visible, and the registry's part is not read again."""
    ref = f"{registry.host}/m" if where == "registry" else "m"
    running = start_push(ai, hub, ref, 32 << 20, tmp_path / "registry" if where == "registry" else ai.store)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=60)
    assert_no_secrets(stderr)
    assert running.returncode == 130 and len(stderr.splitlines()) == 2, stderr
    assert "cancelled" in stderr and "run the same command again" in stderr
    assert ai("inspect", "--json", ref, status=4)
    hub.faults.clear()
    hub.requests.clear()
    answer = push(ai, hub.endpoint, ref).json
    if where == "registry":
        assert min(first_bytes(hub)) >= 8 << 20
    assert same_as_disk(ai, answer, big)
