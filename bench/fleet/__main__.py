"""What agreement between hosts costs, beside bare nats-py on the same three NATS servers. `just bench-fleet`."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from pathlib import Path

from bench.fleet.measure import measured
from bench.fleet.page import PAGE, page, ratios
from tests.support.llama import REPOSITORY

MOST = 2.0
"""Times a bare compare-and-swap: what a placement may cost."""


def main() -> int:
    options = parse_options()
    with tempfile.TemporaryDirectory(dir=REPOSITORY / ".cache") as folder:
        outcome = asyncio.run(measured(Path(folder), options.rounds, options.placements, options.kills))
    text = page(outcome, options.placements)
    print(text)
    if options.write:
        PAGE.write_text(text)
    return 0 if statistics.median(ratios(outcome)) <= MOST else 1


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-fleet", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="of placements by each side (%(default)s)")
    parser.add_argument("--placements", type=int, default=200, help="in each round (%(default)s)")
    parser.add_argument("--kills", type=int, default=3, help="of a leader (%(default)s)")
    parser.add_argument("--write", action="store_true", help="write docs/reference/fleet.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
