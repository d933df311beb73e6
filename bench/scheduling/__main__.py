"""Compare the scheduler with other policies: nineteen workloads, random mixes, the optimum, placement, costs.

`just bench-scheduling`. The production scheduler and the policies of other programs get the same traces on a virtual
clock; everything but the cost of a decision and the real processes is exactly reproducible.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from datetime import UTC, datetime

from bench.report import PAGES, show, write
from bench.scheduling.chart import chart
from bench.scheduling.checks import Record, verdicts
from bench.scheduling.costs import costs
from bench.scheduling.expected import write_baseline, write_golden
from bench.scheduling.mixes import CROWDS, HELD_OUT, TUNING
from bench.scheduling.optimum import ratios
from bench.scheduling.placements import PLACED, placements
from bench.scheduling.real import compare_all, seconds_until_answered
from bench.scheduling.runs import PEERS, TURNS, Cell, mix_cells, outcomes, workload_cells
from bench.scheduling.tables import print_mixes, tables
from bench.scheduling.workloads import SEEDS, WORKLOADS

JITTERS = 3
CHART = PAGES / "scheduling-figures.svg"


def main() -> int:
    options = parse_options()
    if options.golden:
        write_golden()
        return 0
    if options.baseline:
        write_baseline(options.jitters, say)
        return 0
    if options.mixes:
        compare_mixes(options)
        return 0
    record = measured(options)
    found = tables(record)
    show(found)
    if options.write:
        write("scheduling-figures.md", found, (f"{record.date}, {record.seconds / 60:.0f} min", record.machine))
        CHART.write_text(chart(record))
    return 1 if options.check and not all(verdict.holds for verdict in verdicts(record)) else 0


def compare_mixes(options: argparse.Namespace) -> None:
    seeds = (HELD_OUT if options.held_out else TUNING)[: options.mixes]
    print_mixes(outcomes(mix_cells(seeds, options.jitters), say))


def measured(options: argparse.Namespace) -> Record:
    begun = time.monotonic()
    found = outcomes(cells(options.only, options.jitters, is_quick=options.quick), say)
    return Record(
        date=datetime.now(UTC).date().isoformat(),
        machine=f"{platform.machine()}, Python {platform.python_version()}",
        outcomes=tuple(found),
        ratios=tuple(ratios(100 if options.quick else 600)),
        costs=tuple(costs(is_quick=options.quick)),
        placements=tuple(placements(PLACED[:1], say, tried=8) if options.quick else placements(PLACED, say)),
        real=tuple(compare_all(say)) if options.real else (),
        answered_s=seconds_until_answered(say) if options.real else None,
        seconds=time.monotonic() - begun,
    )


def cells(names: list[str], jitters: int, *, is_quick: bool) -> list[Cell]:
    """Quick: one seed, and the first of the random ones."""
    seeds, mixes, crowds = (SEEDS[:1], HELD_OUT[:40], CROWDS[:60]) if is_quick else (SEEDS, HELD_OUT, CROWDS)
    slowest_first = sorted(names, key=lambda name: not name.startswith("c"))
    return [
        *workload_cells(slowest_first, seeds),
        *mix_cells(mixes, jitters, PEERS),
        *(Cell("crowd", seed, TURNS) for seed in crowds),
    ]


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-scheduling", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one seed and fewer random scenarios; about a minute")
    parser.add_argument(
        "--only", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS), help="only these workloads"
    )
    parser.add_argument(
        "--mixes", type=int, metavar="N", help="compare on so many random mixes of each family and do nothing else"
    )
    parser.add_argument(
        "--held-out", action="store_true", help="--mixes: not the seeds to tune with, but those to judge with"
    )
    parser.add_argument("--jitters", type=int, default=JITTERS, metavar="K", help="variants of each mix (%(default)s)")
    parser.add_argument("--real", action="store_true", help="also replay some traces with real processes")
    parser.add_argument(
        "--write", action="store_true", help="update docs/reference/scheduling-figures.md and its chart"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if a guaranteed figure is missed")
    parser.add_argument(
        "--golden", action="store_true", help="write the figures that the tests compare the scheduler with"
    )
    parser.add_argument(
        "--baseline", action="store_true", help="write the figures that later policies are compared with"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
