"""The module's controller and its peer against a real API server, with what they cost and what they asked for."""

import base64
import contextlib
import hashlib
import http.server
import json
import pathlib
import shutil
import threading
import time

import model_objects
from harness import control_plane, kube_api, servers, tools

NAMESPACE = model_objects.NAMESPACE
OURS, PEER = "ours", "peer"
USER = f"system:serviceaccount:{NAMESPACE}:ai-models-controller"  # whom the audit log knows both as: the one whom the webhook lets through
WORKER = f"system:serviceaccount:{NAMESPACE}:ai-models-publication-worker"
N_AT_ONCE = 250  # worker slots: more than are asked for
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"], "rules": [
    {"level": "Metadata", "users": [USER, WORKER]}, {"level": "None"}]}


def objects_of(data, n_models):
    """A folder of etcd's with so many Ready Models: made once."""
    made_by = hashlib.sha256(pathlib.Path(model_objects.__file__).read_bytes()).hexdigest()
    final = data.folder / f"models-{n_models}-{made_by[:10]}"
    if not final.exists():
        temp = final.with_suffix(".part")
        shutil.rmtree(temp, ignore_errors=True)
        with control_plane.ControlPlane(temp / "plane") as plane:
            kube_api.install_crds(kube_api.Api(plane))
            model_objects.make_ready(plane, n_models)
        (temp / "plane" / "etcd").rename(final)
        shutil.rmtree(temp)
    return final


class Plane(control_plane.ControlPlane):
    """An API server over such a folder, that writes down what the controller and the workers ask for."""

    def __init__(self, folder, objects):
        folder.mkdir(parents=True)
        policy, self.audit = folder / "policy.json", folder / "audit.log"
        policy.write_text(json.dumps(AUDIT))
        shutil.copytree(objects, folder / "etcd")
        super().__init__(folder, api_server_options=["--audit-policy-file", policy, "--audit-log-path", self.audit])
        self.controller_kubeconfig = folder / "controller.kubeconfig"
        self.write_kubeconfig(self.controller_kubeconfig, self.url, *self.authority.issue("controller", f"/O=system:masters/CN={USER}"))

    def start(self):
        super().start()
        self.api = kube_api.Api(self)
        self.wait_memory()
        self.prepare()
        return self

    def wait_memory(self):
        """Until the API server has all objects in its memory, where lists are answered from."""
        for kind in ("Model", "ClusterModel", "Secret", "Pod", "ConfigMap"):
            self.api.wait(f"{kind} are in the API server's memory", lambda: self.api.raw("GET", kube_api.path_of(kind) + "?resourceVersion=0")[0] == 200, 300)

    def prepare(self):
        """What the chart makes."""
        model_objects.make_namespaces(self.api)
        encoded = base64.b64encode(b"ai-models").decode()
        for thing in ({"kind": "ServiceAccount", "metadata": {"name": "ai-models-publication-worker"}},
                      {"kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": self.authority.certificate.read_text()}},
                      {"kind": "Secret", "metadata": {"name": "ai-models-dmcr-auth-write"}, "data": {"username": encoded, "password": encoded}}):
            thing["metadata"]["namespace"] = NAMESPACE
            self.api.create(thing, exist_ok=True)

    def requests(self, user):
        """Of this user so far: {verb, objectRef, responseStatus...}, but for the upkeep of leadership."""
        events = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [event for event in events if event["user"]["username"] == user and event.get("objectRef", {}).get("resource") != "leases"]

    def status_writes(self):
        return sum(event["verb"] in ("update", "patch") and event["objectRef"].get("subresource") == "status" for event in self.requests(USER))


class Artifacts(http.server.ThreadingHTTPServer):
    """A registry that has whatever Ready Models say is stored."""

    daemon_threads = True

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            repository = self.path.removeprefix("/v2/").rpartition("/manifests/" if "/manifests/" in self.path else "/blobs/")[0]
            is_manifest = "/manifests/" in self.path
            body = model_objects.manifest(repository.rpartition("/")[2]) if is_manifest else b"x" * model_objects.BLOB_BYTES
            self.server.n_manifests += is_manifest
            self.send_response(200)
            self.send_header("Content-Type", model_objects.MANIFEST_TYPE if is_manifest else "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.n_manifests = 0  # asked for so far
        self.host = f"127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


def ours_command(program, folder, port, registry, options):
    login = folder / "login"
    login.mkdir(exist_ok=True)
    for name in ("username", "password"):
        (login / name).write_text("ai-models")
    return [program, "controller", "--namespace", NAMESPACE, "--worker-image", "ai-models:bench", "--registry", registry, "--registry-plain-http",
            "--registry-login-dir", login, "--max-workers", N_AT_ONCE, "--listen", f"127.0.0.1:{port}", "--log-format", "json", *options]


class Controller(servers.Server):
    """One of the two, as a process. Its lease is its own."""

    def __init__(self, side, plane, folder, program=None, registry="127.0.0.1:9", options=(), env=None, n_controllers=2):
        self.side, self.n_controllers = side, n_controllers  # of the peer: one for each kind
        port = servers.free_port()
        if side == OURS:
            command = ours_command(program or tools.program(), folder, port, registry, options)
        else:
            command = [tools.controller_peer(), "--namespace", NAMESPACE, "--metrics", f"127.0.0.1:{port}", *options]
        self.began = time.monotonic()
        super().__init__(command, folder / f"controller-{side}.{time.monotonic_ns()}.log", port=port,
                         env={"KUBECONFIG": str(plane.controller_kubeconfig), "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", **(env or {})})

    def cpu_nanoseconds(self):
        """Of the threads it has: finer than the ticks of cpu_seconds()."""
        return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{self.pid}/task").glob("*/schedstat"))

    def memory(self, name):
        """A line of /proc/PID/status, such as RssAnon, in bytes."""
        return self._status_bytes(name)

    def leads(self):
        """With its caches full."""
        if self.side == PEER:
            return self.log.read_text().count('"Starting workers"') == self.n_controllers
        with contextlib.suppress(OSError):
            return '"leading"' in self.log.read_text() and self.request("GET", "/readyz", timeout=5)[0] == 200
        return False

    def wait_leading(self, timeout=300):
        """Seconds since it was started."""
        while not self.leads():
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            assert time.monotonic() - self.began < timeout, f"no leader within {timeout} s: {self.log.read_text()[-2000:]}"
            time.sleep(0.02)
        return time.monotonic() - self.began
