"""What the service accounts of a namespace may do and what they did, as the API server's own audit log tells it."""

import json
import pathlib
import re
from typing import NamedTuple

# Long requests (watches) are told of when they begin. Bodies only of the Roles that are made: workers' come and go.
POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
    {"level": "Request", "verbs": ["create"], "resources": [{"group": "rbac.authorization.k8s.io", "resources": ["roles"]}]},
    {"level": "Metadata"}]}
ENDING = "because it is being terminated"  # a namespace, in which nobody makes anything any more
ALLOWED = re.compile(r'RBAC: allowed by \w+ "[^"]+" of (\w+) "([^"]+)"')


class Right(NamedTuple):
    """A verb that a Role grants on a resource, "deployments.apps" or "models.ai.deckhouse.io/status"."""
    role: str
    verb: str
    resource: str


def resource_name(group, resource):
    name, slash, part = resource.partition("/")
    return f"{name}{'.' if group else ''}{group}{slash}{part}"


def granted(role):
    """The rights of a Role or ClusterRole."""
    return {Right(f"{role['kind']} {generic(role['metadata']['name'])}", verb, resource_name(group, resource))
            for rule in role.get("rules") or [] for group in rule.get("apiGroups", []) for resource in rule.get("resources", []) for verb in rule["verbs"]}


def generic(name):
    """Roles that are made for one owner have its uid or name in theirs."""
    return re.sub(r"^(ai-model-publish|ai-model-upload-reader)-.*", r"\1-OWNER", name)


class Rights:
    def __init__(self, folder, namespace):
        self.log, self.policy, self.users = pathlib.Path(folder) / "audit.log", pathlib.Path(folder) / "audit.json", f"system:serviceaccount:{namespace}:"
        self.policy.write_text(json.dumps({**POLICY, "rules": [{**rule, "userGroups": [f"system:serviceaccounts:{namespace}"]} for rule in POLICY["rules"]]
                                           + [{"level": "None"}]}))

    @property
    def api_server_options(self):
        return ["--audit-policy-file", self.policy, "--audit-log-path", self.log, "--audit-log-mode", "blocking"]

    def events(self):
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [event for event in map(json.loads, lines) if event["user"]["username"].startswith(self.users)]

    def used(self):
        """Rights that a request needed."""
        found = set()
        for event in self.events():
            told, what = event.get("annotations", {}), event.get("objectRef")
            allowed = ALLOWED.match(told.get("authorization.k8s.io/reason", ""))
            if allowed and what:
                resource = what["resource"] + (f"/{what['subresource']}" if "subresource" in what else "")
                found.add(Right(f"{allowed[1]} {generic(allowed[2])}", event["verb"], resource_name(what.get("apiGroup", ""), resource)))
        return found

    def refused(self):
        """Requests that no right allowed, and what the API server said of those that were refused otherwise: (who, verb, address)."""
        return [(event["user"]["username"].removeprefix(self.users), event["verb"], event["requestURI"]) for event in self.events()
                if event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
                or event.get("responseStatus", {}).get("code") == 403 and ENDING not in event["responseStatus"].get("message", "")]

    def made_roles(self):
        """Roles that a service account made."""
        return [event["requestObject"] for event in self.events()
                if event["verb"] == "create" and event.get("objectRef", {}).get("resource") == "roles" and event.get("requestObject")]
