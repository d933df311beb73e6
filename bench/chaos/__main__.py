"""Inject many faults at once, then check independently what clients and model servers recorded."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from bench.chaos.crash_run import run_crashes
from bench.chaos.fleet_run import run_fleet
from bench.chaos.report import report
from bench.chaos.restart_run import LightRun, RestartRun, run_restarts
from bench.chaos.run import run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from bench.chaos.run import Outcome

USUAL_MINUTES, LONGEST_MINUTES = 2.0, 600.0
RunOptions: TypeAlias = "tuple[int, float, int | None, Callable[[str], None]]"


def main() -> int:
    parser = argparse.ArgumentParser(prog="just chaos", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(1_000_000), help="repeats the random choices of a run"
    )
    parser.add_argument("--minutes", type=float, help="default: 2, or as long as --restarts or --crashes take")
    parser.add_argument(
        "--requests", type=int, help="end after this many requests, if that comes before the end of the time"
    )
    parser.add_argument(
        "--fleet", type=int, nargs="?", const=5, metavar="HOSTS", help="run a fleet of this many hosts (5)"
    )
    parser.add_argument(
        "--restarts", type=int, metavar="N", help="inject no fault, but restart hotseat this many times under traffic"
    )
    parser.add_argument("--light", action="store_true", help="--restarts: with fewer clients")
    parser.add_argument("--crashes", type=int, metavar="N", help="inject no other fault, but kill hotseat this often")
    parser.add_argument("--grace", default="", metavar="TIME", help="--crashes: with this crashGrace")
    parser.add_argument(
        "--conversations", action="store_true", help="only faults of saved conversations, with few clients"
    )
    options = parser.parse_args()
    print(f"seed {options.seed}", file=sys.stderr)
    minutes = options.minutes or (LONGEST_MINUTES if options.restarts or options.crashes else USUAL_MINUTES)
    run_options = options.seed, minutes * 60, options.requests, tell
    outcome = asyncio.run(chosen(options, run_options))
    print(report(outcome))
    return 1 if outcome.violations else 0


def chosen(options: argparse.Namespace, run_options: RunOptions) -> Coroutine[Any, Any, Outcome]:
    if options.restarts:
        return run_restarts(options.restarts, LightRun if options.light else RestartRun, *run_options)
    if options.crashes:
        return run_crashes(options.crashes, options.grace, *run_options)
    if options.fleet:
        return run_fleet(options.fleet, *run_options)
    return run(*run_options, only_conversations=options.conversations)


def tell(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
