"""What the end-to-end tests share: a command bound to a store of its own, and small models made on the spot."""

import contextlib
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from harness import tools  # noqa: E402
from harness.materializer import tree  # noqa: E402, F401


# What no output may hold: the tokens of the local hub, and what signs an address.
SECRETS = ("hf_good", "hf_bad", "hf_other", "Signature=", "x-secret")


def assert_no_secrets(text):
    for secret in SECRETS:
        assert secret not in text, f"{secret} is shown: {text}"


class Result:
    def __init__(self, done):
        self.status, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.stdout)


class Command:
    """`ai-models` with a home and a store of its own."""

    def __init__(self, home, store=None):
        self.home, self.store = pathlib.Path(home), pathlib.Path(store or pathlib.Path(home) / "store")
        self.home.mkdir(parents=True, exist_ok=True)
        self.program = str(os.environ.get("AI_MODELS_BIN") or tools.program())

    def environment(self, **extra):
        kept = {key: os.environ[key] for key in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LANG") if key in os.environ}
        return {**kept, "HOME": str(self.home), "AI_MODELS_STORE": str(self.store), **extra}

    def popen(self, *arguments, env=None, **options):
        return subprocess.Popen([self.program, *map(str, arguments)], env=self.environment(**(env or {})), **options)

    def __call__(self, *arguments, status=0, env=None, **options):
        done = subprocess.run([self.program, *map(str, arguments)], env=self.environment(**(env or {})),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, **options)
        assert_no_secrets(done.stderr + done.stdout)
        assert status is None or done.returncode == status, f"status {done.returncode}: {done.stderr}{done.stdout}"
        return Result(done)


def safetensors_bytes(tensors):
    """`tensors`: name -> (dtype, shape, bytes), in file order."""
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


def random_tensors(seed, n=4, size=3 << 20):
    generator = random.Random(seed)
    return {f"layer.{i}.weight": ("F16", [size // 2], generator.randbytes(size)) for i in range(n)}


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "max_position_embeddings": 4096,
          "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000,
          "intermediate_size": 128}


def write_model(folder, tensors=None, config=None):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config or CONFIG))
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 4096}')
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors or random_tensors(1)))
    (folder / "README.md").write_text("# A model\n")
    return folder


def gguf_bytes(tensor_bytes=1 << 12, fields=None, tensor="blk.0.attn_q.weight", seed=7):
    """`fields`: key -> text, or number (32 bits); those of a small model unless given."""
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    if fields is None:
        fields = {"general.architecture": "llama", "general.name": "Tiny", "llama.context_length": 2048}
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(fields))
    for key, value in fields.items():
        head += text(key) + (struct.pack("<I", 8) + text(value) if isinstance(value, str) else struct.pack("<II", 4, value))
    head += text(tensor) + struct.pack("<IQIQ", 1, tensor_bytes // 4, 0, 0)
    head += b"\0" * (-len(head) % 32)
    return head + random.Random(seed).randbytes(tensor_bytes)


def stored_bytes(folder):
    """What a registry's folder holds at this moment."""
    sizes = 0
    for path in pathlib.Path(folder).rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            sizes += path.stat().st_size if path.is_file() else 0
    return sizes


def wait_for_chunks(store, process, count=2, timeout=60):
    """Until the store in a folder has so many chunks, of which an interrupted push can make use."""
    end = time.monotonic() + timeout
    while sum(path.is_file() for path in (pathlib.Path(store) / "_ai_models" / "chunks").rglob("*")) < count:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def ai(tmp_path):
    return Command(tmp_path / "home")


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "model")


@pytest.fixture(scope="session")
def real_model():
    return tools.real_model()
