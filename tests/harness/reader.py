#!/usr/bin/env python3
"""A workload that reads its models, as a Pod runs it (image localhost/reader): it knows of them only what the contract says, the
variables AI_MODELS_MODELS_DIR and AI_MODELS_MODELS.

  reader.py sums      prints a line for each file: its SHA-256, and its path
  reader.py tensors   loads each model.safetensors by its header and tells what is in it
With `wait` as a second word it stays until SIGTERM, as a server does. It needs nothing but Python's own library.
"""

import array
import hashlib
import json
import math
import mmap
import os
import pathlib
import signal
import struct
import sys

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


def models():
    """(name, folder, digest) of each, checked against the other variable and the file system."""
    where = pathlib.Path(os.environ["AI_MODELS_MODELS_DIR"])
    for model in json.loads(os.environ["AI_MODELS_MODELS"]):
        folder = pathlib.Path(model["path"])
        assert folder == where / model["name"] and folder.is_dir(), model
        try:
            (folder / "written-by-a-reader").touch()
        except OSError:
            pass
        else:
            sys.exit(f"{folder} can be written")
        yield model["name"], folder, model["digest"]


def sums():
    for name, folder, digest in models():
        print(f"model {name} {digest} in {folder}")
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            with path.open("rb") as file:
                print(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path}")


def tensors():
    for name, folder, _ in models():
        with (folder / "model.safetensors").open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            size = struct.unpack("<Q", data[:8])[0]
            header, begin = json.loads(data[8:8 + size]), 8 + size
            header.pop("__metadata__", None)
            n_parameters, end = 0, 0
            for tensor in sorted(header.values(), key=lambda tensor: tensor["data_offsets"]):
                first, last = tensor["data_offsets"]
                count = math.prod(tensor["shape"])
                assert first == end and last - first == count * SIZES[tensor["dtype"]], tensor
                n_parameters, end = n_parameters + count, last
            assert begin + end == len(data), "bytes that belong to no tensor"
            longest = max(header, key=lambda one: header[one]["data_offsets"][1] - header[one]["data_offsets"][0])
            print(f"model {name}: {len(header)} tensors, {n_parameters} parameters; {longest} {header[longest]['dtype']} {header[longest]['shape']}"
                  f"{mean(header[longest], data, begin)}")


def mean(tensor, data, begin):
    if tensor["dtype"] != "F32":
        return ""
    first, last = tensor["data_offsets"]
    values = array.array("f", data[begin + first:begin + last])
    assert all(map(math.isfinite, values[:100_000]))
    return f", mean {math.fsum(values) / len(values):.6f}"


def main():
    # A process with number 1 has no default way to end by a signal.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    {"sums": sums, "tensors": tensors}[sys.argv[1]]()
    sys.stdout.flush()
    while sys.argv[2:] == ["wait"]:
        signal.pause()


if __name__ == "__main__":
    main()
