#!/usr/bin/env python3
"""One materialization after the other, in each of which one operation on the volume goes wrong (tests/crash/volume_faults.c): the n-th of
its kind, for every n and in every way that volumes fail, once or from then on, on an empty volume and on one with a damaged model, on a
local file system and on one that behaves like NFS; or the process dies in its place.

  tests/crash/volume_sweep.py [--short | --shapes N] [--only write sync ...] [--seed N]

Whatever happens, the volume shows no model or the whole one, the marker stands beside a whole one only, exit status and termination message
say truly what was wrong, and the same again without a fault completes: every byte right and nothing left behind. Prints a table and, as the
last line, `N passed, N failed`. `--shapes`: every operation in so many of the ways; `--short`: some operations, each in one."""

import argparse
import collections
import concurrent.futures
import errno
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import tools  # noqa: E402
from harness.materializer import MARKER, Job, Source, sums, tree  # noqa: E402

KINDS = ["open", "list", "make", "read", "write", "truncate", "sync", "rename", "remove", "stat", "mode", "lock", "time", "seek", "close", "space"]
MAX_OPERATIONS = 400
SHORT = 7  # operations of each kind
TIMEOUT = 20
BIG = "weights.bin"
N_AT_ONCE = 2

# How an operation fails: exit status, reason and whether another Job may help. None: that is waited out or of no matter.
WAYS = {
    errno.EIO: (7, "VolumeFault", True),
    errno.ENOSPC: (6, "VolumeFull", False),
    errno.ESTALE: (8, "VolumeStale", True),
    errno.EROFS: (5, "VolumeReadOnly", False),
    errno.EDQUOT: (6, "VolumeFull", False),
    errno.ETIMEDOUT: (8, "VolumeFault", True),
    "short": None,
    errno.EINTR: None,
    "die": None,
}
PATIENT = ("read", "write")  # these alone know of short ones and of signals


class Case(typing.NamedTuple):
    kind: str
    nth: int
    way: object
    goes_on: bool
    is_damaged: bool
    is_nfs: bool

    def __str__(self):
        way = self.way if isinstance(self.way, str) else errno.errorcode[self.way]
        return (f"{self.kind} {self.nth}{' and on' if self.goes_on else ''}: {way}{', damaged before' if self.is_damaged else ''}"
                f"{', like NFS' if self.is_nfs else ''}")

    def fits(self):
        if self.way in ("short", errno.EINTR) and (self.kind not in PATIENT or (self.goes_on and self.way == errno.EINTR)):
            return False
        return not (self.way == "die" and self.goes_on)


def fill(volume, files):
    for name, data in files.items():
        path = volume / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class Sweep:
    def __init__(self, folder, options):
        self.folder, self.options, self.random = folder, options, random.Random(options.seed)
        data = self.random.randbytes
        self.files = {BIG: data((9 << 20) + 5), "config.json": b"{}", "empty": b"", "n" * 255: data(70_000),
                      "/".join(["d" * 150] * 6): data(1 << 20), "deep/er/x": b"x"}
        self.source = Source(folder)
        self.source.digest, self.source.files = self.source.put(self.files), sums(self.files)
        self.damaged = {**self.files, BIG: self.files[BIG][:-1] + b"!", "deep/extra": b"extra"}
        self.library = folder / "volume_faults.so"
        subprocess.run([tools.need("gcc"), "-shared", "-fPIC", "-O2", "-w", "-o", self.library, pathlib.Path(__file__).with_name("volume_faults.c"), "-ldl"],
                       check=True)
        self.lock, self.failures, self.rows = threading.Lock(), [], collections.Counter()

    # One life of a volume

    def environment(self, job, case, has_fault):
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        fault = f"{case.kind}:{case.nth}:{case.way}{':on' if case.goes_on else ''}"
        return {**kept, "LD_PRELOAD": str(self.library), "VOLUME_FAULTS_FOLDER": str(job.volume), "VOLUME_FAULTS_STRUCK": str(job.root / "struck"),
                **({"VOLUME_FAULT": fault} if has_fault else {}), **({"VOLUME_IS_NFS": "1"} if case.is_nfs else {})}

    def begin(self, job, case):
        if not case.is_damaged:
            return
        fill(job.volume / "model", self.damaged)
        for path in [job.volume / "model", *(job.volume / "model").rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        (job.volume / MARKER).write_text(json.dumps({"version": "v1", "digest": self.source.digest, "mediaType": "m", "modelPath": "model", "sizeBytes": 1,
                                                     "files": 1, "readyAt": "2026-01-01T00:00:00Z"}))

    def check_view(self, job, case):
        """What a Pod would see. Of a damaged model that was not touched yet, what there was before."""
        is_marked, is_shown = (job.volume / MARKER).exists(), job.is_shown()
        found = sums(tree(job.volume / "model")) if is_shown else {}
        if case.is_damaged and found == sums(self.damaged):
            return
        assert found == (self.source.files if is_shown else {}), "something half is shown"
        assert is_shown or not is_marked, "a marker without a model"

    def check_end(self, job, case, ended):
        expected = WAYS[case.way]
        if case.way == "die":
            assert ended == -9, f"status {ended}"
        elif ended == 0:
            assert job.outcome()["result"]["digest"] == self.source.digest
            assert job.is_shown() and (job.volume / MARKER).exists(), "done without a model"
        else:
            assert expected is not None, f"status {ended}, though it should have gone on: {job.end.read_text()}"
            failure = job.outcome()["failure"]
            assert (ended, failure["reason"], failure["retry"]) == expected, f"status {ended}: {failure}"
            if failure["reason"] == "VolumeFull" and case.kind in ("make", "write", "truncate", "sync"):
                assert "more" in failure["message"] and "free" in failure["message"], failure["message"]

    def live(self, case):
        """FALSE when there was no such operation."""
        job = Job(self.source, self.folder)
        try:
            self.begin(job, case)
            job.environment = self.environment(job, case, True)
            ended = job.start("--stale-after", 1, "--patience", 5).wait(TIMEOUT)
            if not (job.root / "struck").exists():
                assert ended == 0
                return False
            self.check_end(job, case, ended)
            self.check_view(job, case)
            job.environment = self.environment(job, case, False)
            job.run("--stale-after", 1)
            job.check_whole()
            return True
        except BaseException as problem:
            log = (job.root / "log").read_text().replace("d" * 150, "d..") if (job.root / "log").exists() else ""
            files = "\n".join(sorted(str(path.relative_to(job.volume))[:60] for path in job.volume.rglob("*")))
            raise AssertionError(f"{case}: {problem}\n{log}\n{files}") from problem
        finally:
            job.remove()

    # All of them

    def try_life(self, case):
        try:
            there = self.live(case)
        except Exception as problem:
            with self.lock:
                self.failures.append(str(problem))
                print(f"FAILED {problem}", flush=True)
            return True
        if there:
            with self.lock:
                self.rows[case.kind] += 1
        return there

    def count(self, is_damaged):
        """Operations of each kind, when nothing fails."""
        job = Job(self.source, self.folder)
        case = Case("any", 0, "die", False, is_damaged, False)
        self.begin(job, case)
        job.environment = {**self.environment(job, case, False), "VOLUME_FAULTS_COUNTS": str(job.root / "counts")}
        job.run()
        counts = {kind: int(n) for kind, n in (line.split() for line in (job.root / "counts").read_text().splitlines())}
        job.remove()
        return counts

    def shapes(self, kind):
        """What is varied besides kind and n."""
        shapes = [shape for shape in itertools.product(WAYS, (False, True), (False, True), (False, True)) if Case(kind, 1, *shape).fits()]
        return self.random.sample(shapes, min(self.options.shapes or len(shapes), len(shapes)))

    def run_shape(self, kind, shape):
        """Every operation."""
        for nth in range(1, MAX_OPERATIONS):
            if not self.try_life(Case(kind, nth, *shape)):
                return

    def plan_short(self, kinds):
        """Some operations of each kind, each in one shape."""
        counts = [self.count(is_damaged) for is_damaged in (False, True)]
        for kind in kinds:
            shapes = itertools.cycle(self.shapes(kind))
            n_all = max(counts[True][kind], 1)
            for nth in self.random.sample(range(1, n_all + 1), min(n_all, SHORT)):
                way, goes_on, is_damaged, is_nfs = next(shapes)
                yield Case(kind, nth, way, goes_on, is_damaged or nth > counts[False][kind], is_nfs)

    def run(self):
        kinds = self.options.only or KINDS
        with concurrent.futures.ThreadPoolExecutor(N_AT_ONCE) as pool:
            if self.options.short:
                list(pool.map(self.try_life, [*self.plan_short(kinds)]))
            else:
                list(pool.map(lambda task: self.run_shape(*task), [(kind, shape) for kind in kinds for shape in self.shapes(kind)]))
        for kind in kinds:
            print(f"{kind:10} {self.rows[kind]:6}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="some operations, each in one way")
    parser.add_argument("--shapes", type=int, help="so many ways of each kind of operation (default: all)")
    parser.add_argument("--only", nargs="+", choices=KINDS, help="kinds of operations")
    parser.add_argument("--seed", type=int, help="default: drawn and printed")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(4), "big")
    print(f"seed {options.seed}", flush=True)
    base = "/dev/shm" if shutil.disk_usage("/dev/shm").free > 512 << 20 else None
    with tempfile.TemporaryDirectory(prefix="ai-models-volume-", dir=base) as folder:
        pathlib.Path(folder).chmod(0o755)
        sweep = Sweep(pathlib.Path(folder), options)
        try:
            sweep.run()
        finally:
            sweep.source.server.stop()
    n_passed = sum(sweep.rows.values())
    print(f"{n_passed} passed, {len(sweep.failures)} failed")
    sys.exit(1 if sweep.failures or n_passed == 0 else 0)


if __name__ == "__main__":
    main()
