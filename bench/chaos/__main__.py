"""`just chaos`: everything goes wrong at once, and an independent judge reads what clients and upstreams wrote down."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys

from bench.chaos.fleet_run import run_fleet
from bench.chaos.report import report
from bench.chaos.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="just chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="draws the same things again")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--requests", type=int, help="end after so many, if that comes first")
    parser.add_argument("--fleet", type=int, nargs="?", const=5, metavar="HOSTS", help="of so many hosts; 5")
    options = parser.parse_args()
    print(f"seed {options.seed}", file=sys.stderr)
    story = options.seed, options.minutes * 60, options.requests, tell
    outcome = asyncio.run(run_fleet(options.fleet, *story) if options.fleet else run(*story))
    print(report(outcome))
    return 1 if outcome.violations else 0


def tell(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
