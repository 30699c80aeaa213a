"""Makes safetensors files of any size whose bytes behave like those of real models.

  make_weights.py --model DIR --dtype bf16|f32 --size SIZE --out FILE   a model made of DIR's real weights, over and over
  make_weights.py --decoder --model DIR ...                             the same bytes in tensors as large as a 7B decoder's
  make_weights.py --vary FRACTION --base FILE --out FILE                another fine-tune of the model in FILE
  make_weights.py --random SIZE --out FILE                              bytes that do not compress

Every copy of a real tensor is scaled by a factor of its own near 1 and carries a small relative noise, so no two copies
share bytes while signs, exponents and mantissas keep the statistics of trained weights. The same arguments give the same
file. Memory stays near 100 MiB whatever the size: pieces are made by a few threads and written in place.
"""

import argparse
import concurrent.futures
import itertools
import json
import math
import os
import random
import struct
import sys
from typing import NamedTuple

import numpy as np

PIECE_ELEMENTS = 1 << 20
THREADS = min(4, os.cpu_count() or 1)
FACTOR = (0.9, 1.1)  # of a whole tensor
NOISE = 1e-3  # of each element, relative, uniform
ELEMENT_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
DECODER_ENDS = [32000, 4096]  # the shapes of Llama 2 7B
DECODER_LAYER = {"self_attn.q_proj": [4096, 4096], "self_attn.k_proj": [4096, 4096], "self_attn.v_proj": [4096, 4096],
                 "self_attn.o_proj": [4096, 4096], "mlp.gate_proj": [11008, 4096], "mlp.up_proj": [11008, 4096],
                 "mlp.down_proj": [4096, 11008], "input_layernorm": [4096], "post_attention_layernorm": [4096]}
UNITS = {"K": 10**3, "M": 10**6, "G": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Tensor(NamedTuple):
    """A tensor within a safetensors file; the offset is the file's own, not the data section's."""

    path: str
    name: str
    dtype: str
    shape: list
    offset: int
    size_bytes: int

    @property
    def n_elements(self):
        return self.size_bytes // ELEMENT_BYTES[self.dtype]


def size_argument(text):
    for unit in sorted(UNITS, key=len, reverse=True):
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * UNITS[unit])
    return int(text)


def read_tensors(path):
    """The tensors of a safetensors file in the order of their bytes, and where its data begins."""
    with open(path, "rb") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_bytes))
    header.pop("__metadata__", None)
    start = 8 + header_bytes
    tensors = [
        Tensor(path, name, entry["dtype"], entry["shape"], start + entry["data_offsets"][0],
               entry["data_offsets"][1] - entry["data_offsets"][0])
        for name, entry in header.items()
    ]
    return sorted(tensors, key=lambda tensor: tensor.offset), start


def read_model(folder):
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".safetensors"))
    tensors = [tensor for path in paths for tensor in read_tensors(path)[0] if tensor.dtype in ELEMENT_BYTES]
    if not tensors:
        sys.exit(f"make_weights.py: no safetensors file with float tensors in {folder}")
    return tensors


def to_float32(raw, dtype):
    if dtype == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    numpy_dtype = {"F64": np.float64, "F32": np.float32, "F16": np.float16}[dtype]
    return raw.view(numpy_dtype).astype(np.float32)


def from_float32(values, dtype):
    if dtype == "BF16":  # round to nearest, ties to even
        bits = values.view(np.uint32)
        bits += 0x7FFF + ((bits >> 16) & 1)
        return (bits >> 16).astype(np.uint16)
    return values.astype({"F64": np.float64, "F32": np.float32, "F16": np.float16}[dtype], copy=False)


def write_perturbed(out, out_offset, tensor, dtype, first, seed, key):
    """Writes one piece of a perturbed tensor: elements from `first`, to their place in the file of descriptor `out`."""
    n_elements = min(PIECE_ELEMENTS, tensor.n_elements - first)
    width = ELEMENT_BYTES[tensor.dtype]
    raw = np.fromfile(tensor.path, np.uint8, n_elements * width, offset=tensor.offset + first * width)
    values = to_float32(raw, tensor.dtype)
    factor = np.random.default_rng([seed, key]).uniform(*FACTOR)
    noise = np.random.default_rng([seed, key, first]).random(n_elements, np.float32)
    noise *= 2 * NOISE * factor
    noise += (1 - NOISE) * factor
    values *= noise
    write_all(out, memoryview(from_float32(values, dtype)).cast("B"), out_offset + first * ELEMENT_BYTES[dtype])


def write_all(out, data, offset):
    while data:
        written = os.pwrite(out, data, offset)
        data, offset = data[written:], offset + written


def run_all(tasks):
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(*task) for task in tasks]:
            done.result()


def pieces(out, out_offset, tensor, dtype, seed, key):
    for first in range(0, tensor.n_elements, PIECE_ELEMENTS):
        yield write_perturbed, out, out_offset, tensor, dtype, first, seed, key


def choose_copies(tensors, dtype, size_bytes):
    """Which tensors fill `size_bytes` best: whole copies of the model, then what still fits. Yields (layer, tensor)."""
    width = ELEMENT_BYTES[dtype]
    left = size_bytes
    layer = 0
    while True:
        fitted = False
        for tensor in tensors:
            if 0 < tensor.n_elements * width <= left:
                left -= tensor.n_elements * width
                fitted = True
                yield layer, tensor
        if not fitted or left < size_bytes // 256:
            return
        layer += 1


def decoder_tensors():
    """Names and shapes without end: the last that are used may be cut short."""
    yield "model.embed_tokens.weight", DECODER_ENDS
    for layer in itertools.count():
        for name, shape in DECODER_LAYER.items():
            yield f"model.layers.{layer}.{name}.weight", shape


def shaped_as_decoder(n_elements):
    for name, shape in decoder_tensors():
        wanted = math.prod(shape)
        yield (name, shape) if wanted <= n_elements else (name, [n_elements])
        n_elements -= wanted
        if n_elements <= 0:
            return


def make_header(named_shapes, dtype):
    header = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in named_shapes:
        end = offset + math.prod(shape) * ELEMENT_BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, offset


def make_model(out, folder, dtype, size_bytes, seed, as_decoder=False):
    copies = list(choose_copies(read_model(folder), dtype, size_bytes))
    if as_decoder:
        named_shapes = shaped_as_decoder(sum(tensor.n_elements for _, tensor in copies))
    else:
        named_shapes = [(f"layer.{layer}.{tensor.name}", tensor.shape) for layer, tensor in copies]
    header, data_bytes = make_header(named_shapes, dtype)
    write_all(out, memoryview(header), 0)
    os.truncate(out, len(header) + data_bytes)
    tasks = []
    offset = len(header)
    for key, (_, tensor) in enumerate(copies):
        tasks += pieces(out, offset, tensor, dtype, seed, key)
        offset += tensor.n_elements * ELEMENT_BYTES[dtype]
    run_all(tasks)


def choose_varied(tensors, fraction, seed):
    """Whole tensors, drawn by `seed`, of about `fraction` of all bytes."""
    goal = fraction * sum(tensor.size_bytes for tensor in tensors)
    left = goal
    drawn = [tensor for tensor in tensors if tensor.dtype in ELEMENT_BYTES]
    random.Random(seed).shuffle(drawn)
    chosen = set()
    for tensor in drawn:
        if abs(left - tensor.size_bytes) < left:
            chosen.add(tensor.name)
            left -= tensor.size_bytes
        if left < goal / 100:
            break
    return chosen


def copy_range(out, path, offset, end):
    with open(path, "rb", buffering=0) as file:
        while offset < end:
            data = os.pread(file.fileno(), min(8 << 20, end - offset), offset)
            if not data:
                raise EOFError(f"{path} ends at {offset}, not at {end}")
            write_all(out, memoryview(data), offset)
            offset += len(data)


def make_variant(out, base, fraction, seed):
    tensors, data_start = read_tensors(base)
    varied = choose_varied(tensors, fraction, seed)
    os.truncate(out, os.path.getsize(base))
    tasks = [(copy_range, out, base, 0, data_start)]
    for key, tensor in enumerate(tensors):
        if tensor.name in varied:
            tasks += pieces(out, tensor.offset, tensor, tensor.dtype, seed, key)
        else:
            tasks.append((copy_range, out, base, tensor.offset, tensor.offset + tensor.size_bytes))
    run_all(tasks)


def write_random(out, offset, n_bytes, seed):
    write_all(out, memoryview(np.random.default_rng([seed, offset]).bytes(n_bytes)), offset)


def make_random(out, size_bytes, seed):
    step = 8 << 20
    run_all([(write_random, out, offset, min(step, size_bytes - offset), seed) for offset in range(0, size_bytes, step)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--model", metavar="DIR", help="folder with real weights (safetensors)")
    kind.add_argument("--vary", metavar="FRACTION", type=float, help="perturb about this part (0..1) of --base's bytes")
    kind.add_argument("--random", metavar="SIZE", type=size_argument)
    parser.add_argument("--decoder", action="store_true", help="with --model: large tensors instead of the model's own")
    parser.add_argument("--base", metavar="FILE")
    parser.add_argument("--dtype", choices=["bf16", "f32", "f16"], default="bf16")
    parser.add_argument("--size", type=size_argument, help="bytes, or with K, M, G, KiB, MiB, GiB")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", metavar="FILE", required=True)
    args = parser.parse_args()
    if args.model and args.size is None:
        parser.error("--model needs --size")
    if args.vary is not None and (args.base is None or not 0 <= args.vary <= 1):
        parser.error("--vary needs a part from 0 to 1, and --base")

    # Visible under its name only when whole.
    temp = f"{args.out}.part"
    out = os.open(temp, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        if args.model:
            make_model(out, args.model, args.dtype.upper(), args.size, args.seed, args.decoder)
        elif args.vary is not None:
            make_variant(out, args.base, args.vary, args.seed)
        else:
            make_random(out, args.random, args.seed)
        os.rename(temp, args.out)
    except BaseException:
        os.unlink(temp)
        raise
    finally:
        os.close(out)


if __name__ == "__main__":
    main()
