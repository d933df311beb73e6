"""Measure what a fleet of some size costs a host and NATS: traffic, processor time, memory, start and return.

`just bench-fleet-size`; loopback only.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.fleet_size.outages import outage
from bench.fleet_size.page import PAGE, Outcome, page
from bench.fleet_size.rig import rig, until_known
from bench.fleet_size.starts import starts
from bench.fleet_size.steady import Observer, fan_out, steady
from tests.support.llama import REPOSITORY

HALF = 2
"""Starts are also measured with half of the models."""


def main() -> int:
    options = parse_options()
    with tempfile.TemporaryDirectory(dir=REPOSITORY / ".cache") as folder:
        text = page(measured(Path(folder), options))
    print(text)
    if options.write:
        PAGE.write_text(text)
    return 0


def measured(folder: Path, options: argparse.Namespace) -> Outcome:
    sizes, models, rounds, seconds = options.sizes, options.models, options.rounds, options.seconds
    with rig(folder / "half", options.servers, models // HALF) as half, half.host() as first:
        until_known(first, 1)
        begun = starts(half, first, models // HALF, sizes[-1:], rounds)
    with rig(folder / "all", options.servers, models) as whole, whole.host() as first:
        until_known(first, 1)
        observer = Observer(whole, first)
        windows = steady(observer, sizes, rounds, seconds)
        sent = fan_out(whole, observer, sizes[len(sizes) // 2], options.listeners, seconds)
    with rig(folder / "again", options.servers, models) as whole, whole.host() as first:
        until_known(first, 1)
        begun += starts(whole, first, models, sizes, rounds)
        returns = [outage(whole, first, size) for size in sizes]
    return Outcome(models, options.servers, rounds, seconds, windows, sent, begun, returns)


def parse_options(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-fleet-size", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 500, 1000], help="hosts, in ascending order")
    parser.add_argument("--models", type=int, default=10_000, help="models of each host (%(default)s)")
    parser.add_argument("--servers", type=int, default=3, help="NATS servers (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="times that each size is measured (%(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement (%(default)s)")
    parser.add_argument("--listeners", type=int, default=90, help="that make NATS send more (%(default)s)")
    parser.add_argument("--write", action="store_true", help="write docs/reference/fleet-size.md")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
