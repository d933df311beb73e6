"""Simulate a fleet on a virtual clock: where requests go, at which cost, compared with other policies.

`just simulate-fleet`. The same seed gives the same run.
"""

from __future__ import annotations

import argparse
import sys

from bench.fleet_simulation.fleet import simulate
from bench.fleet_simulation.page import tables, write_page
from bench.fleet_simulation.policies import POLICIES
from bench.fleet_simulation.workload import workload


def main() -> None:
    options = parse_options()
    work = workload(options.hosts, options.models, options.requests, options.seed)
    runs = []
    for name, make in POLICIES.items():
        print(f"{name}: {options.requests} requests, {options.hosts} hosts", file=sys.stderr, flush=True)
        runs.append(simulate(name, work, make))
    print(tables(runs))
    if options.write:
        write_page(work, runs)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just simulate-fleet", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--requests", type=int, default=12_500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write docs/reference/fleet-simulation.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
