"""A model of this machine as a target: the request waits for a lease, and asks again if it is unreachable."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hotseat.catalog.spec import LoadingState
from hotseat.errors import UpstreamError
from hotseat.relay.exchange.early_stream import EarlyStream, after_grace, can_begin_early
from hotseat.relay.exchange.states import DONE, QUEUED, Queued
from hotseat.relay.exchange.targets import BaseTarget
from hotseat.relay.routing.route import check_may_start, running_server

if TYPE_CHECKING:
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Instant, Seconds
    from hotseat.relay.exchange.parts import Parts

UNREACHABLE_S: Seconds = 1.0
"""How long a ready model server may refuse connections before the request fails."""
ASK_AGAIN_S: Seconds = 0.05


class LocalModel(BaseTarget):
    __slots__ = ("_spec", "_unreachable_since")

    def __init__(self, spec: ModelSpec) -> None:
        # Not through `super`: this runs for every request.
        self.model, self.timeouts, self.limit_s = spec.name, spec.timeouts, spec.max_request_s
        self._spec = spec
        self._unreachable_since: Instant | None = None

    @property
    def hint(self) -> str:
        return f" See `hotseat logs {self._spec.name}`."

    @property
    def devices(self) -> int:
        return len(self._spec.memory or ()) or 1

    def start(self, exchange: Parts) -> None:
        spec, request, context = self._spec, exchange.request, exchange.context
        if request.destination.named_model is not None:
            check_may_start(spec, request, context.policy, context.dispatcher)
        if spec.ignore_websockets and request.head.is_websocket:
            exchange.connect(running_server(spec, context.dispatcher))
        else:
            self._wait_for_lease(exchange)

    # The lease

    def _wait_for_lease(self, exchange: Parts) -> None:
        exchange.state = QUEUED
        request, dispatcher = exchange.request, exchange.context.dispatcher
        ticket = dispatcher.ask(
            self._spec.name, request.client, exchange, takes_slot=request.destination.rule.takes_slot
        )
        if exchange.state is DONE:
            return dispatcher.leave(ticket)  # it crashed while being granted, before it knew its ticket
        exchange.accounting.ticket = ticket
        if exchange.upstream is not None:  # granted before `ask` returned
            exchange.connect(exchange.upstream.address)
        elif self._spec.loading_state is not LoadingState.OFF and exchange.early is None:
            begin = partial(exchange.run, partial(self._begin_early, exchange))
            exchange.state = Queued(after_grace(exchange.context, begin))
        return None

    def _begin_early(self, exchange: Parts) -> None:
        """After a long wait, begin the response without the model if configured and possible."""
        exchange.state = QUEUED
        if not can_begin_early(exchange.request):
            return
        context, request = exchange.context, exchange.request
        why = partial(self._why_it_waits, exchange)
        early = exchange.early = EarlyStream(context, exchange.client, request, self._spec, why)
        exchange.framer, exchange.has_begun = early, True
        keep_alive = request.keep_alive and not context.is_draining
        early.begin(context.policy.cors.lines(request.head), keep_alive=keep_alive)
        request.ask_for_plain()

    def _why_it_waits(self, exchange: Parts) -> str:
        if exchange.upstream is None:
            return exchange.context.dispatcher.why(self._spec.name)
        return "it has received the request and has not responded yet"

    def limit_use(self, exchange: Parts) -> None:
        assert self.limit_s is not None
        if not exchange.accounting.is_limited:
            end = partial(self._used_too_long, exchange, self.limit_s)
            exchange.accounting.limit(exchange.context.later(self.limit_s, exchange.run, end))

    def _used_too_long(self, exchange: Parts, limit_s: Seconds) -> None:
        text = f"{self.label} was used for {limit_s:g} s, the limit for one request (maxRequestDuration)."
        exchange.fail(UpstreamError(text))

    # A server that does not accept connections

    def unreachable(self, exchange: Parts, problem: str) -> None:
        """It may have just died unnoticed. A request that may have reached one server must not be sent to another."""
        now = exchange.context.now()
        if self._unreachable_since is None:
            self._unreachable_since = now
        is_recent = now - self._unreachable_since <= UNREACHABLE_S
        if exchange.accounting.ticket is None or exchange.was_sent or not is_recent:
            return super().unreachable(exchange, problem)
        again = partial(exchange.run, partial(self._ask_again, exchange))
        exchange.state = Queued(exchange.context.later(ASK_AGAIN_S, again))
        return None

    def _ask_again(self, exchange: Parts) -> None:
        """Return the lease and queue again: a dead server is restarted for waiting requests."""
        exchange.upstream = None
        exchange.accounting.return_lease()
        self._wait_for_lease(exchange)
