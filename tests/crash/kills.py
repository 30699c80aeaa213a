"""Kills of servers and clients while models are pushed and pulled, and what must hold after each."""

import contextlib
import hashlib
import pathlib
import random
import shutil
import time
from typing import NamedTuple

from harness import clients, servers, tools

MIB = 1 << 20
KILLS_PER_STORE = 10


class Wrong(Exception):
    """What was left after a kill is not as it must be."""


def expect(good, what):
    if not good:
        raise Wrong(what)


class Model(NamedTuple):
    """A folder with one file of weights, and what is known of those."""

    folder: pathlib.Path
    size_bytes: int
    sha256: str

    @property
    def weights(self):
        return self.folder / "model.safetensors"

    @property
    def digest(self):
        return f"sha256:{self.sha256}"


def make_models(folder, short):
    """Models of 64 to 200 MiB made of real weights; some share most of their bytes, as fine-tunes do."""
    wanted = [("bf16", 64), ("f32", 80)] if short else [("bf16", 64), ("bf16", 200), ("f32", 96), ("f16", 128)]
    paths = []
    for number, (dtype, size) in enumerate(wanted):
        base = tools.make_model_of(dtype, f"{size}MiB", folder / f"base-{number}.safetensors", seed=number)
        tuned = tools.make_fine_tune(base, 0.3, folder / f"tuned-{number}.safetensors", seed=100 + number)
        paths += [base, tuned]
    return [Model(tools.make_model_folder(path, folder / path.stem), path.stat().st_size, clients.sha256_of(path))
            for path in paths]


class Sweep:
    """Over a store in a directory."""

    make_models = staticmethod(make_models)

    def __init__(self, program, folder, seed, short):
        self.program, self.folder, self.random = program, folder, random.Random(seed)
        (folder / "models").mkdir()
        self.models = self.make_models(folder / "models", short)
        self.port = servers.free_port()
        self.server, self.acknowledged, self.step, self.detail = None, {}, 0, ""
        self.rates = {}  # bytes a second of a clean run, by action
        self.cut, self.moved_again, self.cut_bytes = 0, 0, 0  # of our client's pushes and pulls that were cut

    # The world

    @property
    def store(self):
        return self.folder / "store"

    def client(self):
        return clients.AiModels(self.folder / "client", self.program)

    def start_server(self):
        self.server = servers.ours(self.store, log=self.folder / "server.log", port=self.port, program=self.program)
        self.server.wait_ready()

    def new_store(self):
        """The end of a store: all of it read again; then a fresh one."""
        if self.server:
            self.check_all()
            expect(self.server.stop() == 0, "the server did not end well")
        self.acknowledged = {}
        for name in ("store", "client"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self.start_server()

    def reference(self, name):
        return f"{self.server.host}/team/{name}:v1"

    # What must hold

    def check_acknowledged(self, names):
        for name in names:
            model = self.acknowledged[name]
            done = self.client().run("verify", self.reference(name))
            expect(done.json["intact"], f"{name} is damaged: {done.stdout}")
            expect(self.blob_sum(name, model) == model.sha256, f"the bytes of {name} are others")

    def check_all(self):
        self.check_acknowledged(self.acknowledged)

    def check_some(self):
        """The newest ones and one of the older."""
        names = list(self.acknowledged)
        self.check_acknowledged({*names[-2:], *([self.random.choice(names)] if names else [])})

    def blob_sum(self, name, model):
        """SHA-256 of the blob as the server gives it; None when it says there is none."""
        connection = self.server.connect()
        try:
            connection.request("GET", f"/v2/team/{name}/blobs/{model.digest}")
            response = connection.getresponse()
            if response.status == 404:
                response.read()
                return None
            expect(response.status == 200, f"status {response.status} for a blob of {name}")
            total, found = 0, hashlib.sha256()
            while block := response.read(MIB):
                total += len(block)
                found.update(block)
            expect(total == model.size_bytes, f"a blob of {name} has {total} bytes, not {model.size_bytes}")
            return found.hexdigest()
        finally:
            connection.close()

    def check_not_half(self, name, model):
        """An artifact that nobody acknowledged is there whole, or its parts are whole, or absent."""
        status, _, _ = self.server.request("GET", f"/v2/team/{name}/manifests/v1", headers={"Accept": clients.MANIFEST_TYPE})
        expect(status in (200, 404), f"status {status} for the manifest of {name}")
        found = self.blob_sum(name, model)
        expect(found in (None, model.sha256), f"a blob of {name} is there and wrong")
        expect(status == 404 or found is not None, f"{name} is tagged without its blob")
        return status == 200

    # How long until the kill

    def moment(self, action, model):
        """A moment within the time that the action should take, or a little after."""
        return self.random.uniform(0, 1.1 * model.size_bytes / self.rates[action])

    def time_clean_runs(self):
        """One undisturbed push and pull of each kind, so that kills fall within them."""
        model, home = self.models[0], self.folder / "home"
        for action, run in {
            "push": lambda: self.client().run("push", model.folder, self.reference("clean")),
            "oras": lambda: clients.Oras(home).push(self.reference("clean-oras"), model.folder),
            "pull": lambda: self.client().run("pull", self.reference("clean"), self.folder / "clean"),
        }.items():
            begin = time.monotonic()
            run()
            self.rates[action] = model.size_bytes / (time.monotonic() - begin)
        self.rates["patch"] = self.rates["oras"]
        shutil.rmtree(self.folder / "clean")
        self.acknowledged |= {"clean": model, "clean-oras": model}

    # Actions: each kills once

    def spawn(self, action, name, model):
        """The client of a push."""
        log = self.folder / "client.log"
        if action == "push":
            return self.client().popen("push", model.folder, self.reference(name), log=log)
        command, folder = clients.Oras(self.folder / "home").push_command(self.reference(name), model.folder)
        return clients.start(command, home=self.folder / "home", cwd=folder, log=log)

    def push_again(self, action, name, model):
        if action == "push":
            done = self.client().run("push", model.folder, self.reference(name))
            self.cut, self.cut_bytes = self.cut + 1, self.cut_bytes + model.size_bytes
            self.moved_again += done.json["movedBytes"]
        else:
            clients.Oras(self.folder / "home").push(self.reference(name), model.folder)
        self.acknowledged[name] = model

    def push_and_kill_server(self, action="push"):
        name, model = f"m{self.step}", self.random.choice(self.models)
        restart_at_once = self.random.random() < 0.5
        with self.spawn(action, name, model) as client:
            time.sleep(self.moment(action, model))
            self.server.kill()
            if restart_at_once:
                self.start_server()
            status = clients.wait(client, 120)
        if not restart_at_once:
            self.start_server()
        there = self.check_not_half(name, model)
        if status == 0:
            expect(there, f"{name} was acknowledged and is gone")
            self.acknowledged[name] = model
        else:
            self.push_again(action, name, model)

    def oras_push_and_kill_server(self):
        self.push_and_kill_server("oras")

    def push_and_kill_client(self, action="push"):
        name, model = f"m{self.step}", self.random.choice(self.models)
        with self.spawn(action, name, model) as client:
            time.sleep(self.moment(action, model))
            ended = client.poll()
            client.kill()
        there = self.check_not_half(name, model)
        expect(there or ended != 0, f"{name} was acknowledged and is gone")
        self.push_again(action, name, model)

    def oras_push_and_kill_client(self):
        self.push_and_kill_client("oras")

    def pull_and_kill(self, kill_server):
        name = self.random.choice(list(self.acknowledged))
        model, target = self.acknowledged[name], self.folder / "pulled"
        shutil.rmtree(target, ignore_errors=True)
        with self.client().popen("pull", self.reference(name), target, log=self.folder / "client.log") as client:
            time.sleep(self.moment("pull", model))
            if kill_server:
                self.server.kill()
                self.start_server()
            else:
                client.kill()
            clients.wait(client, 120)
        if target.exists():
            self.check_pulled(target, model)
        done = self.client().run("pull", self.reference(name), target).json
        self.check_pulled(target, model)
        self.cut, self.cut_bytes = self.cut + 1, self.cut_bytes + model.size_bytes
        self.moved_again += done["movedBytes"]
        left = [path.name for path in self.folder.iterdir() if path.name.startswith(".pulled")]
        expect(not left, f"a finished pull left {left}")
        shutil.rmtree(target)

    def pull_and_kill_server(self):
        self.pull_and_kill(True)

    def pull_and_kill_client(self):
        self.pull_and_kill(False)

    def check_pulled(self, target, model):
        found, wanted = clients.folder_digests(target), clients.folder_digests(model.folder)
        expect(found == wanted, f"the target of the pull holds {found}, not {wanted}")

    def patch_and_kill_server(self):
        """By hand: what a PATCH acknowledged is there after the kill, and the upload goes on from where the server says."""
        name, model = f"m{self.step}", self.random.choice(self.models)
        data, session = model.weights.read_bytes(), None
        kill_at = time.monotonic() + self.moment("patch", model)
        status, headers, _ = self.server.request("POST", f"/v2/team/{name}/blobs/uploads/")
        expect(status == 202, f"status {status} for a new upload")
        session, acknowledged = clients.path_of(headers["Location"]), 0
        piece = self.random.choice([3, 7, 16, 64]) * MIB + self.random.randrange(4096)
        killer = clients.later(kill_at - time.monotonic(), self.server.kill)
        with contextlib.suppress(OSError, clients.http_errors):
            while acknowledged < len(data):
                if self.patch(session, data[acknowledged:acknowledged + piece], acknowledged) != 202:
                    break
                acknowledged = min(acknowledged + piece, len(data))
        killer.join()
        self.start_server()
        offset = self.upload_offset(session)
        expect(offset >= acknowledged, f"{acknowledged} bytes were acknowledged, {offset} are there")
        expect(self.blob_sum(name, model) is None, "a blob is there before its upload ended")
        if offset < len(data):
            status = self.patch(session, data[offset:], offset)
            expect(status == 202, f"status {status} for the rest of an upload")
        status, _, body = self.server.request("PUT", f"{session}{'&' if '?' in session else '?'}digest={model.digest}", b"")
        expect(status == 201, f"status {status} at the end of an upload: {body}")
        clients.put_artifact(self.server, f"team/{name}", "v1",
                             [("application/octet-stream", model.digest, model.size_bytes)])
        expect(self.blob_sum(name, model) == model.sha256, "the uploaded blob is another")

    def patch(self, session, data, begin):
        return self.server.request("PATCH", session, data, {
            "Content-Type": "application/octet-stream", "Content-Range": f"{begin}-{begin + len(data) - 1}"})[0]

    def upload_offset(self, session):
        status, headers, _ = self.server.request("GET", session)
        expect(status == 204, f"status {status} for an upload that was begun")
        last = int(headers["Range"].split("-")[1])
        return last + 1 if last else 0

    # All of it

    ACTIONS = (push_and_kill_server, push_and_kill_client, oras_push_and_kill_server, oras_push_and_kill_client,
               pull_and_kill_server, pull_and_kill_client, patch_and_kill_server)

    def choose_action(self):
        return self.random.choice(self.ACTIONS)

    def run(self, n_kills, quiet):
        failed = 0
        for self.step in range(n_kills):
            if self.step % KILLS_PER_STORE == 0:
                self.new_store()
                self.time_clean_runs()
            action = self.choose_action()
            begin, self.detail = time.monotonic(), ""
            try:
                action(self)
                self.check_some()
                if self.step % KILLS_PER_STORE == KILLS_PER_STORE - 1 or self.step == n_kills - 1:
                    self.check_all()
                problem = None
            except (Wrong, clients.CommandFailed, servers.ServerFailed, OSError, clients.http_errors) as error:
                problem, failed = error, failed + 1
            if problem or not quiet:
                print(f"{self.step + 1:4} {action.__name__:30} {time.monotonic() - begin:5.1f} s  {self.detail}"
                      f"{'ok' if problem is None else f'FAILED: {problem}'}", flush=True)
            if problem:
                self.keep_evidence()
                self.server.kill()
                self.server = None
                self.new_store()
                self.time_clean_runs()
        return n_kills - failed, failed

    def keep_evidence(self):
        log = self.folder / "server.log"
        print("".join(f"     | {line}\n" for line in log.read_text(errors="replace").splitlines()[-15:]), end="")

    def close(self):
        if self.server:
            self.server.kill()
