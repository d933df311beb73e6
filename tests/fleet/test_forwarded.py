"""Requests at a host that stops answering."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.fleet import RosterRig, host
from tests.support.virtual_time import advance, in_virtual_time

from hotseat.fleet.forwarded import ROUND_S, SILENT, ForwardedRequests
from hotseat.fleet.store import LEASE_S
from hotseat.identifiers import Address, HostName
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

A, B, THERE = HostName("a"), HostName("b"), Address("a", 80)
UNTIL_SILENT_S = (SILENT + 1) * ROUND_S


@dataclass(eq=False)
class Request:
    is_ended: bool = False

    def host_is_silent(self) -> None:
        self.is_ended = True


@dataclass
class Rig:
    """A clock of its own for records, since the checks wait in virtual time."""

    rig: RosterRig
    is_answering: bool = True
    asked: list[Address] = field(default_factory=list)
    on_question: Callable[[], None] = lambda: None

    async def answers(self, address: Address) -> bool:
        self.asked.append(address)
        self.on_question()
        return self.is_answering


@asynccontextmanager
async def forwarded(rig: Rig) -> AsyncIterator[ForwardedRequests]:
    requests, tasks = ForwardedRequests(rig.rig.roster, rig.answers, lambda: rig.rig.now), Tasks()
    tasks.start(requests.keep_checking(), "check")
    yield requests
    await tasks.aclose()


@in_virtual_time
async def test_a_host_renews_its_lease() -> None:
    """It is not asked: its records show that it runs."""
    rig = Rig(RosterRig().hosts(host("a")))
    async with forwarded(rig) as requests:
        requests.sent(A, THERE, Request())
        await advance(UNTIL_SILENT_S)

    assert rig.asked == []


@in_virtual_time
async def test_a_host_without_nats_answers() -> None:
    """Its requests go on, however long it is cut off."""
    rig, request = Rig(RosterRig().hosts(host("a")).after(LEASE_S)), Request()
    async with forwarded(rig) as requests:
        requests.sent(A, THERE, request)
        await advance(60)

    assert (request.is_ended, set(rig.asked)) == (False, {THERE})


@in_virtual_time
async def test_a_host_stops_answering() -> None:
    """Its requests end, after it was asked several times; one that ended by itself is not touched."""
    rig, request, over = Rig(RosterRig(), is_answering=False), Request(), Request()
    async with forwarded(rig) as requests:
        requests.sent(A, THERE, request)
        requests.sent(A, THERE, over)
        requests.over(A, over)
        await advance(SILENT * ROUND_S - 0.1)
        assert not request.is_ended
        await advance(UNTIL_SILENT_S)

    assert (request.is_ended, over.is_ended) == (True, False)


@in_virtual_time
async def test_the_last_request_at_a_host_ends_as_hosts_are_asked() -> None:
    """Hosts are asked again in the next round."""
    rig, over, later = Rig(RosterRig(), is_answering=False), Request(), Request()
    async with forwarded(rig) as requests:
        requests.sent(A, THERE, Request())
        requests.sent(B, THERE, over)
        rig.on_question = lambda: requests.over(B, over)
        await advance(1.1 * ROUND_S)
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
