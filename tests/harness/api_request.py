"""What a request to an API server is about, from its method and address."""

import urllib.parse
from typing import NamedTuple

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class ApiRequest(NamedTuple):
    method: str
    path: str  # with its query
    verb: str  # as RBAC has it; "" of what is no resource
    resource: str  # "models", "models/status"
    namespace: str
    name: str

    @property
    def is_watch(self):
        return self.verb == "watch"

    @property
    def is_write(self):
        return self.method in VERBS

    @property
    def key(self):
        return f"{self.verb} {self.resource}"


def parse(method, target):
    path, _, query = target.partition("?")
    parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        rest = parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        rest = parts[3:]
    else:
        return ApiRequest(method, target, "", path, "", "")
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    resource = "/".join([rest[0], *rest[2:]])
    is_watch = urllib.parse.parse_qs(query).get("watch", ["0"])[0] in ("1", "true")
    reading = "watch" if is_watch else "get" if name else "list"
    return ApiRequest(method, target, VERBS.get(method, reading), resource, namespace, name)
