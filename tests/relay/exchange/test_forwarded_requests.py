"""Requests that this host has forwarded: operators list and cancel them here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.relay.exchange.test_fleet_hops import NOT_SERVED, NOWHERE, STREAM_BEGINS, ScriptedHosts, at, joined
from tests.support.relay_rig import HELLO, chat
from tests.support.scripted_upstream import on_a_port
from tests.support.transport import End
from tests.support.waiting import come_true

from hotseat.errors import NoHostAvailable, UnknownTicket
from hotseat.fleet.route import THIS_HOST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.scripted_upstream import ScriptedUpstream

    from hotseat.activity.recent import InProgress
    from hotseat.identifiers import TicketId

MANY = 20


@pytest.fixture
async def box() -> AsyncIterator[ScriptedUpstream]:
    """Another host."""
    server = on_a_port()
    yield server
    await server.aclose()


def listed(rig: RelayRig) -> InProgress:
    [request] = rig.relay.connections.in_progress()
    return request


def tickets(rig: RelayRig) -> list[TicketId]:
    return rig.dispatcher.tickets.in_progress()


async def test_a_forwarded_request_is_listed_with_its_host(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """It is listed as sent, then as answering, and not at all after its end."""
    rig, _ = await joined(open_rig, at("b", box))
    client = await rig.send(chat("far"))
    call = await box.call()
    sent = listed(rig)
    await call.say(HELLO[:-1])
    await come_true(lambda: listed(rig).first_byte_s is not None)
    await call.say(HELLO[-1:])
    await client.message()

    assert (sent.model, sent.host, sent.is_waiting, sent.first_byte_s) == ("far", "b", False, None)
    assert rig.relay.connections.in_progress() == []
    assert tickets(rig) == []


async def test_a_request_for_which_hosts_must_agree_is_listed(open_rig: OpenRig) -> None:
    """It waits, at no host yet; an operator may cancel it, which ends the agreement too."""
    rig, hosts = await joined(open_rig)
    hosts.must_agree = hosts.never_agree = True
    client = await rig.send(chat("far"))
    await come_true(rig.relay.connections.in_progress)
    waiting = listed(rig)
    rig.dispatcher.operator.cancel(waiting.ticket)
    answered = await client.message()

    assert (waiting.host, waiting.is_waiting) == (None, True)
    assert (answered.status, answered["x-error-code"]) == (503, "request_cancelled")
    await come_true(lambda: list(hosts.tasks) == [])


async def test_a_forwarded_request_is_cancelled_before_its_response(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """The client gets the error of a local request, and the connection to the other host is closed."""
    rig, hosts = await joined(open_rig, at("b", box))
    client = await rig.send(chat("far"))
    call = await box.call()
    ticket = listed(rig).ticket
    rig.dispatcher.operator.cancel(ticket)
    answered = await client.message()

    assert (answered.status, answered["x-error-code"]) == (503, "request_cancelled")
    assert await call.ended() in End
    assert (hosts.away, tickets(rig)) == ([], [])
    with pytest.raises(UnknownTicket):
        rig.dispatcher.operator.cancel(ticket)


async def test_a_forwarded_stream_is_cancelled(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """It is cut visibly, and the connection to the other host is closed."""
    rig, hosts = await joined(open_rig, at("b", box))
    client = await rig.send(chat("far"))
    call = await box.call()
    await call.say(STREAM_BEGINS)
    await client.read_until(b"data: hello")
    rig.dispatcher.operator.cancel(listed(rig).ticket)
    rest = await client.read_to_end()

    assert b"request_cancelled" in rest
    assert not rest.endswith(b"0\r\n\r\n")
    assert await call.ended() in End
    assert (hosts.away, tickets(rig)) == ([], [])


async def test_a_request_keeps_its_ticket_at_the_next_host(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """An operator who read the ticket before a host refused the request can still cancel it."""
    rig, _ = await joined(open_rig, at("b", box), at("c", box))
    client = await rig.send(chat("far"))
    call = await box.call()
    before = listed(rig)
    await call.say(NOT_SERVED)
    await box.call()
    after = listed(rig)
    rig.dispatcher.operator.cancel(before.ticket)

    assert (before.host, after.host, after.ticket) == ("b", "c", before.ticket)
    assert (await client.message()).status == 503


async def test_a_request_that_comes_back_to_this_host_waits_for_its_server(
    open_rig: OpenRig, box: ScriptedUpstream
) -> None:
    """It has one ticket, that of the queue, and is no longer listed at the other host."""
    rig, _ = await joined(open_rig, at("b", box), THIS_HOST)
    client = await rig.send(chat("slow"))
    call = await box.call()
    await call.say(NOT_SERVED)
    await come_true(lambda: rig.waiting() == 1)
    waiting = listed(rig)
    rig.launcher.become_ready("slow")
    await (await rig.upstreams["slow"].call()).say(HELLO)

    assert (waiting.host, waiting.is_waiting) == (None, True)
    assert [each.ticket for each in rig.dispatcher.views.current().queue] == []
    assert (await client.message()).status == 200
    assert tickets(rig) == []


async def test_many_requests_are_refused_by_hosts(open_rig: OpenRig, box: ScriptedUpstream) -> None:
    """None leaves a ticket behind: served elsewhere or here, without any host, or with a client that leaves."""
    rig, hosts = await joined(open_rig)
    for _ in range(MANY):
        await served_elsewhere(rig, hosts, box)
        await served_here(rig, hosts, box)
        await served_nowhere(rig, hosts, box)
        await left(rig, hosts, box)

    await come_true(lambda: tickets(rig) == [])
    assert (hosts.away, rig.relay.connections.in_progress()) == ([], [])


async def served_elsewhere(rig: RelayRig, hosts: ScriptedHosts, box: ScriptedUpstream) -> None:
    hosts.choices[:] = [at("gone", NOWHERE), at("b", box), at("c", box)]
    client = await rig.send(chat("far"))
    for answer in (NOT_SERVED, HELLO):
        await (await box.call()).say(answer)
    assert (await client.message()).status == 200
    client.hang_up()


async def served_here(rig: RelayRig, hosts: ScriptedHosts, box: ScriptedUpstream) -> None:
    hosts.choices[:] = [at("b", box), THIS_HOST]
    client = await rig.send(chat("alpha"))
    await (await box.call()).say(NOT_SERVED)
    await (await rig.alpha.call()).say(HELLO)
    assert (await client.message()).status == 200
    client.hang_up()


async def served_nowhere(rig: RelayRig, hosts: ScriptedHosts, box: ScriptedUpstream) -> None:
    hosts.choices[:] = [at("b", box), NoHostAvailable("nobody can take it")]
    client = await rig.send(chat("far"))
    await (await box.call()).say(NOT_SERVED)
    assert (await client.message()).status == 503
    client.hang_up()


async def left(rig: RelayRig, hosts: ScriptedHosts, box: ScriptedUpstream) -> None:
    hosts.choices[:] = [at("b", box)]
    client = await rig.send(chat("far"))
    await box.call()
    client.hang_up()
    await come_true(lambda: hosts.away == [])
