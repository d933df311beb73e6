"""Inject many faults at once, then check independently what clients and model servers recorded."""

from __future__ import annotations

import argparse
import asyncio
import re
import secrets
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from bench.chaos.client import End
from bench.chaos.fleet_run import run_fleet
from bench.chaos.namespaces import is_inside, obstacle, run_inside
from bench.chaos.requests import REAL, STUBS
from bench.chaos.restart_run import LightRun, RestartRun, run_crashes, run_restarts
from bench.chaos.run import run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

    from bench.chaos.checker import Evidence
    from bench.chaos.client import RequestResult
    from bench.chaos.run import Outcome

MOST_SHOWN = 40
MOST_REASONS, LONGEST_REASON = 12, 160


def report(outcome: Outcome) -> str:
    results = outcome.evidence.results
    statuses = Counter(each.status for each in results if each.end is End.ERROR)
    lines = [
        f"seed {outcome.seed}: {len(results)} requests and {len(outcome.evidence.injected)} faults"
        f" in {outcome.seconds:.0f} s and {outcome.lives} lives of hotseat",
        "",
        *table(outcome.evidence),
        "",
        "errors by status: " + ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items())),
        *(f"  {count:>6} × {reason}" for reason, count in reasons(results).most_common(MOST_REASONS)),
        f"longest wait: {max((each.ended - each.began for each in results), default=0.0):.1f} s",
        *outcome.notes,
        f"violations: {len(outcome.violations)}",
        *(f"  {problem}" for problem in outcome.violations[:MOST_SHOWN]),
    ]
    return "\n".join(lines)


def reasons(results: Iterable[RequestResult]) -> Counter[str]:
    """The errors that clients received, regardless of model and host."""
    names = "|".join([*STUBS, REAL])
    errors = (each for each in results if each.end is End.ERROR)
    return Counter(
        re.sub(rf"\b({names})\b", "MODEL", re.sub(r"\d[\d.]*", "N", each.text))[:LONGEST_REASON] for each in errors
    )


def table(evidence: Evidence) -> Iterator[str]:
    """What clients saw: for request faults exactly, for the others while they lasted."""
    yield f"{'fault':<30}{'times':>7}" + "".join(f"{end.value:>23}" for end in End)
    by_fault: dict[str, list[RequestResult]] = {}
    for result in evidence.results:
        by_fault.setdefault(result.planned.fault or "(no fault of its own)", []).append(result)
    for fault, those in sorted(by_fault.items()):
        yield row(fault, len(those), those)
    for name in sorted({fault.name for fault in evidence.injected}):
        times = [fault for fault in evidence.injected if fault.name == name]
        during = [
            result for result in evidence.results if any(f.may_explain(result.began, result.ended) for f in times)
        ]
        yield row(name, len(times), during)


def row(name: str, times: int, those: Iterable[RequestResult]) -> str:
    ends = Counter(result.end for result in those)
    return f"{name:<30}{times:>7}" + "".join(f"{ends[end]:>23}" for end in End)


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
        "--namespaces", action="store_true", help="--fleet: each host and NATS server in a network namespace; as root"
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
    if options.namespaces and not options.fleet:
        parser.error("--namespaces needs --fleet")
    if options.namespaces and not is_inside():
        if problem := obstacle():
            parser.exit(2, f"{problem}\n")
        return run_inside(sys.argv[1:])
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
        return run_fleet(options.fleet, options.namespaces, *run_options)
    return run(*run_options, only_conversations=options.conversations)


def tell(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
