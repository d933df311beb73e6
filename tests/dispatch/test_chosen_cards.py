"""The cards that the scheduler chooses reach real servers, through dispatcher and supervisor. Drivers are simulated."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.catalogs import GIB, gpu, with_budget
from tests.support.supervisor_rig import GUARD_INTERPRETER, model
from tests.support.waiting import come_true

from hotseat.catalog.spec import GpuChoice
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.identifiers import ANY_GPU, ClientId, DeviceName, ModelName
from hotseat.model_servers.supervisor import open_supervisor
from hotseat.model_servers.visible_gpus import CardName, Runtime
from hotseat.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotseat.catalog.spec import ModelSpec
    from hotseat.errors import HotseatError
    from hotseat.identifiers import TicketId, Upstream
    from hotseat.model_servers.supervisor import Supervisor

NAMES = {DeviceName(f"gpu{number}"): CardName(Runtime.CUDA, f"GPU-{number}-aaaa", number) for number in range(2)}
VARIABLE = "CUDA_VISIBLE_DEVICES="


def anywhere(name: str) -> ModelSpec:
    """A server that prints its environment; two do not fit on one card."""
    choice = GpuChoice(None, (gpu(0), gpu(1)))
    return replace(
        model("prints_its_environment"),
        name=ModelName(name),
        memory={ANY_GPU: 20 * GIB},
        gpus=choice,
    )


class Asked:
    """A client that waits for its server."""

    def __init__(self) -> None:
        self.upstream: Upstream | None = None
        self.error: HotseatError | None = None

    def granted(self, upstream: Upstream, reason: str = "") -> None:
        self.upstream = upstream

    def confirmed(self) -> None:
        raise AssertionError("a request is not confirmed")

    def refused(self, error: HotseatError) -> None:
        self.error = error

    def cut(self, error: HotseatError) -> None:
        self.error = error


class Rig:
    def __init__(self, supervisor: Supervisor) -> None:
        catalog = with_budget(*map(anywhere, ("a", "b", "c")), gib={0: 24, 1: 24})
        self._supervisor = supervisor
        self.dispatcher = Dispatcher(Scheduler(catalog), supervisor, Journal())
        self.using: set[TicketId] = set()

    async def served(self, name: str) -> TicketId:
        asked = Asked()
        ticket = self.dispatcher.ask(ModelName(name), ClientId("someone"), asked, takes_slot=True)
        await come_true(lambda: asked.upstream or asked.error)
        assert asked.error is None
        self.using.add(ticket)
        return ticket

    def leave(self, *tickets: TicketId) -> None:
        for ticket in tickets:
            self.using.remove(ticket)
            self.dispatcher.leave(ticket)

    async def seen_by(self, name: str) -> list[str]:
        """The cards that each process of this model found in its environment."""
        output = self._supervisor.outputs.of(ModelName(name))
        lines = await come_true(lambda: [line.text for line in output.tail(1000) if line.text.startswith(VARIABLE)])
        return [line.removeprefix(VARIABLE) for line in lines]


@asynccontextmanager
async def opened() -> AsyncIterator[Rig]:
    names = {**os.environ, "CUDA_VISIBLE_DEVICES": "7"}
    async with open_supervisor(names, interpreter=GUARD_INTERPRETER, card_names=lambda: NAMES) as supervisor:
        rig = Rig(supervisor)
        try:
            yield rig
        finally:
            rig.leave(*rig.using)
            await rig.dispatcher.shut_down(within=0)


async def test_each_server_sees_the_card_that_was_chosen_for_it() -> None:
    """Two models run on a card each; the third gets the card of the one that is not in use."""
    async with opened() as rig:
        await rig.served("a")
        finished = await rig.served("b")
        assert [await rig.seen_by("a"), await rig.seen_by("b")] == [["GPU-0-aaaa"], ["GPU-1-aaaa"]]

        rig.leave(finished)
        await rig.served("c")
        assert await rig.seen_by("c") == ["GPU-1-aaaa"]
