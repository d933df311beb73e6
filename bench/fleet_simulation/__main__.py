"""Simulate a thousand hosts on a virtual clock: where requests go, at which cost, compared with other policies.

`just simulate-fleet`. The same seed gives the same run; only the time of decisions is measured on this machine.
"""

from __future__ import annotations

import argparse
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench.fleet_simulation.costs import costs
from bench.fleet_simulation.fleet import simulate
from bench.fleet_simulation.page import print_report, write_page
from bench.fleet_simulation.policies import POLICIES
from bench.fleet_simulation.record import Record
from bench.fleet_simulation.workload import workload


def main() -> int:
    options = parse_options()
    record = Record.joined([Record.read(file) for file in options.from_files]) if options.from_files else run(options)
    print_report(record)
    if options.json:
        record.write(options.json)
    if options.write:
        write_page(record)
    return 0


def run(options: argparse.Namespace) -> Record:
    work = workload(options.hosts, options.models, options.requests, options.seed)
    found = []
    for name in options.only:
        print(f"{name}: {options.requests} requests, {options.hosts} hosts", file=sys.stderr, flush=True)
        found.append(simulate(name, work, POLICIES[name]))
    return Record(
        date=datetime.now(UTC).date().isoformat(),
        machine=f"{platform.machine()}, Python {platform.python_version()}",
        seed=options.seed,
        runs=tuple(found),
        costs=tuple(costs()) if options.costs else (),
    )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just simulate-fleet", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only",
        type=some_policies,
        default=list(POLICIES),
        help=f"only these policies, separated by commas: {','.join(POLICIES)}",
    )
    parser.add_argument("--costs", action="store_true", help="measure the cost of a decision by the size of the fleet")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this file")
    parser.add_argument(
        "--from",
        type=Path,
        metavar="FILE",
        dest="from_files",
        action="append",
        help="report results from files and run nothing",
    )
    parser.add_argument("--write", action="store_true", help="write docs/reference/fleet-simulation.md")
    return parser.parse_args()


def some_policies(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in POLICIES]:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(POLICIES)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
