"""Inject many faults at once, then check independently what clients and model servers recorded."""

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
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(1_000_000), help="repeats the random choices of a run"
    )
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument(
        "--requests", type=int, help="end after this many requests, if that comes before the end of the time"
    )
    parser.add_argument(
        "--fleet", type=int, nargs="?", const=5, metavar="HOSTS", help="run a fleet of this many hosts (5)"
    )
    options = parser.parse_args()
    print(f"seed {options.seed}", file=sys.stderr)
    run_options = options.seed, options.minutes * 60, options.requests, tell
    outcome = asyncio.run(run_fleet(options.fleet, *run_options) if options.fleet else run(*run_options))
    print(report(outcome))
    return 1 if outcome.violations else 0


def tell(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
