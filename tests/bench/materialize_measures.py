"""The copy of a model to a shared volume, as its Job makes it, against `oras pull` from distribution in the same kind of process: both over
TLS, as inside a cluster, each with nothing of the model on its machine, until it is on the disk. The materializer reads with a grant and
shows the model when all of it was verified and synced; after the peer its file system is synced."""

import os
import signal
import subprocess
import time

import link
from harness import clients, servers
from harness.grants import SALT, grant
from measures import GIB, MIB, OURS, Measure, check_pulled, far, folder_bytes, gib, weights_of

REPOSITORY, TAG = "bench/model", "v1"
KILL_TIMEOUT = 120


class Scene:
    """A registry that holds a model, over TLS, and an empty volume."""

    def __init__(self, bench, side, what, scratch, netns=None):
        self.bench, self.side, self.what, self.scratch, self.netns = bench, side, what, scratch, netns
        address = far(netns)["address"] if netns else "127.0.0.1"
        self.certificate, key = servers.make_certificate(scratch, address)
        options = {"log": scratch / f"server-{side}.log", "tls": (self.certificate, key), **(far(netns) if netns else {"address": address})}
        (scratch / "salt").write_text(SALT)
        (scratch / "users").write_text("nobody:secret\n")  # who has no grant reads nothing
        self.volume, self.end, self.grant = scratch / "volume", scratch / "end", scratch / "grant"
        self.volume.mkdir()
        if side == OURS:
            self.server = servers.ours(bench.prepared(side, what), "--plain-users", scratch / "users", "--grant-salt-file", scratch / "salt",
                                       program=bench.program, **options)
        else:
            self.server = servers.distribution(bench.prepared(side, what), **options)
        self.server.wait_ready_unless_far()

    def command(self):
        digest = self.bench.client(self.scratch, store=self.bench.prepared(OURS, self.what)).run("inspect", f"{REPOSITORY}:{TAG}").json["digest"]
        self.grant.write_text(grant(digest, REPOSITORY))
        return [self.bench.program, "materialize", "--registry", self.server.host, "--registry-ca-file", self.certificate, "--artifact",
                f"{REPOSITORY}@{digest}", "--grant-file", self.grant, "--volume", self.volume, "--termination-file", self.end]

    def copy(self):
        """Until it is on the disk: ours syncs what it shows, after the peer the volume is."""
        namespace = self.netns.client if self.netns else None
        if self.side == OURS:
            return clients.run(self.command(), home=self.scratch / "home", netns=namespace)
        oras = clients.Oras(self.scratch / "home", namespace, plain_http=False, options=["--ca-file", self.certificate])
        done = oras.pull(f"{self.server.host}/{REPOSITORY}:{TAG}", self.volume / "model")
        begin = time.monotonic()
        subprocess.run(["sync", "--file-system", self.volume], check=True)
        self.bench.note(self.side, wall_without_sync=done.seconds)
        done.seconds += time.monotonic() - begin
        return done

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.__exit__()


def materialize(bench, side):
    path = bench.data.bf16()
    bench.prepared(side, "bf16")
    with bench.scratch() as scratch, Scene(bench, side, "bf16", scratch) as scene:
        before = scene.server.cpu_seconds()
        done = scene.copy()
        server_cpu = scene.server.cpu_seconds() - before
        bench.note(side, client_cpu_seconds=done.cpu_seconds, server_cpu_seconds=server_cpu, client_peak_rss=done.peak_rss,
                   load_before=os.getloadavg()[0])
        check_pulled(scene.volume / "model", path)
    return {"materialize-wall": done.seconds, "materialize-cpu": (done.cpu_seconds + server_cpu) / gib(weights_of(path))}


def materialize_1g(bench, side):
    path = bench.data.bf16()
    bench.prepared(side, "bf16")
    with bench.scratch() as scratch, link.Link() as netns, Scene(bench, side, "bf16", scratch, netns) as scene:
        _, before = netns.client_bytes()
        done = scene.copy()
        received = netns.client_bytes()[1] - before
        check_pulled(scene.volume / "model", path)
    return {"materialize-wall-1g": done.seconds, "materialize-wire": received / folder_bytes(path)}


def grown(volume):
    """Bytes of the large file that are on the disk."""
    return sum(path.stat().st_blocks * 512 for path in volume.glob(".work/*/files/model.safetensors"))


def materialize_kill(bench, side):
    """Read in all, less the model's size."""
    path = bench.data.bf16()
    bench.prepared(side, "bf16")
    with bench.scratch() as scratch, Scene(bench, side, "bf16", scratch) as scene:
        process = clients.start(scene.command(), home=scratch / "home", log=scratch / "log")
        end = time.monotonic() + KILL_TIMEOUT
        while grown(scene.volume) < folder_bytes(path) / 2:
            assert process.poll() is None and time.monotonic() < end, (scratch / "log").read_text()
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        scene.copy()
        check_pulled(scene.volume / "model", path)
        read = scene.server.metric("d8_ai_models_dmcr_grant_read_bytes")
    return {"materialize-kill-reread": (read - folder_bytes(path)) / MIB}


def copy_of_size(bench, size):
    what = f"synthetic_{size}"
    setattr(bench.data, what, lambda: bench.data.synthetic(size))
    bench.prepared(OURS, what)
    with bench.scratch() as scratch, Scene(bench, OURS, what, scratch) as scene:
        done = scene.copy()
        bench.note(OURS, **{f"server_peak_rss_{size // GIB}": scene.server.peak_rss()})
        subprocess.run(["cmp", scene.volume / "model" / "model.safetensors", weights_of(bench.data.synthetic(size))], check=True)
    return done.peak_rss / MIB


def materialize_rss(bench, side):
    """Ours both times: the "peer" is ourselves with a tenth of it."""
    large, small = bench.data.synthetic_sizes
    value = copy_of_size(bench, large if side == OURS else small)
    return {"materialize-rss": value, "materialize-rss-size": value}


ORAS = "`oras pull`, distribution v3.1.2"
MEASURES = [
    Measure("materialize-wall", materialize, "s", 0.7, "`ai-models materialize`, 2 GiB of bf16, TLS, loopback",
            "`ai-models materialize`, 2 ГиБ bf16, TLS, локальная петля", ORAS),
    Measure("materialize-cpu", materialize, "CPU-s/GiB", 0.9, "the same, CPU of both ends", "то же, процессор с обеих сторон", ORAS),
    Measure("materialize-wall-1g", materialize_1g, "s", 0.7, "the same, 1 Gbit/s, wall", "то же, 1 Гбит/с, время", ORAS, runs=3),
    Measure("materialize-wire", materialize_1g, "of logical", 0.7, "the same, bytes that leave the registry",
            "то же, байты, покидающие реестр", ORAS, runs=3),
    Measure("materialize-kill-reread", materialize_kill, "MiB", 32, "materializer killed at 50 %, read again",
            "materialize убит на 50 %, прочитано повторно", runs=3, alone=True),
    Measure("materialize-rss", materialize_rss, "MiB", 128, "materializer peak RSS, 20 GiB", "пик памяти materialize, 20 ГиБ", runs=1, alone=True),
    Measure("materialize-rss-size", materialize_rss, "MiB", 1.1, "the same against 2 GiB", "то же против 2 ГиБ", "ours, 2 GiB", runs=1),
]
