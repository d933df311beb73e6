"""Measure the cost of the relay: the same loads through hotseat, nginx, HAProxy, Go, aiohttp and without a proxy.

`just bench-relay`; loopback only. The figure to trust is the proxy's own CPU time per request or chunk: rates and
delays are taken on cores that the load shares, so they rank and do not measure.
"""

from __future__ import annotations

import argparse
import fcntl
import resource
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.relay.chart import chart
from bench.relay.comparison import compare
from bench.relay.features import compare_team, compare_translated
from bench.relay.figures import Figures, Outcome, Sample, verdicts
from bench.relay.measure import TOPICS, chosen, run_rounds, tell
from bench.relay.processes import Failure, Share
from bench.relay.profile import profile
from bench.relay.proxies import PROXIES
from bench.relay.tables import TITLES, conditions, recorded, report_tables
from bench.relay.tools import CACHE
from bench.report import PAGES, show, write

if TYPE_CHECKING:
    from collections.abc import Iterator

CHART = PAGES / "performance-relay.svg"
ROUNDS, FEWEST_ROUNDS = 9, 3
FEWEST_FILES = 8192
"""2,000 streams take twice as many descriptors of a proxy."""


def main() -> int:
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all child processes are ended
    try:
        if options.profile:
            with alone():
                profile()
            return 0
        if options.translated:
            with alone():
                return 0 if compare_translated(options.rounds or ROUNDS) else 1
        if options.team:
            with alone():
                compare_team(options.rounds or ROUNDS)
            return 0
        if options.against:
            with alone():
                compare(options.against, chosen(options.only, is_quick=options.quick), options.rounds or ROUNDS)
            return 0
        return report(options)
    except Failure as failure:
        print(f"bench-relay: {failure}", file=sys.stderr)
        return 1


def report(options: argparse.Namespace) -> int:
    rounds: int = options.rounds or (1 if options.quick else ROUNDS)
    if options.write:
        must_suffice(rounds)
    proxies, cells = [PROXIES[name] for name in options.proxies], chosen(options.only, is_quick=options.quick)
    with alone():
        share, samples = Share(), list[Sample]()
        for sample in run_rounds(proxies, cells, rounds):
            samples.append(sample)
            tell(sample)
        record = recorded(samples, options.proxies, rounds, share)
    found = report_tables(record)
    show(found)
    if options.write:
        write("performance.md", found, conditions(record))
        CHART.write_text(chart(Figures(samples), TITLES))
    judged = verdicts(Figures(samples), record.cells())
    return 1 if options.check and any(verdict.outcome is not Outcome.HOLDS for verdict in judged) else 0


def must_suffice(rounds: int) -> None:
    """One round proves nothing: a published figure needs a spread."""
    if rounds < FEWEST_ROUNDS:
        raise Failure(f"a page needs at least {FEWEST_ROUNDS} rounds, this is {rounds}: give --rounds {FEWEST_ROUNDS}")


@contextmanager
def alone() -> Iterator[None]:
    """Inside the block no other run takes place, since runs disturb each other; also raises the file limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < FEWEST_FILES:
        raise Failure(f"only {hard} files may be open, {FEWEST_FILES} are needed: raise `ulimit -Hn`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure("another run is under way; wait for its end") from None
        yield


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-relay", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one round of fewer measurements; about two minutes")
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help=f"rounds of every measurement ({ROUNDS}; 1 with --quick)"
    )
    parser.add_argument("--only", nargs="+", choices=list(TOPICS), default=list(TOPICS), help="only these topics")
    parser.add_argument("--proxies", nargs="+", choices=list(PROXIES), default=list(PROXIES), help="only these proxies")
    parser.add_argument("--write", action="store_true", help="update the page of the figures in docs/reference")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a guaranteed figure is missed")
    parser.add_argument(
        "--against", metavar="REVISION", help="compare hotseat with itself at a git revision instead, in one run"
    )
    parser.add_argument(
        "--translated",
        action="store_true",
        help="compare translated streams with plain ones instead; exit with 1 if they cost too much",
    )
    parser.add_argument("--team", action="store_true", help="compare keys, budgets and traces with none instead")
    parser.add_argument("--profile", action="store_true", help="profile hotseat with perf instead")
    return parser.parse_args()


def positive(text: str) -> int:
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
