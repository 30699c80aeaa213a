"""Where the programs and data of the tests are; made or built on first use (tests/tools)."""

import functools
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tests" / "tools"


@functools.cache
def _printed_by(name, *arguments):
    return pathlib.Path(subprocess.run([TOOLS / name, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


def program():
    """The built ai-models: $AI_MODELS, or where `make` puts it."""
    path = pathlib.Path(os.environ.get("AI_MODELS", ROOT / "build" / "src" / "main" / "ai-models"))
    if not os.access(path, os.X_OK):
        sys.exit(f"no program at {path}: run make, or set AI_MODELS")
    return path


def oras():
    return _printed_by("build") / "oras"


def distribution():
    return _printed_by("build") / "registry"


def kubernetes(name):
    """A program of Kubernetes."""
    return _printed_by("kubernetes/build", name)


def of_cluster(name):
    """helm or coredns."""
    return _printed_by("cluster/build", name)


def controller_peer():
    """The program that the controller is measured against."""
    return _printed_by("../bench/peer/build")


def real_model():
    """Folder of a small real model."""
    return _printed_by("real-model")


def need(name):
    """An installed program."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        sys.exit(f"{name} is missing: run tools/install-deps --test")
    return path


def make_weights(*arguments):
    subprocess.run([sys.executable, TOOLS / "make_weights.py", *map(str, arguments)], check=True)


def make_model_of(dtype, size, out, seed=0, as_decoder=False):
    """A safetensors file of about `size` whose bytes are like a real model's. `as_decoder`: in tensors of a 7B decoder's shapes,
    else of the small real model's."""
    options = ["--decoder"] if as_decoder else []
    make_weights("--model", real_model(), *options, "--dtype", dtype, "--size", size, "--seed", seed, "--out", out)
    return out


def make_model_folder(weights, folder):
    """A folder as a model has it: these weights, and the real model's configuration."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    os.link(weights, folder / "model.safetensors")
    shutil.copy(real_model() / "config.json", folder)
    return folder


def make_fine_tune(base, fraction, out, seed=1):
    make_weights("--vary", fraction, "--base", base, "--seed", seed, "--out", out)
    return out


def make_random(size, out, seed=0):
    make_weights("--random", size, "--seed", seed, "--out", out)
    return out
