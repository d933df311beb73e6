"""The traffic feed, over a real connection."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.support.waiting import come_true

from hotseat.catalog.catalog import Policy
from hotseat.catalog.groups import TOGETHER, Groups, Matrix
from hotseat.cli.record import Watched
from hotseat.identifiers import ClientId, LaunchId, ModelName
from hotseat.scheduling.events import (
    CatalogChanged,
    ConversationsRestored,
    ConversationsSaved,
    PromptProcessed,
    SlotsLearned,
    Transfer,
)
from hotseat.simulation.trace import Matrix as TracedMatrix
from hotseat.simulation.trace import Scheduler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.management import Management

    from hotseat.errors import HotseatError
    from hotseat.identifiers import Upstream

ALPHA = ModelName("alpha")


class FakeWaiter:
    def __init__(self) -> None:
        self.is_granted = asyncio.Event()

    def granted(self, upstream: Upstream, reason: str = "") -> None:
        self.is_granted.set()

    def confirmed(self) -> None: ...
    def refused(self, error: HotseatError) -> None: ...
    def cut(self, error: HotseatError) -> None: ...


async def next_item(lines: AsyncIterator[str]) -> dict[str, Any]:
    async for line in lines:
        if line.startswith("data: "):
            item: dict[str, Any] = json.loads(line.removeprefix("data: "))
            return item
    raise AssertionError("the feed has ended")


async def use(rig: Management, model: ModelName, client: str, computed: int = 0) -> None:
    waiter = FakeWaiter()
    ticket = rig.dispatcher.ask(model, ClientId(client), waiter)
    await waiter.is_granted.wait()
    if computed:
        rig.dispatcher.prompt_processed(PromptProcessed(ticket, computed, 40, 0.25, 8))
    rig.dispatcher.leave(ticket)


async def test_the_feed_has_the_configuration_then_the_traffic(rig: Management) -> None:
    """The feed starts with the models and the policy, then reports each load, request and stop."""
    async with rig.feed("/hotseat/traffic") as lines:
        machine = await next_item(lines)
        await come_true(lambda: rig.dispatcher.traffic.is_watched)
        await use(rig, ALPHA, "ann")
        load, request = await next_item(lines), await next_item(lines)
        await rig.dispatcher.operator.unload(ALPHA)
        stop = await next_item(lines)

    assert (machine["t"], machine["patience"], machine["devices"]) == ("machine", 2.0, {})
    assert "alpha" in [model["name"] for model in machine["models"]]
    assert (load["t"], load["model"]) == ("load", "alpha")
    assert (request["t"], request["client"], request["model"]) == ("request", "ann", "alpha")
    assert request["arrived"] <= request["granted"] <= request["left"]
    assert (stop["t"], stop["model"]) == ("stop", "alpha")


async def test_the_feed_has_the_tokens_of_prompts(rig: Management) -> None:
    """As numbers, where the server reports them, whether or not conversations are kept."""
    async with rig.feed("/hotseat/traffic") as lines:
        watched = Watched()
        watched.note(await next_item(lines))
        await come_true(lambda: rig.dispatcher.traffic.is_watched)
        await use(rig, ALPHA, "ann", computed=500)
        await use(rig, ALPHA, "ann")
        for _ in range(3):
            watched.note(await next_item(lines))
    first, second = watched.recording.requests

    assert first.prompt is not None
    assert (first.prompt.computed, first.prompt.cached, first.prompt.took_s, first.prompt.generated) == (
        500,
        40,
        0.25,
        8,
    )
    assert (first.process, second.process, second.prompt) == (1, 1, None)


async def test_the_feed_has_what_was_saved_and_restored(rig: Management) -> None:
    """Each conversation with its tokens and its time, from which a recording has their rates."""
    async with rig.feed("/hotseat/traffic") as lines:
        watched = Watched()
        watched.note(await next_item(lines))
        await come_true(lambda: rig.dispatcher.traffic.is_watched)
        rig.dispatcher.tell(ConversationsSaved(ALPHA, LaunchId(1), (Transfer(500, 1 << 20, 0.5),)))
        rig.dispatcher.tell(ConversationsRestored(ALPHA, LaunchId(1), (Transfer(500, 1 << 20, 0.25),)))
        for _ in range(2):
            watched.note(await next_item(lines))

    assert (watched.recording.saves, watched.recording.restores) == ({"alpha": [1000.0]}, {"alpha": [2000.0]})


async def test_slots_are_in_the_feed_as_soon_as_they_are_known(rig: Management) -> None:
    """A server reports them after it has become ready; later feeds begin with them."""
    async with rig.feed("/hotseat/traffic") as lines:
        machine = await next_item(lines)
        await come_true(lambda: rig.dispatcher.traffic.is_watched)
        await rig.dispatcher.operator.load(ALPHA)
        rig.dispatcher.tell(SlotsLearned(ALPHA, LaunchId(1), 4))
        _, slots = await next_item(lines), await next_item(lines)
    async with rig.feed("/hotseat/traffic") as lines:
        later = await next_item(lines)

    assert slots_in(machine)["alpha"] is None
    assert slots == {"t": "slots", "model": "alpha", "slots": 4}
    assert slots_in(later)["alpha"] == 4


def slots_in(machine: dict[str, Any]) -> dict[str, int | None]:
    return {model["name"]: model["slots"] for model in machine["models"]}


async def test_the_feed_has_the_whole_policy(rig: Management) -> None:
    """So that a simulation of its recording decides as this hotseat does."""
    matrix = Matrix(((ALPHA, ModelName("beta")),), {ALPHA: 3})
    catalog = rig.dispatcher.catalog
    rig.dispatcher.tell(
        CatalogChanged(replace(catalog, policy=Policy(3.0, 20, 90.0), groups=Groups(default=TOGETHER, matrix=matrix)))
    )
    async with rig.feed("/hotseat/traffic") as lines:
        machine = await next_item(lines)
    watched = Watched()
    watched.note(machine)

    assert watched.recording.scheduler == Scheduler(3.0, 20, 90.0)
    assert watched.recording.matrix == TracedMatrix((("alpha", "beta"),), {"alpha": 3})


async def test_the_feed_holds_no_secrets(rig: Management) -> None:
    """The feed has no commands and no environments of models."""
    async with rig.feed("/hotseat/traffic") as lines:
        machine = await next_item(lines)

    assert "hush" not in json.dumps(machine)
    keys = {"name", "load_s", "slots", "memory", "gpus", "ttl_s", "urgency", "pinned", "keeps_conversations"}
    assert set(machine["models"][0]) == keys


async def test_the_feed_ends_when_its_time_is_up(rig: Management) -> None:
    """After `seconds` the feed ends and recording stops."""
    async with rig.feed("/hotseat/traffic?seconds=0.05") as lines:
        rest = [line async for line in lines if line.startswith("data:")]

    assert len(rest) == 1
    assert not rig.dispatcher.traffic.is_watched


async def test_a_feed_that_was_left_costs_nothing(rig: Management) -> None:
    """Recording stops when the client disconnects, even if no event occurs."""
    async with rig.feed("/hotseat/traffic") as lines:
        await next_item(lines)

    await come_true(lambda: not rig.dispatcher.traffic.is_watched)
