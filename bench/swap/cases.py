"""What is swapped, and how: each case in alternating pairs, because a machine's speed varies by the minute.

Beside the swaps, servers that record when they become ready are started, for the delay until hotseat notices it. They
become ready after a twentieth of a second to a few seconds, with a log-uniform distribution.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.swap.cache import make_cold, make_warm
from bench.swap.sides import BIG, REST, TINY, Bare, Proxied, Swap
from tests.support.llama import REPOSITORY, model_file
from tests.support.supervisor_rig import SupervisorRig, model

from hotseat.model_servers.supervisor import open_supervisor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotseat.identifiers import Seconds

BARE, HOTSEAT = "bare", "hotseat"
WAITING, AHEAD = "waits for the drain", "reads ahead"
DRAIN_S = 3.0
AT_ONCE = {"scheduler": {"patience": 0}}
"""A model in use takes no new request as soon as another is requested."""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    title: str
    model: str
    prepare: Callable[[Path], None]

    @property
    def is_big(self) -> bool:
        return self.model == BIG


CASES = {
    case.name: case
    for case in (
        Case("tiny-warm", "6.7 MB, in the page cache", TINY, make_warm),
        Case("tiny-cold", "6.7 MB, on disk", TINY, make_cold),
        Case("big-warm", "1.6 GB, in the page cache", BIG, make_warm),
        Case("big-cold", "1.6 GB, on disk", BIG, make_cold),
    )
}


def beside_bare(case: Case, pairs: int) -> Iterator[Swap]:
    """Away from a small model and back, by both sides in turn; only the first swap counts."""
    with ExitStack() as stack:
        sides: dict[str, Bare | Proxied] = {
            BARE: stack.enter_context(Bare(folder_for(stack))),
            HOTSEAT: stack.enter_context(Proxied(folder_for(stack))),
        }
        for pair in range(-1, pairs):  # the first pair warms other caches
            for name, side in sides.items():
                case.prepare(model_file(case.model))
                spans = side.swap_to(case.model)
                side.swap_to(REST)
                if pair >= 0:
                    yield Swap(case.name, name, spans)


BEHIND_DRAIN = Case("big-drain", f"1.6 GB, on disk, behind a drain of {DRAIN_S:g} s", BIG, make_cold)
ALL = {**CASES, BEHIND_DRAIN.name: BEHIND_DRAIN}


def behind_drain(case: Case, pairs: int) -> Iterator[Swap]:
    """The small model is in use and drains; one hotseat reads the next model's file meanwhile, the other does not."""
    with ExitStack() as stack:
        rigs = {
            side: stack.enter_context(Proxied(folder_for(stack), {**AT_ONCE, "readAhead": side == AHEAD}))
            for side in (WAITING, AHEAD)
        }
        for pair in range(-1, pairs):
            for side, rig in rigs.items():
                case.prepare(model_file(case.model))
                spans, words = rig.swap_behind_drain(case.model, DRAIN_S)
                rig.swap_to(REST)
                if pair >= 0:
                    yield Swap(case.name, side, spans, words)


def folder_for(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(dir=REPOSITORY / ".cache")))


SHORTEST_S, LONGEST_S = 0.05, 2.0
LEAST_S, PART = 0.010, 0.02
"""A server may go unnoticed for so long, or for this share of its load time, whichever is more."""


@dataclass(frozen=True, slots=True)
class Noticed:
    load_s: float
    late_s: float

    @property
    def is_prompt(self) -> bool:
        return self.late_s <= max(LEAST_S, PART * self.load_s)


def notice_all(starts: int) -> list[Noticed]:
    return asyncio.run(_notice_all(starts))


async def _notice_all(starts: int) -> list[Noticed]:
    rng = random.Random(1)
    async with open_supervisor(os.environ) as supervisor:
        stage = SupervisorRig(supervisor)
        return [await _notice(stage, SHORTEST_S * (LONGEST_S / SHORTEST_S) ** rng.random()) for _ in range(starts)]


async def _notice(stage: SupervisorRig, load_s: Seconds) -> Noticed:
    began = time.monotonic()
    ready = await stage.ready(model("slow_to_load", str(load_s)))
    noticed = time.monotonic()
    said = [line for line in stage.tail(10) if "ready at " in line][-1]
    await stage.end(ready)
    was_ready = float(said.partition("ready at ")[2])
    return Noticed(was_ready - began, noticed - was_ready)
