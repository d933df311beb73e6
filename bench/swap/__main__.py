"""Measure the parts of a swap: real models, swapped by hotseat and by a minimal script in the same run.

Small and big, from the page cache and from disk, in alternating pairs. Needs `just llama`, and `just llama --big` for
the big model; loopback only. `just bench-swap`.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bench.report import PAGES, machine, server_version, show, write
from bench.swap.cases import ALL, CASES, behind_drain, beside_bare, notice_all
from bench.swap.chart import chart
from bench.swap.results import Record, tables, verdicts
from tests.support.llama import model_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.swap.cases import Case
    from bench.swap.sides import Swap

CHART = PAGES / "swaps.svg"
FEWER = 4
"""One pair of the big model, which takes half a minute, for so many of the small one."""


def main() -> int:
    options = parse_options()
    record = measured(options)
    found = tables(record)
    show(found)
    if options.write:
        began = f"{record.date}, load average {record.load:.1f} at the beginning"
        write("swaps.md", found, (began, machine(), server_version()))
        CHART.write_text(chart(record))
    return 1 if options.check and not all(verdict.holds for verdict in verdicts(record)) else 0


def measured(options: argparse.Namespace) -> Record:
    cases = [ALL[name] for name in options.only]
    for case in cases:
        model_file(case.model)  # fail before minutes have passed if it is missing
    return Record(
        date=datetime.now(UTC).date().isoformat(),
        load=os.getloadavg()[0],
        noticed=tuple(notice_all(options.starts)),
        swaps=tuple(swap for case in cases for swap in all_pairs(case, options.pairs)),
    )


def all_pairs(case: Case, pairs: int) -> Iterator[Swap]:
    play = beside_bare if case.name in CASES else behind_drain
    for swap in play(case, max(2, pairs // FEWER) if case.is_big else pairs):
        print(f"{swap.case} {swap.side}: {swap.total * 1000:.0f} ms", file=sys.stderr, flush=True)
        yield swap


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-swap", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--pairs", type=int, default=20, help="pairs of each case; a quarter of them for big models (%(default)s)"
    )
    parser.add_argument(
        "--starts", type=int, default=200, help="starts for the measurement of readiness checks (%(default)s)"
    )
    parser.add_argument("--only", nargs="+", choices=list(ALL), default=list(ALL), help="only these cases")
    parser.add_argument("--write", action="store_true", help="update docs/reference/swaps.md and its chart")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a guaranteed figure is missed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
