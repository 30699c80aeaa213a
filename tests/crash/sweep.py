#!/usr/bin/env python3
"""Kills servers and clients with SIGKILL at random moments while models are pushed and pulled, and looks what is left.

After every kill: whatever was acknowledged before is there and right, nothing half-made is to be seen, and what was cut off
can be asked again and goes on. A seed is printed; the same seed chooses the same files, victims and moments again.

With --store s3 the models come from a hub of this machine and the store stands on a bucket; client, server and the bucket's
own server (SeaweedFS) are killed in turn.

The last line is `N passed, N failed`, one for each kill.
"""

import argparse
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bucket_kills import BucketSweep  # noqa: E402
from harness import tools  # noqa: E402
from kills import Sweep  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, help="the built ai-models (default: $AI_MODELS or build/...)")
    parser.add_argument("--store", choices=["directory", "s3"], default="directory")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, help="default: drawn and printed")
    parser.add_argument("--work", type=pathlib.Path, help="folder for stores and models (default: a temporary one)")
    parser.add_argument("--quiet", action="store_true", help="only what failed")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}, {args.kills} kills", flush=True)
    with tempfile.TemporaryDirectory(prefix="ai-models-crash-", dir=args.work) as folder:
        kind = BucketSweep if args.store == "s3" else Sweep
        sweep = kind((args.program or tools.program()).resolve(), pathlib.Path(folder), seed, args.kills < 100)
        try:
            passed, failed = sweep.run(args.kills, args.quiet)
        finally:
            sweep.close()
    if sweep.cut:
        print(f"our client asked again {sweep.cut} times and moved {sweep.moved_again / sweep.cut_bytes:.0%} of the bytes")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
