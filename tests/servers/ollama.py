#!/usr/bin/env python3
"""An Ollama registry on this machine, as its clients see it, with a second host for the parts and faults on demand.

  tests/servers/ollama.py --model library/name:tag=FILE.gguf [--port N]

Manifests as the public one sends them (text/plain, chunked, HEAD refused), parts behind signed addresses at the second host,
ranges, tokens, errors as the registry words them. Faults are those of hf_hub.py, on "manifest", "blob" (the registry's answer
for a part), "token", and "large" (the second host; `path` is a part's kind, such as "model")."""

import argparse
import contextlib
import hashlib
import json
import pathlib
import secrets
import sys
import threading
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from servers.hf_hub import Handler, Hub, HubHandler  # noqa: E402

MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG_TYPE = "application/vnd.docker.container.image.v1+json"
PREFIX = "application/vnd.ollama.image."
CONFIG = {"model_format": "gguf", "model_family": "llama", "model_families": None, "model_type": "7.6B", "file_type": "Q4_K_M",
          "architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}
WEB_PAGE = b"<!DOCTYPE html><html><body>Get up and running with large language models.</body></html>"


class Part:
    def __init__(self, kind, data):
        self.path, self.data = kind, data
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.digest = f"sha256:{self.sha256}"

    def descriptor(self):
        kind = self.path if "/" in self.path else PREFIX + self.path
        return {"mediaType": kind, "digest": self.digest, "size": len(self.data)}


class Model:
    """One tag. `layers`: pairs of a kind ("model", "params"...) and its bytes; `config` replaces members of the usual one, None
    leaves one out. `manifest` may be changed at will, and is sent as JSON, or as it is when it is bytes."""

    def __init__(self, layers, config=None):
        merged = {key: value for key, value in {**CONFIG, **(config or {})}.items() if value is not None or key not in (config or {})}
        self.config = Part(CONFIG_TYPE, json.dumps(merged).encode())
        self.layers = [Part(kind, data) for kind, data in layers]
        self.manifest = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": self.config.descriptor(),
                         "layers": [part.descriptor() for part in self.layers]}

    def bytes(self):
        return self.manifest if isinstance(self.manifest, bytes) else json.dumps(self.manifest).encode()


class Registry(Hub):
    """A running registry. `requests`, `fail` and `cdn_life...` are the hub's; the registry's host is "hub" in requests.
    `blobs`: how parts are answered: "cdn" (307 to a signed address), "direct" (200 or 206 without Location), "located" (the same
    with Location), "relative" (307 to this host, by a path), "hops" (ten of these, then the second host). `tokens`: None, or what
    the token service gives out; each is good for `token_calls` requests. `wants`: what a User-Agent must begin with."""

    def __init__(self, blobs="cdn", wants=None, private=(), token_calls=None, realm=None, **options):
        self.blobs, self.wants, self.private, self.realm, self.token_calls = blobs, wants, set(private), realm, token_calls
        self.issued, self.models = {}, {}
        super().__init__(**options)

    def _start(self, handler, port):
        return super()._start(RegistryHandler if handler is HubHandler else handler, port)

    def add(self, name, layers, config=None):
        """`name`: "library/x:tag"."""
        self.models[name] = Model(layers, config)
        return self.models[name]

    def part(self, repository, digest):
        for name, model in self.models.items():
            for part in [model.config, *model.layers]:
                if name.rpartition(":")[0] == repository and part.digest == digest:
                    return part
        return None


class RegistryHandler(Handler):
    host = "hub"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        path, query = path.removeprefix(self.hub.prefix), dict(urllib.parse.parse_qsl(query))
        if "Mozilla" in self.headers.get("User-Agent", ""):
            return self.answer(200, WEB_PAGE, kind="text/html")
        if path == "/token":
            fault = self.hub.take_fault("token", self.path)
            return self.misbehave(fault) or self.token(query)
        segments = path.strip("/").split("/")
        if len(segments) != 5 or segments[0] != "v2" or segments[3] not in ("manifests", "blobs"):
            return self.answer(404, b"404 page not found\n")
        repository, word, name = "/".join(segments[1:3]), segments[3], segments[4]
        fault = self.hub.take_fault(word.removesuffix("s"), self.path)
        if self.misbehave(fault) or not self.is_allowed(repository):
            return None
        return self.send_manifest(repository, name) if word == "manifests" else self.send_blob(repository, name, query, fault)

    def refuse(self, status, code, message):
        body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
        self.answer(status, body, kind="application/json")

    def is_allowed(self, repository):
        """FALSE when the refusal was sent."""
        if self.hub.wants and not self.headers.get("User-Agent", "").startswith(self.hub.wants):
            self.answer(412, b"The model you are attempting to pull requires a newer version of Ollama.\n\n"
                             b"Please download the latest version at:\n\n\thttps://ollama.com/download\n")
            return False
        if repository not in self.hub.private:
            return True
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        left = self.hub.issued.get(token, 0)
        if left > 0:
            self.hub.issued[token] = left - 1
            return True
        realm = self.hub.realm or f"{self.hub.endpoint}/token"
        challenge = f'Bearer realm="{realm}",service="ollama",scope="repository:{repository}:pull"'
        self.answer(401, b"{}", {"WWW-Authenticate": challenge}, "application/json")
        return False

    def token(self, query):
        if query.get("service") != "ollama" or not query.get("scope", "").endswith(":pull"):
            return self.refuse(400, "UNSUPPORTED", "a scope is missing")
        token = secrets.token_hex(16)
        self.hub.issued[token] = self.hub.token_calls or 1 << 30
        return self.answer(200, json.dumps({"token": token}).encode(), kind="application/json")

    def send_manifest(self, repository, tag):
        model = self.hub.models.get(f"{repository}:{tag}")
        if self.command == "HEAD":
            return self.answer(405)
        if model is None:
            return self.refuse(404, "MANIFEST_UNKNOWN", "manifest unknown")
        body = model.bytes()
        self.send_response(200)
        self.send_headers({"Content-Type": "text/plain; charset=utf-8", "Transfer-Encoding": "chunked"})
        sent = body if self.cut is None else body[:self.cut]
        self.wfile.write(b"%x\r\n%s\r\n" % (len(sent), sent))
        if self.cut is None:
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
        self.close_connection |= self.cut is not None

    def send_headers(self, headers):
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send_blob(self, repository, digest, query, fault):
        part = self.hub.part(repository, urllib.parse.unquote(digest))
        if part is None:
            return self.refuse(404, "BLOB_UNKNOWN", "blob unknown to registry")
        if self.command == "HEAD":
            return self.answer(200)
        hop, here = int(query.get("hop", 0)), self.path.partition("?")[0]
        if self.hub.blobs == "cdn" or (self.hub.blobs == "hops" and hop == 10):
            return self.answer(307, b"", {"Location": self.hub.sign(part)})
        if self.hub.blobs == "hops" or (self.hub.blobs == "relative" and hop == 0):
            return self.answer(307, b"", {"Location": f"{here}?hop={hop + 1}"})
        headers = {"Docker-Content-Digest": part.digest}
        if self.hub.blobs == "located":
            headers["Location"] = here
        return self.send_file(part.data, fault, headers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", required=True, metavar="NAME:TAG=FILE")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    registry = Registry(port=options.port)
    for model in options.model:
        name, _, path = model.partition("=")
        registry.add(name, [("model", pathlib.Path(path).read_bytes())])
    print(registry.endpoint, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    main()
