"""The volumes of a Pod as folders of this machine, for pod_runner."""

import base64
import pathlib
import re


class NotYet(Exception):
    """A Pod's volume cannot be made so far; kubelet waits."""


class Volumes:
    """The folders of one Pod's volumes."""

    def __init__(self, runner, pod, folder):
        self.runner, self.pod, self.folder = runner, pod, folder
        self.namespace, self.claimed = pod["metadata"]["namespace"], {}

    def of(self, kind, source, name_key):
        name = source[name_key]
        thing = self.runner.api.get(kind, self.namespace, name)
        if thing is None:
            if source.get("optional"):
                return {}
            raise NotYet(f'{kind.lower()} "{name}" not found')
        data = {key: base64.b64decode(value) for key, value in (thing.get("data") or {}).items()} if kind == "Secret" else \
            {key: value.encode() for key, value in (thing.get("data") or {}).items()}
        if "items" not in source:
            return data
        missing = [item["key"] for item in source["items"] if item["key"] not in data]
        if missing and not source.get("optional"):
            raise NotYet(f'references non-existent {kind.lower()} key: {missing[0]}')
        return {item["path"]: data[item["key"]] for item in source["items"] if item["key"] in data}

    def projected(self, source):
        if "secret" in source:
            return self.of("Secret", source["secret"], "name")
        if "configMap" in source:
            return self.of("ConfigMap", source["configMap"], "name")
        if "serviceAccountToken" in source:
            return {source["serviceAccountToken"]["path"]: self.runner.token_of(self.pod).encode()}
        if "downwardAPI" in source:
            return {item["path"]: self.field(item["fieldRef"]).encode() for item in source["downwardAPI"]["items"]}
        raise AssertionError(f"the runner has no volume like {source}")

    def field(self, ref):
        value = self.pod
        for part in ref["fieldPath"].split("."):
            value = value[part]
        return value

    def files(self, volume):
        if "secret" in volume:
            return self.of("Secret", volume["secret"], "secretName")
        if "configMap" in volume:
            return self.of("ConfigMap", volume["configMap"], "name")
        if "projected" in volume:
            found = {}
            for source in volume["projected"]["sources"]:
                found |= self.projected(source)
            return found
        assert "emptyDir" in volume, f"the runner has no volume like {volume}"
        return {}

    # Claims: volumes that are folders of this machine already

    def claims(self):
        return [volume["persistentVolumeClaim"]["claimName"] for volume in self.pod["spec"].get("volumes", []) if "persistentVolumeClaim" in volume]

    def folder_of_claim(self, name):
        claim = self.runner.api.get("PersistentVolumeClaim", self.namespace, name)
        if claim is None:
            raise NotYet(f'persistentvolumeclaim "{name}" not found')
        if claim.get("status", {}).get("phase") != "Bound":
            raise NotYet("pod has unbound immediate PersistentVolumeClaims")
        volume = self.runner.api.get("PersistentVolume", name=claim["spec"]["volumeName"])
        if volume is None:
            raise NotYet(f'persistentvolume "{claim["spec"]["volumeName"]}" not found')
        return pathlib.Path(volume["spec"]["hostPath"]["path"])

    def bind(self):
        """Before it is scheduled: all claims are bound, and none is being deleted."""
        for name in self.claims():
            claim = self.runner.api.get("PersistentVolumeClaim", self.namespace, name)
            if claim is not None and claim["metadata"].get("deletionTimestamp"):
                raise NotYet(f'persistentvolumeclaim "{name}" is being deleted')
            self.claimed[name] = self.folder_of_claim(name)

    def place(self, name):
        """The folder of a volume."""
        for volume in self.pod["spec"].get("volumes", []):
            if volume["name"] == name and "persistentVolumeClaim" in volume:
                return self.claimed[volume["persistentVolumeClaim"]["claimName"]]
        return self.folder / name

    def mounted(self, mount):
        """The folder, or file, that a container sees at a mount."""
        return self.place(mount["name"]) / mount["subPath"] if mount.get("subPath") else self.place(mount["name"])

    def make(self):
        for volume in self.pod["spec"].get("volumes", []):
            if "persistentVolumeClaim" in volume:
                continue
            folder = self.folder / volume["name"]
            folder.mkdir(parents=True, exist_ok=True)
            for path, data in self.files(volume).items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(data)

    def mapped(self, container, text):
        """`text` with the paths that the container would see made those of the folders."""
        folders = {}
        for mount in container.get("volumeMounts", []):
            folders[mount["mountPath"].rstrip("/")] = str(self.mounted(mount))
        if not folders:
            return text
        inside = "|".join(map(re.escape, sorted(folders, key=len, reverse=True)))
        return re.sub(rf"(?<![\w/.-])({inside})(?=/|&|$)", lambda found: folders[found[1]], text)

    def environment(self, container):
        found = {}
        for variable in container.get("env", []):
            source = variable.get("valueFrom")
            if source is None:
                found[variable["name"]] = self.mapped(container, variable.get("value", ""))
            elif "fieldRef" in source:
                found[variable["name"]] = self.field(source["fieldRef"])
            else:
                kind, ref = ("Secret", source["secretKeyRef"]) if "secretKeyRef" in source else ("ConfigMap", source["configMapKeyRef"])
                data = self.of(kind, ref, "name")
                if ref["key"] not in data:
                    if ref.get("optional"):
                        continue
                    raise NotYet(f"couldn't find key {ref['key']} in {kind} {self.namespace}/{ref['name']}")
                found[variable["name"]] = data[ref["key"]].decode()
        return found
