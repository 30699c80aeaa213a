"""The path to a server that tests cut and hold."""

import threading
import urllib.error
import urllib.request

import pytest

from harness import local_server, relay, servers

SIZE = 8 << 20


class Source(local_server.LocalServer):
    def serve(self, handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(SIZE))
        handler.end_headers()
        handler.wfile.write(bytes(SIZE))


@pytest.fixture
def path():
    with Source() as source, relay.Relay(servers.free_port(), source.httpd.server_port) as path:
        yield path


def read(path):
    with urllib.request.urlopen(f"http://127.0.0.1:{path.port}/", timeout=20) as answer:
        return len(answer.read())


def test_it_lets_through_and_is_cut(path):
    assert read(path) == SIZE
    path.cut()
    with pytest.raises((OSError, urllib.error.URLError)):
        read(path)
    path.mend()
    assert read(path) == SIZE


def test_it_holds_an_answer_in_the_middle(path):
    path.hold_after(SIZE // 2)
    found = []
    reading = threading.Thread(target=lambda: found.append(read(path)))
    reading.start()
    reading.join(0.5)
    assert reading.is_alive() and path.is_held()
    path.mend()
    reading.join(20)
    assert found == [SIZE]
