"""An internal error ends only its own request, with an error response or a visible cut."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.exchange_world import UPSTREAM, FakeClient, FakeContext, request_of
from tests.support.fake_launcher import spec
from tests.support.raising import Calls
from tests.support.relay_rig import HELLO, chat, chunked, get, post
from tests.support.transport import End
from tests.support.waiting import come_true

from hotseat.catalog.spec import LoadingState, Timeouts
from hotseat.relay.access.policy import Policy
from hotseat.relay.downstream import admission
from hotseat.relay.downstream.connection import ClientConnection
from hotseat.relay.exchange import exchange, framers, start, states, targets
from hotseat.relay.exchange.accounting import Accounting
from hotseat.relay.exchange.early_stream import EarlyStream
from hotseat.relay.exchange.fleet_hop import FleetHop
from hotseat.relay.http import body_framing
from hotseat.relay.upstream import response_reader
from hotseat.relay.upstream.connection import UpstreamConnection
from hotseat.relay.upstream.pool import Pool
from hotseat.settings import Access, ApiKey, Role, Settings
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Wire

STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PARTS: tuple[tuple[object, str], ...] = (
    (response_reader, "parse_response_head"),
    (body_framing.ChunkedBody, "_feed"),
    (body_framing.ChunkedBody, "take"),
    (ClientConnection, "exchange_ended"),
    (ClientConnection, "refuse"),
    (start, "named_model_of"),
    (states, "ordinary_bytes"),
    (states, "is_ordinary"),
    (targets, "connect"),
    (targets.LocalModel, "_wait_for_lease"),
    (exchange.Exchange, "finished"),
    (exchange.Exchange, "_end"),
    (Accounting, "close"),
    (Accounting, "_record"),
    (targets.LocalModel, "start"),
    (exchange, "upstream_head"),
    (states.Sent, "head_received"),
    (states.Sent, "ended"),
    (states.Streaming, "ended"),
    (framers.Verbatim, "end"),
    (Pool, "put_back"),
    (Pool, "take"),
    (admission, "parse_request_head"),
    (admission, "admit"),
    (admission.HeadCache, "admission"),
    (Policy, "identify"),
    (Policy, "client_of"),
    (UpstreamConnection, "keep_to"),
    (UpstreamConnection, "send"),
)
"""What takes part in a request, on both sides of the relay."""
RIGHT = [200, 200, 200, 404]
LAST = 1_000
PATIENCE_S = 15.0


@asynccontextmanager
async def alpha_answers(rig: RelayRig) -> AsyncIterator[None]:
    """It answers every request, as a stream if requested."""

    async def answer_all() -> None:
        while True:
            call = await rig.alpha.call()
            stream = [STREAM, chunked(b"one", b"two")]
            with suppress(OSError):  # it may have hung up
                for piece in stream if call.request.all("X-Stream") else [HELLO]:
                    await call.say(piece)

    tasks = Tasks()
    tasks.start(answer_all(), "alpha")
    try:
        yield
    finally:
        await tasks.aclose()


async def status_of(client: Wire, request: bytes) -> int:
    """The status of the answer; 0 where the connection ended instead, -1 where nothing happened."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await client.send(request)
            return (await client.message()).status
    except TimeoutError:
        return -1
    except (AssertionError, ConnectionError):
        client.hang_up()
        return 0


async def talk(rig: RelayRig, number: int) -> list[int]:
    """What four requests are answered: a head that is new, the same again, a stream, a model that nobody knows."""
    new = chat("alpha", f"X-Number: {number}")
    stream = get("/slots?model=alpha", "X-Stream: 1", f"X-Number: {number}")
    return [await status_of(await rig.client(), request) for request in (new, new, stream, chat("nobody"))]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_part_of_the_relay_that_raises(
    rig: RelayRig, when: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At each call in turn: the client gets a response or a cut, the lease is released, and the trace is logged."""
    async with alpha_answers(rig):
        assert await talk(rig, LAST) == RIGHT
        clean = Calls()
        await talk_with(rig, clean, monkeypatch, 0)
        for number, name in enumerate(clean.made):
            caplog.clear()
            calls = Calls(number, when)
            statuses = await talk_with(rig, calls, monkeypatch, number + 1)

            where = f"{name}, call {number}: {statuses}"
            assert all(status in (0, 500, 502, right) for status, right in zip(statuses, RIGHT, strict=True)), where
            assert ("internal error" in caplog.text) is calls.has_raised, where
            assert ("raising.Raised" in caplog.text) is calls.has_raised, where
            await come_true(lambda: rig.in_flight() == 0)
        assert await talk(rig, LAST + 1) == RIGHT


async def talk_with(rig: RelayRig, calls: Calls, monkeypatch: pytest.MonkeyPatch, number: int) -> list[int]:
    with monkeypatch.context() as patched:
        for owner, name in PARTS:
            patched.setattr(owner, name, calls.around(name, getattr(owner, name)))
        return await talk(rig, number)


def test_a_head_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that it was for is closed."""
    context, client = FakeContext(None), FakeClient()
    context.dispatcher.grants_at_once = True
    connection = context.pool.open(UPSTREAM.address)
    context.pool.put_back(connection)
    monkeypatch.setattr(targets.LocalModel, "head", Calls(raising=0).around("head", targets.LocalModel.head))
    head = b"GET /slots?model=alpha HTTP/1.1\r\nHost: box\r\n\r\n"
    asked = exchange.Exchange(context, client, request_of(head, b""))  # type: ignore[arg-type]
    asked.run(start.start, asked)

    assert client.refusals == [500]
    assert connection._transport.is_closing()


async def test_one_client_whose_deadline_raises(
    rig: RelayRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client whose deadline check raises is reset, and the other one gets its 408."""
    unlucky, lucky = await rig.send(get()[:-10]), await rig.send(get()[:-10])
    await come_true(lambda: len(rig.relay.connections.open) == 2)
    calls = Calls(raising=0)
    monkeypatch.setattr(ClientConnection, "time_is_up", calls.around("time_is_up", ClientConnection.time_is_up))
    await rig.later(11)
    ends = [await unlucky.end(), await lucky.end()]

    assert sorted(end.value for end in ends) == sorted(end.value for end in (End.RESET, End.CLOSED))
    assert b"408" in unlucky.unread + lucky.unread
    assert "raising.Raised" in caplog.text
    await come_true(lambda: len(rig.relay.connections.open) == 0)


async def test_one_client_that_cannot_be_judged_by_new_rules(
    open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client whose check raises is cut, and the others are checked too."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", Role.ADMIN),)))
    clients = [(await rig.reached(chat("alpha", "Authorization: Bearer k")))[0] for _ in range(2)]
    calls = Calls(raising=0)
    monkeypatch.setattr(ClientConnection, "judge_again", calls.around("judge_again", ClientConnection.judge_again))
    rig.relay.change_policy(Policy(Settings(access=Access(api_keys=(ApiKey("other", Role.ADMIN),)))))
    ends = {await client.end() for client in clients if not client.is_spoken_to}

    assert ends == {End.RESET}
    assert len(calls.made) == 2
    await come_true(lambda: rig.in_flight() == 0)


@pytest.mark.parametrize("limit", [{"max_request_s": 0.05}, {"timeouts": Timeouts(response_header_s=0.05)}])
async def test_a_timer_that_raises(open_rig: OpenRig, limit: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """If a timer's handler raises, the client gets 500 and the lease is released."""
    impatient = spec("alpha", **limit)
    rig = await open_rig(models=(impatient,))
    monkeypatch.setattr(targets.LocalModel, "label", property(Calls(raising=0).around("label", lambda _: "alpha")))
    client = await rig.send(chat())

    assert (await client.message()).status == 500
    await come_true(lambda: rig.in_flight() == 0)


async def test_a_host_that_cannot_be_notified_of_the_end_of_a_request(
    open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the fleet cannot be notified, the client still has its response and the key its place."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("k", Role.ADMIN),)))
    broken = Calls(raising=0).around("come_back", FleetHop.come_back)
    hop = FleetHop(None, None, None, "alpha", "me", None)  # type: ignore[arg-type]
    monkeypatch.setattr("hotseat.relay.exchange.exchange.Accounting", partial(Accounting, hop=hop))
    monkeypatch.setattr(FleetHop, "come_back", broken)
    [account] = rig.relay.context.policy.accounts.all()
    _, answered = await rig.exchange(chat("alpha", "Authorization: Bearer k"))

    assert answered.status == 200
    assert (account.requests, account.in_flight) == (1, 0)


async def test_a_lease_that_cannot_be_given_back(open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """If releasing the lease raises, progress messages stop and the key has its place back."""
    monkeypatch.setattr("hotseat.relay.exchange.early_stream.GRACE_S", 0.0)
    monkeypatch.setattr("hotseat.relay.exchange.early_stream.EVERY_S", 0.01)
    senders: list[EarlyStream] = []
    say = EarlyStream._say

    def noted(sender: EarlyStream, data: bytes) -> None:
        senders.append(sender)
        say(sender, data)

    monkeypatch.setattr(EarlyStream, "_say", noted)
    slow = spec("slow", loading_state=LoadingState.COMMENTS)
    rig = await open_rig(models=(slow,), access=Access(api_keys=(ApiKey("k", Role.ADMIN),)))
    [account] = rig.relay.context.policy.accounts.all()
    body = b'{"model":"slow","stream":true}'
    request = post(body, "Content-Type: application/json", "Authorization: Bearer k")
    client = await rig.send(request)
    await client.read_until(b": slow: ")
    monkeypatch.setattr(rig.dispatcher, "leave", Calls(raising=0, when="after").around("leave", rig.dispatcher.leave))
    client.hang_up()
    await come_true(lambda: account.in_flight == 0)
    sent = len(senders)
    another = await rig.send(request)
    for _ in range(3):
        await another.read_until(b": slow: ")

    assert senders.count(senders[0]) == sent
