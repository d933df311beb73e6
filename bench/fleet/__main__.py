"""Measure the cost of a fleet: claims compared with plain nats-py, forwarded requests compared with local ones.

`just bench-fleet`; loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from pathlib import Path

from bench.fleet.forwarding import forwarded
from bench.fleet.measure import measured
from bench.fleet.page import PAGE, page, ratios
from tests.support.llama import REPOSITORY

MOST = 2.0
"""The limit for a placement, as a multiple of a bare compare-and-swap."""
MOST_PASSED_ON = 2.5
"""The limit for a forwarded request, both hosts together, as a multiple of one served where it arrived: two relays, and
a proof of the sender that is signed and checked for every request."""


def main() -> int:
    options = parse_options()
    with tempfile.TemporaryDirectory(dir=REPOSITORY / ".cache") as folder:
        requests = forwarded(Path(folder), options.rounds)
        outcome = asyncio.run(measured(Path(folder) / "store", options.rounds, options.placements, options.kills))
    text = page(outcome, options.placements, requests)
    print(text)
    if options.write:
        PAGE.write_text(text)
    times_local = statistics.median(each.times_local for each in requests)
    return 0 if statistics.median(ratios(outcome)) <= MOST and times_local <= MOST_PASSED_ON else 1


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-fleet", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each side of a comparison (%(default)s)")
    parser.add_argument("--placements", type=int, default=200, help="placements in each round (%(default)s)")
    parser.add_argument(
        "--kills", type=int, default=3, help="number of times that the leading NATS server is killed (%(default)s)"
    )
    parser.add_argument("--write", action="store_true", help="write docs/reference/fleet.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
