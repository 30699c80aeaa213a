#!/usr/bin/env python3
"""A dynamic provisioner of ReadWriteMany volumes: for each claim of its StorageClasses a folder of this machine, which is the node.

How a class behaves is said by its parameter `mode`, or for the moment by Provisioner.set_mode(), or for the claims of one namespace by
Provisioner.behave():
  bind    a volume at once
  late    a volume after `seconds` (a parameter; by default 3)
  silent  nothing, and no word of it
  refuse  a Warning event ProvisioningFailed on the claim, which says `message` (a parameter)
The parameter `mount` makes the volume a tmpfs with these options, as "size=1m" or "ro". A volume goes with its claim.

As a program: tests/harness/provisioner.py FOLDER ADDRESS PORT CA CERTIFICATE KEY, until SIGTERM.
"""

import contextlib
import datetime
import http.client
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import types

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import kube_api, tools  # noqa: E402

PROVISIONER = "tests.ai-models.deckhouse.io/folders"
MODES = ("bind", "late", "silent", "refuse")
REFUSAL = "the storage refuses: no space left in the pool"
# What kube-controller-manager writes to a claim that it leaves to a provisioner, and what a provisioner writes to its volumes.
ASKED, MADE_BY = "volume.kubernetes.io/storage-provisioner", "pv.kubernetes.io/provisioned-by"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
TICK = 0.05  # s


def storage_class(name="folders", is_default=False, binding="Immediate", provisioner=PROVISIONER, **parameters):
    return {"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "provisioner": provisioner, "volumeBindingMode": binding, "parameters": parameters,
            "metadata": {"name": name, "annotations": {DEFAULT_CLASS: "true"} if is_default else {}}}


def volume_of(claim, storage, folder):
    meta, spec = claim["metadata"], claim["spec"]
    return {"kind": "PersistentVolume", "metadata": {"name": f"pvc-{meta['uid']}", "annotations": {MADE_BY: PROVISIONER}}, "spec": {
        "accessModes": spec["accessModes"], "capacity": {"storage": spec["resources"]["requests"]["storage"]}, "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": storage["metadata"]["name"], "volumeMode": "Filesystem", "hostPath": {"path": str(folder), "type": "Directory"},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}}}


class Provisioner:
    """Use as a context. `plane`: a ControlPlane, whose kube-controller-manager runs."""

    def __init__(self, plane, folder):
        self.api, self.folder = kube_api.Api(plane), pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock, self.modes, self.spaces, self.faults = threading.Lock(), {}, {}, []
        self.waiting, self.released = {}, {}  # uid -> (claim, when it was seen first); name -> volume
        self.is_stopping, self.watches = threading.Event(), {}
        self.threads = [threading.Thread(target=self.follow, args=one, daemon=True)
                        for one in (("PersistentVolumeClaim", self.take_claim), ("PersistentVolume", self.take_volume))]
        self.threads.append(threading.Thread(target=self.work, daemon=True))

    # For tests

    def set_mode(self, mode, name="folders"):
        """Of a class, until it is None. Claims that wait obey it, too."""
        assert mode is None or mode in MODES
        with self.lock:
            self.modes[name] = mode

    def behave(self, namespace, **parameters):
        """The claims of a namespace are served by these parameters rather than by their class's; without any, as the others."""
        assert parameters.get("mode", "bind") in MODES
        with self.lock:
            self.spaces[namespace] = parameters

    def folder_of(self, namespace, name):
        """Where the files of a bound claim are; None while it is not bound."""
        claim = self.api.get("PersistentVolumeClaim", namespace, name)
        volume = claim and self.api.get("PersistentVolume", name=claim["spec"].get("volumeName"))
        return pathlib.Path(volume["spec"]["hostPath"]["path"]) if claim and claim["spec"].get("volumeName") and volume else None

    def remount(self, namespace, name, options):
        """The tmpfs of a bound claim, with other options: somebody enlarges it, or lets it be written."""
        subprocess.run([tools.need("mount"), "-o", f"remount,{options}", self.folder_of(namespace, name)], check=True)

    def lose(self, namespace, name):
        """The volume of a bound claim goes while it is in use: the claim is Lost."""
        volume = self.api.get("PersistentVolume", name=self.api.get("PersistentVolumeClaim", namespace, name)["spec"]["volumeName"])
        volume["kind"] = "PersistentVolume"
        self.api.delete(volume)
        self.api.patch(volume, {"metadata": {"finalizers": None}})

    def take_faults(self):
        """What went wrong with itself since this was asked last."""
        with self.lock:
            faults, self.faults = self.faults, []
        silent = [] if self.is_stopping.is_set() else [thread for thread in self.threads if not thread.is_alive()]
        return faults + ["the provisioner does not go on any more"] * len(silent)

    # What it follows

    def follow(self, kind, take):
        while not self.is_stopping.is_set():
            self.watches[kind] = self.api.watch(kind)
            for what, thing in self.watches[kind]:
                take(what, {"kind": kind, **thing})
            self.is_stopping.wait(TICK)

    def take_claim(self, what, claim):
        meta = claim["metadata"]
        is_asked = meta.get("annotations", {}).get(ASKED) == PROVISIONER and not claim["spec"].get("volumeName")
        with self.lock:
            if what == "DELETED" or meta.get("deletionTimestamp") or not is_asked:
                self.waiting.pop(meta["uid"], None)
            else:
                self.waiting[meta["uid"]] = claim, self.waiting.get(meta["uid"], (None, time.monotonic()))[1]

    def take_volume(self, what, volume):
        is_ours = volume["metadata"].get("annotations", {}).get(MADE_BY) == PROVISIONER
        with self.lock:
            if is_ours and what != "DELETED" and volume.get("status", {}).get("phase") == "Released":
                self.released[volume["metadata"]["name"]] = volume

    # What it does

    def work(self):
        refused = {}  # uid -> what was said
        while not self.is_stopping.wait(TICK):
            with self.lock:
                waiting, released = list(self.waiting.values()), list(self.released.values())
            try:
                for claim, since in waiting:
                    self.serve(claim, time.monotonic() - since, refused)
                for volume in released:
                    self.remove(volume)
            except (OSError, http.client.HTTPException):  # the API server may be starting anew
                continue
            except Exception as error:  # noqa: BLE001: a fault of the harness must be seen
                if not isinstance(error, kube_api.ApiError) or error.status not in (404, 409, 429, 500, 503):  # the claim may be gone
                    self.faults.append(traceback.format_exc())

    def serve(self, claim, age, refused):
        storage = self.api.get("StorageClass", name=claim["spec"]["storageClassName"])
        if storage is None:
            return
        parameters, uid = storage.get("parameters") or {}, claim["metadata"]["uid"]
        with self.lock:
            special = self.spaces.get(claim["metadata"]["namespace"], {})
            parameters = {**parameters, **special}
            mode = special.get("mode") or self.modes.get(storage["metadata"]["name"]) or parameters.get("mode", "bind")
        if mode == "bind" or mode == "late" and age >= float(parameters.get("seconds", 3)):
            self.bind(claim, storage, parameters)
        elif mode == "refuse":
            said = f'failed to provision volume with StorageClass "{storage["metadata"]["name"]}": {parameters.get("message", REFUSAL)}'
            if refused.get(uid) != said:
                self.refuse(claim, said)
                refused[uid] = said

    def bind(self, claim, storage, parameters):
        folder = self.folder / claim["metadata"]["uid"]
        if not folder.exists():
            folder.mkdir()
            if "mount" in parameters:
                subprocess.run([tools.need("mount"), "-t", "tmpfs", "-o", f"{parameters['mount']},mode=0777", "tests", folder], check=True)
            else:
                folder.chmod(0o777)
        self.api.create(volume_of(claim, storage, folder), exist_ok=True)
        with self.lock:
            self.waiting.pop(claim["metadata"]["uid"], None)

    def refuse(self, claim, said):
        meta, now = claim["metadata"], datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.api.create({"kind": "Event", "metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]}, "type": "Warning",
                         "reason": "ProvisioningFailed", "message": said, "source": {"component": PROVISIONER}, "count": 1, "firstTimestamp": now,
                         "lastTimestamp": now, "involvedObject": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta["namespace"],
                                                                  "name": meta["name"], "uid": meta["uid"]}})

    def remove(self, volume):
        self.api.delete(volume, uid=volume["metadata"]["uid"])
        self.empty(pathlib.Path(volume["spec"]["hostPath"]["path"]))
        with self.lock:
            self.released.pop(volume["metadata"]["name"], None)

    def empty(self, folder):
        if folder.is_mount():
            subprocess.run([tools.need("umount"), "--lazy", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_stopping.set()
        for watch in self.watches.values():
            watch.close()
        for thread in self.threads:
            thread.join(10)
        with contextlib.suppress(OSError):
            for folder in self.folder.iterdir():
                self.empty(folder)


def command(plane, folder):
    """That of the program, for this ControlPlane."""
    return [sys.executable, "-B", pathlib.Path(__file__).resolve(), folder, plane.address, plane.port, plane.authority.certificate, *plane.client]


def main():
    folder, address, port, authority, certificate, key = sys.argv[1:]
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    plane = types.SimpleNamespace(address=address, port=int(port), client=(certificate, key), authority=types.SimpleNamespace(certificate=authority))
    with Provisioner(plane, folder) as provisioner:
        while not ended.wait(1):
            for fault in provisioner.take_faults():
                print(fault, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
