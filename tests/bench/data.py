"""The bytes that the benchmarks move: made once in a folder, from a small real model and a seed."""

import json
import pathlib
import struct

import numpy

from harness import tools

GIB = 1 << 30
MIB = 1 << 20


class Data:
    def __init__(self, folder, quick):
        self.folder, self.quick = pathlib.Path(folder) / ("quick" if quick else "full"), quick
        self.folder.mkdir(parents=True, exist_ok=True)

    def _model(self, name, make):
        """A folder with weights and a configuration; the weights are made by `make`."""
        folder = self.folder / name
        weights = self._file(f"{name}.safetensors", make)
        if not folder.exists():
            tools.make_model_folder(weights, folder)
        return folder

    def _file(self, name, make):
        path = self.folder / name
        if not path.exists():
            make(path)
        with path.open("rb", buffering=0) as file:  # into the page cache, for both sides alike
            while file.read(8 * MIB):
                pass
        return path

    @property
    def model_size(self):
        return 256 * MIB if self.quick else 2 * GIB

    @property
    def upload_size(self):
        """Of each of the uploads at once."""
        return 64 * MIB if self.quick else GIB

    def bf16(self):
        """Folder of a model in bf16 with the statistics of real weights."""
        return self._model("bf16", lambda out: tools.make_model_of("bf16", self.model_size, out))

    def fine_tune(self):
        """The same with a tenth of its bytes, whole tensors, changed."""
        base = self.bf16() / "model.safetensors"
        return self._model("fine-tune", lambda out: tools.make_fine_tune(base, 0.1, out))

    def decoder(self):
        """The numbers of bf16() in tensors as large as those of a 7B decoder: what most bytes of a hub are in."""
        return self._model("decoder", lambda out: tools.make_model_of("bf16", self.model_size, out, as_decoder=True))

    def decoder_fine_tune(self):
        base = self.decoder() / "model.safetensors"
        return self._model("decoder-fine-tune", lambda out: tools.make_fine_tune(base, 0.1, out))

    @property
    def synthetic_sizes(self):
        """(large, small), ten times apart."""
        return (1280 * MIB, 128 * MIB) if self.quick else (20 * GIB, 2 * GIB)

    def synthetic(self, size):
        """Folder of a model of any size that takes no place: zeros, with a number in each MiB so that no two parts are the same."""
        weights, folder = self.folder / f"synthetic-{size}.safetensors", self.folder / f"synthetic-{size}"
        if not weights.exists():
            make_synthetic(size, weights)
        if not folder.exists():
            tools.make_model_folder(weights, folder)
        return folder

    def random(self):
        return self._file("random.bin", lambda out: tools.make_random(128 * MIB if self.quick else GIB, out))

    def real_f32(self):
        return tools.real_model() / "model.safetensors"

    def real_bf16(self):
        """The real model, each number rounded to bf16."""
        return self._file("real-bf16.safetensors", lambda out: round_to_bf16(self.real_f32(), out))


def make_synthetic(size, out, tensor=64 * MIB):
    header = {f"layer.{offset // tensor}.weight": {"dtype": "BF16", "shape": [tensor // 2], "data_offsets": [offset, offset + tensor]}
              for offset in range(0, size, tensor)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = out.with_suffix(".part")
    with part.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        begin = file.tell()
        file.truncate(begin + size)
        for offset in range(0, size, MIB):
            file.seek(begin + offset)
            file.write(struct.pack("<Q", offset))
    part.rename(out)


def round_to_bf16(path, out):
    raw = path.read_bytes()
    (header_size,) = struct.unpack_from("<Q", raw)
    header, start = json.loads(raw[8:8 + header_size]), 8 + header_size
    parts, offset = [], 0
    for name, entry in sorted(((k, v) for k, v in header.items() if k != "__metadata__"),
                              key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        data = raw[start + begin:start + end]
        if entry["dtype"] == "F32":
            bits = numpy.frombuffer(data, numpy.uint32).astype(numpy.uint64)
            data = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16).tobytes()
            entry["dtype"] = "BF16"
        entry["data_offsets"] = [offset, offset + len(data)]
        offset += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    out.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
