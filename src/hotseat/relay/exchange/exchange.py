"""One request, from its model name to its last byte: choose the target, get a lease, send, relay, give everything back.

`Exchange` is what the client's connection and the dispatcher see; what can happen next depends on its state
(states.py). The lease ends when the upstream's response is complete; the exchange ends when the client's connection has
taken it. Otherwise one client that does not read its last buffer would block every swap.

Methods that are called from outside do not raise: a bug of ours ends the exchange (`crashed`).
"""

from __future__ import annotations

import logging
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from hotseat.activity.recent import InProgress
from hotseat.errors import HotseatError, LoadFailed, broken
from hotseat.relay.exchange.accounting import Accounting
from hotseat.relay.exchange.start import start
from hotseat.relay.exchange.states import DONE, QUEUED, Dialling, Queued, Sent
from hotseat.relay.exchange.targets import MANAGEMENT_API
from hotseat.relay.exchange.token_usage import tokens_in
from hotseat.settings import Role
from hotseat.tasks import attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotseat.identifiers import Address, Instant, ModelName, Seconds, Upstream
    from hotseat.relay.context import Context
    from hotseat.relay.exchange.client_side import Client
    from hotseat.relay.exchange.early_stream import EarlyStream
    from hotseat.relay.exchange.framers import Framer
    from hotseat.relay.exchange.parts import State, Target
    from hotseat.relay.exchange.request import Request
    from hotseat.relay.upstream.connection import UpstreamConnection

log = logging.getLogger(__name__)

ASK_AGAIN_S: Seconds = 0.05
CLIENT_LEFT = 499
"""Recorded, never sent."""

P = ParamSpec("P")


def guarded(step: Callable[Concatenate[Exchange, P], None]) -> Callable[Concatenate[Exchange, P], None]:
    """For callbacks of timers, connections and others: their callers could not answer the client."""

    @wraps(step)
    def run(exchange: Exchange, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            step(exchange, *args, **kwargs)
        except Exception as problem:
            exchange.crashed(problem)

    return run


class Exchange:
    __slots__ = (
        "accounting",
        "client",
        "context",
        "early",
        "framer",
        "has_begun",
        "peer",
        "request",
        "state",
        "target",
        "upstream",
        "was_sent",
    )

    def __init__(self, context: Context, client: Client, request: Request, peer: str) -> None:
        self.context = context
        self.client = client
        self.request = request
        self.peer = peer
        self.accounting = Accounting(context, request, peer)
        self.target: Target = MANAGEMENT_API
        self.upstream: Upstream | None = None
        """The server that the lease is for."""
        self.early: EarlyStream | None = None
        self.was_sent = False
        self.has_begun = False
        """Has the client got the beginning of a response?"""
        self.framer: Framer | None = None
        self.state: State = QUEUED

    # Start

    def begin(self) -> None:
        try:  # like `guarded`, but faster: every request passes here
            try:
                start(self)
            except HotseatError as error:
                self.refuse(error)
        except Exception as problem:
            self.crashed(problem)

    # Called by the dispatcher

    def granted(self, upstream: Upstream, because: str = "") -> None:
        try:  # like `guarded`, but faster: every request passes here
            self.accounting.granted(because)
            if self.accounting.key_use is not None:
                self.accounting.use_devices(self.target.devices)
            self.upstream = upstream
            if self.accounting.ticket is not None:
                self.state.cancel()
                self.connect(upstream.address)
        except Exception as problem:
            self.crashed(problem)

    def confirmed(self) -> None:
        raise AssertionError("only a load by an operator is confirmed")

    @guarded
    def refused(self, error: HotseatError) -> None:
        if isinstance(error, LoadFailed) and self._may_see_output():
            error = error.for_operators()
        self.refuse(error)

    def _may_see_output(self) -> bool:
        """Model server output is for operators. A fleet host does not say for whom it asks."""
        verdict = self.request.verdict
        is_operator = verdict.account is None or verdict.account.key.role is not Role.INFERENCE
        return is_operator and not verdict.from_host

    @guarded
    def cut(self, error: HotseatError) -> None:
        self.fail(error)

    # To the upstream

    def connect(self, address: Address) -> None:
        connection = self.context.pool.take(address)
        if connection is not None:
            self.send(connection)
        else:
            self.state = Dialling(self, address)

    def send(self, connection: UpstreamConnection) -> None:
        sent = self.state = Sent(self, connection)
        self.was_sent = True
        if self.target.limit_s is not None:
            self.target.limit_use(self)
        head = self.target.head(self, connection.address)
        connection.send(sent, head, self.request.body, expects_body=self.request.head.method != b"HEAD")
        if self.early is not None and self.client.is_full:
            connection.pause()

    # Called by the states

    def run(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as problem:
            self.crashed(problem)

    def finished(self, status: int, now: Instant, pieces: Sequence[bytes]) -> None:
        if pieces and self.accounting.model is not None:
            self.accounting.tokens = tokens_in(pieces)
        self.state = DONE
        if self.early is not None:
            self.early.stop()
        self.accounting.close(status, now, is_answered=True)

    # Called by the client's connection

    @property
    def wants_tunnel(self) -> bool:
        return self.request.head.is_websocket

    @property
    def is_feed(self) -> bool:
        """Is it a live feed of hotseat itself (events or logs)?"""
        return self.accounting.model is None and self.state.is_event_stream

    @guarded
    def abandoned(self) -> None:
        """The client disconnected: stop the upstream's work now, or leave the queue."""
        if self.state is not DONE:
            self._end(CLIENT_LEFT, self.context.now())

    @guarded
    def client_is_full(self) -> None:
        self.state.client_is_full()

    @guarded
    def client_is_writable(self) -> None:
        self.state.client_is_writable()

    @guarded
    def from_client(self, data: bytes) -> None:
        self.state.from_client(data)

    def judge_again(self) -> bool:
        """The policy has changed: end the request with an error if it rejects it."""
        key_use = self.accounting.key_use
        error = self.context.objection(self.request, "" if key_use is None else key_use.model)
        if error is None or self.state is DONE:
            return False
        self.fail(error)
        return True

    def in_progress(self) -> InProgress | None:
        """The request's state; None for requests that use no model."""
        accounting, request, now = self.accounting, self.request, self.context.now()
        if accounting.model is None or accounting.ticket is None:
            return None
        return InProgress(
            ticket=accounting.ticket,
            id=request.id,
            model=accounting.model,
            client=request.client,
            method=request.head.method,
            target=request.head.target,
            waited_s=accounting.waited_s(now),
            first_byte_s=accounting.first_byte_s,
            seconds=now - request.began,
            is_waiting=isinstance(self.state, Queued),
        )

    def last_piece(self, model: ModelName) -> object:
        """The last data from the model's server; None if there is none, or for another model."""
        return self.state.last_piece() if self.upstream is not None and self.accounting.model == model else None

    # End

    def refuse(self, error: HotseatError) -> None:
        """Send an error while that is still possible, else cut visibly."""
        if self.state is DONE:
            return
        now, framer = self.context.now(), self.framer
        self._end(error.status, now)
        if framer is not None:
            framer.cut(error, self.request.dialect(self.context.policy.error_format))
        elif self.has_begun:
            self.client.cut(b"", looks_complete=False)
        else:
            keep_alive = self.request.keep_alive and not self.context.is_draining
            self.client.refuse(error, keep_alive=keep_alive)
            self.client.exchange_ended(keep_alive=keep_alive, now=now)

    def fail(self, error: HotseatError) -> None:
        """Like a refusal, and logged: something went wrong after the request was accepted."""
        if self.state is not DONE:
            name = self.request.id.decode()
            log.info("request failed request=%s model=%s error=%r", name, self.target.label, error.message)
            self.refuse(error)

    def _end(self, status: int, now: Instant) -> None:
        state, self.state = self.state, DONE
        state.cancel()
        if self.early is not None:
            attempt(self.early.stop)
        self.accounting.close(status, now)

    def crashed(self, problem: Exception) -> None:
        """A bug of ours: send an error if possible, else cut visibly. The lease is returned in any case."""
        log.error("internal error request=%s", self.request.id.decode(), exc_info=problem)
        state = self.state
        is_answered = state is not DONE and attempt(self.fail, broken(problem))
        attempt(state.cancel)
        if not is_answered:  # already ending: the client's state is unknown
            self.state = DONE
            attempt(self.accounting.close, broken(problem).status, self.context.now())
            attempt(self.client.abort)
