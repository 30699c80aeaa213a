"""The chart, installed in a test cluster."""

import contextlib
import json
import pathlib
import subprocess
import tempfile
import threading
import time

from . import cluster as clusters
from . import images, outside, provisioner, rights, servers, tools

IMAGE, NAMESPACE, RELEASE = "localhost/ai-models:test", "d8-ai-models", "ai-models"
CREDENTIALS = "ai-models-s3"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def import_program(cluster, program, name=IMAGE):
    """The program as an image of the node."""
    with tempfile.TemporaryDirectory() as work:
        layout = pathlib.Path(work) / "image"
        clusters.run(tools.ROOT / "tools" / "build-image", "--program", program, layout)
        cluster.import_layout(layout, name)


def import_reader(cluster):
    """The image of a workload that reads models (reader.py)."""
    with tempfile.TemporaryDirectory() as work:
        images.make_reader(pathlib.Path(work) / "reader.tar")
        cluster.import_image(pathlib.Path(work) / "reader.tar")


def values(told, **settings):
    """Values of the chart for what is outside (Outside.told()). `settings` are merged into them, as `aiModels`."""
    return {"aiModels": merge({
        "artifacts": {"bucket": told["bucket"], "endpoint": told["s3"], "credentialsSecretName": CREDENTIALS},
        "sources": {"huggingFace": {"endpoint": told["hub"]}, "ollama": {"registry": told["ollama"]}, "ca": told["ca"]},
        "internal": {"image": IMAGE}}, settings)}


def merge(base, more):
    return {**base, **{name: merge(base[name], value) if isinstance(value, dict) and isinstance(base.get(name), dict) else value
                       for name, value in more.items()}}


def helm(kubeconfig, *arguments, check=True, **options):
    # Its own folders: nothing of the user's is read or changed.
    with tempfile.TemporaryDirectory() as home:
        return clusters.run("env", f"HELM_CACHE_HOME={home}", f"HELM_CONFIG_HOME={home}", f"HELM_DATA_HOME={home}", tools.of_cluster("helm"),
                            "--kubeconfig", kubeconfig, *arguments, check=check, **options)


def prepare(cluster, told):
    """The namespace, and the bucket's credentials in it."""
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": RESTRICTED}},
                  {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": CREDENTIALS, "namespace": NAMESPACE},
                   "stringData": {"accessKey": told["accessKey"], "secretKey": told["secretKey"], "ca.crt": told["ca"]}})


def install(cluster, values, *options, timeout="120s", check=True):
    """helm upgrade --install; with `check`, a failure tells what the Pods said."""
    done = helm(cluster.kubeconfig, "upgrade", "--install", RELEASE, tools.ROOT, "--namespace", NAMESPACE, "--values", "-", "--wait",
                "--timeout", timeout, *options, input=json.dumps(values).encode(), check=False)
    if check and done.returncode != 0:
        raise servers.ServerFailed(f"helm: {done.stderr.decode()}\n{trouble(cluster)}")
    return done


def trouble(cluster, namespace=NAMESPACE):
    """What Pods of a namespace are, were told and said, for a person to read."""
    parts = [cluster.kubectl("get", "pods", "-o", "wide", "-n", namespace, check=False).stdout.decode(),
             cluster.kubectl("get", "events", "-n", namespace, "--sort-by=.lastTimestamp", check=False).stdout.decode()[-6000:]]
    names = cluster.kubectl("get", "pods", "-n", namespace, "-o", "name", check=False).stdout.decode().split()
    for name in names:
        for options in ((), ("--previous",)):
            said = cluster.kubectl("logs", "-n", namespace, name, "--all-containers", "--tail=40", *options, check=False).stdout.decode()
            parts += [f"== {name} {' '.join(options)}\n{said}"] if said else []
    return "\n".join(parts)


class Installation:
    """A cluster with DNS, a bucket, hubs, ReadWriteMany volumes, the program's image and the chart. Use as a context.

    `cluster`, `outside` (weed, bucket, hub, ollama: in this process, so that a test may change them), `provisioner` (the same), `rights`
    (what its service accounts asked of the API server) and the helpers below. `settings` are values of the chart, below aiModels."""

    def __init__(self, folder, program=None, **settings):
        self.folder, self.program, self.settings = pathlib.Path(folder), program or tools.program(), settings
        self.rights = rights.Rights(self.folder, NAMESPACE)
        self.cluster = clusters.Cluster(self.folder / "c", self.rights.api_server_options)
        self.stack, self.outside, self.provisioner = contextlib.ExitStack(), None, None

    @property
    def namespace(self):
        return NAMESPACE

    def start(self):
        self.stack.callback(self.cluster.remove)
        self.stack.callback(self.cluster.stop)
        self.cluster.make_bridge()
        self.outside = outside.Outside(self.folder / "outside", clusters.ADDRESS)
        self.stack.callback(self.outside.stop)
        beside = threading.Thread(target=self.outside.start)
        beside.start()
        try:
            self.cluster.start()
            import_program(self.cluster, self.program)
            import_reader(self.cluster)
            self.provisioner = self.stack.enter_context(provisioner.Provisioner(self.cluster, self.folder / "c" / "volumes"))
            self.apply(provisioner.storage_class(is_default=True))
        finally:
            beside.join()
        if self.outside.bucket is None:
            raise servers.ServerFailed("the bucket did not come up")
        prepare(self.cluster, self.outside.told())
        self.install()
        return self

    def stop(self):
        self.stack.close()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()

    # The chart

    def install(self, *options, **settings):
        """Installs, or upgrades; `settings` beside those of the whole installation."""
        return install(self.cluster, values(self.outside.told(), **merge(self.settings, settings)), *options)

    def uninstall(self):
        helm(self.cluster.kubeconfig, "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")

    # Objects

    def kubectl(self, *arguments, **options):
        """What kubectl printed."""
        return self.cluster.kubectl(*arguments, **options).stdout.decode()

    def apply(self, *objects):
        self.cluster.apply(*objects)

    def get(self, kind, name, namespace=None):
        """An object as a dict, or None."""
        where = ("-n", namespace) if namespace else ()
        told = self.kubectl("get", kind, name, *where, "--ignore-not-found", "-o", "json")
        return json.loads(told) if told else None

    def list(self, kind, namespace=None, labels=""):
        where = ("-n", namespace) if namespace else ("--all-namespaces",)
        return json.loads(self.kubectl("get", kind, *where, "-l", labels, "-o", "json"))["items"]

    def logs(self, what, namespace=NAMESPACE, *options):
        return self.kubectl("logs", "-n", namespace, what, "--all-containers", "--tail=-1", *options, check=False)

    def wait(self, what, holds, timeout=60, every=0.2):
        """Until holds() is true; returns it. Fails with what the module's Pods said."""
        end = time.monotonic() + timeout
        while not (found := holds()):
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not within {timeout} s\n{trouble(self.cluster)}")
            time.sleep(every)
        return found

    def wait_phase(self, kind, name, phase, namespace=None, timeout=60):
        """Until a Model or ClusterModel is in a phase (or Failed); returns the object."""
        def reached():
            found = self.get(kind, name, namespace)
            now = (found or {}).get("status", {}).get("phase")
            return found if now in (phase, "Failed") else None
        found = self.wait(f"{kind} {name} {phase}", reached, timeout)
        assert found["status"]["phase"] == phase, f"{json.dumps(found['status'], indent=1)}\n{trouble(self.cluster)}"
        return found

    def service_address(self, name, namespace=NAMESPACE):
        """A Service's address: this machine is the node, and reaches it."""
        return self.get("service", name, namespace)["spec"]["clusterIP"]
