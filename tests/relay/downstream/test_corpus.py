"""Every malformed request gets the same error: on a fresh connection, once more, and after a good one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.corpus import CORPUS, SMUGGLED, Case
from tests.support.relay_rig import HELLO, chat, get, turns
from tests.support.transport import End

from hotseat.relay.downstream.request_reader import MOST_AHEAD

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Message, Wire

pytestmark = [pytest.mark.uncounted, pytest.mark.one_loop]

EVERY = pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)


async def refused(client: Wire, case: Case) -> Message:
    """The one answer to this request; a lost connection is closed after it, any other still serves."""
    await client.send(case.said)
    answered = await client.message()

    assert answered.status == case.status
    assert b'"error"' in answered.body
    assert (answered.all("Connection") == ["close"]) is case.is_lost
    if case.is_lost:
        assert await client.end() is End.CLOSED
        assert client.unread == b""
    return answered


@EVERY
async def test_a_malformed_request_is_refused_every_time(rig: RelayRig, case: Case) -> None:
    """The error is the same on two fresh connections and after a good request, and nothing reaches a model."""
    first = await refused(await rig.client(), case)
    second = await refused(await rig.client(), case)
    client = await rig.client()
    for _ in range(2):
        await client.send(chat())
        await (await rig.alpha.call()).say(HELLO)
        await client.message()
    third = await refused(client, case)

    assert first.raw == second.raw == third.raw
    assert rig.alpha.requests == 2
    assert rig.management.requests == 0


@EVERY
async def test_nothing_is_smuggled_behind_a_malformed_request(rig: RelayRig, case: Case) -> None:
    """What follows a request with unknown end is never read; what follows another is a request of its own."""
    client = await rig.send(case.said + SMUGGLED)
    answered = await client.message()
    if not case.is_lost:
        await (await rig.alpha.call()).say(HELLO)
        assert (await client.message()).body == b"hello"
    else:
        assert await client.end() is End.CLOSED

    assert answered.status == case.status
    assert client.unread == b""
    assert rig.alpha.requests == (0 if case.is_lost else 1)


@pytest.mark.parametrize("case", [case for case in CORPUS if len(case.said) < MOST_AHEAD], ids=lambda case: case.name)
async def test_a_malformed_request_waits_for_its_turn(rig: RelayRig, case: Case) -> None:
    """Behind a good request, the error is sent after the good one's response."""
    client, call = await rig.reached(get() + case.said)
    await turns()
    await call.say(HELLO)
    answers = [await client.message(), await client.message()]

    assert [each.status for each in answers] == [200, case.status]
    assert rig.alpha.requests == 1


@pytest.mark.parametrize("case", [case for case in CORPUS if len(case.said) < 400], ids=lambda case: case.name)
async def test_a_malformed_request_is_malformed_in_any_pieces(rig: RelayRig, case: Case) -> None:
    """Split at every tenth byte, the request gets the same status."""
    whole = (await refused(await rig.client(), case)).status
    for cut in range(1, len(case.said), 10):
        client = await rig.send(case.said[:cut])
        await turns()
        await client.send(case.said[cut:])
        assert (await client.message()).status == whole
        client.hang_up()

    assert rig.alpha.requests == 0
