"""Models that the hubs of the tests have, as small as they may be."""

import base64
import io
import random
import subprocess
import tarfile

from harness import tools
from servers import families

REPOSITORY = "owner/name"
WEIGHTS = families.safetensors(families.decoder(), 1)


def files(seed=1, size=0):
    """A Safetensors model; `size`: bytes of weights more, to take its time."""
    tensors = families.decoder()
    if size:
        tensors["model.extra.weight"] = ("BF16", [size // 2])
    return {"config.json": families.config("LlamaForCausalLM", "llama", max_position_embeddings=4096), **families.tokenizer(families.TOOLS),
            "model.safetensors": families.safetensors(tensors, seed), **families.CARD}


def gguf(seed=1, size=1 << 12):
    fields = {"general.architecture": "llama", "general.name": "Tiny", "llama.context_length": 2048, "general.file_type": 1}
    return families.gguf(fields, {"blk.0.attn_q.weight": ("F16", [256, max(size // 512, 1)])}, seed)


def archive(members, mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def url(repository=REPOSITORY, where=""):
    return f"https://huggingface.co/{repository}{where}"


def add_repository(module, **options):
    """A repository that no other test has; its name."""
    name = f"owner/n{random.SystemRandom().randrange(1 << 40):x}"
    module.hub.add(name, options.pop("files", None) or files(random.randrange(1 << 30), options.pop("size", 0)), **options)
    return name


def add_ollama(module, size=1 << 12):
    name = f"n{random.SystemRandom().randrange(1 << 40):x}"
    module.ollama.add(f"library/{name}:latest", [("model", gguf(random.randrange(1 << 30), size)), ("params", b'{"num_ctx": 4096}')])
    return name


def curl(*arguments):
    done = subprocess.run([tools.need("curl"), "--silent", "--show-error", "--max-time", "60", "--write-out", "\n%{http_code}", *map(str, arguments)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def upload(subject, path, name=None):
    """As the documents tell a user to do it."""
    address, token = subject.wait_upload()
    where = address + (f"?filename={name}" if name else "")
    return curl("--upload-file", path, "--header", f"Authorization: Bearer {token}", where)


def secret(api, namespace, value, name="hub", key="token"):
    return api.create({"kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": {key: base64.b64encode(value.encode()).decode()}})


def failed(subject, reason, *words, timeout=60):
    """It is Failed for `reason`, with all of `words` in the message and in an event; nothing runs or is kept for it."""
    status = subject.wait_phase("Failed", timeout)
    told = subject.condition("ArtifactResolved")
    assert told[:2] == ("False", reason), subject.story()
    assert subject.condition("Ready")[:2] == ("False", "Failed")
    for word in words:
        assert word in told[2], told
    assert "artifact" not in status and "progress" not in status and "upload" not in status
    event = subject.wait_event("PublicationFailed")
    assert event[0] == "Warning" and event[2][:200] == told[2][:200]
    subject.wait(lambda: not [thing for thing in subject.objects_of_it() if not thing.endswith(f"ai-model-cleanup-state-{subject.uid}")])
    assert subject.uid not in subject.deployment.ledger()
    return told[2]


def gone(subject):
    subject.delete()
    subject.assert_gone()


def damage(module, subject):
    """Takes its manifest out of the bucket."""
    marker = f"repositories/{subject.repository}/"
    for key in [key for key in list(module.bucket.objects) if marker in key and "_manifests" in key]:
        del module.bucket.objects[key]
