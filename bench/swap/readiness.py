"""The delay until hotseat notices a ready server, with servers that record when they become ready.

They become ready after a twentieth of a second to a few seconds, with a log-uniform distribution.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.supervisor_rig import SupervisorRig, model

from hotseat.model_servers.open_supervisor import open_supervisor

if TYPE_CHECKING:
    from hotseat.identifiers import Seconds

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
