"""A network path to a server that can be cut, or hold still after so many bytes: between a program and what it talks to."""

import contextlib
import socket
import threading

BLOCK = 1 << 16


class Relay:
    """Listens on `port` of this machine. Use as a context; `target` may change."""

    def __init__(self, port, target):
        self.port, self.target = port, target
        self.lock, self.n_passed = threading.Lock(), 0  # bytes of answers
        self.is_cut, self.hold_at, self.flows = False, None, threading.Event()
        self.flows.set()
        self.sockets = set()

    # For tests

    def cut(self):
        """Nobody gets through, and who was through is cut off."""
        self.is_cut = True
        self.flows.set()
        with self.lock:
            sockets = list(self.sockets)
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def hold_after(self, n):
        """Answers stand still once `n` bytes more of them have passed, until mend()."""
        with self.lock:
            self.hold_at = self.n_passed + n

    def is_held(self):
        return not self.flows.is_set()

    def mend(self):
        with self.lock:
            self.is_cut, self.hold_at = False, None
        self.flows.set()

    # Its work

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError), client:
            if self.is_cut:
                return
            with socket.create_connection(("127.0.0.1", self.target), 10) as server:
                server.settimeout(None)
                with self.lock:
                    self.sockets |= {client, server}
                asking = threading.Thread(target=self.copy, args=(client, server, False), daemon=True)
                asking.start()
                self.copy(server, client, True)
                asking.join(10)
                with self.lock:
                    self.sockets -= {client, server}

    def copy(self, source, to, is_answer):
        with contextlib.suppress(OSError):
            while block := source.recv(BLOCK):
                if is_answer:
                    self.pace(len(block))
                to.sendall(block)
        for one in (source, to):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def pace(self, size):
        with self.lock:
            self.n_passed += size
            if self.hold_at is not None and self.n_passed >= self.hold_at:
                self.flows.clear()
        self.flows.wait()

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()
