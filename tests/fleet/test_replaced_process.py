"""A process that was replaced by a new one of its host, and still has requests in progress."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import FakeLauncher, catalog
from tests.support.fleet_in_process import MODELS, SECRET, InProcessFleetClient, in_process_fleet, process_of
from tests.support.in_process_store import InProcess
from tests.support.waiting import come_true

from hotseat.fleet import forwarded
from hotseat.fleet.claims import key_of
from hotseat.fleet.records import Claim, HostOrder, encoded
from hotseat.fleet.store import Bucket
from hotseat.identifiers import Address, ClientId, HostName, ModelName
from hotseat.settings import Fleet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.fleet_in_process import Host, InProcessFleet

    from hotseat.errors import HotseatError
    from hotseat.fleet.route import Route
    from hotseat.fleet.store import Revision

    Replace = Callable[..., Awaitable[Host]]

A, B, QWEN = HostName("a"), HostName("b"), ModelName("qwen")


class Request:
    """One that was forwarded to another host."""

    def __init__(self) -> None:
        self.has_ended = asyncio.Event()

    def last_received(self) -> None: ...

    def host_is_silent(self) -> None:
        self.has_ended.set()


@pytest.fixture
async def fleet() -> AsyncIterator[InProcessFleet]:
    async with in_process_fleet("a", "b") as fleet:
        yield fleet


@pytest.fixture
async def replace(fleet: InProcessFleet) -> AsyncIterator[Replace]:
    """Puts a new process in the place of an old one."""
    async with AsyncExitStack() as stack:

        async def replace(old: Host, name: str = "a") -> Host:
            await old.node.fall_silent()
            settings = Fleet(("nats://nowhere",), HostName(name), address="http://a", secrets=(SECRET,))
            client = InProcessFleetClient(fleet)
            new = process_of(settings, InProcess(fleet.board), catalog(*MODELS), FakeLauncher(), client, old.own.token)
            stack.push_async_callback(new.dispatcher.shut_down, 0)
            await new.node.join()
            stack.push_async_callback(new.node.leave)
            return new

        yield replace


async def test_a_request_waits_until_hosts_agree(fleet: InProcessFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets its host, though its process has been replaced meanwhile."""
    old, asked, answered = fleet["a"], asyncio.Event(), asyncio.Event()
    answers: list[Route | HotseatError] = []
    create = old.store.create

    async def slow(bucket: Bucket, key: str, value: bytes) -> Revision:
        asked.set()
        await answered.wait()
        return await create(bucket, key, value)

    monkeypatch.setattr(old.store, "create", slow)
    old.node.host_selector.claim_and_select(QWEN, ClientId("ann"), answers.append)
    await asked.wait()
    await old.node.fall_silent()
    answered.set()

    await come_true(lambda: answers)
    assert fleet.board.current(Bucket.CLAIMS).keys() == {key_of(QWEN, 0)}


async def test_the_host_of_a_forwarded_request_stops_answering(
    fleet: InProcessFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request ends as it would in any other process."""
    monkeypatch.setattr(forwarded, "ROUND_S", 0.01)
    request = Request()
    fleet["a"].node.host_selector.forwarded.sent(B, Address("b", 80), request)
    await fleet["a"].node.fall_silent()
    fleet.silent.add("b")

    await come_true(request.has_ended.is_set)


async def test_the_new_process_acts_for_the_host(fleet: InProcessFleet, replace: Replace) -> None:
    """The old one loads nothing for the fleet and keeps no orders, though it learns of both."""
    old = fleet["a"]
    new = await replace(old)
    await fleet["b"].node.store.put(Bucket.ORDERS, "a", encoded(HostOrder(cordoned=True)))
    claim = Claim(QWEN, A, B, "a reason", 0, unasked=True, id="1")
    await fleet["b"].node.store.put(Bucket.CLAIMS, key_of(QWEN, 0), encoded(claim))
    await come_true(lambda: new.dispatcher.questions.is_running(QWEN))
    await come_true(lambda: old.node.roster.orders.of(A).cordoned)
    await come_true(lambda: [member.name for member in old.node.roster.hosts.holders(QWEN)] == ["a"])

    assert old.running() == []
    assert (old.own.orders, new.own.orders) == (frozenset(), frozenset({"cordon"}))


async def test_an_operator_has_asked_the_old_process_for_a_move(fleet: InProcessFleet, replace: Replace) -> None:
    """The answer comes when the new process has the model ready, whose record the old one reads."""
    await replace(fleet["a"])

    assert await fleet["a"].fleet_admin.move("qwen", "a") == "qwen is ready on a; no surplus copy on another host"


@pytest.mark.parametrize("has_new_name", [True, False])
async def test_the_record_of_the_old_process(fleet: InProcessFleet, replace: Replace, has_new_name: bool) -> None:
    """It is removed if the new process has another name, and else replaced; the other hosts are still known."""
    old = fleet["a"]
    await replace(old, "c" if has_new_name else "a")
    await old.node.remove_record()
    names = {"b", "c"} if has_new_name else {"a", "b"}

    assert fleet.board.current(Bucket.HOSTS).keys() == names
    await come_true(lambda: {member.name for member in old.node.roster.hosts} == names | {"a"})
