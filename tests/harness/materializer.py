"""The materializer as its Job runs it: a registry with a model in it, a volume, a grant, and a file for the end."""

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from harness import clients, servers, tools
from harness.grants import SALT, grant

REPOSITORY = "ai-models/catalog/namespaced/team/model/5e1c"
USER = ("ai-models", "write-secret")
JOB_UID = 64535
MARKER = ".ai-models-materialized.json"


def tree(folder):
    """Relative path -> content of every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in pathlib.Path(folder).rglob("*") if path.is_file()}


def sums(files):
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


class Source:
    """A running registry, and what is put there."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "users").write_text(":".join(USER) + "\n")
        (self.folder / "salt").write_text(SALT)
        (self.folder / "password").write_text(USER[1])
        self.port = servers.free_port()
        self.digest, self.files = None, {}
        self.start()

    def push(self, model):
        """A folder, by our client; it is the model from now on."""
        ai = clients.AiModels(self.folder / "home")
        self.digest = ai.run("push", model, f"http://{self.server.host}/{REPOSITORY}:published", "--username", USER[0], "--password-file",
                             self.folder / "password").json["digest"]
        self.files = sums({name: data for name, data in tree(model).items() if name != "README.md"})

    def start(self):
        self.server = servers.ours(self.folder / "store", "--plain-users", self.folder / "users", "--writer", USER[0], "--grant-salt-file",
                                   self.folder / "salt", log=self.folder / "log", port=self.port).wait_ready()

    def read_bytes(self):
        """Bytes of blobs that were read with a grant, decoded."""
        return int(self.server.metric("d8_ai_models_dmcr_grant_read_bytes"))

    def put(self, files):
        """An artifact with any files, as any client makes it: its digest."""
        headers = {"Authorization": "Basic " + base64.b64encode(":".join(USER).encode()).decode()}
        put = lambda data: clients.put_blob(self.server, REPOSITORY, data, headers)  # noqa: E731
        config = json.dumps({"descriptor": {}, "modelfs": {"type": "layers", "diffIds": [clients.digest_of(data) for data in files.values()]}, "config": {}}).encode()
        kind = "application/vnd.cncf.model.{}.v1"
        manifest = {"schemaVersion": 2, "mediaType": clients.MANIFEST_TYPE, "artifactType": kind.format("manifest") + "+json",
                    "config": {"mediaType": kind.format("config") + "+json", "digest": put(config), "size": len(config)},
                    "layers": [{"mediaType": kind.format("weight") + ".raw", "digest": put(data), "size": len(data),
                                "annotations": {"org.cncf.model.filepath": name}} for name, data in files.items()]}
        body = json.dumps(manifest).encode()
        status, _, answer = self.server.request("PUT", f"/v2/{REPOSITORY}/manifests/raw", body, {"Content-Type": clients.MANIFEST_TYPE, **headers})
        assert status == 201, answer
        return clients.digest_of(body)


class Job:
    """A place as a Job of the cluster has it: a volume, a grant and a file for the end, reachable for its user."""

    def __init__(self, source, folder=None):
        self.source, self.environment = source, None
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="materialize-", dir=folder))
        self.root.chmod(0o755)
        self.volume, self.end, self.grant = self.root / "volume", self.root / "end", self.root / "grant"
        self.volume.mkdir()
        os.chown(self.volume, 0, JOB_UID)
        self.volume.chmod(0o2775)
        self.give(grant(source.digest, REPOSITORY))

    def give(self, token):
        self.token = token
        self.grant.write_text(token)

    def command(self, *options, artifact=None):
        return [str(tools.program()), "materialize", "--registry", self.source.server.host, "--registry-plain-http", "--artifact",
                artifact or f"{REPOSITORY}@{self.source.digest}", "--grant-file", str(self.grant), "--volume", str(self.volume),
                "--termination-file", str(self.end), "--log-format", "json", *map(str, options)]

    def start(self, *options, log="log", **more):
        with (self.root / log).open("ab") as output:
            return subprocess.Popen(self.command(*options, **more), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/",
                                    env=self.environment)

    def run(self, *options, status=0, **more):
        ended = self.start(*options, **more).wait(60)
        log = (self.root / "log").read_text()
        assert ended == status, log
        self.check_silence(log)
        return self.outcome()

    def outcome(self):
        text = self.end.read_text()
        assert len(text) <= 4096
        self.check_silence(text)
        return json.loads(text)

    def check_silence(self, text):
        """Neither the grant nor where the module's registry is."""
        for secret in (self.token, self.token.partition(".")[2], self.source.server.host, REPOSITORY):
            assert secret not in text, text

    def failure(self, reason, status, *options, retry, **more):
        failure = self.run(*options, status=status, **more)["failure"]
        assert failure["reason"] == reason and failure["retry"] is retry, failure
        return failure["message"]

    def is_shown(self):
        return (self.volume / "model").exists()

    def check_whole(self):
        """The very files and nothing else, readable for anybody."""
        assert sums(tree(self.volume / "model")) == self.source.files
        assert sorted(path.name for path in self.volume.iterdir()) == [MARKER, "model"]
        assert json.loads((self.volume / MARKER).read_text())["digest"] == self.source.digest
        for path in [self.volume / "model", *(self.volume / "model").rglob("*")]:
            assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)

    def grown(self):
        """Bytes of the large file that are on the disk."""
        with contextlib.suppress(OSError):
            return sum(path.stat().st_blocks * 512 for path in self.volume.glob(".work/*/files/model.safetensors"))
        return 0

    def start_until(self, n_bytes, *options):
        """A run that has come so far with the large file, and shows nothing yet."""
        process = self.start(*options)
        end = time.monotonic() + 30
        while self.grown() < n_bytes:
            assert process.poll() is None and time.monotonic() < end, (self.root / "log").read_text()
            time.sleep(0.001)
        return process

    def remove(self):
        subprocess.run(["umount", "-q", self.volume], check=False)
        shutil.rmtree(self.root)
