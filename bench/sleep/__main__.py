"""Compare sleep and wake-up with stop and start, in alternating pairs, on a real llama-server.

Needs `just llama`, and `just llama --big` for the big model; loopback only. `just bench-sleep`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.report import Rows, machine, ms, server_version, show, spread, write
from bench.swap.cache import make_warm
from bench.swap.sides import BIG, TINY, first_byte
from tests.support.llama import command, model_file
from tests.support.supervisor_rig import SupervisorRig

from hotseat.catalog.sleeping import SleepLevel, step_of
from hotseat.catalog.spec import LaunchRecipe, ModelSpec
from hotseat.config.specs import SERVERS
from hotseat.identifiers import ModelName
from hotseat.model_servers.supervisor import open_supervisor
from hotseat.scheduling.commands import PutToSleep, WakeUp
from hotseat.scheduling.events import UpstreamAsleep, UpstreamAwake

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotseat.identifiers import Bytes, Seconds
    from hotseat.scheduling.events import UpstreamReady

SLEEP, RESTART = "sleep and wake", "stop and start"
MODELS = {TINY: "6.7 MB", BIG: "1.6 GB"}
_KNOWN = SERVERS["llama-server"]
LEVEL = SleepLevel("idle", (), (step_of(str(_KNOWN.levels["idle"].resume)),), check=_KNOWN.check, timeout_s=60)


@dataclass(frozen=True, slots=True)
class Trip:
    """One departure and return of a model."""

    model: str
    way: str
    leave_s: Seconds
    return_s: Seconds
    first_byte_s: Seconds
    kept: Bytes = 0
    before: Bytes = 0

    @property
    def whole_s(self) -> Seconds:
        return self.leave_s + self.return_s + self.first_byte_s


def main() -> int:
    options = parse_options()
    trips = asyncio.run(all_trips(options.only, options.pairs))
    found = {"Sleep in figures": rows(trips)}
    show(found)
    if options.write:
        ended = f"{datetime.now(UTC).date().isoformat()}, load average {os.getloadavg()[0]:.1f} at the end"
        write("sleep.md", found, (ended, machine(), server_version()))
    return 0


async def all_trips(models: list[str], pairs: int) -> list[Trip]:
    return [trip for model in models async for trip in in_pairs(model, pairs)]


async def in_pairs(model: str, pairs: int) -> AsyncIterator[Trip]:
    async with open_supervisor(os.environ) as supervisor:
        stage = SupervisorRig(supervisor)
        sleeper = await stage.ready(spec(model, "--sleep-idle-seconds 1"))
        for pair in range(-1, pairs):  # the first pair warms other caches
            make_warm(model_file(model))
            for trip in (await sleep_and_wake(stage, sleeper, model), await restart(stage, model)):
                if pair >= 0:
                    print(f"{model} {trip.way}: {trip.whole_s * 1000:.0f} ms", file=sys.stderr, flush=True)
                    yield trip
        await stage.end(sleeper)


async def sleep_and_wake(stage: SupervisorRig, ready: UpstreamReady, model: str) -> Trip:
    await ask(ready, model)
    before, began = own_memory(ready), time.time()
    fell = await stage.supervisor.put_to_sleep(PutToSleep(ready.model, ready.launch, LEVEL, "it is measured"))
    left, kept = time.time(), own_memory(ready)
    woke = await stage.supervisor.wake_up(WakeUp(ready.model, ready.launch, LEVEL, "it is measured"))
    back = time.time()
    if not (isinstance(fell, UpstreamAsleep) and isinstance(woke, UpstreamAwake)):
        raise SystemExit(f"llama-server did not sleep and wake: {fell}, {woke}")
    return Trip(model, SLEEP, left - began, back - left, await ask(ready, model) - back, kept, before)


async def restart(stage: SupervisorRig, model: str) -> Trip:
    first = await stage.ready(spec(model))
    await ask(first, model)
    began = time.time()
    await stage.end(first)
    left = time.time()
    again = await stage.ready(spec(model))
    back = time.time()
    answered = await ask(again, model)
    await stage.end(again)
    return Trip(model, RESTART, left - began, back - left, answered - back)


def spec(model: str, options: str = "") -> ModelSpec:
    argv = tuple(shlex.split(command(model, "${PORT}", options)))
    return ModelSpec(ModelName(model), LaunchRecipe(argv, "http://127.0.0.1:${PORT}"))


async def ask(ready: UpstreamReady, model: str) -> float:
    """The time of the first byte."""
    return await asyncio.to_thread(first_byte, ready.upstream.address.port, model)


def own_memory(ready: UpstreamReady) -> Bytes:
    status = Path(f"/proc/{ready.upstream.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


# The report


def rows(trips: list[Trip]) -> Rows:
    table: Rows = [["model", "method", "leave", "return", "first byte", "whole", "p10–p90", "kept", "pairs"]]
    for model in dict.fromkeys(trip.model for trip in trips):
        for way in (SLEEP, RESTART):
            table.append(row(model, way, [trip for trip in trips if (trip.model, trip.way) == (model, way)]))
    return table


def row(model: str, way: str, trips: list[Trip]) -> list[str]:
    parts = [[getattr(trip, part) for trip in trips] for part in ("leave_s", "return_s", "first_byte_s", "whole_s")]
    kept = (
        f"{median(trip.kept for trip in trips) / median(trip.before for trip in trips):.0%}" if way == SLEEP else "0%"
    )
    return [MODELS[model], way, *(ms(median(part)) for part in parts), spread(parts[-1]), kept, str(len(trips))]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-sleep", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=20, help="pairs of each model (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS), help="only these models")
    parser.add_argument("--write", action="store_true", help="update docs/reference/sleep.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
