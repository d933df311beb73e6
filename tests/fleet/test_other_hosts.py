"""Questions to the other hosts of a fleet: how many at once, and what a useless answer means."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.support.fleet import RosterRig, host
from tests.support.waiting import come_true

from hotseat.errors import HostUnresponsive
from hotseat.fleet.host_http import OPERATOR, HostHttp
from hotseat.fleet.host_proof import FleetSecret, Signer
from hotseat.fleet.other_hosts import AT_ONCE, OtherHosts
from hotseat.identifiers import HostName
from hotseat.net.http_client import Answer
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from hotseat.fleet.host_http import Receiver
    from hotseat.identifiers import Bytes, ClientId, Seconds

HOSTS = [HostName(f"h{n:02}") for n in range(AT_ONCE + 8)]


class SlowHosts(HostHttp):
    """Hosts that answer when they are told to."""

    def __init__(self) -> None:
        super().__init__(HostName("here"), Signer(FleetSecret(["hush"])))
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.answer: Answer | Exception = Answer(200, {}, b"yes")

    async def fetch(
        self,
        method: str,
        to: Receiver,
        path: str,
        within: Seconds,
        role: bytes = b"",
        client: ClientId = OPERATOR,
        most: Bytes = 0,
    ) -> Answer:
        self.asked.append(to.host)
        await self.may_answer.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def others(http: HostHttp) -> OtherHosts:
    return OtherHosts(RosterRig().hosts(host("here"), *map(host, HOSTS)).roster, http)


async def test_a_fleet_that_is_larger_than_what_may_be_asked_at_once() -> None:
    """The rest is asked when the first have answered, and all of them are."""
    http = SlowHosts()
    asking = Tasks().start(others(http).read_all(HOSTS, "/x", bytes), "ask")
    await come_true(lambda: len(http.asked) == AT_ONCE)
    http.may_answer.set()

    assert await asking == dict.fromkeys(HOSTS, b"yes")
    assert len(http.asked) == len(HOSTS)


@pytest.mark.parametrize(
    "answer", [Answer(404, {}, b"no"), TimeoutError(), ConnectionRefusedError(), ValueError("not HTTP")]
)
async def test_a_useless_answer_is_none(answer: Answer | Exception) -> None:
    """So are a refusal, a timeout, and a host that has left meanwhile."""
    http = SlowHosts()
    http.answer = answer
    http.may_answer.set()

    assert await others(http).read_all([HOSTS[0], HostName("gone")], "/x", bytes) == {HOSTS[0]: None, "gone": None}


async def test_an_answer_that_cannot_be_read_is_none() -> None:
    """The others are kept as they were read."""
    http = SlowHosts()
    http.may_answer.set()
    numbers = iter([b"none", b"7"])

    assert await others(http).read_all(HOSTS[:2], "/x", lambda _: int(next(numbers))) == {HOSTS[0]: None, HOSTS[1]: 7}


async def test_a_feed_of_a_host_that_is_not_there() -> None:
    """The error names the host."""
    with pytest.raises(HostUnresponsive, match="gone has left the fleet"):
        await anext(others(SlowHosts()).follow(HostName("gone"), "/x"))


def test_the_names_are_those_of_the_others() -> None:
    """They are sorted."""
    assert others(SlowHosts()).names() == HOSTS
