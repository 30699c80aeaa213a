"""The publication worker as the controller starts it: a real API server with the worker's own rights, our registry, local hubs."""

import base64
import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import tarfile
import threading
import time
import uuid
import zipfile

import pytest
import zstandard

from e2e.conftest import CONFIG, gguf_bytes, random_tensors, safetensors_bytes, write_model
from harness import buckets, kube_api, servers, tools
from servers.hf_hub import Hub
from servers.ollama import Registry

MODULE, TEAM = "d8-publish", "team"
BOOKS = "ai-models-storage-accounting"
PASSWORD = "tests-password-that-nobody-may-see"
MIB = 1 << 20


@pytest.fixture(scope="module")
def api(cluster):
    api = kube_api.Api(cluster)
    api.create({"kind": "Namespace", "metadata": {"name": MODULE}}, exist_ok=True)
    return api


@pytest.fixture(scope="module")
def account(api, cluster, tmp_path_factory):
    """A kubeconfig of a service account that may do what a worker's Role lets it."""
    name = "worker"
    api.create({"kind": "ServiceAccount", "metadata": {"name": name, "namespace": MODULE}})
    path = tmp_path_factory.mktemp("account") / "kubeconfig"
    path.write_text(kube_api.kubeconfig(cluster, cluster.url, api.token(MODULE, name)))
    return path


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    folder = tmp_path_factory.mktemp("registry")
    (folder / "users").write_text(f"ai-models:{PASSWORD}\n")
    with servers.ours(folder / "store", "--plain-users", folder / "users", log=folder / "log") as server:
        server.wait_ready()
        yield server


@pytest.fixture
def hub():
    with Hub() as hub:
        yield hub


class Job:
    """A model to be published, with what the controller makes for its worker."""

    def __init__(self, api, account, registry, folder, source=None, staged=None, name="tiny", env=None, options=(), books=None, login=PASSWORD):
        self.api, self.account, self.registry, self.folder, self.env = api, account, registry, folder, env or {}
        self.uid = str(uuid.uuid4())
        self.state_name = f"ai-model-publish-state-{self.uid}"
        self.repository = f"ai-models/catalog/namespaced/{TEAM}/{name}/{self.uid}"
        self.end, self.login = folder / f"end-{self.uid}", folder / f"login-{self.uid}"
        self.login.mkdir()
        (self.login / "username").write_text("ai-models")
        (self.login / "password").write_text(login)
        api.create({"kind": "Secret", "metadata": {"name": self.state_name, "namespace": MODULE}})
        self.give_rights()
        if books is not None:
            self.options = ("--accounting", books, *options)
        else:
            self.options = options
        self.source = ("--source", source) if source else ("--staged-file", staged[1], "--staging-store", staged[0])
        self.name, self.n_runs = name, 0

    def give_rights(self):
        role = f"ai-model-publish-{self.uid}"
        rules = [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [self.state_name], "verbs": ["get", "update"]},
                 {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [BOOKS], "verbs": ["get", "update"]}]
        self.api.create({"kind": "Role", "metadata": {"name": role, "namespace": MODULE}, "rules": rules})
        self.api.create({"kind": "RoleBinding", "metadata": {"name": role, "namespace": MODULE},
                         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
                         "subjects": [{"kind": "ServiceAccount", "name": "worker", "namespace": MODULE}]})

    def start(self, *options):
        """Another Pod: nothing on its disk, no memory of an earlier one."""
        self.n_runs += 1
        home = self.folder / f"home-{self.uid}-{self.n_runs}"
        home.mkdir()
        self.end.write_text("")
        self.log = self.folder / f"log-{self.uid}-{self.n_runs}"
        command = [tools.program(), "publish", "--owner-kind", "Model", "--owner-namespace", TEAM, "--owner-name", self.name, "--owner-uid", self.uid,
                   "--owner-generation", "1", *self.source, "--registry", self.registry.host, "--registry-plain-http", "--registry-login-dir", self.login,
                   "--repository", self.repository, "--namespace", MODULE, "--termination-file", self.end, "--log-format", "json", *self.options, *options]
        kept = {key: os.environ[key] for key in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if key in os.environ}
        env = {**kept, "HOME": str(home), "TMPDIR": str(home), "KUBECONFIG": str(self.account), **self.env}
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(list(map(str, command)), env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        return self

    def wait(self, status=None, timeout=60):
        """What is in the termination message."""
        got = self.process.wait(timeout)
        assert status is None or got == status, self.log.read_text()[-3000:]
        text = self.end.read_bytes()
        assert len(text) <= 4096
        self.check_hygiene(text.decode() + self.log.read_text())
        return json.loads(text) if text else None

    def run(self, *options, status=0, timeout=60):
        return self.start(*options).wait(status, timeout)

    def check_hygiene(self, said):
        """No secrets, no internal references; every line tells whose it is."""
        for secret in ("hf_good", "hf_bad", PASSWORD, "Signature="):
            assert secret not in said
        for internal in (self.registry.host, self.repository, "/raw/"):
            assert internal not in self.log.read_text()
        for line in self.log.read_text().splitlines():
            line = json.loads(line)
            if line.get("component") == "publish" and "kind" not in line:
                assert line["level"] == "error" and "code" in line, line  # the command's own last word
        homes = [path for n in range(self.n_runs) for path in (self.folder / f"home-{self.uid}-{n + 1}").rglob("*") if path.is_file()]
        assert homes == []

    def state(self):
        data = self.api.get("Secret", MODULE, self.state_name).get("data", {})
        return json.loads(base64.b64decode(data.get("state.json", "e30=")))

    def messages(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def trouble(self, *words, timeout=20):
        """Waits until the state tells of it."""
        return self.api.wait(lambda: f"{words} in {self.state()}, {self.log.read_text()[-2000:]}",
                             lambda: (text := self.state().get("trouble") or "") and all(word in text for word in words) and text, timeout)


@pytest.fixture
def job(api, account, registry, tmp_path):
    jobs = []

    def make(*args, **options):
        jobs.append(Job(api, account, registry, tmp_path, *args, **options))
        return jobs[-1]

    yield make
    for each in jobs:
        if each.n_runs and each.process.poll() is None:
            each.process.kill()
            each.process.wait()


def from_hub(job, hub, name="owner/name", **options):
    return job(f"https://huggingface.co/{name}", env={"HF_ENDPOINT": hub.endpoint}, **options)


def failure(job, *words, reason="PublicationFailed", **options):
    """The model cannot be published, and the user is told so."""
    end = job.run(status=None, **options)
    assert job.process.returncode not in (0, 130), end
    assert end["failure"]["reason"] == reason, end
    for word in words:
        assert word in end["failure"]["message"], end
    assert "127.0.0.1" not in end["failure"]["message"] or "http://127.0.0.1" in job.env.get("HF_ENDPOINT", "")
    assert job.state()["phase"] == "Failed"
    return end["failure"]["message"]


def ranges(hub, since=0):
    asked = [request["headers"]["Range"].removeprefix("bytes=").split("-") for request in hub.asked("cdn", "GET")[since:]]
    return [(int(first), int(last)) for first, last in asked]


def test_hugging_face(job, hub, tmp_path):
    folder = write_model(tmp_path / "model")
    hub.add("owner/name", folder, info={"pipeline_tag": "text-generation", "cardData": {"license": "mit"}})
    work = from_hub(job, hub)
    result = work.run()["result"]
    pushed = subprocess.run([tools.program(), "push", "--json", folder, "m"], env={**os.environ, "AI_MODELS_STORE": str(tmp_path / "store")},
                            stdout=subprocess.PIPE, check=True)
    assert result["artifact"]["digest"] == json.loads(pushed.stdout)["digest"]
    assert result["artifact"]["mediaType"] == "application/vnd.cncf.model.manifest.v1+json"
    assert result["artifact"]["repository"] == work.repository
    files = sum(path.stat().st_size for path in folder.iterdir() if path.name != "README.md")
    assert files < result["artifact"]["sizeBytes"] < files + 4096
    commit = hub.repositories["owner/name"].refs["main"]
    assert result["source"] == {"resolvedType": "HuggingFace", "resolvedRevision": commit}
    resolved = result["resolved"]
    assert resolved["format"] == "Safetensors" and resolved["architecture"] == "LlamaForCausalLM" and resolved["family"] == "llama"
    assert resolved["contextWindowTokens"] == 4096 and resolved["supportedEndpointTypes"] == ["Chat", "TextGeneration"]
    assert resolved["sourceCapabilities"] == {"provider": "HuggingFace", "tasks": ["text-generation"]}
    state = work.state()
    assert state["phase"] == "Completed" and state["stage"] == "Committed" and state["resolvedRevision"] == commit
    assert state["uploadedSizeBytes"] == state["plannedSizeBytes"] == files and state["plannedLayerCount"] == 3
    assert state["ownerGeneration"] == 1 and "trouble" not in state
    said = [message["msg"] for message in work.messages()]
    assert [word for word in ("asking the source", "files chosen and checked", "layer begins", "layer is stored", "published") if word not in said] == []


def test_ollama(job):
    with Registry() as registry:
        data = gguf_bytes(3 * MIB)
        registry.add("library/tiny:8b", [("model", data), ("params", b'{"num_ctx": 8192}')])
        result = job("https://ollama.com/library/tiny:8b", env={"OLLAMA_REGISTRY": registry.endpoint}).run()["result"]
    assert result["source"]["resolvedType"] == "Ollama" and result["source"]["resolvedRevision"].startswith("8b@sha256:")
    assert result["resolved"]["format"] == "GGUF" and result["resolved"]["quantization"] == "Q4_K_M"
    assert result["resolved"]["sourceCapabilities"] == {"provider": "Ollama"}


def test_pinned_revision(job, hub, tmp_path):
    """What was begun with, or stored before, is meant although the branch has moved on."""
    repository = hub.add("owner/name", write_model(tmp_path / "model"))
    old = repository.refs["main"]
    first = from_hub(job, hub).run()["result"]
    repository.commit(write_model(tmp_path / "newer", random_tensors(2)))
    again = from_hub(job, hub).run("--revision", old)["result"]
    assert again["artifact"]["digest"] == first["artifact"]["digest"] and again["source"]["resolvedRevision"] == old
    newest = from_hub(job, hub).run()["result"]
    assert newest["artifact"]["digest"] != first["artifact"]["digest"]
    begun = from_hub(job, hub)
    state = {"ownerGeneration": 1, "resolvedRevision": old, "later": [1]}
    data = {"state.json": base64.b64encode(json.dumps(state).encode()).decode()}
    secret = {"kind": "Secret", "metadata": {"name": begun.state_name, "namespace": MODULE}}
    begun.api.patch(secret, {"data": data})
    assert begun.run()["result"]["source"]["resolvedRevision"] == old
    assert begun.state()["later"] == [1]
    state["ownerGeneration"] = 7  # of another source, which the object no longer has
    data["state.json"] = base64.b64encode(json.dumps(state).encode()).decode()
    begun.api.patch(secret, {"data": data})
    assert begun.run()["result"]["source"]["resolvedRevision"] == repository.refs["main"]


def held_after(hub, reached):
    """The hub answers requests for large files until so much of one was asked for; the others when the gate is opened."""
    gate = threading.Event()
    hub.fail("large", times=10000, call=lambda: max((last for _, last in ranges(hub)), default=0) < reached or gate.wait())
    return gate


def test_killed_worker_goes_on_in_another_pod(job, hub, tmp_path):
    size = 120 * MIB
    hub.add("owner/name", write_model(tmp_path / "large", random_tensors(5, n=12, size=10 * MIB)))
    work, gate = from_hub(job, hub), held_after(hub, 80 * MIB)
    work.start()
    try:
        work.api.wait(lambda: f"much is stored: {work.state()}", lambda: work.state().get("uploadedSizeBytes", 0) >= 50 * MIB)
        work.process.send_signal(signal.SIGKILL)
        assert work.wait() is None
    finally:
        gate.set()
    reached = work.state()
    assert reached["phase"] == "Running" and reached["stage"] == "Uploading" and reached["uploadedSizeBytes"] < reached["plannedSizeBytes"]
    time.sleep(0.5)  # what the first one asked for is written down
    n_requests = len(hub.asked("cdn", "GET"))
    assert "result" in work.run()
    again = sum(last + 1 - first for first, last in ranges(hub, n_requests) if last >= MIB)
    assert again <= size - reached["uploadedSizeBytes"] + 20 * MIB, again / MIB
    assert [message for message in work.messages() if message["msg"] == "an upload goes on where it stopped"]
    assert "resume" not in work.api.get("Secret", MODULE, work.state_name)["data"]


def test_told_to_end(job, hub, tmp_path):
    hub.add("owner/name", write_model(tmp_path / "large", random_tensors(5, n=6, size=10 * MIB)))
    work, gate = from_hub(job, hub).start(), held_after(hub, 20 * MIB)
    try:
        work.api.wait("it uploads", lambda: work.state().get("uploadedSizeBytes", 0) > 0)
        begun = time.monotonic()
        work.process.send_signal(signal.SIGTERM)
        end = work.wait(130, timeout=20)
        assert time.monotonic() - begun < 20 and "goes on where it stopped" in end["interrupted"]["message"]
    finally:
        gate.set()
    assert work.state()["phase"] == "Running"
    assert "resume" in work.api.get("Secret", MODULE, work.state_name)["data"]


def test_refused_sources(job, hub, tmp_path):
    hub.add("owner/gated", write_model(tmp_path / "gated"), gated="auto")
    hub.add("owner/private", write_model(tmp_path / "private"), private=True)
    hub.add("owner/both", {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": safetensors_bytes(random_tensors(1, 1, 64)), "x.gguf": gguf_bytes()})
    hub.add("owner/empty", {"README.md": b"# Nothing\n"})
    hub.add("owner/broken", {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": b"\x10\0\0\0\0\0\0\0{"})
    failure(from_hub(job, hub, "owner/gated"), "gated", "accept its terms", "spec.source.authSecretRef")
    failure(from_hub(job, hub, "owner/private"), "private", "spec.source.authSecretRef")
    failure(from_hub(job, hub, "owner/missing"), "check the name")
    failure(from_hub(job, hub, "owner/both"), "Safetensors and GGUF", "spec.source.url")
    failure(from_hub(job, hub, "owner/empty"), "no supported model")
    failure(from_hub(job, hub, "owner/broken"), "model.safetensors")
    failure(job("https://example.com/owner/name"), "models are not read from", reason="UnsupportedSource")
    token = tmp_path / "token"
    token.write_text("hf_bad\n")
    failure(from_hub(job, hub, "owner/private", options=("--token-file", token)), "token")
    hub.repositories["owner/private"].readers.add("hf_good")
    token.write_text("hf_good\n")
    assert "result" in from_hub(job, hub, "owner/private", options=("--token-file", token)).run()


@contextlib.contextmanager
def books(api, ledger=None):
    if ledger is not None:
        api.create({"kind": "ConfigMap", "metadata": {"name": BOOKS, "namespace": MODULE}, "data": {"ledger.json": json.dumps(ledger)}})
    try:
        yield lambda: json.loads(api.get("ConfigMap", MODULE, BOOKS)["data"]["ledger.json"])
    finally:
        api.delete({"kind": "ConfigMap", "metadata": {"name": BOOKS, "namespace": MODULE}})


def confirmed(**more):
    return {"version": 2, "confirmed": {"at": "2026-01-01T00:00:00Z", "by": "test", "inventoryCount": 0}, "reservations": {}, "published": {}, **more}


def test_storage_reservation(job, hub, api, tmp_path):
    hub.add("owner/name", write_model(tmp_path / "model"))
    hub.add("owner/other", write_model(tmp_path / "other", random_tensors(9)))
    with books(api, confirmed()) as read:
        failure(from_hub(job, hub, books=BOOKS, options=("--capacity-limit", "70Mi")), "artifact storage capacity exceeded", "limit=73400320",
                reason="InsufficientStorage")
        assert read()["reservations"] == {}
        work = from_hub(job, hub, books=BOOKS, options=("--capacity-limit", "100Mi"))
        assert "result" in work.run()
        entry = read()["reservations"][work.uid]
        assert entry["owner"] == {"kind": "Model", "name": "tiny", "namespace": TEAM, "uid": work.uid}
        assert 76 * MIB < entry["sizeBytes"] < 77 * MIB
        hub.fail("large", times=1000, corrupt=5 * MIB)
        work = from_hub(job, hub, "owner/other", books=BOOKS, options=("--capacity-limit", "200Mi"))
        failure(work, "do not match the SHA-256")
        assert work.uid not in read()["reservations"]


def test_unknown_storage_usage_is_waited_out(job, hub, api, tmp_path):
    hub.add("owner/name", write_model(tmp_path / "model"))
    work = from_hub(job, hub, books=BOOKS).start()
    work.trouble("not known yet", "again in")
    with books(api, confirmed()):
        assert "result" in work.wait(0)
    assert "trouble" not in work.state()


def test_hub_in_trouble(job, hub, tmp_path):
    hub.add("owner/name", write_model(tmp_path / "model"))
    fault = hub.fail("api", times=100, status=503)
    work = from_hub(job, hub).start()
    work.trouble("503", "tried", "again in")
    secret = {"kind": "Secret", "metadata": {"name": work.state_name, "namespace": MODULE}}
    work.api.patch(secret, {"metadata": {"labels": {"of": "another"}}, "data": {"other": "eA=="}})  # what it saw last is no longer the newest
    fault.left = 0
    assert "result" in work.wait(0)
    secret = work.api.get("Secret", MODULE, work.state_name)
    assert secret["metadata"]["labels"] == {"of": "another"} and secret["data"]["other"] == "eA==" and work.state()["phase"] == "Completed"


def test_rotated_login(job, hub, tmp_path):
    hub.add("owner/name", write_model(tmp_path / "model"))
    work = from_hub(job, hub, login="old").start()
    text = work.trouble("the module's registry", "does not accept the module's login")
    assert work.registry.host not in text and "catalog" not in text
    (work.login / "password").write_text(PASSWORD)
    assert "result" in work.wait(0)


def test_registry_away(job, hub, tmp_path, api, account):
    folder = tmp_path / "registry"
    folder.mkdir()
    (folder / "users").write_text(f"ai-models:{PASSWORD}\n")
    hub.add("owner/name", write_model(tmp_path / "model"))

    def serve(port=0):
        return servers.ours(folder / "store", "--plain-users", folder / "users", log=folder / "log", port=port)

    with serve() as server:
        server.wait_ready()
    work = Job(api, account, server, tmp_path, "https://huggingface.co/owner/name", env={"HF_ENDPOINT": hub.endpoint})
    try:
        work.start()
        work.trouble("the module's registry", "again in", timeout=40)
        with serve(server.port):
            assert "result" in work.wait(0)
    finally:
        work.process.kill()


def test_api_server_away(job, hub, cluster, tmp_path):
    """It publishes all the same: the controller hears of it by the termination message. What could not be told is told once it can be."""
    hub.add("owner/large", write_model(tmp_path / "large", random_tensors(5, n=4, size=10 * MIB)))
    hub.add("owner/name", write_model(tmp_path / "model"))
    gate, fault = threading.Event(), hub.fail("api", path="owner/name", times=100, status=503)
    hub.fail("large", times=10000, after=2, call=gate.wait)
    work, later = from_hub(job, hub, "owner/large").start(), from_hub(job, hub).start()
    later.trouble("503")
    try:
        work.api.wait("it uploads", lambda: work.state().get("stage") == "Uploading")
        cluster.api_server.stop(signal.SIGKILL)
        gate.set()
        assert "result" in work.wait(0)
    finally:
        gate.set()
        cluster.api_server.start()
        cluster.wait_ready()
    assert [message for message in work.messages() if "could not be written" in message["msg"] and message["name"] == "tiny"]
    assert work.state()["phase"] == "Running"
    fault.left = 0
    assert "result" in later.wait(0) and later.state()["phase"] == "Completed"


class Staging:
    """A directory or a bucket where uploads are."""

    def __init__(self, url, env, put):
        self.url, self.env, self.put = url, env, put


@pytest.fixture(scope="module")
def staging(tmp_path_factory):
    folder = tmp_path_factory.mktemp("staging")
    make_store(folder / "raw", folder)

    def put(key, data):
        (folder / "raw" / key).parent.mkdir(parents=True)
        (folder / "raw" / key).write_bytes(data)

    return Staging(folder / "raw", {}, put)


def make_store(url, folder, env=None):
    """The gateway makes it one as it starts."""
    (folder / "x.gguf").write_bytes(gguf_bytes())
    subprocess.run([tools.program(), "push", "--quiet", "--store", url, folder / "x.gguf", "x"], env={**os.environ, **(env or {})},
                   stdout=subprocess.DEVNULL, check=True)


def staged(job, staging, name, data):
    work = job(staged=(staging.url, name), env=staging.env)
    staging.put(f"{work.uid}/{name}", data)
    return work


def packed(folder, kind):
    """The files of a folder as an archive of that kind."""
    files, memory = [path for path in sorted(folder.rglob("*")) if path.is_file()], io.BytesIO()
    if kind.startswith("zip"):
        with zipfile.ZipFile(memory, "w", zipfile.ZIP_STORED if kind == "zip-stored" else zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                archive.write(path, f"top/{path.relative_to(folder)}")
        return memory.getvalue()
    with tarfile.open(fileobj=memory, mode="w:gz" if kind == "tar.gz" else "w") as archive:
        for path in files:
            archive.add(path, f"top/{path.relative_to(folder)}")
    return zstandard.ZstdCompressor().compress(memory.getvalue()) if kind == "tar.zst" else memory.getvalue()


def digest_of(path, folder):
    pushed = subprocess.run([tools.program(), "push", "--json", path, "m"], env={**os.environ, "AI_MODELS_STORE": str(folder / "own-store")},
                            stdout=subprocess.PIPE, check=True)
    return json.loads(pushed.stdout)["digest"]


def shards(folder, n=3, size=5 * MIB):
    """A model of several files of weights, with their index."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    weight_map = {}
    for i in range(n):
        name, tensors = f"model-{i + 1:05}-of-{n:05}.safetensors", random_tensors(i, 1, size)
        tensors = {f"shard.{i}.{key}": value for key, value in tensors.items()}
        (folder / name).write_bytes(safetensors_bytes(tensors))
        weight_map |= dict.fromkeys(tensors, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": n * size}, "weight_map": weight_map}))
    return folder


def test_staged_gguf(job, staging, tmp_path):
    (tmp_path / "tiny.gguf").write_bytes(gguf_bytes(20 * MIB))
    result = staged(job, staging, "an-attempt/tiny.gguf", gguf_bytes(20 * MIB)).run()["result"]  # as the gateway stages it
    assert result["artifact"]["digest"] == digest_of(tmp_path / "tiny.gguf", tmp_path)
    assert result["source"] == {"resolvedType": "Upload"} and result["resolved"]["format"] == "GGUF"
    assert result["resolved"]["sourceCapabilities"] == {"provider": "Upload"}


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.zst", "zip", "zip-stored"])
def test_staged_archives(job, staging, tmp_path, kind):
    folder = shards(tmp_path / "model")
    work = staged(job, staging, "upload.bin", packed(folder, kind))
    assert work.run()["result"]["artifact"]["digest"] == digest_of(folder, tmp_path)
    state = work.state()
    assert state["plannedLayerCount"] == 5 and state["uploadedSizeBytes"] == state["plannedSizeBytes"]


def test_staged_archive_killed(job, staging, registry, tmp_path):
    """It begins the archive anew; what the registry has is not sent again."""
    folder = shards(tmp_path / "model", size=9 * MIB)
    work = staged(job, staging, "m.tar.gz", packed(folder, "tar.gz")).start()
    work.api.wait("one shard is stored", lambda: sum(message["msg"] == "layer is stored" for message in work.messages()) >= 3)
    work.process.send_signal(signal.SIGKILL)
    assert work.wait() is None
    assert work.run()["result"]["artifact"]["digest"] == digest_of(folder, tmp_path)
    published = next(message for message in work.messages() if message["msg"] == "published")
    assert int(published["moved_bytes"]) < 19 * MIB


def test_refused_uploads(job, staging, tmp_path):
    def tar(*entries):
        memory = io.BytesIO()
        with tarfile.open(fileobj=memory, mode="w") as archive:
            for entry in entries:
                info = tarfile.TarInfo(entry)
                archive.addfile(info, io.BytesIO(b""))
        return memory.getvalue()

    failure(staged(job, staging, "x.tar", tar("top/config.json", "../up")), "unsafe name")
    failure(staged(job, staging, "x.tar", tar("a", "a")), "twice")
    failure(staged(job, staging, "x.tar", tar("a.txt")), "no supported model")
    failure(staged(job, staging, "x.gguf", b"GGUF but no more"), "x.gguf")
    failure(staged(job, staging, "x.zip", b"PK\3\4" + bytes(100)), "bad archive")
    failure(staged(job, staging, "x.bin", b"nothing that anybody knows"), "x.bin")
    cut = packed(shards(tmp_path / "model"), "tar.gz")
    failure(staged(job, staging, "x.tar.gz", cut[:len(cut) // 2]), "bad archive")
    failure(job(staged=(staging.url, "gone.gguf")), "gone.gguf is gone")


def rotated_keys(job, bucket, place, data, folder):
    """The bucket refuses the keys that a worker began with: it waits, and makes way for another once there are new ones."""
    keys = folder / "keys"
    keys.mkdir()
    old = bucket.environment(secret="old")

    def write(environment):
        (keys / "accessKey").write_text(environment["AWS_ACCESS_KEY_ID"])
        (keys / "secretKey").write_text(environment["AWS_SECRET_ACCESS_KEY"])

    write(old)
    work = job(staged=(place.url, "m.tar"), env=old, options=("--staging-keys-dir", keys))
    place.put(f"{work.uid}/m.tar", data)
    work.start().trouble("the module's bucket does not accept the module's keys", "again in", timeout=30)
    write(bucket.environment())
    assert work.wait(1) == {"interrupted": {"message": "the keys of the module's bucket were changed"}}
    work.env = bucket.environment()
    assert "result" in work.run()


def test_staged_in_a_bucket(job, tmp_path):
    (tmp_path / "weed").mkdir()
    with buckets.SeaweedFS(tmp_path / "weed") as server:
        bucket = server.bucket("module")
        make_store(bucket.store("raw"), tmp_path, bucket.environment())
        place = Staging(bucket.store("raw"), bucket.environment(), lambda key, data: server.client().put_object(Bucket="module", Key=f"raw/{key}", Body=data))
        folder = shards(tmp_path / "model", size=12 * MIB)
        work = job(staged=(place.url, "m.tar"), env=bucket.environment(secret="wrong")).start()
        text = work.trouble("again in", timeout=30)
        assert "wrong" not in text and work.uid not in text, text
        work.process.kill()
        rotated_keys(job, bucket, place, packed(folder, "tar"), tmp_path)
        work = staged(job, place, "m.tar", packed(folder, "tar"))
        server.stop()
        work.start()
        text = work.trouble("again in", timeout=30)
        assert work.uid not in text and "raw/" not in text, text
        server.start()
        assert work.wait(0)["result"]["artifact"]["digest"] == digest_of(folder, tmp_path)
