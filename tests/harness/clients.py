"""Clients as commands: ours, ORAS, skopeo, curl; and uploads spoken by hand."""

import hashlib
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

from . import tools

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
EMPTY_CONFIG = b"{}"
http_errors = http.client.HTTPException


class CommandFailed(Exception):
    def __init__(self, command, status, stderr):
        super().__init__(f"status {status}: {' '.join(map(str, command))}\n{stderr.strip()[-3000:]}")
        self.status, self.stderr = status, stderr


class Done:
    """How a command ended: `stdout`, wall `seconds`, its `cpu_seconds`, peak RSS in bytes."""

    def __init__(self, stdout, seconds, peak_rss, cpu_seconds):
        self.stdout, self.seconds, self.peak_rss, self.cpu_seconds = stdout, seconds, peak_rss, cpu_seconds

    @property
    def json(self):
        return json.loads(self.stdout)


def environment(home, more=None):
    """For commands that must not see this user's files; `home` is their own. `more` variables come on top."""
    home = pathlib.Path(home)
    home.mkdir(parents=True, exist_ok=True)
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("XDG_", "AI_MODELS_", "DOCKER_", "HF_", "OCI_", "REGISTRY_"))}
    return {**env, "HOME": str(home), **(more or {})}


def in_netns(netns, command):
    return [tools.need("ip"), "netns", "exec", netns, *command] if netns else list(command)


def run(command, *, home, netns=None, cwd=None, env=None, timeout=900):
    """Runs to the end; raises CommandFailed unless the status is 0."""
    command = list(map(str, in_netns(netns, command)))
    begin = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd,
                          env=environment(home, env)) as process:
        try:
            stdout, stderr, usage, peak_rss = _collect(process, timeout)
        except BaseException:
            process.kill()
            raise
    seconds = time.monotonic() - begin
    if process.returncode != 0:
        raise CommandFailed(command, process.returncode, stderr)
    return Done(stdout, seconds, peak_rss, usage.ru_utime + usage.ru_stime)


def peak_rss_of(process):
    """Of the command so far. Not from wait4(): there a command that was begun without fork counts the memory of this process."""
    try:
        lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _collect(process, timeout):
    output, end, peak_rss = {}, time.monotonic() + timeout, 0

    def read(name):
        output[name] = getattr(process, name).read()

    readers = [threading.Thread(target=read, args=(name,)) for name in ("stdout", "stderr")]
    for reader in readers:
        reader.start()
    while any(reader.is_alive() for reader in readers):
        peak_rss = max(peak_rss, peak_rss_of(process))
        readers[0].join(0.05)
        readers[1].join(0 if readers[0].is_alive() else 0.05)
        if time.monotonic() > end:
            raise subprocess.TimeoutExpired(process.args, timeout)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return output["stdout"].decode(errors="replace"), output["stderr"].decode(errors="replace"), usage, peak_rss


def start(command, *, home, log, cwd=None, env=None):
    """Starts a command that the caller waits for or kills."""
    with open(log, "ab") as output:
        return subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=cwd,
                                env=environment(home, env))


def wait(process, timeout):
    """Its exit status; one that does not end is killed, and that is a failure."""
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise CommandFailed(process.args, process.wait(), f"did not end within {timeout} s") from None


def later(seconds, action):
    """A running thread that does something after a while."""
    timer = threading.Timer(max(0, seconds), action)
    timer.start()
    return timer


class AiModels:
    """Our command with a home and a local store of its own, as on a machine of its own. `env`: more variables."""

    def __init__(self, home, program=None, store=None, netns=None, env=None):
        self.home, self.netns, self.env = pathlib.Path(home), netns, env
        self.program, self.store = program or tools.program(), pathlib.Path(store or self.home / "store")

    def command(self, name, *arguments):
        return [self.program, name, "--store", self.store, *arguments]

    def run(self, name, *arguments, timeout=900):
        return run(self.command(name, "--json", "--quiet", *arguments), home=self.home, netns=self.netns, env=self.env,
                   timeout=timeout)

    def popen(self, name, *arguments, log):
        return start(in_netns(self.netns, self.command(name, "--quiet", *arguments)), home=self.home, log=log, env=self.env)


class Oras:
    def __init__(self, home, netns=None, plain_http=True, options=()):
        self.home, self.netns = pathlib.Path(home), netns
        self.options = [*(["--plain-http"] if plain_http else []), *options]

    def push_command(self, reference, path):
        """(command, folder to run it in) for a file, or for all files of a folder."""
        path = pathlib.Path(path)
        folder = path if path.is_dir() else path.parent
        names = [path.name] if folder != path else sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())
        return [tools.oras(), "push", "--no-tty", "--disable-path-validation", *self.options, reference,
                *(f"{name}:application/octet-stream" for name in names)], folder

    def push(self, reference, path):
        command, folder = self.push_command(reference, path)
        return run(command, home=self.home, netns=self.netns, cwd=folder)

    def pull(self, reference, folder):
        return run([tools.oras(), "pull", "--no-tty", *self.options, "-o", folder, reference], home=self.home,
                   netns=self.netns)

    def run(self, *arguments):
        return run([tools.oras(), *arguments, *self.options], home=self.home, netns=self.netns)


class HuggingFace:
    """The hub's own client, `hf`, over plain HTTP: the tests' hub has no store of its chunk protocol."""

    def __init__(self, home, endpoint):
        self.home = pathlib.Path(home)
        self.env = {"HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
                    "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

    def download(self, name, folder):
        """The files of a model, without what the client itself keeps beside them."""
        done = run([pathlib.Path(sys.executable).parent / "hf", "download", name, "--local-dir", folder], home=self.home, env=self.env)
        shutil.rmtree(pathlib.Path(folder) / ".cache")
        return done


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def folder_digests(folder):
    """Relative path -> SHA-256 of every file below a folder."""
    folder = pathlib.Path(folder)
    return {str(path.relative_to(folder)): sha256_of(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def put_blob(server, repository, data, headers=None):
    """Pushes a small blob by hand; returns its digest."""
    digest = digest_of(data)
    status, answer, _ = server.request("POST", f"/v2/{repository}/blobs/uploads/", headers=headers)
    assert status == 202, status
    location = path_of(answer["Location"])
    status, _, body = server.request("PUT", f"{location}{'&' if '?' in location else '?'}digest={digest}", data,
                                     {"Content-Type": "application/octet-stream", **(headers or {})})
    assert status == 201, (status, body)
    return digest


def path_of(location):
    """Path and query of a Location header, absolute or not."""
    return "/" + location.split("://", 1)[1].split("/", 1)[1] if "://" in location else location


def put_artifact(server, repository, tag, layers, headers=None):
    """Tags a manifest over layers that are there already: (media type, digest, size). Returns its digest."""
    config = put_blob(server, repository, EMPTY_CONFIG, headers)
    manifest = {
        "schemaVersion": 2, "mediaType": MANIFEST_TYPE, "artifactType": "application/vnd.example.test",
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": config, "size": len(EMPTY_CONFIG)},
        "layers": [{"mediaType": kind, "digest": digest, "size": size} for kind, digest, size in layers],
    }
    body = json.dumps(manifest).encode()
    status, _, answer = server.request("PUT", f"/v2/{repository}/manifests/{tag}", body,
                                       {"Content-Type": MANIFEST_TYPE, **(headers or {})})
    assert status == 201, (status, answer)
    return digest_of(body)
