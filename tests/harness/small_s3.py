"""A small S3 store in memory that can be stricter or looser than the real one of buckets.py: what it does not keep is told to it.
It looks at no signature."""

import base64
import bisect
import email.utils
import hashlib
import re
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape

from .local_server import LocalServer

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


class SmallS3(LocalServer):
    """`lacks`: words of "conditions" (headers If-* are ignored), "conditions-header" (501 for them), "checksum" (accepted unseen), "checksum-header" (501 for it),
    "batch" (501 for removals of many), "ranges" (the whole object is sent)."""

    def __init__(self, *lacks):
        self.lacks, self.objects, self.lock, self.requests = set(lacks), {}, threading.Lock(), []
        self.uploads = {}  # id -> key, headers, Unix time, parts
        self.after = None  # called with the method once a request has been carried out, before its answer
        self.completions_to_fail = []  # of the next completions, each as "error" (inside a 200) or "lose" (done, but 500 is said)
        super().__init__()

    # Requests

    def serve(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        url = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        _, bucket, *rest = url.path.split("/", 2)
        key = urllib.parse.unquote(rest[0]) if rest else ""
        with self.lock:
            self.requests.append((handler.command, handler.path))
            status, headers, content = self.answer(handler.command, key, query, handler.headers, body)
        if self.after is not None:
            self.after(handler.command)
        handler.send_response_only(status)
        handler.send_header("Date", email.utils.formatdate(usegmt=True))
        for name, value in headers.items():
            handler.send_header(name, value)
        if "Content-Length" not in headers and status != 204:
            handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(content)

    def answer(self, method, key, query, headers, body):
        if "uploads" in query or "uploadId" in query:
            return self.multipart(method, key, query, headers, body)
        if not key:
            return self.remove_many(body) if method == "POST" else self.list(query)
        if method == "PUT":
            return self.put(key, headers, body)
        if method == "DELETE":
            self.objects.pop(key, None)
            return 204, {}, b""
        return self.get(key, headers, method == "HEAD")

    @staticmethod
    def error(status, code):
        return status, {"Content-Type": "application/xml"}, f"<Error><Code>{code}</Code></Error>".encode()

    def put(self, key, headers, body):
        claimed = headers.get("x-amz-checksum-sha256")
        if claimed and "checksum-header" in self.lacks:
            return self.error(501, "NotImplemented")
        if claimed and "checksum" not in self.lacks and claimed != base64.b64encode(hashlib.sha256(body).digest()).decode():
            return self.error(400, "BadDigest")
        if "conditions-header" in self.lacks and ("If-None-Match" in headers or "If-Match" in headers):
            return self.error(501, "NotImplemented")
        if "conditions" not in self.lacks:
            etag = self.objects[key][1] if key in self.objects else None
            if headers.get("If-None-Match") == "*" and etag or headers.get("If-Match", etag) != etag:
                return self.error(412, "PreconditionFailed")
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        meta = {name: value for name, value in headers.items() if name.lower().startswith("x-amz-meta-")}
        self.objects[key] = body, etag, time.time(), meta
        return 200, {"ETag": etag}, b""

    # Uploads in parts

    def multipart(self, method, key, query, headers, body):
        if "uploads" in query:
            return self.begin_upload(key, headers) if method == "POST" else self.list_uploads(query)
        upload = self.uploads.get(query["uploadId"])
        if upload is None or upload[0] != key:
            return self.error(404, "NoSuchUpload")
        if method == "DELETE":
            del self.uploads[query["uploadId"]]
            return 204, {}, b""
        return self.put_part(upload, query, headers, body) if method == "PUT" else self.complete(query["uploadId"], headers, body)

    def begin_upload(self, key, headers):
        name = f"{len(self.requests)}+/="
        self.uploads[name] = key, dict(headers.items()), time.time(), {}
        return 200, {}, f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>".encode()

    def put_part(self, upload, query, headers, body):
        claimed = headers.get("x-amz-checksum-sha256")
        if claimed and "checksum" not in self.lacks and claimed != base64.b64encode(hashlib.sha256(body).digest()).decode():
            return self.error(400, "BadDigest")
        upload[3][int(query["partNumber"])] = body
        return 200, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}, b""

    def complete(self, name, headers, body):
        how = self.completions_to_fail.pop(0) if self.completions_to_fail else None
        if how == "error":
            return 200, {}, b"<Error><Code>InternalError</Code></Error>"
        key, begun, _, parts = self.uploads[name]
        named = re.findall(r"<PartNumber>(\d+)</PartNumber><ETag>(?:&quot;|\")(\w+)", body.decode())
        if [(int(number), etag) for number, etag in named] != [(n, hashlib.md5(parts[n]).hexdigest()) for n in sorted(parts)]:
            return self.error(400, "InvalidPart")
        if any(len(parts[n]) < 5 << 20 for n in sorted(parts)[:-1]):
            return self.error(400, "EntityTooSmall")
        condition = {"If-None-Match": headers["If-None-Match"]} if "If-None-Match" in headers else {}
        meta = {name: value for name, value in begun.items() if name.lower().startswith("x-amz-meta-")}
        status, answer, content = self.put(key, {**condition, **meta}, b"".join(parts[n] for n in sorted(parts)))
        if status != 200:
            return status, answer, content
        del self.uploads[name]
        return self.error(500, "InternalError") if how == "lose" else \
            (200, {}, b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")

    def list_uploads(self, query):
        items = "".join(f"<Upload><Key>{escape(key)}</Key><UploadId>{name}</UploadId>"
                        f"<Initiated>{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(begun))}</Initiated></Upload>"
                        for name, (key, _, begun, _) in self.uploads.items() if key.startswith(query.get("prefix", "")))
        return 200, {}, f"<ListMultipartUploadsResult>{items}</ListMultipartUploadsResult>".encode()

    # Objects

    def get(self, key, headers, is_head):
        if key not in self.objects:
            return self.error(404, "NoSuchKey")
        body, etag, modified, meta = self.objects[key]
        if headers.get("If-Match", etag) != etag:
            return self.error(412, "PreconditionFailed")
        answer = {"ETag": etag, "Last-Modified": email.utils.formatdate(modified, usegmt=True), **meta}
        if is_head:
            return 200, {**answer, "Content-Length": str(len(body))}, b""
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("Range", ""))
        if not found or "ranges" in self.lacks:
            return 200, answer, body
        first, last = int(found[1]), min(int(found[2]), len(body) - 1)
        if first >= len(body):
            return self.error(416, "InvalidRange")
        return 206, {**answer, "Content-Range": f"bytes {first}-{last}/{len(body)}"}, body[first:last + 1]

    def remove_many(self, body):
        if "batch" in self.lacks:
            return self.error(501, "NotImplemented")
        for key in re.findall(r"<Key>([^<]*)</Key>", body.decode()):
            self.objects.pop(key.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&#39;", "'")
                             .replace("&apos;", "'").replace("&amp;", "&"), None)
        return 200, {}, f'<DeleteResult xmlns="{NAMESPACE}"></DeleteResult>'.encode()

    def list(self, query):
        prefix, delimiter, limit = query.get("prefix", ""), query.get("delimiter"), int(query.get("max-keys", 1000))
        after = query.get("continuation-token") or query.get("start-after", "")
        keys = sorted(self.objects, key=str.encode)
        start = bisect.bisect_right([key.encode() for key in keys], after.encode())
        entries, folders, last, truncated = [], [], "", False
        for key in keys[start:]:
            if not key.startswith(prefix):
                continue
            folder = prefix + key[len(prefix):].partition(delimiter)[0] + delimiter \
                if delimiter and delimiter in key[len(prefix):] else None
            if folder and (folder in folders or after.startswith(folder)):
                last = key
                continue
            if len(entries) + len(folders) >= limit:
                truncated = True
                break
            last = key
            (folders if folder else entries).append(folder or key)
        return 200, {}, self.listing(entries, folders, last if truncated else None)

    def listing(self, entries, folders, token):
        def encode(text):
            return escape(urllib.parse.quote(text, safe="/"))

        def stamp(key):
            return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self.objects[key][2]))

        items = "".join(f"<Contents><Key>{encode(key)}</Key><LastModified>{stamp(key)}</LastModified>"
                        f"<Size>{len(self.objects[key][0])}</Size></Contents>" for key in entries)
        items += "".join(f"<CommonPrefixes><Prefix>{encode(folder)}</Prefix></CommonPrefixes>" for folder in folders)
        more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{escape(token)}</NextContinuationToken>" if token else \
            "<IsTruncated>false</IsTruncated>"
        return f'<?xml version="1.0"?><ListBucketResult xmlns="{NAMESPACE}">{more}{items}</ListBucketResult>'.encode()
