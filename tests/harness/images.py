"""Images for the test cluster's node, made of this machine's own files: there is no registry to pull others from."""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
READER = "localhost/reader:test"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
# Which modules a Python loads for reader.py, and where they are.
LOADED = """
import sys
sys.path.insert(0, {folder!r})
import encodings.ascii, encodings.latin_1, encodings.utf_8, reader
print("\\n".join(module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)))
"""


def write_archive(out, name, files, **config):
    """A one-layer docker-archive. `files`: where in the image -> path here. `config`: Entrypoint and so on."""
    with tempfile.TemporaryDirectory() as work:
        layer = pathlib.Path(work) / "layer.tar"
        with tarfile.open(layer, "w") as tar:
            for target, source in sorted(files.items()):
                tar.add(source, target.lstrip("/"), filter=plain)
        config = {"architecture": MACHINES[sysconfig.get_platform().partition("-")[2]], "os": "linux", "config": config,
                  "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer.read_bytes()).hexdigest()]}}
        manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
        for path, content in (("config.json", config), ("manifest.json", manifest)):
            (pathlib.Path(work) / path).write_text(json.dumps(content))
        with tarfile.open(out, "w") as image:
            for path in ("manifest.json", "config.json", "layer.tar"):
                image.add(pathlib.Path(work) / path, path)


def plain(entry):
    """Anybody may read it."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.mode & 0o111 else 0o644
    return entry


def libraries(program):
    """That a program or library loads."""
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return {path: pathlib.Path(path).resolve() for path in re.findall(r"(/\S+) \(0x", told)}


def make_reader(out):
    """Python, as far as reader.py needs it, and reader.py."""
    python, standard = pathlib.Path(sys.executable).resolve(), pathlib.Path(sysconfig.get_path("stdlib"))
    told = subprocess.run([python, "-I", "-S", "-B", "-c", LOADED.format(folder=str(HERE))], capture_output=True, text=True, check=True)
    modules = [pathlib.Path(path) for path in told.stdout.split()]
    place = f"/usr/lib/python{sys.version_info.major}.{sys.version_info.minor}"
    files = {"/usr/bin/python3": python, "/reader.py": HERE / "reader.py", **libraries(python)}
    for module in (one for one in modules if one.is_relative_to(standard)):
        files[f"{place}/{module.relative_to(standard)}"] = module
        if module.suffix == ".so":
            files |= libraries(module)
    write_archive(out, READER, files, Entrypoint=["/usr/bin/python3", "-s", "-S", "-B", "-u", "/reader.py"], User="65534:65534", Env=["PYTHONHOME=/usr"])
