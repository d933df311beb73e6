"""Requests at a host that stops answering."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.fleet import RosterRig, host
from tests.support.virtual_time import advance, in_virtual_time

from hotseat.fleet.forwarded import ROUND_S, SILENT, ForwardedRequests
from hotseat.fleet.member import PathState
from hotseat.fleet.store import Bucket
from hotseat.identifiers import Address, HostName
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

A, B, THERE = HostName("a"), HostName("b"), Address("a", 80)
UNTIL_SILENT_S = (SILENT + 1) * ROUND_S


@dataclass(eq=False)
class Request:
    is_ended: bool = False
    has_data: bool = False
    """In each round."""

    def last_received(self) -> object:
        return object() if self.has_data else None

    def host_is_silent(self) -> None:
        self.is_ended = True


@dataclass
class Rig:
    """The clock of records is the one of the checks, which wait in virtual time."""

    rig: RosterRig
    is_answering: bool = True
    state: PathState = field(default_factory=PathState)
    """What an answer shows."""
    asked: list[Address] = field(default_factory=list)
    on_question: Callable[[], object] = lambda: None

    async def path_to(self, address: Address) -> PathState:
        self.asked.append(address)
        self.on_question()
        return self.state if self.is_answering else PathState("its certificate is not trusted")


@asynccontextmanager
async def forwarded(rig: Rig) -> AsyncIterator[ForwardedRequests]:
    roster, now, tasks = rig.rig.roster, asyncio.get_running_loop().time, Tasks()
    requests = ForwardedRequests(roster, rig.path_to, lambda host, problem: roster.suspect(host, now(), problem))
    tasks.start(requests.keep_checking(), "check")
    yield requests
    await tasks.aclose()


@in_virtual_time
async def test_a_host_sends_data() -> None:
    """It is not asked because of them: the path that requests use works."""
    rig = Rig(RosterRig())
    async with forwarded(rig) as requests:
        requests.sent(A, THERE, Request(has_data=True))
        await advance(UNTIL_SILENT_S)

    assert rig.asked == []


@in_virtual_time
async def test_a_host_that_has_much_to_compute_answers() -> None:
    """Its requests go on, however long nothing comes, and also without NATS."""
    rig, request = Rig(RosterRig()), Request()
    async with forwarded(rig) as requests:
        requests.sent(A, THERE, request)
        await advance(60)

    assert (request.is_ended, set(rig.asked)) == (False, {THERE})


@in_virtual_time
async def test_a_path_stalls_while_nats_works() -> None:
    """Its requests end, after it was asked several times; those that are over or still receive data are not touched."""
    rig, request, over, flowing = Rig(RosterRig().hosts(host("a")), False), Request(), Request(), Request(has_data=True)
    async with forwarded(rig) as requests:
        for each in (request, over, flowing):
            requests.sent(A, THERE, each)
        requests.over(A, over)
        await advance(SILENT * ROUND_S - 0.1)
        assert not request.is_ended
        await advance(UNTIL_SILENT_S)

    assert (request.is_ended, over.is_ended, flowing.is_ended) == (True, False, False)


@in_virtual_time
async def test_a_path_works_again_after_its_requests_have_ended() -> None:
    """Until then the host gets no request, although it renews its lease; afterwards it does at once."""
    rig, request, now = (
        Rig(RosterRig().hosts(host("a")), is_answering=False),
        Request(),
        asyncio.get_running_loop().time,
    )
    there = rig.rig.roster.hosts.get(A)
    assert there is not None
    async with forwarded(rig) as requests:
        requests.sent(A, THERE, request)
        await advance(UNTIL_SILENT_S + ROUND_S)
        requests.over(A, request)
        for _ in range(10):
            rig.rig.hosts(host("a"))
            await advance(ROUND_S)
            assert there.is_shunned(now())
        assert there.problem == "it does not answer /health: its certificate is not trusted"
        rig.is_answering = True
        await advance(ROUND_S)

    assert request.is_ended
    assert not there.is_shunned(now())


@in_virtual_time
async def test_a_silent_host_leaves_the_fleet() -> None:
    """Nobody asks it any more."""
    rig, request = Rig(RosterRig().hosts(host("a")), is_answering=False), Request()
    async with forwarded(rig) as requests:
        requests.sent(A, THERE, request)
        await advance(UNTIL_SILENT_S)
        rig.rig.remove(Bucket.HOSTS, "a")
        requests.over(A, request)
        asked = len(rig.asked)
        await advance(60)

    assert len(rig.asked) == asked


@in_virtual_time
async def test_the_last_request_at_a_host_ends_as_hosts_are_asked() -> None:
    """Hosts are asked again when a request is quiet there."""
    rig, over, later = Rig(RosterRig(), is_answering=False), Request(), Request()
    async with forwarded(rig) as requests:
        requests.sent(A, THERE, Request())
        requests.sent(B, THERE, over)
        rig.on_question = lambda: requests.over(B, over)
        await advance(2.1 * ROUND_S)
        requests.sent(B, THERE, later)
        await advance(UNTIL_SILENT_S)

    assert (later.is_ended, over.is_ended) == (True, False)


@in_virtual_time
async def test_a_host_answers_again() -> None:
    """Only questions that stay unanswered one after the other count."""
    rig, request = Rig(RosterRig(), is_answering=False), Request()
    async with forwarded(rig) as requests:
        requests.sent(A, THERE, request)
        for _ in range(5):
            rig.is_answering = False
            await advance((SILENT - 1) * ROUND_S)
            rig.is_answering = True
            await advance(ROUND_S)

    assert not request.is_ended


@in_virtual_time
async def test_hosts_without_requests_are_asked_in_turn() -> None:
    """Each of the others is asked once before one is asked twice, and what its answer shows is noted."""
    rig = Rig(RosterRig().hosts(host("here"), host("a"), host("b"), host("c")))
    rig.state = PathState("", 1_800_000_000.0, -7.0)
    async with forwarded(rig):
        await advance(5.1 * ROUND_S)

    assert [address.host for address in rig.asked] == ["a", "b", "c", "a", "b"]
    assert {member.path for member in rig.rig.roster.hosts if member.name != "here"} == {rig.state}


@in_virtual_time
async def test_a_path_is_broken_before_a_request_comes() -> None:
    """The host gets none until it answers, if need be at its new address."""
    rig, now = Rig(RosterRig().hosts(host("a")), is_answering=False), asyncio.get_running_loop().time
    there = rig.rig.roster.hosts.get(A)
    assert there is not None
    async with forwarded(rig):
        await advance(1.1 * ROUND_S)
        was_shunned = there.is_shunned(now())
        rig.rig.hosts(host("a", address="http://elsewhere"))
        rig.is_answering = True
        await advance(ROUND_S)

    assert was_shunned
    assert not there.is_shunned(now())
    assert [address.host for address in rig.asked] == ["a", "elsewhere"]


@in_virtual_time
async def test_a_host_comes_back_elsewhere_while_it_is_asked() -> None:
    """What its former address does not answer says nothing about it, and that is not asked any more."""
    rig, now = Rig(RosterRig().hosts(host("a")), is_answering=False), asyncio.get_running_loop().time
    rig.on_question = lambda: rig.rig.hosts(host("a", boot="second", address="http://elsewhere"))
    there = rig.rig.roster.hosts.get(A)
    assert there is not None
    async with forwarded(rig):
        await advance(1.1 * ROUND_S)
        rig.is_answering = True
        was_shunned = there.is_shunned(now())
        await advance(3 * ROUND_S)

    assert not was_shunned
    assert [address.host for address in rig.asked] == ["a", *["elsewhere"] * 3]
