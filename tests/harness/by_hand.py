"""The test cluster for use by hand: tools/cluster."""

import argparse
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import cluster as clusters  # noqa: E402
from harness import images, installation, provisioner, servers, tools  # noqa: E402

HELP = """\
tools/cluster up       starts a Kubernetes of one node on this machine, with a bucket (SeaweedFS), a Hugging Face hub and an Ollama
                       registry beside it, a StorageClass folders of ReadWriteMany volumes, and as images the built program ({image})
                       and a workload that reads its models ({reader}); prints how to reach it
tools/cluster install  installs the chart into it, or upgrades it, with the image made anew of the built program
tools/cluster down     stops it and removes all it left
tools/cluster status   says whether it runs, and where (exit status 1: it does not)

It needs root (a bridge, mounts, containerd). Everything of it lies in one folder: {folder}
"""


def folder():
    state = os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local" / "state"
    return pathlib.Path(state) / "ai-models-cluster"


def outside_of(place):
    return json.loads((place / "outside.json").read_text())


def tell(place):
    outside = outside_of(place)
    print(f"export KUBECONFIG={place / 'admin.kubeconfig'}")
    print(f"export PATH={tools.kubernetes('kubectl').parent}:{tools.of_cluster('helm').parent}:$PATH")
    print(f"# bucket {outside['bucket']} at {outside['s3']}, hub {outside['hub']}, Ollama's registry {outside['ollama']}")
    print(f"# image {installation.IMAGE}; make cluster-down takes it all down")


def is_running(place):
    return (place / "outside.json").exists() and clusters.Cluster.attach(place).is_running()


def refuse(why):
    sys.exit(f"cluster: {why}")


def up(place):
    if is_running(place):
        tell(place)
        return
    if place.exists():
        down(place)  # the remains of one that a reboot or a kill ended
    program = tools.program()
    begin = time.monotonic()
    cluster = clusters.Cluster(place)
    try:
        cluster.make_bridge()
        cluster.spawn("outside", sys.executable, tools.ROOT / "tests" / "harness" / "outside.py", place, clusters.ADDRESS)
        cluster.start()
        cluster.spawn("provisioner", *provisioner.command(cluster, place / "volumes"))
        cluster.apply(provisioner.storage_class(is_default=True))
        installation.import_program(cluster, program)
        installation.import_reader(cluster)
        cluster.wait_for("bucket and hubs", (place / "outside.json").exists)
    except BaseException:
        cluster.stop()
        cluster.remove()
        raise
    print(f"# up in {time.monotonic() - begin:.0f} s")
    tell(place)


def install(place):
    if not is_running(place):
        refuse("it is not running: tools/cluster up")
    cluster, outside = clusters.Cluster.attach(place), outside_of(place)
    program = tools.program()
    image = f"{installation.IMAGE}-{hashlib.sha256(program.read_bytes()).hexdigest()[:12]}"
    installation.import_program(cluster, program, image)
    installation.prepare(cluster, outside)
    installation.install(cluster, installation.values(outside, internal={"image": image}))
    print(f"# installed, release {installation.RELEASE} in {installation.NAMESPACE}, image {image}")


def down(place):
    if not place.exists():
        print("# no cluster is there")
        return
    cluster = clusters.Cluster.attach(place)
    cluster.stop()
    cluster.remove()
    shutil.rmtree(place, ignore_errors=True)
    print("# down")


def status(place):
    if not is_running(place):
        print(f"# not running{' (remains of one are there: tools/cluster down)' if place.exists() else ''}")
        sys.exit(1)
    tell(place)


def main():
    parser = argparse.ArgumentParser(description=HELP.format(image=installation.IMAGE, reader=images.READER, folder=folder()), prog="tools/cluster",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["up", "install", "down", "status"])
    what, place = parser.parse_args().what, folder()
    if os.geteuid() != 0 and what != "status":
        refuse("it makes a bridge, mounts and containers: run it as root (sudo -E make cluster)")
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            {"up": up, "install": install, "down": down, "status": status}[what](place)
        except (servers.ServerFailed, subprocess.CalledProcessError) as error:
            refuse(f"{error}\n{getattr(error, 'stderr', None) or ''}")


if __name__ == "__main__":
    main()
