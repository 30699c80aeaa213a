"""A proxy before the API server that counts requests and makes the n-th go wrong.

It speaks HTTP/2 and HTTP/1.1, as the client chooses, with a certificate of the cluster's authority; the client's token goes through, a
client certificate cannot."""

import asyncio
import collections
import contextlib
import json
import ssl
import threading
import time

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from . import api_request

# What the proxy answers itself; the words are the API server's.
ANSWERS = {
    "400": (400, "BadRequest"), "401": (401, "Unauthorized"), "403": (403, "Forbidden"), "404": (404, "NotFound"), "409": (409, "Conflict"), "410": (410, "Expired"),
    "429": (429, "TooManyRequests"), "500": (500, "InternalError"), "503": (503, "ServiceUnavailable"), "504": (504, "Timeout"),
}
# Before the API server hears of it: "cut" ends the connection, "reset" the request, the others are told by ANSWERS.
BEFORE = ("cut", "reset", *ANSWERS)
# Afterwards: "lost" ends the connection instead of the answer, "half" in the middle of it, "done-504" says that it took too long,
# "twice" carries it out twice and tells how it went the second time.
AFTER = ("lost", "half", "done-504", "twice")
KINDS = (*BEFORE, *AFTER, "slow")


class Fault:
    """The `nth` request (from 1) that `match` accepts, and the `times - 1` after it, go wrong. `how`: seconds of "slow", or a function
    that "call" calls once the API server has carried the request out; the answer is passed on afterwards."""

    def __init__(self, kind, nth=1, match=None, times=1, how=None):
        self.kind, self.nth, self.times, self.how = kind, nth, times, how
        self.match = match or (lambda request: not request.is_watch)
        self.n_seen = self.n_hits = 0
        self.hit = None  # the first request that it met

    def takes(self, request):
        if not self.match(request):
            return False
        self.n_seen += 1
        if not self.nth <= self.n_seen < self.nth + self.times:
            return False
        self.n_hits += 1
        self.hit = self.hit or request
        return True


class Cut(Exception):
    """The client's connection is to end."""


class Reset(Exception):
    """The request is to end without an answer, its connection goes on where that is possible."""


class Http1Front:
    """A client's connection in HTTP/1.1: one request at a time."""

    def __init__(self, proxy, reader, writer):
        self.proxy, self.reader, self.writer = proxy, reader, writer
        self.chunked = False

    async def serve(self):
        while True:
            head = await self.reader.readuntil(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            method, target, _ = lines[0].split(" ", 2)
            headers = [tuple(line.split(": ", 1)) for line in lines[1:] if ": " in line]
            size = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
            body = await self.reader.readexactly(size)
            answering = asyncio.ensure_future(self.proxy.answer(self, method, target, headers, body))
            gone = asyncio.ensure_future(self.reader.read(1))  # nothing comes while an answer is due, but the end
            await asyncio.wait([answering, gone], return_when=asyncio.FIRST_COMPLETED)
            for task in (gone, answering):
                if not task.done():
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
                    continue
                if task is gone:
                    task.exception()  # of a connection that broke; it is over in any case
                    answering.cancel()
            await answering

    async def start(self, status, headers):
        self.chunked = not any(name.lower() == "content-length" for name, _ in headers)
        lines = [f"HTTP/1.1 {status} x", *(f"{name}: {value}" for name, value in headers)]
        if self.chunked:
            lines.append("Transfer-Encoding: chunked")
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await self.writer.drain()

    async def data(self, data):
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data) if self.chunked else data)
        await self.writer.drain()

    async def end(self):
        if self.chunked:
            self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()


class Http2Stream:
    def __init__(self, connection, number, headers):
        self.connection, self.number, self.body = connection, number, bytearray()
        self.method = next(value for name, value in headers if name == ":method")
        self.target = next(value for name, value in headers if name == ":path")
        self.headers = [(name, value) for name, value in headers if not name.startswith(":")]
        self.task = None

    async def start(self, status, headers):
        self.connection.h2.send_headers(self.number, [(":status", str(status)), *((name.lower(), value) for name, value in headers)])
        await self.connection.flush()

    async def data(self, data):
        data = memoryview(data)
        while data:
            room = min(self.connection.h2.local_flow_control_window(self.number), self.connection.h2.max_outbound_frame_size)
            if room == 0:
                self.connection.window.clear()
                await self.connection.window.wait()
                continue
            self.connection.h2.send_data(self.number, bytes(data[:room]))
            data = data[room:]
            await self.connection.flush()

    async def end(self):
        self.connection.h2.end_stream(self.number)
        await self.connection.flush()


class Http2Front:
    """A client's connection in HTTP/2: requests beside one another."""

    def __init__(self, proxy, reader, writer):
        self.proxy, self.reader, self.writer, self.streams = proxy, reader, writer, {}
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.window = asyncio.Event()

    async def flush(self):
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def serve(self):
        self.h2.initiate_connection()
        try:
            await self.flush()
            while data := await self.reader.read(1 << 16):
                for event in self.h2.receive_data(data):
                    self.take(event)
                await self.flush()
        finally:
            for stream in self.streams.values():
                if stream.task is not None:
                    stream.task.cancel()

    def take(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.streams[event.stream_id] = Http2Stream(self, event.stream_id, event.headers)
        elif isinstance(event, h2.events.DataReceived):
            self.streams[event.stream_id].body += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            stream = self.streams[event.stream_id]
            stream.task = asyncio.ensure_future(self.answer(stream))
        elif isinstance(event, h2.events.StreamReset):
            stream = self.streams.pop(event.stream_id, None)
            if stream is not None and stream.task is not None:
                stream.task.cancel()
        elif isinstance(event, (h2.events.WindowUpdated, h2.events.RemoteSettingsChanged)):
            self.window.set()

    async def answer(self, stream):
        try:
            await self.proxy.answer(stream, stream.method, stream.target, stream.headers, bytes(stream.body))
        except Reset:
            with contextlib.suppress(h2.exceptions.ProtocolError):
                self.h2.reset_stream(stream.number, h2.errors.ErrorCodes.INTERNAL_ERROR)
                await self.flush()
        except Cut:
            self.writer.transport.abort()
        except (h2.exceptions.ProtocolError, ConnectionError):
            pass
        finally:
            self.streams.pop(stream.number, None)


class Backend:
    """One request to the API server on a connection of its pool."""

    SKIPPED = ("host", "connection", "content-length", "transfer-encoding", "te", "accept-encoding")

    def __init__(self, proxy):
        self.proxy, self.reader, self.writer, self.is_reused = proxy, None, None, False

    async def send(self, method, target, headers, body):
        """Status and headers. A connection that has ended meanwhile is replaced: nothing has come of it."""
        while True:
            await self.connect()
            lines = [f"{method} {target} HTTP/1.1", f"Host: {self.proxy.address}:{self.proxy.target}", f"Content-Length: {len(body)}",
                     *(f"{name}: {value}" for name, value in headers if name.lower() not in self.SKIPPED)]
            try:
                self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
                await self.writer.drain()
                head = await self.reader.readuntil(b"\r\n\r\n")
                break
            except (asyncio.IncompleteReadError, ConnectionError):
                self.close()
                if not self.is_reused:
                    raise
        first, *rest = head.decode().split("\r\n")
        headers = [tuple(line.split(": ", 1)) for line in rest if ": " in line]
        self.fields = {name.lower(): value for name, value in headers}
        return int(first.split(" ")[1]), [(name, value) for name, value in headers
                                          if name.lower() not in ("transfer-encoding", "connection", "content-length")]

    async def connect(self):
        self.is_reused = bool(self.proxy.idle)
        if self.is_reused:
            self.reader, self.writer = self.proxy.idle.pop()
        else:
            self.reader, self.writer = await asyncio.open_connection(self.proxy.address, self.proxy.target, ssl=self.proxy.backend_tls)

    async def blocks(self):
        """The body as it comes."""
        if "chunked" not in self.fields.get("transfer-encoding", ""):
            yield await self.reader.readexactly(int(self.fields.get("content-length", 0)))
        else:
            while size := int(await self.reader.readline(), 16):
                yield await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readline()
        self.proxy.idle.append((self.reader, self.writer))
        self.writer = None

    def close(self):
        if self.writer is not None:
            self.writer.transport.abort()
            self.writer = None


class ApiProxy:
    """Use as a context. `log` has every request, with "status" and "fault", in the order in which they came."""

    def __init__(self, plane):
        self.plane, self.address, self.target = plane, plane.address, plane.port
        self.lock, self.faults, self.log = threading.Lock(), [], []
        self.idle, self.watches, self.port, self.versions = [], set(), None, set()
        self.lag, self.late = 0, None  # seconds by which what watches tell comes late; of which resource, None: of all
        self.backend_tls = ssl.create_default_context(cafile=str(plane.authority.certificate))
        self.front_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.front_tls.load_cert_chain(*map(str, plane.authority.issue(f"proxy-{id(self)}", "/CN=proxy", "IP:127.0.0.1")))
        self.front_tls.set_alpn_protocols(["h2", "http/1.1"])
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    # For tests

    def fail(self, kind, nth=1, match=None, times=1, how=None):
        fault = Fault(kind, nth, match, times, how)
        with self.lock:
            self.faults.append(fault)
        return fault

    def heal(self):
        with self.lock:
            self.faults, self.lag, self.late = [], 0, None

    def mark(self):
        """For counted()."""
        with self.lock:
            return len(self.log)

    def requests(self, since=0):
        with self.lock:
            return [entry["request"] for entry in self.log[since:]]

    def counted(self, since=0, match=lambda request: not request.is_watch):
        """"verb resource" -> how many."""
        return collections.Counter(request.key for request in self.requests(since) if match(request))

    def cut_watches(self, last_words=None):
        """Ends all watches, after an event ERROR that says so when `last_words` is "410"."""
        def cut():
            for task in list(self.watches):
                task.is_cut, task.last_words = True, last_words
                task.cancel()

        self.loop.call_soon_threadsafe(cut)

    # Its work

    async def serve(self, reader, writer):
        version = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        self.versions.add(version)
        front = (Http2Front if version == "h2" else Http1Front)(self, reader, writer)
        try:
            await front.serve()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError, Cut, Reset, h2.exceptions.ProtocolError):
            pass
        except asyncio.CancelledError:
            pass
        finally:
            writer.transport.abort()

    def enter(self, method, target):
        request = api_request.parse(method, target)
        with self.lock:
            fault = next((fault for fault in self.faults if fault.takes(request)), None)
            entry = {"request": request, "fault": fault.kind if fault else None, "status": None, "at": time.monotonic()}
            self.log.append(entry)
        return request, fault, entry

    async def answer(self, front, method, target, headers, body):
        request, fault, entry = self.enter(method, target)
        kind = fault.kind if fault else None
        if kind == "cut":
            raise Cut
        if kind == "reset":
            raise Reset
        if kind in ANSWERS:
            entry["status"] = ANSWERS[kind][0]
            await self.refuse(front, kind)
            return
        if kind == "slow":
            await asyncio.sleep(fault.how or 3)
        if request.is_watch:
            await self.forward_watch(front, entry, method, target, headers)
        else:
            await self.forward(front, fault, entry, (method, target, headers, body))

    async def refuse(self, front, kind):
        status, reason = ANSWERS[kind]
        body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status,
                           "message": f"the tests let this fail ({reason})"}).encode()
        extra = [("Retry-After", "1")] if kind == "429" else []
        await front.start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *extra])
        await front.data(body)
        await front.end()

    async def forward(self, front, fault, entry, call):
        kind = fault.kind if fault else None
        for _ in range(2 if kind == "twice" else 1):
            status, headers, content = await asyncio.shield(self.carry_out(*call))
        entry["status"] = status
        if kind == "call":
            await self.loop.run_in_executor(None, fault.how)
        if kind == "lost":
            raise Cut
        if kind == "done-504":
            await self.refuse(front, "504")
            return
        await front.start(status, [*headers, ("Content-Length", str(len(content)))])
        if kind == "half":
            await front.data(content[:len(content) // 2])
            raise Cut
        await front.data(content)
        await front.end()

    async def carry_out(self, *call):
        """A request that was begun is carried out whatever becomes of its client."""
        backend = Backend(self)
        try:
            status, headers = await backend.send(*call)
            return status, headers, b"".join([block async for block in backend.blocks()])
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Cut from error
        finally:
            backend.close()

    async def forward_watch(self, front, entry, method, target, headers):
        backend, task = Backend(self), asyncio.current_task()
        task.is_cut, task.last_words = False, None
        self.watches.add(task)
        try:
            entry["status"], headers = await backend.send(method, target, headers, b"")
            await front.start(entry["status"], headers)
            await self.pass_late(backend.blocks(), front, entry["request"])
            await front.end()
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Cut from error
        except asyncio.CancelledError:
            if not task.is_cut:
                raise
            if task.last_words == "410":
                told = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old resource version"}
                await front.data(json.dumps({"type": "ERROR", "object": told}).encode() + b"\n")
                await front.end()
            raise Cut from None
        finally:
            self.watches.discard(task)
            backend.close()

    async def pass_late(self, blocks, front, request):
        """Each block `lag` seconds after it came."""
        came = asyncio.Queue()

        async def receive():
            try:
                async for block in blocks:
                    came.put_nowait((self.loop.time(), block))
            finally:
                came.put_nowait((0, None))

        receiving = asyncio.ensure_future(receive())
        try:
            while (entry := await came.get())[1] is not None:
                lag = self.lag if self.late in (None, request.resource) else 0
                await asyncio.sleep(max(0, entry[0] + lag - self.loop.time()))
                await front.data(entry[1])
            await receiving
        finally:
            receiving.cancel()

    # Its life

    def __enter__(self):
        self.thread.start()
        starting = asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=self.front_tls, limit=1 << 20)
        self.server = asyncio.run_coroutine_threadsafe(starting, self.loop).result(20)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_):
        async def close():
            self.server.close()
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()
            await asyncio.sleep(0.05)

        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(close(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
