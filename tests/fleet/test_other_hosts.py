"""Questions to the other hosts of a fleet: how many at once, and what a useless answer means."""

from __future__ import annotations

import asyncio
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING

import pytest
from tests.support.fleet import RosterRig, host
from tests.support.waiting import come_true

from hotseat.errors import HostUnresponsive
from hotseat.fleet.other_hosts import AT_ONCE, OPERATOR, HostHttp, OtherHosts
from hotseat.fleet.proofs import FleetSecret, Signer
from hotseat.fleet.roster import LONGEST_REASON
from hotseat.identifiers import HostName
from hotseat.net.http_client import Answer
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from hotseat.fleet.other_hosts import Receiver
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
    ("answer", "problem"),
    [
        (Answer(404, {}, b"no"), "h00 responded 404"),
        (TimeoutError(), "h00 did not answer (timeout)"),
        (ConnectionRefusedError("nothing listens"), "h00 did not answer (nothing listens)"),
        (
            SSLCertVerificationError("certificate verify failed"),
            "h00 did not answer (its certificate is not trusted: it has expired)",
        ),
        (ValueError("not\nHTTP" * 1000), f"h00 did not answer ({('not HTTP' * 1000)[:LONGEST_REASON]})"),
    ],
)
async def test_a_useless_answer(answer: Answer | Exception, problem: str) -> None:
    """Each host has its problem, in one short line; so has one that has left meanwhile."""
    if isinstance(answer, SSLCertVerificationError):
        answer.verify_message = "it has expired"
    http = SlowHosts()
    http.answer = answer
    http.may_answer.set()

    found = await others(http).read_all([HOSTS[0], HostName("gone")], "/x", bytes)
    assert [str(each) for each in found.values()] == [problem, "gone has left the fleet"]
    assert all(isinstance(each, HostUnresponsive) for each in found.values())


async def test_an_answer_that_cannot_be_read() -> None:
    """It is a problem, and the others are kept as they were read."""
    http = SlowHosts()
    http.may_answer.set()
    numbers = iter([b"none", b"7"])

    problem, seven = (await others(http).read_all(HOSTS[:2], "/x", lambda _: int(next(numbers)))).values()
    assert isinstance(problem, HostUnresponsive)
    assert seven == 7


async def test_a_feed_of_a_host_that_is_not_there() -> None:
    """The error names the host."""
    with pytest.raises(HostUnresponsive, match="gone has left the fleet"):
        await anext(others(SlowHosts()).follow(HostName("gone"), "/x"))


def test_the_names_are_those_of_the_others() -> None:
    """They are sorted."""
    assert others(SlowHosts()).names() == HOSTS
