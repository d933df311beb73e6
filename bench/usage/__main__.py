"""Compare the usage that hotseat stores with what its clients received, with kill -9 in between; `just bench-usage`.

The installed hotseat, an upstream that reports random numbers of tokens in the format of each API, and clients on
connections that stay open. After each kill the file may lack only what was received within the last second before it;
after the last, ordinary stop it must be exact. Loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from bench.usage.run import Run
from tests.support.hotseat import Hotseat


def main() -> int:
    options = parse_options()
    with tempfile.TemporaryDirectory() as folder:
        outcome = asyncio.run(Run(Path(folder), Hotseat, options.seed).play(options.requests, options.kills))
    print(outcome.text())
    return 0 if outcome.holds else 1


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-usage", description=(__doc__ or "").partition(";")[0])
    parser.add_argument("--requests", type=int, default=5_000, help="answered ones, in all (%(default)s)")
    parser.add_argument("--kills", type=int, default=4, help="spread over the run (%(default)s)")
    parser.add_argument("--seed", type=int, default=2026, help="of the random requests (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
