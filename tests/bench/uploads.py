"""Many uploads at once, spoken by hand: POST, then one PUT with the whole blob, as ORAS does it."""

import concurrent.futures
import functools
import hashlib
import json
import struct

from harness import clients

BLOCK = 8 << 20
TENSOR = 64 << 20


class Model:
    """A safetensors file that exists only while it is sent: real bf16 bytes, another window of them for each block."""

    def __init__(self, weights, number, size_bytes):
        header = {"__metadata__": {"format": "pt", "number": str(number)}}
        for offset in range(0, size_bytes, TENSOR):
            end = min(offset + TENSOR, size_bytes)
            header[f"layer.{offset // TENSOR}.weight"] = {"dtype": "BF16", "shape": [(end - offset) // 2],
                                                          "data_offsets": [offset, end]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.header = struct.pack("<Q", len(text)) + text
        self.weights, self.number, self.data_bytes = weights, number, size_bytes
        self.size_bytes = len(self.header) + size_bytes

    def blocks(self):
        yield self.header
        for index, offset in enumerate(range(0, self.data_bytes, BLOCK)):
            window = 2 * ((self.number * 104729 + index * 7919) % ((len(self.weights) - BLOCK) // 2))
            yield self.weights[window:window + min(BLOCK, self.data_bytes - offset)]


@functools.cache
def _digest(weights_id, number, size_bytes):
    sum256 = hashlib.sha256()
    for block in Model(_weights[weights_id], number, size_bytes).blocks():
        sum256.update(block)
    return f"sha256:{sum256.hexdigest()}"


_weights = {}


def _upload(server, weights_id, number, size_bytes):
    model = Model(_weights[weights_id], number, size_bytes)
    digest = _digest(weights_id, number, size_bytes)
    connection = server.connect(timeout=600)
    try:
        connection.request("POST", f"/v2/uploads/{number}/blobs/uploads/")
        response = connection.getresponse()
        response.read()
        assert response.status == 202, response.status
        location = clients.path_of(response.headers["Location"])
        connection.putrequest("PUT", f"{location}{'&' if '?' in location else '?'}digest={digest}")
        connection.putheader("Content-Type", "application/octet-stream")
        connection.putheader("Content-Length", str(model.size_bytes))
        connection.endheaders()
        for block in model.blocks():
            connection.send(block)
        response = connection.getresponse()
        body = response.read()
        assert response.status == 201, (response.status, body)
    finally:
        connection.close()
    return model.size_bytes


def prepare(weights, n_uploads, size_bytes):
    """Loads the bytes and computes the digests, so that only sending is left."""
    weights_id = str(weights)
    if weights_id not in _weights:
        with open(weights, "rb") as file:
            file.seek(1 << 20)
            _weights[weights_id] = memoryview(file.read(64 << 20))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: _digest(weights_id, number, size_bytes), range(n_uploads)))
    return weights_id


def upload_at_once(server, weights_id, n_uploads, size_bytes):
    with concurrent.futures.ThreadPoolExecutor(n_uploads) as pool:
        return sum(pool.map(lambda number: _upload(server, weights_id, number, size_bytes), range(n_uploads)))
