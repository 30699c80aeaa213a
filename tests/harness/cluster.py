"""A whole Kubernetes of one node on this machine, from real parts: control plane, scheduler, kubelet, containerd, kube-proxy. Needs root.

It takes one bridge, one folder, and the processes it starts; stop() leaves nothing of them.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tarfile
import time

from . import control_plane, images, servers, tools

BRIDGE, ADDRESS, POD_RANGE, SERVICE_RANGE = "cni0", "10.244.0.1", "10.244.0.0/24", "10.96.0.0/16"
DNS, DOMAIN = "10.96.0.10", "cluster.local"
NODE = "node-1"
PAUSE_IMAGE = "localhost/pause:1"
PAUSE_SOURCE = """
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void stop (int n) { _exit (0); }
static void reap (int n) { while (waitpid (-1, 0, WNOHANG) > 0); }
int main (void) { signal (SIGTERM, stop); signal (SIGINT, stop); signal (SIGCHLD, reap); for (;;) pause (); }
"""


def run(*command, check=True, **options):
    source = {} if "input" in options else {"stdin": subprocess.DEVNULL}
    try:
        return subprocess.run(list(map(str, command)), check=check, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **source, **options)
    except subprocess.CalledProcessError as error:
        error.add_note(error.stderr.decode(errors="replace")[-2000:])
        raise


def answers(server, name):
    """Does a DNS server know the address of a name?"""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(1)
        try:
            asking.sendto(b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\x00\x00\x01\x00\x01", (server, 53))
            told = asking.recv(512)
        except OSError:
            return False
    return told[3] & 15 == 0 and int.from_bytes(told[6:8], "big") > 0


def make_pause_image(out, work):
    """With a program that waits."""
    work.mkdir(parents=True)
    (work / "pause.c").write_text(PAUSE_SOURCE)
    run("gcc", "-static", "-Os", "-o", work / "pause", work / "pause.c")
    images.write_archive(out, PAUSE_IMAGE, {"/pause": work / "pause"}, Entrypoint=["/pause"])


class Cluster(control_plane.ControlPlane):
    """Use as a context, or start() and stop()."""

    def __init__(self, folder, api_server_options=()):
        self.started, self.has_bridge = [], False
        super().__init__(folder, address=ADDRESS, api_server_options=api_server_options)
        self.containerd_socket = self.folder / "containerd.sock"

    @classmethod
    def attach(cls, folder):
        """One that another process started, to use or to stop()."""
        cluster = cls.__new__(cls)
        cluster.folder, cluster.address, cluster.has_bridge = pathlib.Path(folder), ADDRESS, True
        cluster.containerd_socket, cluster.kubeconfig = cluster.folder / "containerd.sock", cluster.folder / "admin.kubeconfig"
        cluster.etcd, cluster.api_server = (control_plane.Recorded(cluster.folder / f"{name}.log") for name in ("etcd", "kube-apiserver"))
        order = ["containerd"]  # the first to start, the last to end
        names = order + sorted({path.stem for path in cluster.folder.glob("*.pid")} - {"etcd", "kube-apiserver", *order})
        cluster.started = [(name, control_plane.Recorded(cluster.folder / f"{name}.log")) for name in names]
        return cluster

    def is_running(self):
        return all(process.is_running() for process in (self.etcd, self.api_server, *(one for _, one in self.started)))

    # Networks and mounts

    def make_bridge(self):
        if not self.has_bridge and run("ip", "link", "show", BRIDGE, check=False).returncode == 0:
            raise servers.ServerFailed(f"there is a bridge {BRIDGE} already: only one cluster can run at a time (the tests of tests/cluster share theirs, see its "
                                       f"conftest.py). Is it what a killed one left? ip link delete {BRIDGE}")
        self.has_bridge = True
        run("ip", "link", "add", BRIDGE, "type", "bridge", check=False)
        run("ip", "address", "replace", f"{ADDRESS}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def remove_bridge(self):
        self.has_bridge = False
        run("ip", "link", "delete", BRIDGE, check=False)

    def unmount_all(self):
        """What kubelet and containerd mounted below the folder, the deepest first."""
        mounts = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((one for one in mounts if one.startswith(f"{self.folder}/")), key=len, reverse=True):
            run("umount", "--lazy", mount, check=False)

    # Configuration of the node's programs

    def write_containerd_config(self):
        cni = self.folder / "cni"
        cni.mkdir(exist_ok=True)
        (cni / "10-bridge.conflist").write_text(json.dumps({
            "cniVersion": "0.4.0", "name": "tests", "plugins": [
                {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "ipMasq": True, "hairpinMode": True,
                 "ipam": {"type": "host-local", "ranges": [[{"subnet": POD_RANGE, "rangeStart": "10.244.0.10"}]], "dataDir": str(self.folder / "ipam"),
                          "routes": [{"dst": "0.0.0.0/0"}]}},
                {"type": "portmap", "capabilities": {"portMappings": True}}]}))
        path = self.folder / "containerd.toml"
        path.write_text(f"""\
version = 2
root = "{self.folder}/containerd"
state = "{self.folder}/containerd-state"
[grpc]
  address = "{self.containerd_socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"
""")
        return path

    def write_kubelet_config(self):
        certificate, key = self.authority.issue("kubelet-server", f"/CN={NODE}", f"IP:{ADDRESS},DNS:{NODE}")
        path, names = self.folder / "kubelet.json", self.folder / "resolv.conf"
        names.write_text(f"nameserver {DNS}\n")  # and no domain of this machine's
        path.write_text(json.dumps({
            "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "address": ADDRESS,
            "authentication": {"x509": {"clientCAFile": str(self.authority.certificate)}, "webhook": {"enabled": True}, "anonymous": {"enabled": False}},
            "authorization": {"mode": "Webhook"}, "cgroupDriver": "cgroupfs", "failCgroupV1": False, "oomScoreAdj": 0, "enforceNodeAllocatable": [],
            "containerRuntimeEndpoint": f"unix://{self.containerd_socket}", "clusterDNS": [DNS], "clusterDomain": DOMAIN, "resolvConf": str(names),
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"}, "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99, "tlsCertFile": str(certificate), "tlsPrivateKeyFile": str(key), "failSwapOn": False,
            "podLogsDir": str(self.folder / "pod-logs"), "volumePluginDir": str(self.folder / "volume-plugins"), "maxPods": 200}))
        return path

    # Processes

    def spawn(self, name, *command):
        process = control_plane.Process(command, self.folder / f"{name}.log")
        process.start()
        self.started.append((name, process))
        return process

    def wait_for(self, what, holds, timeout=90):
        end = time.monotonic() + timeout
        while not holds():
            for name, process in self.started:
                if not process.is_running():
                    raise servers.ServerFailed(f"{name} ended:\n{process.log.read_text()[-3000:]}")
            if time.monotonic() > end:
                raise servers.ServerFailed(f"{what}: not within {timeout} s")
            time.sleep(0.1)

    def start_containerd(self):
        self.spawn("containerd", tools.need("containerd"), "--config", self.write_containerd_config(), "--address", self.containerd_socket)
        self.wait_for("containerd", lambda: self.ctr("version", check=False).returncode == 0)
        image = self.folder / "pause.tar"
        make_pause_image(image, self.folder / "pause")
        self.import_image(image)

    def ctr(self, *arguments, check=True):
        return run(tools.need("ctr"), "--address", self.containerd_socket, "--namespace", "k8s.io", *arguments, check=check)

    def import_image(self, archive):
        """A docker- or OCI-archive."""
        self.ctr("images", "import", "--snapshotter", "native", archive)

    def import_layout(self, layout, name):
        """An image layout (tools/build-image), under a name."""
        index = json.loads((pathlib.Path(layout) / "index.json").read_text())
        for manifest in index["manifests"]:
            manifest["annotations"] = {"io.containerd.image.name": name}
        archive, named = self.folder / "image.tar", self.folder / "index.json"
        named.write_text(json.dumps(index))
        with tarfile.open(archive, "w") as image:
            image.add(named, "index.json")
            for part in ("oci-layout", "blobs"):
                image.add(pathlib.Path(layout) / part, part)
        self.import_image(archive)
        archive.unlink()

    def start_controllers(self):
        self.spawn("kube-controller-manager", *self.controller_manager_command())
        self.spawn("kube-scheduler", tools.kubernetes("kube-scheduler"), "--kubeconfig",
                   self.client_kubeconfig("kube-scheduler", "/CN=system:kube-scheduler"), "--leader-elect=false", "--bind-address=127.0.0.1",
                   f"--secure-port={servers.free_port()}")

    def start_node(self):
        kubelet = self.client_kubeconfig("kubelet", f"/O=system:nodes/CN=system:node:{NODE}")
        self.spawn("kubelet", tools.kubernetes("kubelet"), "--kubeconfig", kubelet, "--config", self.write_kubelet_config(), "--hostname-override", NODE,
                   "--node-ip", ADDRESS, "--root-dir", self.folder / "kubelet", "--cert-dir", self.folder / "kubelet-certs")
        self.spawn("kube-proxy", tools.kubernetes("kube-proxy"), "--kubeconfig", self.client_kubeconfig("kube-proxy", "/CN=system:kube-proxy"),
                   "--proxy-mode=nftables", "--conntrack-max-per-core=0", "--conntrack-min=0", "--hostname-override", NODE,
                   "--cluster-cidr", POD_RANGE, f"--metrics-bind-address=127.0.0.1:{servers.free_port()}",
                   f"--healthz-bind-address=127.0.0.1:{servers.free_port()}")

    def start_dns(self):
        """CoreDNS on this machine, and the Service by which Pods find it."""
        port, corefile = servers.free_port(), self.folder / "Corefile"
        corefile.write_text(f".:{port} {{\n  bind {ADDRESS}\n  errors\n  kubernetes {DOMAIN} in-addr.arpa {{\n    kubeconfig {self.kubeconfig}\n  }}\n}}\n")
        self.spawn("coredns", tools.of_cluster("coredns"), "-conf", corefile)
        kinds = ("udp", "tcp")
        self.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system"},
                    "spec": {"clusterIP": DNS, "ports": [{"name": kind, "port": 53, "protocol": kind.upper()} for kind in kinds]}},
                   {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                    "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": {"kubernetes.io/service-name": "kube-dns"}},
                    "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}],
                    "ports": [{"name": kind, "port": port, "protocol": kind.upper()} for kind in kinds]})
        self.wait_for("DNS", lambda: answers(DNS, f"kubernetes.default.svc.{DOMAIN}"))

    def apply(self, *objects):
        """Creates or changes objects."""
        self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode())

    def kubectl(self, *arguments, check=True, **options):
        return run(tools.kubernetes("kubectl"), "--kubeconfig", self.kubeconfig, *arguments, check=check, **options)

    def is_node_ready(self):
        told = self.kubectl("get", "node", NODE, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}", check=False)
        return told.stdout == b"True"

    def start(self):
        self.make_bridge()
        run("mount", "--make-rshared", "/")
        super().start()
        self.start_containerd()
        self.start_controllers()
        self.start_node()
        self.start_dns()
        self.wait_for("the node", self.is_node_ready)
        return self

    def stop(self):
        if not self.has_bridge:  # it never began, and what is there is another's
            return
        with contextlib.suppress(subprocess.SubprocessError):
            self.kubectl("delete", "pods", "--all", "--all-namespaces", "--grace-period=0", "--force", "--wait=false", "--request-timeout=5s", check=False)
        for name, process in reversed(self.started):
            if name != "containerd":
                process.stop(signal.SIGTERM)
        self.stop_containers()
        for _, process in self.started:
            process.stop(signal.SIGTERM)
        self.started = []
        super().stop()
        self.unmount_all()
        run("nft", "delete", "table", "ip", "kube-proxy", check=False)
        run("nft", "delete", "table", "ip6", "kube-proxy", check=False)
        self.remove_bridge()

    def stop_containers(self):
        """Tasks of the CRI's namespace, and the shims that hold them."""
        for task in self.ctr("tasks", "list", "-q", check=False).stdout.decode().split():
            self.ctr("tasks", "kill", "--signal", "SIGKILL", "--all", task, check=False)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                if b"containerd-shim" in command and str(self.containerd_socket).encode() in command:
                    os.kill(int(pid), signal.SIGKILL)

    def remove(self):
        self.unmount_all()
        shutil.rmtree(self.folder, ignore_errors=True)
