"""Simulate fleets with faults on a virtual clock. `just simulate-faults --seeds 1000`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from time import process_time

from bench.fleet_faults.faults import FAULTS
from bench.fleet_faults.world import simulate


def main() -> int:
    options = parse_options()
    logging.basicConfig(level=logging.INFO if options.log else logging.CRITICAL, format="%(name)s %(message)s")
    logging.getLogger("hotseat").propagate = options.log
    broken: Counter[str] = Counter()
    requests, began = 0, process_time()
    for seed in range(options.first, options.first + options.seeds):
        result = simulate(seed, *options.fault)
        requests += len(result.outcomes)
        broken.update({violation.rule for violation in result.violations})
        if result.violations:
            print(f"seed {seed} ({', '.join(result.faults)}):")
            print("\n".join(f"  {violation}" for violation in result.violations[: options.most]), flush=True)
    print(f"{options.seeds} seeds, {requests} requests, {process_time() - began:.0f} s of processor time")
    print("violations: " + (", ".join(f"{rule} in {n} seeds" for rule, n in broken.most_common()) or "none"))
    return 1 if broken else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just simulate-faults", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=300, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (%(default)s)")
    parser.add_argument(
        "--fault", nargs="*", choices=list(FAULTS), default=[], help="these faults instead of random ones"
    )
    parser.add_argument("--most", type=int, default=3, help="violations printed per seed (%(default)s)")
    parser.add_argument("--log", action="store_true", help="print the log of all hosts")
    return parser.parse_args()


sys.exit(main())
