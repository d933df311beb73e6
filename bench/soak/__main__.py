"""Run mixed load on a real llama-server for an hour; hotseat's memory and the waiting times must not grow.

Three models of which two fit, so that they are swapped all the time; `just soak`. Needs `just llama`; loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from bench.report import PAGES, show, write
from bench.soak.load import LoadClients
from bench.soak.samples import Outcome, cpu_s, gauge, look, picture, tables, trends
from tests.support.hotseat import Hotseat
from tests.support.llama import llama

if TYPE_CHECKING:
    from bench.soak.load import Account
    from bench.soak.samples import Sample

CONFIG = {
    "devices": {"gpu": {"memory": "2GiB"}},
    "models": {
        "alpha": llama("alpha", memory="1GiB"),
        "beta": llama("beta", memory="1GiB"),
        "gamma": llama("alpha", memory="1GiB"),
    },
}
CHART = PAGES / "soak.svg"
SHOWN = 20
"""Of the requests that ended unexpectedly."""
LOOKS = 120
"""Samples in all, so that the chart of a minute is as fine as that of a day."""


def main() -> int:
    options = parse_options()
    with tempfile.TemporaryDirectory() as folder, Hotseat(CONFIG, Path(folder)) as rig:
        outcome = asyncio.run(watched(rig, options.minutes * 60, options.seed))
    found = tables(outcome)
    show(found)
    print("", *outcome.wrong[:SHOWN], sep="\n")
    if options.write:
        write("soak.md", found)
        CHART.write_text(picture(outcome.samples))
    return 0 if outcome.holds else 1


async def watched(rig: Hotseat, seconds: float, seed: int) -> Outcome:
    began = time.monotonic()
    samples: list[Sample] = []
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    async with LoadClients(rig.port, seed) as clients:
        for n in range(1, LOOKS + 1):
            await asyncio.sleep(began + n * seconds / LOOKS - time.monotonic())
            account = clients.take_account()
            samples.append(await asyncio.to_thread(look, rig, time.monotonic() - began, account))
            add(ends, wrong, account)
    add(ends, wrong, clients.take_account())
    spent_s = cpu_s(rig.process.pid)
    loads = await asyncio.to_thread(loads_of, rig)
    return Outcome(samples, dict(ends.most_common()), wrong, trends(samples), loads, spent_s)


def add(ends: Counter[str], wrong: list[str], account: Account) -> None:
    ends.update(account.ends)
    wrong.extend(account.wrong)


def loads_of(rig: Hotseat) -> int:
    page = rig.call("GET", "/metrics").body.decode()
    return sum(gauge(page, f'hotseat_loads_total{{model="{name}",outcome="ready"}}') for name in CONFIG["models"])


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just soak", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="duration (%(default)s)")
    parser.add_argument("--seed", type=int, default=2026, help="of the random requests (%(default)s)")
    parser.add_argument("--write", action="store_true", help="update docs/reference/soak.md and its chart")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
