#!/usr/bin/env python3
"""What a cluster finds outside: a bucket, a Hugging Face hub and Ollama's registry, on an address that Pods reach. Bucket and registry
speak TLS, with a certificate that only its owner vouches for, as a company's do.

As a program: tests/harness/outside.py FOLDER ADDRESS. It writes FOLDER/outside.json once all is there, and ends with SIGTERM.
With --gguf FILE it only writes a small GGUF file, to upload.
"""

import json
import pathlib
import signal
import ssl
import sys
import threading

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import buckets, servers, tools  # noqa: E402
from servers import families, hf_hub, ollama  # noqa: E402

BUCKET = "ai-models"
HUB_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
OLLAMA_MODEL = "library/tiny:q8_0"


class Outside:
    """Use as a context. `weed`, `bucket`, `hub`, `ollama` are the servers themselves."""

    def __init__(self, folder, address):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate = servers.make_certificate(folder, address)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.certificate)
        self.weed = buckets.SeaweedFS(folder / "weed", address=address, tls=self.certificate)
        self.hub, self.ollama = hf_hub.Hub(address=address), ollama.Registry(address=address, tls=context)
        self.bucket = None

    def start(self):
        self.hub.add(HUB_MODEL, tools.real_model())
        self.ollama.add(OLLAMA_MODEL, [("model", gguf()), ("license", b"Apache License 2.0")])
        self.weed.start()
        self.bucket = self.weed.bucket(BUCKET)
        return self

    def stop(self):
        self.weed.stop()
        self.hub.stop()
        self.ollama.stop()

    def told(self):
        """What an installation must know of it."""
        return {"s3": self.weed.tls_url, "ca": self.certificate[0].read_text(), "bucket": BUCKET, "accessKey": self.weed.key, "secretKey": self.weed.secret,
                "hub": self.hub.endpoint, "ollama": self.ollama.endpoint}

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()


def gguf():
    """The bytes of a small GGUF file."""
    return families.gguf_file("Q8_0", "Q8_0")


def main():
    if sys.argv[1] == "--gguf":
        pathlib.Path(sys.argv[2]).write_bytes(gguf())
        return
    folder, address = pathlib.Path(sys.argv[1]), sys.argv[2]
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with Outside(folder, address) as outside:
        (folder / "outside.part").write_text(json.dumps(outside.told()))
        (folder / "outside.part").rename(folder / "outside.json")
        ended.wait()


if __name__ == "__main__":
    main()
