"""When the machine is measured."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.virtual_time import advance, in_virtual_time

from hotseat.hardware.measurement import Reading, Use
from hotseat.hardware.polling import Measured, Polling
from hotseat.identifiers import DeviceName, ModelName
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Collection

QWEN, GEMMA, GPU = ModelName("qwen"), ModelName("gemma"), DeviceName("gpu0")


@dataclass
class PollingRig:
    """Running models, and the times of their measurements."""

    running: dict[ModelName, int] | None = field(default_factory=dict)
    looks: list[tuple[float, dict[ModelName, int]]] = field(default_factory=list)
    measured: list[Measured | None] = field(default_factory=list)
    pause_s: float | None = 5.0

    def __post_init__(self) -> None:
        self.rounds = Polling(self, lambda: self.running, self.measured.append, lambda: self.pause_s)

    async def sample(self, roots: Collection[int]) -> Reading:
        self.looks.append((asyncio.get_running_loop().time(), dict(self.running or {})))
        return Reading(processes={pid: {GPU: Use(pid)} for pid in roots if pid < 100})


@in_virtual_time
async def test_while_something_runs_it_is_looked_at_every_few_seconds() -> None:
    """Each model gets its own server's figures; a server that is not seen has none."""
    rig = PollingRig({QWEN: 40, GEMMA: 100})
    tasks = Tasks()
    tasks.start(rig.rounds.walk(), "rounds")
    await advance(11)
    await tasks.aclose()

    assert [at for at, _ in rig.looks] == [0.0, 5.0, 10.0]
    assert rig.measured[0]
    assert rig.measured[0].models == {QWEN: {GPU: Use(40)}}


@in_virtual_time
async def test_a_change_is_looked_at_at_once() -> None:
    """A start or a stop does not wait for the next round; without an interval, that measurement is the last."""
    rig = PollingRig({QWEN: 40}, pause_s=None)
    tasks = Tasks()
    tasks.start(rig.rounds.walk(), "rounds")
    await advance(1)
    rig.running = {}
    rig.rounds.look_now()
    await advance(60)
    rig.running = {GEMMA: 41}
    rig.rounds.look_now()
    await advance(1)
    await tasks.aclose()

    assert rig.looks == [(0.0, {QWEN: 40}), (1.0, {}), (61.0, {GEMMA: 41})]


@in_virtual_time
async def test_nobody_looks_where_nobody_wants_to_know() -> None:
    """No driver is woken, and the listener gets None."""
    rig = PollingRig(None, pause_s=None)
    tasks = Tasks()
    tasks.start(rig.rounds.walk(), "rounds")
    await advance(60)
    await tasks.aclose()

    assert (rig.looks, rig.measured) == ([], [None])
