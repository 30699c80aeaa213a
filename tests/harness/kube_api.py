"""An API server as the tests themselves talk to it: as administrator, with plain dicts."""

import collections
import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse

import yaml

from . import tools

# Kind -> path of its group and version, plural, whether it lies in namespaces.
KINDS = {
    "Namespace": ("/api/v1", "namespaces", False), "Node": ("/api/v1", "nodes", False),
    "Pod": ("/api/v1", "pods", True), "Secret": ("/api/v1", "secrets", True), "ConfigMap": ("/api/v1", "configmaps", True),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True), "Event": ("/api/v1", "events", True), "Service": ("/api/v1", "services", True),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles", True), "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases", True), "Deployment": ("/apis/apps/v1", "deployments", True),
    "ReplicaSet": ("/apis/apps/v1", "replicasets", True), "StatefulSet": ("/apis/apps/v1", "statefulsets", True),
    "DaemonSet": ("/apis/apps/v1", "daemonsets", True), "ControllerRevision": ("/apis/apps/v1", "controllerrevisions", True),
    "Job": ("/apis/batch/v1", "jobs", True), "CronJob": ("/apis/batch/v1", "cronjobs", True),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims", True), "PersistentVolume": ("/api/v1", "persistentvolumes", False),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses", False),
    "MutatingWebhookConfiguration": ("/apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", False),
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "Model": ("/apis/ai.deckhouse.io/v1alpha1", "models", True), "ClusterModel": ("/apis/ai.deckhouse.io/v1alpha1", "clustermodels", False),
    "ModelCatalogSource": ("/apis/ai.deckhouse.io/v1alpha1", "modelcatalogsources", False),
}
RESTART_TIMEOUT = 30  # s that the API server may be down
MERGE, JSON_PATCH, APPLY = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"


class ApiError(Exception):
    def __init__(self, status, answer):
        super().__init__(f"{status}: {answer.get('message', answer)}")
        self.status, self.answer = status, answer


def path_of(kind, namespace=None, name=None, sub=None):
    group, plural, is_namespaced = KINDS[kind]
    place = f"/namespaces/{namespace}" if is_namespaced and namespace else ""
    return group + place + f"/{plural}" + (f"/{name}" if name else "") + (f"/{sub}" if sub else "")


def path_to(thing, sub=None):
    return path_of(thing["kind"], thing["metadata"].get("namespace"), thing["metadata"]["name"], sub)


class Watch:
    """(type, object) of all that is there and that comes, until the server ends it or another thread close()s it."""

    def __init__(self, api, kind, namespace=None):
        self.path, self.connection = path_of(kind, namespace) + "?watch=1&resourceVersion=0", api.connect(timeout=3600)

    def __iter__(self):
        try:
            self.connection.request("GET", self.path)
            answer = self.connection.getresponse()
            while answer.status == 200 and (line := answer.readline()):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            return
        finally:
            self.connection.close()

    def close(self):
        if self.connection.sock is not None:
            with contextlib.suppress(OSError):
                self.connection.sock.shutdown(socket.SHUT_RDWR)


class Follower:
    """Hands all that is there of some kinds, and all that comes, to take(event, object), of each kind on a thread of its own. Use as a context."""

    KINDS = ()

    def __init__(self, api):
        self.api, self.watches, self.is_stopping = api, [], False

    def take(self, event, thing):
        raise NotImplementedError

    def follow(self, kind):
        while not self.is_stopping:
            watch = self.api.watch(kind)
            self.watches.append(watch)
            for event, thing in watch:
                self.take(event, {"kind": kind, **thing})
            time.sleep(0.05)

    def __enter__(self):
        for kind in self.KINDS:
            threading.Thread(target=self.follow, args=(kind,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.is_stopping = True
        for watch in self.watches:
            watch.close()


class Api:
    """Thread-safe: as many connections as requests at a time."""

    def __init__(self, plane):
        self.address, self.port, self.idle = plane.address, plane.port, collections.deque()
        self.context = ssl.create_default_context(cafile=str(plane.authority.certificate))
        self.context.load_cert_chain(*map(str, plane.client))

    def connect(self, timeout=30):
        return http.client.HTTPSConnection(self.address, self.port, timeout=timeout, context=self.context)

    def raw(self, method, path, body=None, kind="application/json", headers=None):
        """Status and bytes. A connection that ended between two requests is replaced, a server that starts anew is waited for, and what may be
        done twice is asked again."""
        content, end = None if body is None else json.dumps(body).encode(), time.monotonic() + RESTART_TIMEOUT
        while True:
            connection = self.take_idle()
            is_new = connection is None
            try:
                if is_new:
                    connection = self.connect_within(end)
                connection.request(method, path, content, {"Content-Type": kind, **(headers or {})})
                answer = connection.getresponse()
                told = answer.status, answer.read()
                self.idle.append(connection)
                return told
            except (OSError, http.client.HTTPException):
                if connection is not None:
                    connection.close()
                if is_new and (method == "POST" or time.monotonic() > end):
                    raise

    def take_idle(self):
        with contextlib.suppress(IndexError):
            return self.idle.pop()

    def connect_within(self, end):
        while True:
            connection = self.connect()
            try:
                connection.connect()
                return connection
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def ask(self, method, path, body=None, kind="application/json"):
        """Status and document, whatever it is."""
        status, content = self.raw(method, path, body, kind)
        return status, json.loads(content)

    def must(self, method, path, body=None, kind="application/json"):
        status, answer = self.ask(method, path, body, kind)
        if status >= 300:
            raise ApiError(status, answer)
        return answer

    def get(self, kind, namespace=None, name=None):
        """None when it is not there."""
        status, answer = self.ask("GET", path_of(kind, namespace, name))
        if status == 404:
            return None
        if status >= 300:
            raise ApiError(status, answer)
        return answer

    def list(self, kind, namespace=None, labels=None):
        query = f"?labelSelector={urllib.parse.quote(labels)}" if labels else ""
        return [{"kind": kind, **item} for item in self.must("GET", path_of(kind, namespace) + query)["items"]]

    def create(self, thing, exist_ok=False):
        group = KINDS[thing["kind"]][0]
        body = {"apiVersion": group.removeprefix("/apis/").removeprefix("/api/"), **thing}
        try:
            return self.must("POST", path_of(thing["kind"], thing["metadata"].get("namespace")), body)
        except ApiError as error:
            if error.status != 409 or not exist_ok:
                raise
            return self.get(thing["kind"], thing["metadata"].get("namespace"), thing["metadata"]["name"])

    def patch(self, thing, patch, sub=None, kind=MERGE):
        return self.must("PATCH", path_to(thing, sub), patch, kind)

    def delete(self, thing, grace=None, uid=None, missing_ok=True):
        options = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid:
            options["preconditions"] = {"uid": uid}
        status, answer = self.ask("DELETE", path_to(thing), options)
        if status >= 300 and not (status in (404, 409) and missing_ok):
            raise ApiError(status, answer)

    def token(self, namespace, account, life=3600):
        """Of a service account."""
        answer = self.must("POST", path_of("ServiceAccount", namespace, account, "token"),
                           {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"expirationSeconds": life}})
        return answer["status"]["token"]

    def watch(self, kind, namespace=None):
        return Watch(self, kind, namespace)

    def wait(self, what, holds, timeout=60, tick=0.05):
        """What holds() gives once it is true. `what`: words, or a function that tells how things stand."""
        end = time.monotonic() + timeout
        while True:
            if found := holds():
                return found
            assert time.monotonic() < end, f"not within {timeout} s: {what() if callable(what) else what}"
            time.sleep(tick)


def kubeconfig(plane, server, token):
    """The text of one; `server`: the API server's address, or a proxy's."""
    return json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "tests",
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        "clusters": [{"name": "tests", "cluster": {"server": server, "certificate-authority": str(plane.authority.certificate)}}],
        "users": [{"name": "tests", "user": {"token": token}}]})


def condition(thing, kind):
    """(status, reason, message) of a condition, or None."""
    for one in thing.get("status", {}).get("conditions") or []:
        if one["type"] == kind:
            return one["status"], one["reason"], one.get("message", "")
    return None


def install_crds(api):
    """Ours, until they are served."""
    for name in ("model", "clustermodel", "modelcatalogsource"):
        crd = api.create(yaml.safe_load((tools.ROOT / "crds" / f"{name}.yaml").read_text()), exist_ok=True)
        api.wait(f"{name} is established", lambda: (condition(api.get("CustomResourceDefinition", name=crd["metadata"]["name"]), "Established") or [""])[0] == "True")


def remove_models(api, timeout=30):
    """All that are left, by the controller that runs; what it does not let go within `timeout` seconds, if any runs, goes without it."""
    end = time.monotonic() + timeout
    while left := [thing for kind in ("Model", "ClusterModel") for thing in api.list(kind)]:
        for thing in left:
            api.delete(thing)
            if time.monotonic() > end:
                with contextlib.suppress(ApiError):
                    api.patch(thing, {"metadata": {"finalizers": None}})
        time.sleep(0.1)
