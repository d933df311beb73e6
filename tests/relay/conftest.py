"""The relay runs on uvloop, and on plain asyncio where that is missing: `just deep` runs its tests on both."""

from __future__ import annotations

import asyncio
import resource
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
import uvloop
from tests.support.depth import IS_DEEP
from tests.support.relay_rig import MODELS, RelayRig, relay_rig
from tests.support.transport import DEADLINE_S

from hotseat.settings import Access, Limits, Settings
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from hotseat.catalog.spec import ModelSpec

    OpenRig = Callable[..., Awaitable[RelayRig]]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop} | ({"asyncio": asyncio.new_event_loop} if IS_DEEP else {})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On plain asyncio, tests marked `one_loop` are left out."""
    items[:] = [item for item in items if not (is_on_asyncio(item) and item.get_closest_marker("one_loop"))]
    for item in filter(is_on_asyncio, items):
        item.add_marker("deep")


def is_on_asyncio(item: pytest.Item) -> bool:
    parameters = getattr(item, "callspec", None)
    return parameters is not None and parameters.params.get("_asyncio_loop_factory") is asyncio.new_event_loop


@pytest.fixture
async def open_rig(tmp_path: Path) -> AsyncIterator[OpenRig]:
    """Starts the relay that a test needs; it is closed and checked after the test."""
    async with AsyncExitStack() as stack:

        async def opened(
            *,
            limits: Limits | None = None,
            access: Access | None = None,
            models: tuple[ModelSpec, ...] = MODELS,
            settings: Settings | None = None,
            **known: Any,
        ) -> RelayRig:
            rules = settings or Settings(limits=limits or Limits(), access=access or Access())
            return await stack.enter_async_context(relay_rig(tmp_path, rules, models, **known))

        yield opened


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that a busy machine makes are no waits worth reporting, and it may need seconds to replace a server."""
    monkeypatch.setattr("hotseat.relay.exchange.response_start.WORTH_REPORTING_S", 5.0)
    monkeypatch.setattr("hotseat.relay.exchange.targets.UNREACHABLE_S", DEADLINE_S)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreachable server is tried only once more."""
    monkeypatch.setattr("hotseat.relay.exchange.targets.UNREACHABLE_S", 0.0)


@pytest.fixture
def many_files() -> Iterator[None]:
    """As many descriptors as this process may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
async def rig(open_rig: OpenRig) -> RelayRig:
    return await open_rig()


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    tasks = Tasks()
    yield tasks
    await tasks.aclose()
