"""Kills while models are pushed from a hub into a registry on a bucket: of the client, of the server, of the bucket's server."""

import re
import shutil
import time

from harness import buckets, clients, servers, tools
from kills import Model, Sweep, expect
from servers.hf_hub import Hub


def make_models(folder, short):
    """What fresh() makes models of."""
    paths = [tools.make_model_of("bf16", f"{size}MiB", folder / f"base-{number}.safetensors", seed=number, as_decoder=number > 0)
             for number, size in enumerate([24] if short else [48, 96, 64])]
    return [Model(tools.make_model_folder(path, folder / path.stem), path.stat().st_size, clients.sha256_of(path)) for path in paths]


def link_of(key):
    """(repository's last part, SHA-256) where a key says that a repository has a blob."""
    found = re.search(r"/team/(\w[\w-]*)/_layers/sha256/([0-9a-f]{64})/link$", key)
    return found and found.groups()


class BucketSweep(Sweep):
    make_models = staticmethod(make_models)

    def __init__(self, program, folder, seed, short):
        super().__init__(program, folder, seed, short)
        self.short, self.hub, self.bucket, self.n_buckets, self.to_kill = short, Hub(), None, 0, []
        self.weed = buckets.SeaweedFS(folder / "weed").start()

    # The world

    def client(self):
        return clients.AiModels(self.folder / "client", self.program, env={"HF_ENDPOINT": self.hub.endpoint})

    def source(self, name):
        return f"{self.hub.endpoint}/team/{name}"

    def fresh(self, name):
        """(model, digest of its artifact as a push from the disk makes it), new at the hub as team/`name`: of its bytes, from half
        to all are in no other model."""
        base = self.random.choice(self.models)
        data, step = bytearray(base.weights.read_bytes()), 16 << 10
        begin = (64 << 10) + self.random.randrange(len(data) // 2)
        for offset in range(begin, min(begin + self.random.randrange(len(data) // 2, len(data)), len(data)), step):
            data[offset] ^= self.random.randrange(1, 256)
        folder = self.folder / "fresh"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(base.folder, folder)
        (folder / "model.safetensors").write_bytes(data)
        self.hub.repositories.clear()
        self.hub.add(f"team/{name}", folder)
        disk = clients.AiModels(self.folder / "disk", self.program)
        digest = disk.run("push", folder, "m:v1").json["digest"]
        shutil.rmtree(self.folder / "disk")
        return Model(folder, len(data), clients.sha256_of(folder / "model.safetensors")), digest

    def start_server(self):
        self.server = servers.ours(self.bucket.store("models"), log=self.folder / "server.log", port=self.port, program=self.program,
                                   env=self.bucket.environment())
        self.server.wait_ready()

    def new_store(self):
        if self.server:
            self.check_all()
            expect(self.server.stop() == 0, "the server did not end well")
        if not self.weed.is_running():
            self.weed.start()
        if self.bucket:
            self.bucket.remove()
        self.acknowledged, self.n_buckets = {}, self.n_buckets + 1
        shutil.rmtree(self.folder / "client", ignore_errors=True)
        self.bucket = self.weed.bucket(f"sweep-{self.n_buckets}")
        self.start_server()

    def time_clean_runs(self):
        model, digest = self.fresh("clean")
        begin = time.monotonic()
        self.push("clean", model, digest)
        self.rates["push"] = model.size_bytes / (time.monotonic() - begin)

    def answers(self, path):
        return self.server.request("GET", path)[0]

    def wait_until_ready(self):
        end = time.monotonic() + 60
        while self.answers("/readyz") != 200:
            expect(time.monotonic() < end, "the bucket is back and the server is not ready")
            time.sleep(0.1)

    def check_all(self):
        """Whatever the bucket names as a blob of a repository is whole, whether its push was acknowledged or not."""
        super().check_all()
        links = [link for link in map(link_of, self.bucket.objects("models/docker/")) if link]
        expect({name for name, _ in links} >= set(self.acknowledged), "the bucket does not name all that was acknowledged")
        for name, sha256 in links:
            _, _, content = self.server.request("GET", f"/v2/team/{name}/blobs/sha256:{sha256}")
            expect(clients.digest_of(content) == f"sha256:{sha256}", f"a blob of {name} is in the bucket and is not whole")

    # Actions

    def push(self, name, model, digest):
        done = self.client().run("push", self.source(name), self.reference(name)).json
        expect(done["digest"] == digest, f"{name} became {done['digest']}, not {digest}")
        self.acknowledged[name] = model
        return done

    def finish(self, name, model, digest, status):
        """What a push that ended with `status` (None: it was killed) left, and the push once more."""
        there = self.check_not_half(name, model)
        expect(there or status != 0, f"{name} was acknowledged and is gone")
        moved = self.push(name, model, digest)["movedBytes"]
        if status != 0:
            self.cut, self.cut_bytes, self.moved_again = self.cut + 1, self.cut_bytes + model.size_bytes, self.moved_again + moved

    def downtime(self):
        """Seconds until what was killed comes back; now and then only when the client has given up (None)."""
        if self.short or self.random.random() < 0.5:
            return 0
        return self.random.uniform(0, 10) if self.random.random() < 0.9 else None

    def push_and_kill(self, victim, restart):
        """`victim` and `restart` are called once each."""
        name, downtime = f"m{self.step}", self.downtime()
        model, digest = self.fresh(name)
        with self.client().popen("push", self.source(name), self.reference(name), log=self.folder / "client.log") as client:
            time.sleep(self.moment("push", model))
            status = client.poll()
            victim(client)
            if restart is not None and downtime is not None:
                time.sleep(downtime)
                restart()
            begin = time.monotonic()
            ended = clients.wait(client, 300)
        if restart is not None:
            status = ended
            self.detail = f"down for {'ever' if downtime is None else f'{downtime:.0f} s'}, client ended {time.monotonic() - begin:.0f} s later  "
            if downtime is None:
                restart()
        self.finish(name, model, digest, status)

    def push_and_kill_client(self):
        self.push_and_kill(lambda client: client.kill(), None)

    def push_and_kill_server(self):
        self.push_and_kill(lambda _: self.server.kill(), self.start_server)

    def push_and_kill_bucket(self):
        self.push_and_kill(self.kill_bucket, self.restart_bucket)

    def kill_bucket(self, _client):
        self.weed.stop()
        expect(self.answers("/healthz") == 200, "the server is not alive without its bucket")
        expect(self.answers("/readyz") == 503, "the server is ready without its bucket")

    def restart_bucket(self):
        self.weed.start()
        self.wait_until_ready()

    ACTIONS = (push_and_kill_client, push_and_kill_server, push_and_kill_bucket)

    def choose_action(self):
        """Each as often as the others."""
        if not self.to_kill:
            self.to_kill = self.random.sample(self.ACTIONS, len(self.ACTIONS))
        return self.to_kill.pop()

    def close(self):
        super().close()
        self.weed.stop()
        self.hub.stop()
