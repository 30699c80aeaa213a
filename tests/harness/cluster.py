"""A whole Kubernetes of one node on this machine, from real parts: control plane, scheduler, kubelet, containerd, kube-proxy. Needs root.

It takes one bridge, one folder, and the processes it starts; stop() leaves nothing of them.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tarfile
import time

from . import control_plane, servers, tools

BRIDGE, ADDRESS, POD_RANGE, SERVICE_RANGE = "cni0", "10.244.0.1", "10.244.0.0/24", "10.96.0.0/16"
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
    return subprocess.run(list(map(str, command)), check=check, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def make_pause_image(out, work):
    """A one-layer docker-archive with a program that waits."""
    source, rootfs = work / "pause.c", work / "rootfs"
    rootfs.mkdir(parents=True)
    source.write_text(PAUSE_SOURCE)
    run("gcc", "-static", "-Os", "-o", rootfs / "pause", source)
    with tarfile.open(work / "layer.tar", "w") as layer:
        layer.add(rootfs / "pause", "pause")
    (work / "config.json").write_text(json.dumps({
        "architecture": "amd64", "os": "linux", "config": {"Entrypoint": ["/pause"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + run("sha256sum", work / "layer.tar").stdout.split()[0].decode()]}}))
    (work / "manifest.json").write_text(json.dumps([{"Config": "config.json", "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]))
    with tarfile.open(out, "w") as image:
        for name in ("manifest.json", "config.json", "layer.tar"):
            image.add(work / name, name)


class Cluster(control_plane.ControlPlane):
    """Use as a context, or start() and stop()."""

    def __init__(self, folder):
        self.started = []
        super().__init__(folder, address=ADDRESS)
        self.containerd_socket = self.folder / "containerd.sock"

    # Networks and mounts

    def make_bridge(self):
        run("ip", "link", "add", BRIDGE, "type", "bridge", check=False)
        run("ip", "address", "replace", f"{ADDRESS}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def remove_bridge(self):
        run("ip", "link", "delete", BRIDGE, check=False)

    def unmount_all(self):
        """What kubelet and containerd mounted below the folder, the deepest first."""
        mounts = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((one for one in mounts if one.startswith(f"{self.folder}/")), key=len, reverse=True):
            run("umount", "--lazy", mount, check=False)

    # Configuration of the node's programs

    def client_kubeconfig(self, name, subject):
        path = self.folder / f"{name}.kubeconfig"
        self.write_kubeconfig(path, self.url, *self.authority.issue(name, subject))
        return path

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
        path = self.folder / "kubelet.json"
        path.write_text(json.dumps({
            "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "address": ADDRESS,
            "authentication": {"x509": {"clientCAFile": str(self.authority.certificate)}, "webhook": {"enabled": True}, "anonymous": {"enabled": False}},
            "authorization": {"mode": "Webhook"}, "cgroupDriver": "cgroupfs", "failCgroupV1": False, "oomScoreAdj": 0, "enforceNodeAllocatable": [],
            "containerRuntimeEndpoint": f"unix://{self.containerd_socket}", "clusterDNS": ["10.96.0.10"], "clusterDomain": "cluster.local",
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
                if process.process.poll() is not None:
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

    def start_controllers(self):
        certificate, key = self.authority.certificate, self.authority.key
        self.spawn("kube-controller-manager", tools.kubernetes("kube-controller-manager"), "--kubeconfig",
                   self.client_kubeconfig("kube-controller-manager", "/CN=system:kube-controller-manager"),
                   "--use-service-account-credentials", "--service-account-private-key-file", self.authority.folder / "accounts.key",
                   "--root-ca-file", certificate, "--cluster-signing-cert-file", certificate, "--cluster-signing-key-file", key,
                   "--leader-elect=false", "--pvclaimbinder-sync-period=2s", "--bind-address=127.0.0.1", f"--secure-port={servers.free_port()}")
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
        self.wait_for("the node", self.is_node_ready)
        return self

    def stop(self):
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
