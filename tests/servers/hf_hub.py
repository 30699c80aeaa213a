#!/usr/bin/env python3
"""A Hugging Face hub on this machine, as its clients see it, with a second host for large files and faults on demand.

  tests/servers/hf_hub.py --model owner/name=FOLDER [--port N] [--page N]

As a mirror (Hub(lacks=...)) it leaves out what mirrors do not have. Model info, trees with pages, resolve with its redirects (relative for small files, signed addresses at the second host for
large ones), ranges, ETags, Xet headers, gated and private repositories, errors as the hub words them."""

import argparse
import contextlib
import gzip
import hashlib
import http.server
import json
import pathlib
import secrets
import sys
import threading
import time
import urllib.parse

LARGE_SUFFIXES = (".safetensors", ".gguf", ".bin", ".onnx", ".h5", ".msgpack", ".ckpt", ".pt")
REDIRECT_TEXT = b"Found. Redirecting to the place where the file is kept. " * 16  # about 900 bytes, as the hub's
BLOCK = 1 << 20


class File:
    def __init__(self, path, data):
        self.path, self.data = path, data
        self.is_large = path.endswith(LARGE_SUFFIXES) or len(data) > 10 << 20
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.pointer = (f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(data)}\n").encode()
        content = self.pointer if self.is_large else data
        self.oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        self.xet_hash = hashlib.sha256(self.sha256.encode()).hexdigest()

    def tree_item(self):
        item = {"type": "file", "oid": self.oid, "size": len(self.data), "path": self.path}
        if self.is_large:
            item |= {"lfs": {"oid": self.sha256, "size": len(self.data), "pointerSize": len(self.pointer)},
                     "xetHash": self.xet_hash}
        return item

    def sibling(self, with_blobs):
        item = {"rfilename": self.path}
        if with_blobs:
            item |= {"size": len(self.data), "blobId": self.oid}
        if with_blobs and self.is_large:
            item["lfs"] = {"sha256": self.sha256, "size": len(self.data), "pointerSize": len(self.pointer)}
        return item


class Repository:
    """`files`: path -> bytes, or a folder. A gated one ("auto", "manual") shows its info to all and its files to `readers`;
    a private one shows nothing to others."""

    def __init__(self, name, files, gated=False, private=False, readers=(), info=None, long_commits=False):
        self.name, self.gated, self.private, self.readers, self.info = name, gated, private, set(readers), info or {}
        self.commits, self.refs, self.long_commits = {}, {}, long_commits
        self.commit(files)

    def commit(self, files, ref="main"):
        """Makes a commit and lets `ref` point to it; returns its name."""
        if not isinstance(files, dict):
            folder = pathlib.Path(files)
            files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        made = {path: File(path, data) for path, data in files.items()}
        kind = hashlib.sha256 if self.long_commits else hashlib.sha1
        name = kind(repr(sorted((file.path, file.sha256) for file in made.values())).encode()).hexdigest()
        self.commits[name], self.refs[ref] = made, name
        return name

    def find(self, revision):
        return self.refs.get(revision, revision if revision in self.commits else None)


class Fault:
    """What goes wrong with requests that `on` ("api", "resolve", "small", "large", "any") and `path` (a part of it) name;
    the first `after` of them go well.

    status=N, headers, body   this answer instead
    headers={...}             without a status: these headers in the answer, None leaves one out
    drop=True                 the connection ends without an answer
    stall=SECONDS             nothing for so long, then the connection ends
    stall_at=N                with stall: that happens after N bytes of the body
    cut=N                     the connection ends after N bytes of the body
    slow=SECONDS              waits before it answers
    whole=True                the range is not honoured
    shift=N                   another range than asked for
    total=N                   so many bytes more are claimed to be in the file
    short=N                   so many bytes less are in the file
    chunked=True              no length is told
    corrupt=N                 byte N of the file is another
    compress=True             gzip, though it was not asked for
    call=FUNCTION             something happens first, such as a commit"""

    def __init__(self, on, path="", times=1, after=0, **how):
        self.on, self.path, self.left, self.after, self.how, self.n_hits = on, path, times, after, how, 0


class Hub:
    """A running hub. `requests` tells what was asked: dicts of host ("hub", "cdn"), method, path, headers, status.
    `lacks`: what a mirror has not: "tree" (the route), "commit" (X-Repo-Commit), "hashes", "head" (the method), "lengths" (of
    small files). `tls`: a context of module ssl for both hosts. `address`: where it listens, on which others may reach it."""

    def __init__(self, page=1000, prefix="", cdn_life=None, cdn_life_bytes=None, port=0, link_host=None, lacks=(), tls=None,
                 address="127.0.0.1"):
        self.address, self.second_name = address, "localhost" if address == "127.0.0.1" else address
        self.page, self.prefix, self.link_host = page, prefix, link_host
        self.cdn_life, self.cdn_life_bytes, self.lacks, self.tls = cdn_life, cdn_life_bytes, lacks, tls
        self.repositories, self.renamed, self.tokens = {}, {}, {"hf_good": "someone"}
        self.faults, self.requests, self.signatures = [], [], {}
        self.lock = threading.Lock()
        self.n_slow = self.most_at_once = 0  # requests that wait
        self.hub_server, self.cdn_server = self._start(HubHandler, port), self._start(CdnHandler, 0)

    def _start(self, handler, port):
        server = Server((self.address, port), handler)
        server.hub = self
        if self.tls is not None:
            server.socket = self.tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server

    @property
    def endpoint(self):
        return f"{'http' if self.tls is None else 'https'}://{self.address}:{self.hub_server.server_port}{self.prefix}"

    @property
    def cdn(self):
        return f"{'http' if self.tls is None else 'https'}://{self.second_name}:{self.cdn_server.server_port}"

    def add(self, name, files, **options):
        self.repositories[name] = Repository(name, files, **options)
        return self.repositories[name]

    def fail(self, on, path="", times=1, after=0, **how):
        fault = Fault(on, path, times, after, **how)
        self.faults.append(fault)
        return fault

    def take_fault(self, on, path):
        with self.lock:
            for fault in self.faults:
                if fault.on not in (on, "any") or fault.path not in path or fault.left == 0:
                    continue
                if fault.after > 0:
                    fault.after -= 1
                    continue
                fault.left -= 1
                fault.n_hits += 1
                break
            else:
                return {}
        if "call" in fault.how:
            fault.how["call"]()
        return fault.how

    def asked(self, host=None, method=None, path=""):
        return [request for request in self.requests if (host is None or request["host"] == host)
                and (method is None or request["method"] == method) and path in request["path"]]

    def sign(self, file):
        """An address at the second host that is good for a while."""
        signature = secrets.token_hex(16)
        self.signatures[signature] = {"file": file, "until": time.monotonic() + (self.cdn_life or 3600), "bytes": 0}
        return f"{self.cdn}/xet/{file.sha256[:12]}?X-Amz-Signature={signature}"

    def stop(self):
        for server in (self.hub_server, self.cdn_server):
            server.shutdown()
            server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """Clients may go at any time."""
        if not isinstance(sys.exception(), (OSError, ConnectionError)):
            super().handle_error(request, client_address)


class Refusal(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Answered(Exception):
    """Nothing is left to do."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    host, cut = "", None  # `cut`: the next body ends there, and the connection too
    changed = {}  # headers of the next answer

    @property
    def hub(self):
        return self.server.hub

    def log_message(self, *_):
        pass

    def log_request(self, code="-", size="-"):
        if hasattr(self, "headers"):  # else it was no HTTP
            self.hub.requests.append({"host": self.host, "method": self.command, "path": self.path,
                                      "headers": dict(self.headers.items()), "status": int(code)})

    def handle(self):
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()

    def answer(self, status, body=b"", headers=None, kind="text/plain; charset=utf-8"):
        self.send_response(status)
        self.send_headers({"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(body[:self.cut])
            self.close_connection |= self.cut is not None and self.cut < len(body)
        self.wfile.flush()
        self.cut = None

    def send_headers(self, headers):
        for name, value in {**headers, **self.changed}.items():
            if value is not None:
                self.send_header(name, value)
        self.changed = {}
        self.end_headers()

    def misbehave(self, fault):
        """TRUE when the fault was the whole answer."""
        if "slow" in fault:
            with self.hub.lock:
                self.hub.n_slow += 1
                self.hub.most_at_once = max(self.hub.most_at_once, self.hub.n_slow)
            time.sleep(fault["slow"])
            with self.hub.lock:
                self.hub.n_slow -= 1
        if "status" in fault:
            self.answer(fault["status"], fault.get("body", b""), fault.get("headers"))
        elif "stall" in fault and "stall_at" not in fault:
            time.sleep(fault["stall"])
            self.close_connection = True
        elif fault.get("drop"):
            self.close_connection = True
        else:
            self.changed = fault.get("headers", {})
        self.cut = fault.get("cut")
        return "status" in fault or "drop" in fault or ("stall" in fault and "stall_at" not in fault)

    def wanted_range(self, size):
        """(first, last) that a Range header asks for; None: all; False: not to be had."""
        text = self.headers.get("Range", "")
        if not text.startswith("bytes="):
            return None
        first, _, last = text.removeprefix("bytes=").partition("-")
        if first == "":
            first, last = max(size - int(last), 0), size - 1
        first, last = int(first), min(int(last or size - 1), size - 1)
        return (first, last) if first < size and first <= last else False

    def send_file(self, data, fault, headers, budget=None):
        """`budget`: an address's dict, which counts bytes."""
        data = data[:len(data) - fault.get("short", 0)]
        size, claimed, self.cut = len(data), len(data) + fault.get("total", 0), None
        part = None if fault.get("whole") else self.wanted_range(size)
        headers = {"Accept-Ranges": "bytes", **headers}
        if part is False:
            return self.answer(416, b"", {**headers, "Content-Range": f"bytes */{size}"})
        if "corrupt" in fault:
            data = bytearray(data)
            data[fault["corrupt"]] ^= 1
        first, last = part or (0, size - 1)
        shift = fault.get("shift", 0) if part else 0
        first, last = first + shift, last + shift if last + shift < size else last
        body = memoryview(data)[first:last + 1]
        if fault.get("compress"):
            body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
        extra = fault.get("total", 0) if not part else 0
        headers["Content-Length"] = str(len(body) + extra)
        if part:
            headers["Content-Range"] = f"bytes {first}-{last}/{claimed}"
        if fault.get("chunked"):
            headers |= {"Content-Length": None, "Transfer-Encoding": "chunked"}
        self.send_response(206 if part else 200)
        self.send_headers(headers)
        if self.command != "HEAD":
            self.send_body(body, fault, budget)
            self.close_connection |= extra > 0
        self.wfile.flush()

    def send_body(self, body, fault, budget):
        cut = min(fault.get("stall_at", fault.get("cut", len(body))), len(body))
        for at in range(0, cut, BLOCK):
            block = body[at:min(at + BLOCK, cut)]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block) if fault.get("chunked") else block)
            if budget is not None:
                budget["bytes"] += len(block)
        if cut < len(body):
            self.wfile.flush()
            time.sleep(fault.get("stall", 0))
            self.close_connection = True
        elif fault.get("chunked"):
            self.wfile.write(b"0\r\n\r\n")

    def do_HEAD(self):
        self.do_GET()


class HubHandler(Handler):
    host = "hub"

    def do_HEAD(self):
        if "head" in self.hub.lacks:
            return self.answer(405)
        return self.do_GET()

    def do_GET(self):
        path, _, self.query = self.path.partition("?")
        try:
            if not path.startswith(self.hub.prefix + "/"):
                raise Refusal(404, None, "Not Found")
            self.route(path.removeprefix(self.hub.prefix).removeprefix("/"))
        except Answered:
            pass
        except Refusal as refusal:
            headers = {"X-Error-Message": refusal.message}
            if refusal.code:
                headers["X-Error-Code"] = refusal.code
            self.answer(refusal.status, json.dumps({"error": refusal.message}).encode(), headers, "application/json")

    def route(self, path):
        if path.startswith("api/resolve-cache/models/"):
            repository, rest = self.split_name(path.removeprefix("api/resolve-cache/models/"))
            commit, _, name = rest.partition("/")
            return self.small(repository, commit, urllib.parse.unquote(name))
        if path.startswith("api/models/"):
            fault = self.hub.take_fault("api", self.path)
            return self.misbehave(fault) or self.api(*self.split_name(path.removeprefix("api/models/"), path))
        repository, rest = self.split_name(path, path)
        word, _, rest = rest.partition("/")
        if word != "resolve":
            raise Refusal(404, None, "Not Found")
        fault = self.hub.take_fault("resolve", self.path)
        revision, _, name = rest.partition("/")
        return self.misbehave(fault) or self.resolve(repository, urllib.parse.unquote(revision), urllib.parse.unquote(name))

    def split_name(self, path, whole=None):
        """The repository that `path` begins with, and the rest."""
        for old, new in self.hub.renamed.items():
            if whole is not None and (path == old or path.startswith(f"{old}/")):
                location = f"{self.hub.prefix}/{whole.removesuffix(path)}{new}{path.removeprefix(old)}"
                self.answer(307, REDIRECT_TEXT, {"Location": location + (f"?{self.query}" if self.query else "")})
                raise Answered
        parts = path.split("/")
        for n in (2, 1):
            name = "/".join(parts[:n])
            if len(parts) >= n and name in self.hub.repositories:
                return self.allowed(self.hub.repositories[name]), "/".join(parts[n:])
        self.check_token()
        raise Refusal(404 if self.token() else 401, "RepoNotFound", "Repository not found")

    def token(self):
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def check_token(self):
        if self.token() and self.token() not in self.hub.tokens:
            raise Refusal(401, None, "Invalid credentials in Authorization header")

    def allowed(self, repository):
        self.check_token()
        if repository.private and self.token() not in repository.readers:
            raise Refusal(404 if self.token() else 401, "RepoNotFound", "Repository not found")
        return repository

    def commit_of(self, repository, revision):
        commit = repository.find(revision)
        if commit is None:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def api(self, repository, rest):
        word, _, rest = rest.partition("/")
        revision, _, folder = rest.partition("/")
        revision, options = urllib.parse.unquote(revision), dict(urllib.parse.parse_qsl(self.query))
        if word in ("", "revision"):
            return self.info(repository, self.commit_of(repository, revision or "main"), options)
        if word == "tree" and "tree" not in self.hub.lacks:
            return self.tree(repository, self.commit_of(repository, revision), urllib.parse.unquote(folder), options)
        if word == "refs":
            return self.json({"branches": [{"name": name, "ref": f"refs/heads/{name}", "targetCommit": commit}
                                           for name, commit in repository.refs.items()], "tags": [], "converts": []})
        raise Refusal(404, None, "Not Found")

    def json(self, document, headers=None):
        limits = {"RateLimit": '"api";r=499;t=172', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}
        self.answer(200, json.dumps(document).encode(), {**limits, **(headers or {})}, "application/json; charset=utf-8")

    def info(self, repository, commit, options):
        files = repository.commits[commit].values()
        self.json({"_id": "0" * 24, "id": repository.name, "modelId": repository.name, "sha": commit,
                   "author": repository.name.split("/")[0], "private": repository.private, "gated": repository.gated,
                   "disabled": False, "lastModified": "2026-01-02T03:04:05.000Z", "createdAt": "2026-01-02T03:04:05.000Z",
                   "tags": [], "downloads": 0, "likes": 0, "cardData": {},
                   "siblings": [self.known(file.sibling(options.get("blobs") == "true")) for file in files],
                   **repository.info})

    def known(self, item):
        """What the hub says of a file."""
        return {key: value for key, value in item.items() if "hashes" not in self.hub.lacks or key not in ("oid", "blobId")}

    def tree(self, repository, commit, folder, options):
        below = f"{folder}/" if folder else ""
        items = {}
        for path, file in repository.commits[commit].items():
            if not path.startswith(below):
                continue
            parents = path.removeprefix(below).split("/")[:-1]
            deep = options.get("recursive") in ("true", "True", "1")
            for n in range(1, len(parents) + 1 if deep else min(len(parents), 1) + 1):
                parent = below + "/".join(parents[:n])
                oid = hashlib.sha1(parent.encode()).hexdigest()
                items[parent] = {"type": "directory", "oid": oid, "size": 0, "path": parent}
            if deep or not parents:
                items[path] = self.known(file.tree_item())
        start, items = int(options.get("cursor", 0)), list(items.values())
        headers = {}
        if start + self.hub.page < len(items):
            query = urllib.parse.urlencode({**options, "cursor": start + self.hub.page})
            base = self.hub.link_host or self.hub.endpoint
            path = self.path.partition("?")[0].removeprefix(self.hub.prefix)
            headers["Link"] = f'<{base}{path}?{query}>; rel="next"'
        self.json(items[start:start + self.hub.page], headers)

    def file_of(self, repository, commit, name):
        if repository.gated and self.token() not in repository.readers:
            raise Refusal(403 if self.token() else 401, "GatedRepo", f"Access to model {repository.name} is restricted.")
        if name not in repository.commits[commit]:
            raise Refusal(404, "EntryNotFound", "Entry not found")
        return repository.commits[commit][name]

    def resolve(self, repository, revision, name):
        commit = self.commit_of(repository, revision)
        file = self.file_of(repository, commit, name)
        common = {"X-Repo-Commit": self.told(commit), "RateLimit": '"resolvers";r=2998;t=172'}
        quoted = urllib.parse.quote(name)
        if not file.is_large:
            etag = urllib.parse.quote(f'"{file.oid}"')
            location = f"{self.hub.prefix}/api/resolve-cache/models/{repository.name}/{commit}/{quoted}?etag={etag}"
            return self.answer(307, REDIRECT_TEXT, {**common, "Location": location, "ETag": f'"{file.oid}"'})
        base = f"{self.hub.endpoint}/api/models/{repository.name}/xet-read-token/{commit}"
        self.answer(302, REDIRECT_TEXT, {
            **common, "Location": self.hub.sign(file), "X-Linked-Size": str(len(file.data)), "Accept-Ranges": "bytes",
            "X-Linked-ETag": f'"{file.sha256}"', "X-Xet-Hash": file.xet_hash, "Link": f'<{base}>; rel="xet-auth"'})

    def told(self, commit):
        return None if "commit" in self.hub.lacks else commit

    def small(self, repository, commit, name):
        file = self.file_of(repository, self.commit_of(repository, commit), name)
        fault = self.hub.take_fault("small", self.path)
        if self.misbehave(fault):
            return
        headers = {"ETag": f'"{file.oid}"', "X-Repo-Commit": self.told(commit), "Content-Type": "text/plain; charset=utf-8"}
        if "lengths" in self.hub.lacks:
            fault = {**fault, "chunked": True}
        if "gzip" in self.headers.get("Accept-Encoding", "") and "Range" not in self.headers:
            fault = {**fault, "compress": True}
        self.send_file(file.data, fault, headers)


class CdnHandler(Handler):
    host = "cdn"

    def do_GET(self):
        query = dict(urllib.parse.parse_qsl(self.path.partition("?")[2]))
        address = self.hub.signatures.get(query.get("X-Amz-Signature"))
        if address is None or "Authorization" in self.headers:
            return self.answer(403, b"<Error><Code>AccessDenied</Code></Error>", kind="application/xml")
        spent = self.hub.cdn_life_bytes is not None and address["bytes"] >= self.hub.cdn_life_bytes
        if spent or time.monotonic() > address["until"]:
            return self.answer(403, b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>",
                               kind="application/xml")
        fault = self.hub.take_fault("large", address["file"].path)
        if not self.misbehave(fault):
            self.send_file(address["file"].data, fault, {"ETag": '"not-the-hubs"'}, address)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--page", type=int, default=1000)
    options = parser.parse_args()
    hub = Hub(options.page, port=options.port)
    for model in options.model:
        hub.add(*model.split("=", 1))
    print(hub.endpoint, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    main()
