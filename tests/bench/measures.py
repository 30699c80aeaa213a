"""What is measured, on both sides in the same way: `ours` and `peer`. Bars come from the project's goals.

A scenario is a function of (Bench, side) that runs once and returns a value for each of its measures; smaller is better.
"""

import contextlib
import functools
import os
import pathlib
import shutil
import socket
import subprocess
import time
from typing import Callable, NamedTuple

import far_hub
import link
import uploads
from harness import buckets, clients, servers, tools

GIB, MIB = 1 << 30, 1 << 20
OURS, PEER = "ours", "peer"


class Measure(NamedTuple):
    name: str
    scenario: Callable
    unit: str
    bar: float
    english: str
    russian: str
    peer: str = "distribution v3.1.2"
    runs: int = 5
    fixed_peer: float | None = None  # nothing is run: the value is known
    alone: bool = False  # there is no peer: the bar is for the largest of our values


class Bench:
    """Folders, data and servers of one run of the program."""

    def __init__(self, program, folder, data):
        self.program, self.folder, self.data = program, folder, data
        self.extras = {}  # what else a scenario saw, for the JSON
        self.stores = {}  # prepared once and only read
        self.planes = {}  # API servers, started when first asked for
        self.stack = contextlib.ExitStack()  # what stays until the end
        self.weed = self.hub_server = None  # started when first asked for
        self.n_scratches = 0
        # Where many files were removed a moment ago, ext4 is slow to make new ones: each run gets a place of its own.
        self.folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([tools.need("chattr"), "+T", self.folder], check=False, stderr=subprocess.DEVNULL)

    def clean(self, *paths):
        """Removes what a run left, and lets the disk come to rest before the next one."""
        for path in paths:
            shutil.rmtree(path, ignore_errors=True)
        os.sync()

    @contextlib.contextmanager
    def scratch(self, name="run"):
        self.n_scratches += 1
        path = self.folder / f"{name}-{self.n_scratches}"
        self.clean(path)
        path.mkdir(parents=True)
        try:
            yield path
        finally:
            self.clean(path)

    def serve(self, side, store, log_folder, **options):
        options = {"address": "127.0.0.1", **options}
        log = log_folder / f"server-{side}.log"
        if side == PEER:
            return servers.distribution(store, log=log, **options).wait_ready_unless_far()
        if isinstance(store, buckets.Bucket):
            store, options["env"] = store.store("models"), store.environment()
        more = [] if options["address"].startswith("127.") else ["--allow-anonymous-write"]
        return servers.ours(store, *more, log=log, program=self.program, **options).wait_ready_unless_far()

    def prepared(self, side, what):
        """A store that holds `what` (an attribute of the data) as bench/model:v1."""
        if (side, what) not in self.stores:
            store = self.folder / f"store-{side}-{what}"
            self.clean(store)
            store.mkdir(parents=True)
            with self.scratch("prepare") as scratch, self.serve(side, store, scratch) as server:
                reference = f"{server.host}/bench/model:v1"
                if side == OURS:
                    self.client(scratch).run("push", getattr(self.data, what)(), reference)
                else:
                    clients.Oras(scratch / "home").push(reference, getattr(self.data, what)())
                server.stop()
            self.stores[side, what] = store
        return self.stores[side, what]

    @contextlib.contextmanager
    def bucket(self):
        """A new one of a server that all of a run use."""
        if self.weed is None:
            self.clean(self.folder / "weed")
            self.weed = self.stack.enter_context(buckets.SeaweedFS(self.folder / "weed"))
        self.n_scratches += 1
        bucket = self.weed.bucket(f"bench-{self.n_scratches}")
        try:
            yield bucket
        finally:
            bucket.remove()
            os.sync()

    def hub(self, what, *arguments, link=None):
        """The hub, over this link, with `what` (an attribute of the data): (hub, address of the model, its folder)."""
        if self.hub_server is None:
            self.hub_server = self.stack.enter_context(far_hub.FarHub())
        folder, name = getattr(self.data, what)(*arguments), "-".join(["bench/" + what, *map(str, arguments)])
        if name not in self.hub_server.repositories:
            self.hub_server.add_folder(name, folder)
        self.hub_server.requests.clear()
        self.hub_server.link = link or far_hub.Link()
        return self.hub_server, f"{self.hub_server.endpoint}/{name}", folder

    def client(self, scratch, netns=None, store=None):
        env = {"HF_ENDPOINT": self.hub_server.endpoint} if self.hub_server else None
        return clients.AiModels(scratch / "home", self.program, store, netns, env)

    def note(self, side, **values):
        for name, value in values.items():
            self.extras.setdefault(name, {}).setdefault(side, []).append(value)

    def close(self):
        self.stack.close()
        self.clean(self.folder / "weed", *(store for store in self.stores.values() if isinstance(store, pathlib.Path)))


def gib(path):
    return os.path.getsize(path) / GIB


def folder_bytes(folder):
    return sum(os.lstat(os.path.join(at, name)).st_size for at, _, names in os.walk(folder) for name in names)


def far(netns):
    """Options of a server on the link."""
    return {"netns": netns.server, "address": link.SERVER_ADDRESS}


# Server CPU: the same foreign client against both


def oras_push(bench, side, path):
    with bench.scratch() as scratch, bench.serve(side, scratch / "store", scratch) as server:
        before = server.cpu_seconds()
        done = clients.Oras(scratch / "home").push(f"{server.host}/bench/model:v1", path)
        cpu = server.cpu_seconds() - before
        bench.note(side, push_wall_seconds=done.seconds, push_peak_rss=server.peak_rss(),
                   push_stored_ratio=folder_bytes(scratch / "store") / os.path.getsize(path))
        server.stop()
    return cpu / gib(path)


def weights_of(folder):
    return folder / "model.safetensors"


@functools.cache
def sha256_of(path):
    """Of data, which stays as it was made."""
    return clients.sha256_of(path)


def push_cpu_bf16(bench, side):
    return {"push-cpu-bf16": oras_push(bench, side, weights_of(bench.data.bf16()))}


def push_cpu_random(bench, side):
    return {"push-cpu-random": oras_push(bench, side, bench.data.random())}


def curl_pull(bench, side, what, tls):
    store = bench.prepared(side, what)
    path = weights_of(getattr(bench.data, what)())
    digest = sha256_of(path)
    with bench.scratch() as scratch:
        pair = servers.make_certificate(scratch, "127.0.0.1") if tls else None
        with bench.serve(side, store, scratch, tls=pair) as server:
            before = server.cpu_seconds()
            done = clients.run([tools.need("curl"), "--silent", "--show-error", "--fail", "--insecure", "--output", "/dev/null",
                                f"{server.url}/v2/bench/model/blobs/sha256:{digest}"], home=scratch / "home")
            cpu = server.cpu_seconds() - before
            bench.note(side, pull_wall_seconds=done.seconds, pull_peak_rss=server.peak_rss())
            server.stop()
    return cpu / gib(path)


def pull_cpu_plain(bench, side):
    return {"pull-cpu-plain": curl_pull(bench, side, "bf16", False)}


def pull_cpu_tls(bench, side):
    return {"pull-cpu-tls": curl_pull(bench, side, "bf16", True)}


# Wall: our client to our server, ORAS to the peer


def client_push(bench, side, netns=None):
    path = bench.data.bf16()
    with bench.scratch() as scratch, bench.serve(side, scratch / "store", scratch, **(far(netns) if netns else {})) as server:
        reference, namespace = f"{server.host}/bench/model:v1", netns.client if netns else None
        if side == OURS:
            done = bench.client(scratch, namespace).run("push", *(["--plain-http"] if netns else []), path, reference)
        else:
            done = clients.Oras(scratch / "home", namespace).push(reference, path)
        bench.note(side, client_cpu_seconds=done.cpu_seconds, client_peak_rss=done.peak_rss,
                   server_cpu_seconds=server.cpu_seconds())
        server.stop()
    return done.seconds


def client_pull(bench, side, netns=None, store=None, path=None):
    store, path = store or bench.prepared(side, "bf16"), path or bench.data.bf16()
    with bench.scratch() as scratch, bench.serve(side, store, scratch, **(far(netns) if netns else {})) as server:
        reference, namespace = f"{server.host}/bench/model:v1", netns.client if netns else None
        if side == OURS:
            done = bench.client(scratch, namespace).run("pull", *(["--plain-http"] if netns else []), reference, scratch / "out")
        else:
            done = clients.Oras(scratch / "home", namespace).pull(reference, scratch / "out")
        bench.note(side, client_cpu_seconds=done.cpu_seconds, client_peak_rss=done.peak_rss,
                   server_cpu_seconds=server.cpu_seconds())
        check_pulled(scratch / "out", path)
        server.stop()
    return done.seconds


def check_pulled(folder, path):
    """Whatever was fast must have been right."""
    subprocess.run(["diff", "-r", "--", folder, path], check=True)


def push_wall_loopback(bench, side):
    return {"push-wall-loopback": client_push(bench, side)}


def push_wall_1g(bench, side):
    with link.Link() as netns:
        return {"push-wall-1g": client_push(bench, side, netns)}


def pull_wall_loopback(bench, side):
    return {"pull-wall-loopback": client_pull(bench, side)}


def pull_wall_1g(bench, side):
    with link.Link() as netns:
        return {"pull-wall-1g": client_pull(bench, side, netns)}


# A second fine-tune of what is there already


def fine_tune(bench, side):
    """Pushes the fine-tune to a registry that holds its base, then pulls it on a machine that holds the base."""
    prepared, path = bench.prepared(side, "bf16"), bench.data.fine_tune()
    with link.Link() as netns, bench.scratch() as scratch:
        store = scratch / "store"
        shutil.copytree(prepared, store, copy_function=os.link)  # both sides replace objects, never change them
        with bench.serve(side, store, scratch, **far(netns)) as server:
            reference = f"{server.host}/bench/model:v2"
            stored, (sent, _) = folder_bytes(store), netns.client_bytes()
            if side == OURS:
                client = bench.client(scratch, netns.client, store=bench.prepared(OURS, "bf16"))
                pushed = bench.client(scratch, netns.client).run("push", "--plain-http", path, reference)
            else:
                client = clients.Oras(scratch / "home", netns.client)
                pushed = client.push(reference, path)
            sent_after, received = netns.client_bytes()
            bench.note(side, push_wall_seconds=pushed.seconds)
            values = {"fine-tune-sent": (sent_after - sent) / MIB, "fine-tune-stored": (folder_bytes(store) - stored) / MIB}
            if side == OURS:
                pulled = client.run("pull", "--plain-http", reference, scratch / "out")
            else:
                pulled = client.pull(reference, scratch / "out")
            bench.note(side, received_mib=(netns.client_bytes()[1] - received) / MIB)
            check_pulled(scratch / "out", path)
            server.stop()
    return {**values, "fine-tune-pull-1g": pulled.seconds}


# How small


def stored(bench, path):
    with bench.scratch() as scratch, bench.serve(OURS, scratch / "store", scratch) as server:
        before = folder_bytes(scratch / "store")
        clients.Oras(scratch / "home").push(f"{server.host}/bench/model:v1", path)
        server.stop()
        return (folder_bytes(scratch / "store") - before) / os.path.getsize(path)


def stored_f32(bench, _side):
    return {"stored-f32": stored(bench, bench.data.real_f32())}


def stored_bf16(bench, _side):
    return {"stored-bf16": stored(bench, bench.data.real_bf16())}


# Memory and start


def rss_idle(bench, side):
    with bench.scratch() as scratch, bench.serve(side, scratch / "store", scratch) as server:
        time.sleep(2)
        value = server.rss() / MIB
        server.stop()
    return {"rss-idle": value}


def uploads_at_once(bench, side, size_bytes, n_uploads=16):
    weights_id = uploads.prepare(weights_of(bench.data.bf16()), n_uploads, size_bytes)
    with bench.scratch() as scratch, bench.serve(side, scratch / "store", scratch) as server:
        before, begin = server.cpu_seconds(), time.monotonic()
        total = uploads.upload_at_once(server, weights_id, n_uploads, size_bytes)
        bench.note(side, uploads_wall_seconds=time.monotonic() - begin,
                   uploads_cpu_seconds_per_gib=(server.cpu_seconds() - before) / (total / GIB))
        value = server.peak_rss() / MIB
        server.stop()
    return value


def rss_16(bench, side):
    return {"rss-16": uploads_at_once(bench, side, bench.data.upload_size)}


def rss_16_small(bench, side):
    """Ours both times: the "peer" is ourselves with blobs of a quarter."""
    size = bench.data.upload_size if side == OURS else bench.data.upload_size // 4
    return {"rss-16-blob-size": uploads_at_once(bench, OURS, size)}


def start(bench, side):
    """From the start of the process to the first answer."""
    with bench.scratch() as scratch:
        port = servers.free_port()
        begin = time.monotonic()
        if side == OURS:
            server = servers.Server([bench.program, "serve", "--store", scratch / "store", "--listen", f"127.0.0.1:{port}"],
                                    scratch / "log", port=port)
        else:
            server = servers.distribution(scratch / "store", log=scratch / "log", port=port)
        with server:
            wait_for_answer(server, begin)
            seconds = time.monotonic() - begin
            server.stop()
    return {"start": seconds * 1000}


def wait_for_answer(server, begin):
    while True:
        try:
            with socket.create_connection((server.address, server.port), timeout=5) as connection:
                connection.sendall(f"GET /v2/ HTTP/1.1\r\nHost: {server.host}\r\nConnection: close\r\n\r\n".encode())
                if connection.recv(64).startswith(b"HTTP/1.1 200"):
                    return
        except OSError:
            pass
        assert time.monotonic() - begin < 20 and server.process.poll() is None, "the server does not start"
        time.sleep(0.0002)


ORAS = "ORAS, distribution v3.1.2"
MEASURES = [
    Measure("push-cpu-bf16", push_cpu_bf16, "CPU-s/GiB", 0.85, "push by ORAS, server CPU, 2 GiB of bf16",
            "отправка через ORAS, процессор сервера, 2 ГиБ bf16"),
    Measure("push-cpu-random", push_cpu_random, "CPU-s/GiB", 0.75, "push by ORAS, server CPU, 1 GiB random",
            "отправка через ORAS, процессор сервера, 1 ГиБ случайных"),
    Measure("pull-cpu-plain", pull_cpu_plain, "CPU-s/GiB", 1.4, "pull by curl, server CPU, plain",
            "получение через curl, процессор сервера, без TLS"),
    Measure("pull-cpu-tls", pull_cpu_tls, "CPU-s/GiB", 1.0, "pull by curl, server CPU, TLS",
            "получение через curl, процессор сервера, TLS"),
    Measure("push-wall-loopback", push_wall_loopback, "s", 0.9, "`ai-models push`, 2 GiB, loopback",
            "`ai-models push`, 2 ГиБ, локальная петля", ORAS),
    Measure("push-wall-1g", push_wall_1g, "s", 0.75, "`ai-models push`, 2 GiB, 1 Gbit/s",
            "`ai-models push`, 2 ГиБ, 1 Гбит/с", ORAS),
    Measure("pull-wall-loopback", pull_wall_loopback, "s", 0.9, "`ai-models pull`, verified, 2 GiB, loopback",
            "`ai-models pull` с проверкой, 2 ГиБ, локальная петля", ORAS),
    Measure("pull-wall-1g", pull_wall_1g, "s", 0.75, "`ai-models pull`, verified, 2 GiB, 1 Gbit/s",
            "`ai-models pull` с проверкой, 2 ГиБ, 1 Гбит/с", ORAS),
    Measure("fine-tune-sent", fine_tune, "MiB", 0.08, "second fine-tune (10 % changed), bytes sent",
            "второе дообучение (изменено 10 %), отправлено", ORAS),
    Measure("fine-tune-stored", fine_tune, "MiB", 0.08, "second fine-tune, bytes stored",
            "второе дообучение, занято в хранилище", ORAS),
    Measure("fine-tune-pull-1g", fine_tune, "s", 0.25, "second fine-tune, pull where the first is, 1 Gbit/s",
            "второе дообучение, получение туда, где есть первое, 1 Гбит/с", ORAS),
    Measure("stored-f32", stored_f32, "of logical", 0.83, "stored / logical bytes, the real F32 model",
            "занято / логический размер, настоящая модель F32", "1.0", 1, 1.0),
    Measure("stored-bf16", stored_bf16, "of logical", 0.68, "stored / logical bytes, the same in bf16",
            "занято / логический размер, она же в bf16", "1.0", 1, 1.0),
    Measure("rss-idle", rss_idle, "MiB", 0.3, "server RSS, idle", "память сервера (RSS) без нагрузки"),
    Measure("rss-16", rss_16, "MiB", 1.5, "server peak RSS, 16 uploads of 1 GiB at once",
            "пик памяти сервера, 16 отправок по 1 ГиБ разом"),
    Measure("rss-16-blob-size", rss_16_small, "MiB", 1.1, "the same against blobs of a quarter",
            "то же против блобов вчетверо меньше", "ours, 16 of 256 MiB"),
    Measure("start", start, "ms", 0.3, "start to first answer", "от запуска до первого ответа", runs=21),
]
