"""One exchange among everybody who can interrupt it, in any order: whatever happens, it ends once and leaves nothing.

A small reference model judges: it reads what the upstream sent and what the client received with a parser of its own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.support.exchange_world import (
    THERE,
    UPSTREAM,
    Broken,
    CheckedExchange,
    FakeClient,
    FakeContext,
    FakeHosts,
    is_over,
    request_of,
)

from hotseat.errors import CancelledByOperator, LoadFailed, Unloaded
from hotseat.relay.exchange.accounting import Accounting
from hotseat.relay.exchange.early_stream import EarlyStream
from hotseat.relay.exchange.exchange import DONE, Exchange, Queued
from hotseat.relay.exchange.fleet_hop import FleetHop
from hotseat.relay.exchange.framers import Rechunk, Verbatim
from hotseat.relay.exchange.response_translation import ChunkedLines, LinesUntilClosed, TranslatedWhole
from hotseat.relay.exchange.start import start
from hotseat.relay.exchange.states import Connecting, Sent, Streaming
from hotseat.relay.exchange.targets import LocalModel
from hotseat.relay.upstream.connection import UpstreamConnection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.relay.upstream.connection import UpstreamConnection as Used

pytestmark = pytest.mark.uncounted

SEARCH = settings(
    max_examples=200,
    stateful_step_count=25,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
HUNT = settings(SEARCH, max_examples=100, phases=[Phase.generate], print_blob=False, derandomize=False)
"""The smallest example of a planted bug interests nobody."""
SEEDS = range(2, 22)
"""Few bugs need more than the first; where the world changes, another one may find them."""

JSON = b"Content-Type: application/json\r\n"
POST = b"POST /v1/chat/completions HTTP/1.%d\r\nHost: box\r\n" + JSON + b"Content-Length: %d\r\n\r\n"
SOCKET = b"GET /x?model=alpha HTTP/1.1\r\nHost: box\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def post(model: str, *, minor: int = 1, stream: bool = False) -> tuple[bytes, bytes]:
    body = b'{"model":"%b","stream":%b}' % (model.encode(), b"true" if stream else b"false")
    return POST % (minor, len(body)), body


REQUESTS = {
    "chat": post("alpha"),
    "old client": post("alpha", minor=0),
    "early stream": post("slow", stream=True),
    "websocket": (SOCKET, b""),
    "head only": (b"HEAD /x?model=alpha HTTP/1.1\r\nHost: box\r\n\r\n", b""),
}
OK = b"HTTP/1.1 200 OK\r\n"
EVENTS = b"Content-Type: text/event-stream\r\n"
HEADS = [
    OK + b"Content-Length: 5\r\n\r\nhello",
    OK + b"Content-Length: 5\r\n\r\n",
    OK + b"Content-Length: 5\r\nConnection: close\r\n\r\nhe",
    OK + EVENTS + b"Transfer-Encoding: chunked\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n",
    OK + EVENTS + b"\r\n",
    OK + b"\r\nhe",
    OK + b"\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"HTTP/1.1 503 Busy\r\nHotseat-Not-Served: 1\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 503 Busy\r\nHotseat-Not-Served: unproven\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 503 x\r\nX-Error-Code: model_failed_to_start\r\nHotseat-Not-Served: 1\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 O",
    b"rubbish\r\n\r\n",
]
UNTIL_CLOSED = [head for head in HEADS if head.startswith(OK) and b"Length" not in head and b"chunked" not in head]
PARTS = [b"he", b"hello", b"2\r\nhe\r\n", b"2\r\nh", b"e\r\n", b"0\r\n\r\n", b"K\r\nContent-Length: 0\r\n\r\n"]


INTERNAL = "internal error"
"""In the log: an exchange that crashes ends as promised, but then nothing else is tested."""


class ExchangeWorld(RuleBasedStateMachine):
    kinds: Sequence[str] = sorted(REQUESTS)
    fleets: Sequence[str] = ("none", "none", "none", "hosts", "must agree")
    heads: Sequence[bytes] = HEADS
    parts: Sequence[bytes] = PARTS

    def __init__(self) -> None:
        super().__init__()
        self.client = FakeClient()
        self.said = b""
        """What the upstream sent on the connection in use."""
        self.said_on: Used | None = None
        self.has_left = False

    @initialize(data=st.data(), is_warm=st.booleans(), grants_at_once=st.booleans())
    def begin(self, data: st.DataObject, is_warm: bool, grants_at_once: bool) -> None:
        kind, fleet = data.draw(st.sampled_from(self.kinds)), data.draw(st.sampled_from(self.fleets))
        hosts = None if fleet == "none" else FakeHosts(must_agree=fleet == "must agree")
        self.context, self.hosts, self.kind = FakeContext(hosts), hosts, kind
        self.context.dispatcher.grants_at_once = grants_at_once
        if is_warm:
            for address in (UPSTREAM.address, THERE.address):
                connection = self.context.pool.open(address)
                connection._requests = 1
                self.context.pool.put_back(connection)
        self.request = request_of(*(REQUESTS | TRANSLATED)[kind])
        self.exchange = CheckedExchange(self.context, self.client, self.request)  # type: ignore[arg-type]
        self.exchange.run(start, self.exchange)

    # The dispatcher

    def waiter(self) -> Any:
        [waiter] = self.context.dispatcher.waiting.values()
        return waiter

    def is_waiting(self) -> bool:
        return bool(self.context.dispatcher.waiting) and self.exchange.upstream is None

    @precondition(lambda self: self.is_waiting())
    @rule(reason=st.sampled_from(["", "it was loading"]))
    def grant(self, reason: str) -> None:
        self.waiter().granted(UPSTREAM, reason)

    @precondition(lambda self: self.is_waiting())
    @rule(rarely=st.integers(0, 5))
    def refuse(self, rarely: int) -> None:
        if rarely == 5:
            self.waiter().refused(LoadFailed("it exited"))

    @precondition(lambda self: self.context.dispatcher.waiting and self.exchange.upstream is not None)
    @rule(rarely=st.integers(0, 5))
    def remove_the_model(self, rarely: int) -> None:
        if rarely == 5:
            self.waiter().cut(Unloaded("it was removed"))

    # The fleet

    @precondition(lambda self: self.hosts is not None and self.hosts.agreeing)
    @rule()
    def agree(self) -> None:
        assert self.hosts is not None
        self.hosts.agreeing.pop().agreed(THERE)

    @precondition(lambda self: self.hosts is not None and self.hosts.forwarded)
    @rule(rarely=st.integers(0, 5))
    def host_stops_answering(self, rarely: int) -> None:
        assert self.hosts is not None
        if rarely == 5:
            self.hosts.forwarded[0].host_is_silent()

    @precondition(lambda self: self.context.dispatcher.forwarded)
    @rule(rarely=st.integers(0, 5))
    def operator_cancels(self, rarely: int) -> None:
        [waiter] = self.context.dispatcher.forwarded.values()
        if rarely == 5:
            waiter.cut(CancelledByOperator("an operator cancelled this request"))

    # The upstream

    @precondition(lambda self: self.context.pool.pending)
    @rule(works=st.booleans())
    def connecting_ends(self, works: bool) -> None:
        pending = self.context.pool.pending.pop()
        if works:
            pending.connected(self.context.pool.open(pending.address))
        else:
            pending.failed("refused")

    def used(self) -> Used | None:
        return self.context.pool.used[0] if self.context.pool.used else None

    @precondition(lambda self: self.used() is not None)
    @rule(data=st.data())
    def upstream_sends(self, data: st.DataObject) -> None:
        connection = self.used()
        assert connection is not None
        if self.said_on is not connection:
            self.said_on, self.said = connection, b""
        piece = data.draw(st.sampled_from(self.parts if self.said else self.heads))
        self.said += piece
        connection.data_received(piece)

    @precondition(lambda self: self.used() is not None)
    @rule(is_reset=st.booleans())
    def upstream_closes(self, is_reset: bool) -> None:
        connection = self.used()
        assert connection is not None
        if self.said_on is not connection:
            self.said_on, self.said = connection, b""
        connection._transport.close()
        connection.connection_lost(ConnectionResetError() if is_reset else None)
        self.is_closed = not is_reset

    is_closed = False

    # The clock

    @precondition(lambda self: self.context.timers)
    @rule()
    def time_passes(self) -> None:
        timer = min(self.context.timers, key=lambda timer: timer.at)
        timer.cancel()
        self.context.clock = max(self.context.clock, timer.at)
        timer.ring()

    # The client

    @precondition(lambda self: not is_over(self.exchange))
    @rule(rarely=st.integers(0, 5))
    def client_leaves(self, rarely: int) -> None:
        if rarely == 5:  # or few exchanges would come far
            self.has_left = True
            self.exchange.abandoned()

    @precondition(lambda self: not is_over(self.exchange))
    @rule(is_full=st.booleans())
    def client_reads(self, is_full: bool) -> None:
        self.client.is_full = is_full
        if is_full:
            self.exchange.client_is_full()
        else:
            self.exchange.client_is_writable()

    @precondition(lambda self: self.client.is_tunnel and not is_over(self.exchange))
    @rule()
    def client_sends(self) -> None:
        self.exchange.from_client(b"frame")

    @precondition(lambda self: is_over(self.exchange))
    @rule()
    def client_goes_on(self) -> None:
        """What comes after the end changes nothing."""
        self.exchange.abandoned()
        self.exchange.client_is_writable()

    # What holds

    @invariant()
    def it_ends_once(self) -> None:
        endings = self.client.endings
        check(len(endings) <= 1, f"it ended as {endings}")
        check(is_over(self.exchange) == (bool(endings) or self.has_left), f"{self.exchange.state} after {endings}")
        check("abort" not in endings, "a bug of ours")

    @invariant()
    def nothing_is_left(self) -> None:
        context, dispatcher = self.context, self.context.dispatcher
        if not is_over(self.exchange):
            waits = context.timers or context.pool.pending or context.pool.used or self.is_waiting()
            check(bool(waits or (self.hosts and self.hosts.agreeing)), "nothing will ever happen")
            tickets = [*dispatcher.waiting, *dispatcher.forwarded]
            check(len(context.pool.used) <= 1 and len(tickets) <= 1, "something is held twice")
            return
        left = {"timers": context.timers, "pending": context.pool.pending, "connections": context.pool.used}
        check(not any(left.values()), f"{left} after the end")
        check(dict(dispatcher.left) == dict.fromkeys(range(1, dispatcher.asked + 1), 1), "a lease is lost")
        check(context.bodies.in_memory == 0, "a body still counts")
        check(len(context.recorded) == 1, f"recorded as {context.recorded}")
        check(self.hosts is None or not (any(self.hosts.out.values()) or self.hosts.agreeing), "a host still has it")

    @invariant()
    def the_client_got_what_the_upstream_sent(self) -> None:
        if not self.client.endings:
            return
        [ending] = self.client.endings
        got = Parsed(self.client.received, self.kind, is_closed=True)
        if ending == "complete":
            sent = Parsed(self.said, self.kind, is_closed=self.is_closed)
            check(got.is_complete and sent.is_complete, f"{self.client.received!r} is complete after {self.said!r}")
            self.check_body(got.body, sent.body)
        elif ending == "cut" and not self.client.is_tunnel:
            cut = Parsed(self.client.received, self.kind, is_closed=not self.client.looks_complete)
            check(not cut.is_complete, f"{self.client.received!r} looks complete")
        elif ending == "refused":
            check(not self.client.received, "an error after a response")

    def check_body(self, got: bytes, sent: bytes) -> None:
        check(got.endswith(sent), f"{got!r} instead of {sent!r}")

    @invariant()
    def a_complete_response_is_the_end(self) -> None:
        if self.said_on is None or self.said_on is not self.used():
            return
        is_complete = Parsed(self.said, self.kind, is_closed=False).is_complete
        check(not is_complete or self.client.is_tunnel, f"{self.said!r} was not the end")

    @invariant()
    def the_refusal_of_a_host_does_not_reach_the_client(self) -> None:
        is_from_host = self.said_on is not None and self.said_on.address is THERE.address
        check(not is_from_host or b" 503 " not in self.client.received, "the client got the refusal of a host")

    @invariant()
    def only_a_connection_that_goes_on_is_kept(self) -> None:
        ends = b"Connection: close" in self.said or self.kind == "head only"
        check(not ends or self.said_on not in self.context.pool.idle or not self.said, "a used-up connection is kept")


class Parsed:
    """A response as a second parser reads it."""

    def __init__(self, data: bytes, kind: str, *, is_closed: bool) -> None:
        while data.startswith(b"HTTP/1.1 100"):
            data = data.partition(b"\r\n\r\n")[2]
        head, end, rest = data.partition(b"\r\n\r\n")
        fields = head.lower()
        self.body, self.is_complete = b"", False
        if not end or not head.startswith(b"HTTP/1.1 ") or head.startswith(b"HTTP/1.1 101"):
            return
        if kind == "head only" or head.startswith(b"HTTP/1.1 204"):
            self.is_complete = True
        elif b"transfer-encoding: chunked" in fields:
            self._read_chunks(rest)
        elif b"content-length: " in fields:
            length = int(fields.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            self.body, self.is_complete = rest, len(rest) == length
        else:
            self.body, self.is_complete = rest, is_closed

    def _read_chunks(self, rest: bytes) -> None:
        while True:
            size, end, rest = rest.partition(b"\r\n")
            if not end or not size:
                return
            length = int(size, 16) if all(sign in b"0123456789abcdef" for sign in size) else -1
            if length <= 0:
                self.is_complete = length == 0 and rest == b"\r\n"
                return
            if len(rest) < length + 2:
                return
            self.body, rest = self.body + rest[:length], rest[length + 2 :]


def check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)


def test_whatever_happens_an_exchange_ends_once_and_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Any interleaving of client, dispatcher, upstream, timers and fleet keeps the promises above."""
    run_state_machine_as_test(ExchangeWorld, settings=SEARCH)
    assert INTERNAL not in caplog.text


# Translated responses


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def ollamas(*, minor: int = 1, stream: bool = True) -> tuple[bytes, bytes]:
    body = b'{"model":"slow","messages":[{"role":"user"}],"stream":%b}' % (b"true" if stream else b"false")
    return (POST % (minor, len(body))).replace(b"/v1/chat/completions", b"/api/chat"), body


TRANSLATED = {"lines": ollamas(), "lines until closed": ollamas(minor=0), "object": ollamas(stream=False)}
TEXT = b'data: {"choices":[{"delta":{"content":"he"}}]}\n\n'
STOP = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
WHOLE = b'{"choices":[{"message":{"content":"he"}}]}'
CHUNKED_EVENTS = [OK + EVENTS + b"Transfer-Encoding: chunked\r\n\r\n" + begun for begun in (b"", chunk(TEXT))]
TRANSLATED_HEADS = [
    *CHUNKED_EVENTS,
    OK + EVENTS + b"\r\n",
    OK + b"Content-Length: %d\r\n\r\n%b" % (len(WHOLE), WHOLE),
    OK + b"Content-Length: %d\r\n\r\n" % len(WHOLE),
    OK + b"Transfer-Encoding: chunked\r\n\r\n",
    OK + b"\r\n",
    b"HTTP/1.1 400 No\r\nContent-Length: 15\r\n\r\n" + b'{"error":"wha"}',
    *HEADS[-6:],
]
TRANSLATED_PARTS = [
    *(chunk(TEXT), chunk(STOP), chunk(b"data: [DONE]\n\n"), chunk(TEXT + STOP), chunk(TEXT[:9]), chunk(WHOLE)),
    *(chunk(b'data: {"error":"wha"}\n\n'), chunk(b"data: rubbish\n\n"), b"0\r\n\r\n"),
    *(chunk(STOP) + b"0\r\n\r\n", chunk(TEXT + STOP) + b"0\r\n\r\n", chunk(WHOLE) + b"0\r\n\r\n"),
    *(TEXT, STOP, TEXT[:9], WHOLE, WHOLE[:9], b"K\r\nContent-Length: 0\r\n\r\n"),
]


class TranslatedWorld(ExchangeWorld):
    kinds = sorted(TRANSLATED)
    heads, parts = TRANSLATED_HEADS, TRANSLATED_PARTS

    def check_body(self, got: bytes, sent: bytes) -> None:
        """A complete response has the model's last word, or an error of its server."""
        lines = [json.loads(line) for line in got.splitlines()]
        check(bool(lines) and all("done" in line for line in lines[:-1]), f"{got!r} after {sent!r}")
        check("error" in lines[-1] or lines[-1].get("done") is True, f"{got!r} is not complete")
        said = b"".join(line["message"]["content"].encode() for line in lines if "message" in line)
        check(said == b"he" * sent.count(b'"content":"he"'), f"{got!r} instead of {sent!r}")


def test_whatever_happens_a_translated_exchange_ends_once_and_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The same promises, and no response that lacks its end looks complete."""
    run_state_machine_as_test(TranslatedWorld, settings=SEARCH)
    assert INTERNAL not in caplog.text


# Planted bugs


def nothing(*known: object, **more: object) -> None: ...


def never(*known: object) -> bool:
    return False


def always(*known: object) -> bool:
    return True


def cut_as_if_complete(framer: Any, error: object, dialect: object) -> None:
    framer.end(0.0)


def lost_as_if_complete(state: Any, *, may_retry: bool) -> None:
    state.ended(0.0, ())


def asked_again_with_the_old_lease(target: Any, exchange: Any) -> None:
    exchange.upstream = None
    target._wait_for_lease(exchange)


def refused_twice(exchange: Any, error: Any) -> None:
    exchange.client.refuse(error, keep_alive=True)
    exchange.client.exchange_ended(keep_alive=True, now=0.0)
    REFUSE(exchange, error)


def ended_without_last_chunk(framer: Any, now: float) -> None:
    framer._client.exchange_ended(keep_alive=True, now=now)


def finished_without_closing(exchange: Any, status: int, now: float, pieces: object) -> None:
    exchange.state = DONE


REFUSE = Exchange.refuse


class Planted:
    """A bug in place of a method, and a world that has the exchanges in which it shows."""

    def __init__(self, owner: type, name: str, bug: object, **where: object) -> None:
        self.owner, self.name, self.bug, self.where = owner, name, bug, where

    def __str__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"

    def is_hunted_in(self, world: type[ExchangeWorld]) -> None:
        """Raises what the world finds."""
        for number in SEEDS:
            with patch.object(self.owner, self.name, self.bug):
                run_state_machine_as_test(seed(number)(type("Hunt", (world,), self.where)), settings=HUNT)


PLANTED = [
    Planted(Accounting, "_record", nothing),
    Planted(Accounting, "_uncount", nothing),
    Planted(Accounting, "return_lease", nothing),
    Planted(Exchange, "finished", finished_without_closing),
    Planted(Exchange, "refuse", refused_twice),
    Planted(Queued, "cancel", nothing),
    Planted(Connecting, "cancel", nothing),
    Planted(Sent, "_stop_timer", nothing),
    Planted(Sent, "_is_turned_away", never, fleets=["hosts"]),
    Planted(Streaming, "cancel", nothing, kinds=["chat"], heads=UNTIL_CLOSED),
    Planted(Streaming, "lost", lost_as_if_complete, kinds=["chat"]),
    Planted(Verbatim, "cut", cut_as_if_complete, kinds=["chat"]),
    Planted(Rechunk, "end", ended_without_last_chunk, kinds=["chat"], heads=UNTIL_CLOSED),
    Planted(EarlyStream, "stop", nothing, kinds=["early stream"]),
    Planted(LocalModel, "_ask_again", asked_again_with_the_old_lease, fleets=["none"]),
    Planted(FleetHop, "come_back", nothing),
    Planted(FleetHop, "_return_ticket", nothing, fleets=["hosts"]),
    Planted(UpstreamConnection, "_can_be_reused", always, kinds=["head only"]),
]
PLANTED_IN_TRANSLATION = [
    Planted(ChunkedLines, "problem_at_end", nothing, kinds=["lines"], heads=CHUNKED_EVENTS),
    Planted(ChunkedLines, "cut", cut_as_if_complete, kinds=["lines"]),
    Planted(ChunkedLines, "end", ended_without_last_chunk, kinds=["lines"], heads=CHUNKED_EVENTS),
    Planted(LinesUntilClosed, "_cut_looks_complete", False, kinds=["lines until closed"]),
    Planted(TranslatedWhole, "problem_at_end", nothing, kinds=["object"]),
    Planted(TranslatedWhole, "cut", cut_as_if_complete, kinds=["object"]),
    Planted(TranslatedWhole, "stop", nothing, kinds=["object"]),
    Planted(Streaming, "failed", nothing, kinds=["lines"], heads=CHUNKED_EVENTS),
]


@pytest.mark.deep
@pytest.mark.parametrize("planted", PLANTED_IN_TRANSLATION, ids=Planted.__str__)
def test_the_world_finds_a_bug_planted_in_the_translation(planted: Planted) -> None:
    """Each would show a client an incomplete response as a complete one, leave it waiting, or count it for ever."""
    with pytest.raises((Broken, AssertionError)):
        planted.is_hunted_in(TranslatedWorld)


@pytest.mark.deep
@pytest.mark.parametrize("planted", PLANTED, ids=Planted.__str__)
def test_the_world_finds_a_planted_bug(planted: Planted) -> None:
    """A world that finds nothing proves nothing."""
    with pytest.raises((Broken, AssertionError)):
        planted.is_hunted_in(ExchangeWorld)
