"""Measure the parts of a swap: real models, swapped by hotseat and by a minimal script in the same run.

Small and big, from the page cache and from disk, in alternating pairs. Needs `just llama`, and `just llama --big` for
the big model; loopback only. `just bench-swap`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.relay.record import machine
from bench.swap.cases import ALL, CASES, behind_drain, beside_bare
from bench.swap.checks import verdicts
from bench.swap.page import print_report, write_page
from bench.swap.readiness import notice_all
from bench.swap.record import Record
from tests.support.llama import SERVER, model_file, present

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.swap.cases import Case
    from bench.swap.spans import Swap

FEWER = 4
"""One pair of the big model, which takes half a minute, for so many of the small one."""


def main() -> int:
    options = parse_options()
    record = Record.read(*options.files) if options.files else measured(options)
    print_report(record)
    if options.json:
        record.write(options.json)
    if options.write:
        write_page(record)
    return 1 if options.check and not all(verdict.holds for verdict in verdicts(record)) else 0


def measured(options: argparse.Namespace) -> Record:
    cases = [ALL[name] for name in options.only]
    for case in cases:
        model_file(case.model)  # fail before minutes have passed if it is missing
    return Record(
        date=datetime.now(UTC).date().isoformat(),
        machine=machine(),
        server=server_version(),
        load=os.getloadavg()[0],
        noticed=tuple(notice_all(options.starts)),
        swaps=tuple(swap for case in cases for swap in all_pairs(case, options.pairs)),
    )


def all_pairs(case: Case, pairs: int) -> Iterator[Swap]:
    play = beside_bare if case.name in CASES else behind_drain
    for swap in play(case, max(2, pairs // FEWER) if case.is_big else pairs):
        print(f"{swap.case} {swap.side}: {swap.total * 1000:.0f} ms", file=sys.stderr, flush=True)
        yield swap


def server_version() -> str:
    said = subprocess.run([present(SERVER), "--version"], capture_output=True, text=True, check=True)
    return (said.stdout + said.stderr).splitlines()[0].replace("version:", "llama-server")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-swap", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--pairs", type=int, default=20, help="pairs of each case; a quarter of them for big models (%(default)s)"
    )
    parser.add_argument(
        "--starts", type=int, default=200, help="starts for the measurement of readiness checks (%(default)s)"
    )
    parser.add_argument("--only", nargs="+", choices=list(ALL), default=list(ALL), help="only these cases")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this file")
    parser.add_argument(
        "--from", type=Path, metavar="FILE", nargs="+", dest="files", help="report results from files and run nothing"
    )
    parser.add_argument("--write", action="store_true", help="write docs/reference/swaps.md and its chart")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a guaranteed figure is missed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
