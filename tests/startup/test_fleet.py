"""A host of a fleet whose process is replaced before it has joined."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.in_process_store import Board, InProcess
from tests.support.waiting import come_true

from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.fleet import node
from hotseat.fleet.proofs import FleetSecret, SignedStore
from hotseat.fleet.records import HostRecord, encoded
from hotseat.fleet.store import Bucket
from hotseat.identifiers import HostName
from hotseat.scheduling.scheduler import Scheduler
from hotseat.settings import Fleet
from hotseat.startup.shared import FleetHandle
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from hotseat.fleet.store import Store

SETTINGS = Fleet(("nats://nowhere",), HostName("a"), "http://a:80", secrets=("hush",))


class Watched(InProcess):
    """Counts the watches that are open."""

    watches = 0

    async def watch(self, bucket: Bucket) -> AsyncIterator[Any]:
        self.watches += 1
        try:
            async for change in super().watch(bucket):
                yield change
        finally:
            self.watches -= 1


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Watched:
    """The store that a host opens when it joins."""
    store = Watched(Board())

    @asynccontextmanager
    async def open_store(_: Fleet) -> AsyncIterator[Store]:
        yield store

    monkeypatch.setattr(node, "open_store", open_store)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return store


@pytest.fixture
async def dispatcher() -> AsyncIterator[Dispatcher]:
    dispatcher = Dispatcher(Scheduler(catalog(spec("alpha"))), FakeLauncher(), Journal())
    yield dispatcher
    await dispatcher.shut_down(0)


async def test_a_process_that_waits_for_its_name_is_replaced(store: Watched, dispatcher: Dispatcher) -> None:
    """It stops trying, and watches nothing: the new process is the member."""
    held = HostRecord(HostName("a"), "http://elsewhere:80", "1", "digest")
    await SignedStore(store, FleetSecret(SETTINGS.secrets, SETTINGS.prefix)).put(Bucket.HOSTS, "a", encoded(held))
    fleet, tasks = FleetHandle(), Tasks()
    async with AsyncExitStack() as stack:
        fleet.joining = tasks.start(fleet.join(stack, SETTINGS, dispatcher, lambda: False), "join the fleet")
        await come_true(lambda: store.watches)
        await fleet.fall_silent()

        assert fleet.joining.cancelled()
        assert (store.watches, fleet.node) == (0, None)


async def test_a_process_is_replaced_while_it_starts(store: Watched, dispatcher: Dispatcher) -> None:
    """It joins after it was to fall silent: it withdraws its record, and writes no other one."""
    fleet = FleetHandle()
    async with AsyncExitStack() as stack:
        await fleet.fall_silent()
        joined = await fleet.join(stack, SETTINGS, dispatcher, lambda: False)
        await fleet.remove_record()

        assert await store.read(Bucket.HOSTS, "a") is None
        assert list(joined._membership._publishing) == []
