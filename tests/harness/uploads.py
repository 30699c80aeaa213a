"""Upload sessions as the controller makes them, and the gateway as a process."""

import base64
import datetime
import hashlib
import json
import pathlib
import secrets
import subprocess
import time

from . import kube_api, servers, tools

NAMESPACE = "d8-uploads"
ACCOUNTING = "ai-models-storage-accounting"
PREFIX = "ai.deckhouse.io/"


def rfc3339(seconds_from_now):
    when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds_from_now)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def coded(values):
    return {key: base64.b64encode(str(value).encode()).decode() for key, value in values.items()}


class Session:
    """The Secret of a session, and its token. `data`: more keys, or other values of those it has."""

    def __init__(self, api, name="m", model_namespace="team", lasts=1800, **data):
        self.api, self.uid, self.token = api, secrets.token_hex(8), secrets.token_hex(24)
        self.id = f"ai-model-upload-auth-{self.uid}"
        owner = {"kind": "Model", "name": name, "namespace": model_namespace, "uid": self.uid}
        values = {"tokenHash": hashlib.sha256(self.token.encode()).hexdigest(), "stagingKeyPrefix": self.uid, "phase": "issued", **data}
        api.must("POST", kube_api.path_of("Secret", NAMESPACE), {
            "kind": "Secret", "metadata": {
                "name": self.id, "labels": {"app.kubernetes.io/name": "ai-models-upload-session"},
                "annotations": {PREFIX + "upload-expires-at": rfc3339(lasts),
                                **{f"{PREFIX}owner-{key}-full": value for key, value in owner.items()}}},
            "data": coded(values)})

    @property
    def path(self):
        return f"/v1/upload/{self.id}"

    @property
    def headers(self):
        return {"Authorization": f"Bearer {self.token}"}

    def secret(self):
        return self.api.get("Secret", NAMESPACE, self.id)

    def data(self):
        """Decoded."""
        return {key: base64.b64decode(value).decode() for key, value in self.secret()["data"].items()}

    def change(self, annotations=None, **data):
        """None takes a key away."""
        values = {key: None if value is None else coded({key: value})[key] for key, value in data.items()}
        self.api.must("PATCH", kube_api.path_of("Secret", NAMESPACE, self.id), {
            "data": values, "metadata": {"annotations": {PREFIX + key: value for key, value in (annotations or {}).items()}}},
            kind=kube_api.MERGE)

    def wait(self, condition, timeout=20):
        """Until condition(data); returns the data."""
        end = time.monotonic() + timeout
        while not condition(data := self.data()):
            assert time.monotonic() < end, data
            time.sleep(0.05)
        return data


def gateway(plane, store, log, *options, env=None, program=None):
    """`ai-models upload-gateway` over the staging store `store`."""
    log = pathlib.Path(log)
    port_file = log.with_suffix(f".{time.monotonic_ns()}.port")
    command = [program or tools.program(), "upload-gateway", "--listen", "127.0.0.1:0", "--namespace", NAMESPACE, "--staging-store", store,
               "--port-file", port_file, "--log-format", "json", *options]
    return servers.Server(command, log, port_file=port_file, env={"KUBECONFIG": str(plane.kubeconfig), **(env or {})})


def write_ledger(api, reservations=None, published=None, confirmed=True):
    """The books, as the controller keeps them; with entries id -> (uid, bytes)."""
    def entries(given):
        return {key: {"id": key, "owner": {"kind": "Model", "name": "m", "namespace": "team", "uid": uid}, "sizeBytes": size}
                for key, (uid, size) in (given or {}).items()}

    ledger = {"version": 2, "reservations": entries(reservations), "published": entries(published)}
    if confirmed:
        ledger["confirmed"] = {"at": rfc3339(0), "by": "tests", "inventoryCount": 0}
    remove_ledger(api)
    api.must("POST", kube_api.path_of("ConfigMap", NAMESPACE),
             {"kind": "ConfigMap", "metadata": {"name": ACCOUNTING}, "data": {"ledger.json": json.dumps(ledger)}})


def remove_ledger(api):
    api.ask("DELETE", kube_api.path_of("ConfigMap", NAMESPACE, ACCOUNTING))


def reservations(api):
    """Id -> bytes."""
    ledger = json.loads(api.get("ConfigMap", NAMESPACE, ACCOUNTING)["data"]["ledger.json"])
    return {key: value["sizeBytes"] for key, value in ledger["reservations"].items()}


def curl(*arguments, timeout=120):
    """Status and answer."""
    done = subprocess.run([tools.need("curl"), "-sS", "-w", "\n%{http_code}", *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout)
    text, _, status = done.stdout.rpartition("\n")
    return int(status or 0), text if done.returncode == 0 else text + done.stderr
