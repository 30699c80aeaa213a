"""A real Kubernetes API server over a real etcd, as processes."""

import json
import os
import pathlib
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request

from . import servers, tools

START_TIMEOUT = 120


def _openssl(*arguments):
    subprocess.run([tools.need("openssl"), *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Authority:
    """Certificates of a cluster, in a folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.certificate, self.key = self.folder / "ca.crt", self.folder / "ca.key"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=tests",
                 "-keyout", self.key, "-out", self.certificate)

    def issue(self, name, subject, alternatives=""):
        """Files of a certificate and its key. `alternatives`: as "IP:127.0.0.1,DNS:x" for a server; a client's without."""
        certificate, key, request, extensions = (self.folder / f"{name}.{ending}" for ending in ("crt", "key", "csr", "ext"))
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject, "-keyout", key, "-out", request)
        extensions.write_text(f"subjectAltName={alternatives}\n" if alternatives else "extendedKeyUsage=clientAuth\n")
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-days", "2",
                 "-extfile", extensions, "-out", certificate)
        return certificate, key


class Process:
    """A program with its output in a file. Who reads that file's neighbour `.pid` can stop it, too (Recorded)."""

    def __init__(self, command, log):
        self.command, self.log, self.process = list(map(str, command)), pathlib.Path(log), None

    def start(self):
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        self.log.with_suffix(".pid").write_text(f"{self.process.pid} {started_at(self.process.pid)}")

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, how=signal.SIGTERM):
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


def started_at(pid):
    """When a process began, in ticks: with the pid its name for good. None for one that is gone or waits to be reaped."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class Recorded:
    """A process that another one started (Process)."""

    def __init__(self, log):
        self.log = pathlib.Path(log)
        told = self.log.with_suffix(".pid")
        self.pid, self.began = map(int, told.read_text().split()) if told.exists() else (0, 0)

    def is_running(self):
        return self.pid > 0 and started_at(self.pid) == self.began

    def stop(self, how=signal.SIGTERM):
        for signal_number in (how, signal.SIGKILL):
            end = time.monotonic() + 20
            if self.is_running():
                os.kill(self.pid, signal_number)
            while self.is_running() and time.monotonic() < end:
                time.sleep(0.05)


class ControlPlane:
    """etcd and kube-apiserver on an address of this machine. Use as a context; `kubeconfig` is the administrator's."""

    def __init__(self, folder, address="127.0.0.1", api_server_options=()):
        self.folder, self.address, self.api_server_options = pathlib.Path(folder), address, api_server_options
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port, self.etcd_port, peer_port = servers.free_port(), servers.free_port(), servers.free_port()
        self.authority = Authority(self.folder / "pki")
        self.kubeconfig = self.folder / "admin.kubeconfig"
        self.etcd = Process([tools.need("etcd"), "--data-dir", self.folder / "etcd", "--unsafe-no-fsync",
                             "--listen-client-urls", self.etcd_url, "--advertise-client-urls", self.etcd_url,
                             "--listen-peer-urls", f"http://127.0.0.1:{peer_port}"], self.folder / "etcd.log")
        self.api_server = Process(self._api_server_command(), self.folder / "kube-apiserver.log")
        self.client = self.authority.issue("admin", "/O=system:masters/CN=admin")
        self.write_kubeconfig(self.kubeconfig, self.url, *self.client)

    @property
    def url(self):
        return f"https://{self.address}:{self.port}"

    @property
    def etcd_url(self):
        return f"http://127.0.0.1:{self.etcd_port}"

    def _api_server_command(self):
        certificate, key = self.authority.issue("server", "/CN=kube-apiserver",
                                                f"IP:{self.address},IP:127.0.0.1,IP:10.96.0.1,DNS:kubernetes.default.svc")
        reconciler = "none" if self.address.startswith("127.") else "lease"  # Endpoints on a loopback address are refused
        kubelet_client = self.authority.issue("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
        account_certificate, account_key = self.authority.issue("accounts", "/CN=accounts")
        return [tools.kubernetes("kube-apiserver"), "--etcd-servers", self.etcd_url, "--secure-port", self.port, "--bind-address", self.address,
                "--advertise-address", self.address, "--service-cluster-ip-range", "10.96.0.0/16",
                "--authorization-mode", "Node,RBAC", "--kubelet-preferred-address-types", "InternalIP",
                "--kubelet-client-certificate", kubelet_client[0], "--kubelet-client-key", kubelet_client[1],
                "--tls-cert-file", certificate, "--tls-private-key-file", key, "--client-ca-file", self.authority.certificate,
                "--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", account_certificate,
                "--service-account-signing-key-file", account_key, "--cert-dir", self.folder / "made", "--endpoint-reconciler-type", reconciler,
                *self.api_server_options]

    def write_kubeconfig(self, path, server, certificate, key):
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "tests",
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
            "clusters": [{"name": "tests", "cluster": {"server": server, "certificate-authority": str(self.authority.certificate)}}],
            "users": [{"name": "tests", "user": {"client-certificate": str(certificate), "client-key": str(key)}}]}))

    def client_kubeconfig(self, name, subject):
        path = self.folder / f"{name}.kubeconfig"
        self.write_kubeconfig(path, self.url, *self.authority.issue(name, subject))
        return path

    def controller_manager_command(self):
        """Of kube-controller-manager, for who needs what it does."""
        certificate, key = self.authority.certificate, self.authority.key
        return [tools.kubernetes("kube-controller-manager"), "--kubeconfig",
                self.client_kubeconfig("kube-controller-manager", "/CN=system:kube-controller-manager"), "--use-service-account-credentials",
                "--service-account-private-key-file", self.authority.folder / "accounts.key", "--root-ca-file", certificate,
                "--cluster-signing-cert-file", certificate, "--cluster-signing-key-file", key, "--leader-elect=false", "--pvclaimbinder-sync-period=2s",
                "--bind-address=127.0.0.1", f"--secure-port={servers.free_port()}"]

    def request(self, path, timeout=10):
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.load_cert_chain(*map(str, self.client))
        with urllib.request.urlopen(self.url + path, timeout=timeout, context=context) as answer:
            return answer.read()

    def wait_ready(self):
        end = time.monotonic() + START_TIMEOUT
        while time.monotonic() < end:
            try:
                self.request("/readyz")
                return
            except (OSError, urllib.error.URLError):
                time.sleep(0.1)
            if not self.api_server.is_running():
                break
        raise servers.ServerFailed(f"kube-apiserver did not start:\n{self.api_server.log.read_text()[-3000:]}")

    def start(self):
        self.etcd.start()
        self.api_server.start()
        self.wait_ready()
        return self

    def restart_api_server(self, how=signal.SIGTERM):
        """Its memory of what changed begins anew."""
        self.api_server.stop(how)
        self.api_server.start()
        self.wait_ready()

    def compact(self):
        """etcd forgets what was before now."""
        def ask(what, **body):
            request = urllib.request.Request(f"{self.etcd_url}/v3/kv/{what}", json.dumps(body).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)

        ask("compaction", revision=ask("range", key="AA==")["header"]["revision"], physical=True)

    def stop(self):
        self.api_server.stop()
        self.etcd.stop()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()
