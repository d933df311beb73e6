"""Measure a fleet: the cost of agreement on NATS, what grows with the number of hosts, and where requests are placed.

`just bench-fleet`; loopback only. A simulation with the same seed gives the same figures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.fleet import agreement, figures, size, size_tables
from bench.fleet.simulated_fleet import POLICIES, simulate
from bench.fleet.workload import workload
from bench.report import Verdict, show, write
from tests.support.llama import REPOSITORY

PAGE = "fleet.md"


def main() -> int:
    options = parse_options()
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(dir=REPOSITORY / ".cache") as made:
        if options.part == "agreement":
            tables, verdicts = agreement.run(Path(made), options)
        elif options.part == "size":
            tables = size_tables.tables(size.measured(Path(made), options))
        else:
            work = workload(options.hosts, options.models, options.requests, options.seed)
            tables = figures.tables([simulate(name, work, make) for name, make in POLICIES.items()])
    show(tables)
    if options.write:
        write(PAGE, tables)
    print("", *verdicts, sep="\n")
    return 0 if all(verdict.holds for verdict in verdicts) else 1


def parse_options(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-fleet", description=(__doc__ or "").partition("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    cost = parts.add_parser("agreement", help="claims and leases on three NATS servers, and forwarded requests")
    cost.add_argument("--rounds", type=int, default=9, help="rounds of each side of a comparison (%(default)s)")
    cost.add_argument("--placements", type=int, default=200, help="placements in each round (%(default)s)")
    cost.add_argument("--kills", type=int, default=3, help="how often the leading server is killed (%(default)s)")
    grown = parts.add_parser("size", help="a real host beside up to a thousand others, whose records are injected")
    grown.add_argument("--sizes", type=int, nargs="+", default=[50, 500, 1000], help="hosts, in ascending order")
    grown.add_argument("--models", type=int, default=10_000, help="models of each host (%(default)s)")
    grown.add_argument("--servers", type=int, default=3, help="NATS servers (%(default)s)")
    grown.add_argument("--rounds", type=int, default=3, help="times that each size is measured (%(default)s)")
    grown.add_argument("--seconds", type=float, default=30.0, help="of each measurement (%(default)s)")
    grown.add_argument("--listeners", type=int, default=90, help="that make NATS send more (%(default)s)")
    placed = parts.add_parser("simulation", help="where requests go on a virtual clock, beside other policies")
    placed.add_argument("--hosts", type=int, default=50, help="of the fleet (%(default)s)")
    placed.add_argument("--models", type=int, default=500, help="of the configuration (%(default)s)")
    placed.add_argument("--requests", type=int, default=12_500, help="in one day (%(default)s)")
    placed.add_argument("--seed", type=int, default=1, help="of the requests (%(default)s)")
    for part in (cost, grown, placed):
        part.add_argument("--write", action="store_true", help=f"put the tables into docs/reference/{PAGE}")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
