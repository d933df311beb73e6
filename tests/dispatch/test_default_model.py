"""The default model loads again after another one's ttl: real scheduler, fake launcher, virtual time."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.catalogs import in_groups, model, one_at_a_time, sleeps, with_model
from tests.support.fake_launcher import FakeLauncher
from tests.support.virtual_time import advance, in_virtual_time

from hotseat.catalog.groups import Group
from hotseat.dispatch.default_model import DefaultModelLoader, Preload
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.identifiers import ModelName
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.scheduler import Scheduler
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from hotseat.catalog.catalog import Catalog

DEFAULT, OTHER, THIRD = ModelName("default"), ModelName("other"), ModelName("third")
MODELS = ("default", model("other", ttl_s=60.0), model("third"))
CATALOG = replace(one_at_a_time(*MODELS), default_model=DEFAULT, returns_to_default=True)


@asynccontextmanager
async def opened(catalog: Catalog, launcher: FakeLauncher | None = None) -> AsyncIterator[Dispatcher]:
    tasks, journal = Tasks(), Journal()
    dispatcher = Dispatcher(Scheduler(catalog), launcher or FakeLauncher(), journal)
    journal.listen(DefaultModelLoader(dispatcher, tasks).watch)
    yield dispatcher
    await dispatcher.shut_down(within=0)
    await tasks.aclose()


async def running_after(dispatcher: Dispatcher, seconds: float) -> list[str]:
    await advance(seconds)
    return [model.name for model in dispatcher.views.current().running()]


@in_virtual_time
async def test_the_default_comes_back_when_another_model_was_not_used() -> None:
    """The next request without a particular model finds it loaded."""
    async with opened(CATALOG) as dispatcher:
        await dispatcher.operator.load(DEFAULT)
        await dispatcher.operator.load(OTHER)
        before, after = await running_after(dispatcher, 59), await running_after(dispatcher, 2)

    assert (before, after) == (["other"], ["default"])


@in_virtual_time
async def test_a_default_that_sleeps_comes_back_too() -> None:
    """It is woken, and a sleeping model does not have to leave for it."""
    catalog = with_model(CATALOG, model("default", sleep=sleeps()))
    async with opened(catalog) as dispatcher:
        await dispatcher.operator.load(DEFAULT)
        await dispatcher.operator.load(OTHER)
        asleep, after = dispatcher.views.of(DEFAULT).phase, await running_after(dispatcher, 61)

    assert (asleep, after) == (Phase.ASLEEP, ["default"])


@in_virtual_time
async def test_the_default_is_not_loaded_unless_that_is_configured() -> None:
    """Without the setting nothing is loaded that was not requested."""
    async with opened(replace(CATALOG, returns_to_default=False)) as dispatcher:
        await dispatcher.operator.load(OTHER)

        assert await running_after(dispatcher, 61) == []


@in_virtual_time
async def test_an_operator_who_stops_a_model_wants_it_stopped() -> None:
    """Only a ttl brings the default back."""
    async with opened(CATALOG) as dispatcher:
        await dispatcher.operator.load(OTHER)
        await dispatcher.operator.unload(OTHER)

        assert await running_after(dispatcher, 1) == []


@in_virtual_time
async def test_the_default_that_was_not_used_itself_stays_away() -> None:
    """Its own ttl is meant as it says."""
    models = (model("default", ttl_s=60.0), "other")
    async with opened(replace(one_at_a_time(*models), default_model=DEFAULT, returns_to_default=True)) as dispatcher:
        await dispatcher.operator.load(DEFAULT)

        assert await running_after(dispatcher, 61) == []


@in_virtual_time
async def test_nobody_has_to_go_for_it() -> None:
    """Where another model runs that it would push out, it does not come."""
    pair = Group("pair", swap=False, exclusive=False, members=(OTHER, THIRD))
    catalog = replace(in_groups(pair, models=MODELS), default_model=DEFAULT, returns_to_default=True)
    async with opened(catalog) as dispatcher:
        await dispatcher.operator.load(THIRD)
        await dispatcher.operator.load(OTHER)

        assert await running_after(dispatcher, 61) == ["third"]


@in_virtual_time
async def test_a_default_that_cannot_come_back_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """No request waits for it, so only the log reports it."""
    async with opened(CATALOG, FakeLauncher(broken=("default",))) as dispatcher:
        await dispatcher.operator.load(OTHER)
        with caplog.at_level(logging.WARNING, "hotseat.dispatch.default_model"):
            await running_after(dispatcher, 61)

    assert "return to the default model failed model=default" in caplog.text


@in_virtual_time
async def test_another_process_goes_on_with_the_models_of_the_startup() -> None:
    """From the one that was being loaded; the process that is replaced loads no more of them itself."""
    side_by_side = Group("all", swap=False, exclusive=False, members=(DEFAULT, OTHER, THIRD))
    catalog, tasks, launcher = in_groups(side_by_side, models=MODELS), Tasks(), FakeLauncher(slow=("other",))
    async with opened(catalog, launcher) as old, opened(catalog) as new:
        before = Preload(old, [DEFAULT, OTHER, THIRD])
        tasks.start(before.run(), "preload")
        await advance(1)
        after = Preload(new, before.left)
        before.left.clear()
        launcher.become_ready("other")
        await after.run()

        assert (await running_after(new, 1), after.left) == (["other", "third"], [])
        assert await running_after(old, 1) == ["default", "other"]
        await tasks.aclose()
