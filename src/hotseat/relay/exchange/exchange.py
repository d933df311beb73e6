"""One request, from its model name to its last byte: choose the target, get a lease, send, relay, give everything back.

`Exchange` is what the client's connection and the dispatcher see; what can happen next depends on its state
(states.py). The lease ends when the upstream's response is complete; the exchange ends when the client's connection has
taken it. Otherwise one client that does not read its last buffer would block every swap.

Methods that are called from outside do not raise: a bug of ours ends the exchange (`crashed`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeVarTuple

from hotseat.activity.recent import InProgress
from hotseat.catalog.spec import DEFAULT_TIMEOUTS
from hotseat.errors import HotseatError, LoadFailed, ShuttingDown, UpstreamError, broken
from hotseat.identifiers import HostName
from hotseat.relay.exchange.accounting import Accounting, Outcome
from hotseat.relay.exchange.upstream_head import upstream_head
from hotseat.relay.routing.paths import dialect_for
from hotseat.settings import Role
from hotseat.tasks import attempt

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from hotseat.catalog.spec import Timeouts
    from hotseat.identifiers import Address, Instant, ModelName, Seconds, Upstream
    from hotseat.relay.context import Context
    from hotseat.relay.exchange.framers import Client, Framer
    from hotseat.relay.exchange.request import Request
    from hotseat.relay.exchange.token_estimate import Response

log = logging.getLogger(__name__)

CLIENT_LEFT = 499
"""Recorded, never sent."""

Args = TypeVarTuple("Args")


class State:
    """What can happen to an exchange; the defaults are for those that use no connection."""

    __slots__ = ()

    def cancel(self) -> None:
        """Stop what it waits for, and the upstream's work. Safe to call twice."""

    def last_piece(self) -> object:
        """The last data from the upstream; None if there is none."""
        return None

    def response(self) -> Response | None:
        """What is known of the upstream's response; None: it was never asked for one."""
        return None

    def client_is_full(self) -> None: ...
    def client_is_writable(self) -> None: ...
    def from_client(self, data: bytes) -> None: ...


class Queued(State):
    """It waits for a lease, for hosts to agree, or for a moment before it asks again."""

    __slots__ = ("_timer",)

    def __init__(self, timer: asyncio.TimerHandle | None = None) -> None:
        self._timer = timer

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Done(State):
    """The request is answered, refused, cut or abandoned, and everything is given back."""

    __slots__ = ()


QUEUED: Final[State] = Queued()
DONE: Final[State] = Done()
"""Shared: most exchanges need no timer to begin with, and none in the end."""


class Target:
    """Where a request goes; the defaults are those of hotseat's own API."""

    __slots__ = ()
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    limit_s: Seconds | None = None
    """How long one request may use it; None: no limit."""

    @property
    def label(self) -> str:
        return "hotseat's own API"

    @property
    def hint(self) -> str:
        """Where to look if it fails."""
        return ""

    @property
    def devices(self) -> int:
        return 1

    def head(self, exchange: Exchange, address: Address) -> bytes:
        return upstream_head(exchange.context, exchange.request, address, exchange.client.peer)

    def granted(self, exchange: Exchange, upstream: Upstream) -> None:
        raise AssertionError("only local models need a lease")

    def unreachable(self, exchange: Exchange, problem: str) -> None:
        exchange.fail(UpstreamError(f"{self.label} is unreachable: {problem}."))


NOT_CHOSEN: Final = Target()


class Exchange:
    __slots__ = ("accounting", "client", "context", "framer", "request", "state", "target", "upstream", "was_sent")

    def __init__(self, context: Context, client: Client, request: Request) -> None:
        self.context = context
        self.client = client
        self.request = request
        self.accounting = Accounting(context, request, client.peer, request.key_use)
        self.target: Target = NOT_CHOSEN
        self.upstream: Upstream | None = None
        """The server that the lease is for."""
        self.was_sent = False
        self.framer: Framer | None = None
        """Set when the response begins, unless it arrived in one piece."""
        self.state: State = QUEUED

    def run(self, step: Callable[[*Args], object], *args: *Args) -> None:
        """For callbacks of timers, connections and others, which could not answer the client: an error ends it."""
        try:
            try:
                step(*args)
            except HotseatError as error:
                self.refuse(error)
        except Exception as problem:
            self.crashed(problem)

    # Called by the dispatcher

    def granted(self, upstream: Upstream, reason: str = "") -> None:
        accounting = self.accounting
        try:  # like `run`, but faster: every request passes here
            self.upstream = upstream
            accounting.granted_at = self.context.now()
            if reason:
                accounting.waited_for = reason
            if accounting.key_use is not None:
                accounting.use_devices(self.target.devices)
            if accounting.ticket is not None:  # else `ask` has not returned yet
                self.state.cancel()
                self.target.granted(self, upstream)
        except Exception as problem:
            self.crashed(problem)

    def confirmed(self) -> None:
        raise AssertionError("only a load by an operator is confirmed")

    def refused(self, error: HotseatError) -> None:
        self.run(self._refused, error)

    def _refused(self, error: HotseatError) -> None:
        """Model server output is for operators. A fleet host does not say for whom it asks."""
        accounting, verdict = self.accounting, self.request.verdict
        is_operator = verdict.role is not Role.INFERENCE
        if isinstance(error, LoadFailed) and is_operator and not verdict.from_host:
            error = error.for_operators()
        is_waiting = accounting.ticket is not None  # else `ask` has not returned yet
        if isinstance(error, ShuttingDown | LoadFailed) and accounting.hop is not None and is_waiting:
            self.state.cancel()
            self.state = QUEUED
            accounting.return_lease()
            return accounting.hop.refused_here(error)
        return self.refuse(error)

    def cut(self, error: HotseatError) -> None:
        self.run(self.fail, error)

    # Called by the client's connection

    @property
    def is_feed(self) -> bool:
        """Is it a live feed of hotseat itself (events or logs)?"""
        return self.accounting.model is None and self.framer is not None and self.framer.head.is_event_stream

    def abandoned(self) -> None:
        """The client disconnected: stop the upstream's work now, or leave the queue."""
        if self.state is not DONE:
            self.run(self._end, CLIENT_LEFT)

    def client_is_full(self) -> None:
        self.run(self.state.client_is_full)

    def client_is_writable(self) -> None:
        self.run(self.state.client_is_writable)

    def from_client(self, data: bytes) -> None:
        self.run(self.state.from_client, data)

    def judge_again(self) -> bool:
        """The policy has changed: end the request with an error if it rejects it."""
        if self.state is DONE or (self.request.verdict.is_anonymous and self._finishes_without_key):
            return False
        key_use = self.accounting.key_use
        error = self.context.objection(self.request, self.client.peer, "" if key_use is None else key_use.model)
        if error is None:
            return False
        self.fail(error)
        return True

    @property
    def _finishes_without_key(self) -> bool:
        """Does it finish if it began before there were keys? Inference does, but a WebSocket can go on forever.

        So does an action that hotseat's own API has begun: one of them creates the first key and returns its secret.
        """
        rule = self.request.destination.rule
        if self.accounting.model is None:
            return rule.is_action and self.was_sent
        return rule.role is Role.INFERENCE and not self.request.head.is_websocket

    def in_progress(self) -> InProgress | None:
        """The request's state; None for requests that use no model."""
        accounting, request, now = self.accounting, self.request, self.context.now()
        ticket, first_byte_at = accounting.number, accounting.first_byte_at
        if accounting.model is None or ticket is None:
            return None
        return InProgress(
            ticket=ticket,
            id=request.id,
            model=accounting.model,
            client=request.client,
            method=request.head.method,
            target=request.head.target,
            waited_s=accounting.waited_s(now),
            first_byte_s=None if first_byte_at is None else first_byte_at - request.began,
            seconds=now - request.began,
            is_waiting=isinstance(self.state, Queued),
            host=None if accounting.hop is None else accounting.hop.host,
            from_host=HostName(request.verdict.from_host) or None,
        )

    def last_piece(self, model: ModelName) -> object:
        """The last data from the model's server; None if there is none, or for another model."""
        return self.state.last_piece() if self.upstream is not None and self.accounting.model == model else None

    def last_received(self) -> object:
        """The last data from the upstream, whatever it is; None if there is none."""
        return self.state.last_piece()

    # End

    def finished(self, status: int, now: Instant, pieces: Sequence[bytes]) -> None:
        """The response is complete: give everything back."""
        if pieces and self.accounting.model is not None:
            self.accounting.answered(pieces, self.state.response())
        self.state = DONE
        self.accounting.close(status, now, Outcome.ANSWERED)

    def refuse(self, error: HotseatError) -> None:
        """Send an error while that is still possible, else cut visibly."""
        if self.state is DONE:
            return
        context, request = self.context, self.request
        self._end(error.status)
        if self.framer is not None:
            self.framer.cut(error, dialect_for(request.head, context.policy.error_format))
        elif self.accounting.first_byte_at is not None:
            self.client.cut(b"", looks_complete=False)
        else:
            is_feed = request.destination.rule.is_feed  # which leaves its place to others
            keep_alive = request.head.keep_alive and not (context.is_draining or is_feed)
            self.client.refuse(error, keep_alive=keep_alive)
            self.client.exchange_ended(keep_alive=keep_alive, now=context.now())

    def fail(self, error: HotseatError) -> None:
        """Like a refusal, and logged: something went wrong after the request was accepted."""
        if self.state is not DONE:
            name = self.request.id.decode()
            log.info("request failed request=%s model=%s error=%r", name, self.target.label, error.message)
            self.refuse(error)

    def crashed(self, problem: Exception) -> None:
        """A bug of ours: send an error if possible, else cut visibly. The lease is returned in any case."""
        log.error("internal error request=%s", self.request.id.decode(), exc_info=problem)
        error = broken(problem)
        if self.state is DONE or not attempt(self.fail, error):  # already ending: the client's state is unknown
            attempt(self._end, error.status)
            attempt(self.client.abort)

    def _cut(self, response: Response | None, status: int) -> None:
        self.accounting.cut(response, by_client=status == CLIENT_LEFT)

    def _end(self, status: int) -> None:
        state, self.state = self.state, DONE
        attempt(self._cut, state.response(), status)
        attempt(state.cancel)
        if self.framer is not None:
            attempt(self.framer.stop)
        self.accounting.close(status, self.context.now(), Outcome.CUT if self.was_sent else Outcome.NOT_SENT)
