"""Where a request goes, chosen once: hotseat itself, a local model, a model of a peer, or another host of the fleet.

A target knows its timeouts, the head it gets, and what happens if it is unreachable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.spec import HOST_TIMEOUTS, LoadingState
from hotseat.errors import ForwardingLoop
from hotseat.relay.exchange.early_stream import begin_after_grace
from hotseat.relay.exchange.exchange import DONE, QUEUED, Queued, Target
from hotseat.relay.exchange.states import connect
from hotseat.relay.exchange.tracing import note_wait
from hotseat.relay.exchange.upstream_head import host_head, upstream_head
from hotseat.relay.routing.route import check_may_start, running_server
from hotseat.relay.routing.slot_files import check_slot_files
from hotseat.scheduling.events import KeepAliveChanged
from hotseat.tasks import attempt

if TYPE_CHECKING:
    from hotseat.catalog.named_models import RemoteModel
    from hotseat.catalog.spec import ModelSpec
    from hotseat.fleet.route import OtherHost
    from hotseat.identifiers import Address, Instant, ModelName, Seconds, Upstream
    from hotseat.relay.exchange.exchange import Exchange

UNREACHABLE_S: Seconds = 1.0
"""How long a ready model server may refuse connections before the request fails."""
ASK_AGAIN_S: Seconds = 0.05


class ManagementApi(Target):
    __slots__ = ()

    def start(self, exchange: Exchange) -> None:
        connect(exchange, exchange.context.management)


MANAGEMENT_API = ManagementApi()


class LocalModel(Target):
    """A model of this machine: the request waits for a lease, and asks again if the server is unreachable."""

    __slots__ = ("_key", "_spec", "_unreachable_since", "limit_s", "timeouts")

    def __init__(self, spec: ModelSpec) -> None:
        self._spec, self._key = spec, ""
        self._unreachable_since: Instant | None = None
        self.timeouts = spec.timeouts
        self.limit_s = spec.max_request_s

    @property
    def label(self) -> str:
        return self._spec.name

    @property
    def hint(self) -> str:
        return f" See `hotseat logs {self._spec.name}`."

    @property
    def devices(self) -> int:
        return len(self._spec.memory or ()) or 1

    def start(self, exchange: Exchange) -> None:
        spec, request, context = self._spec, exchange.request, exchange.context
        check_slot_files(spec, request.head.method, request.destination.target)
        if request.destination.named_model is not None:
            check_may_start(spec, request, context.policy, context.dispatcher)
        if spec.ignore_websockets and request.head.is_websocket:
            self.connect_to(exchange, running_server(spec, context.dispatcher))
        else:
            self._wait_for_lease(exchange)

    def _wait_for_lease(self, exchange: Exchange) -> None:
        exchange.state = QUEUED
        spec, request, dispatcher = self._spec, exchange.request, exchange.context.dispatcher
        account, takes_slot = request.verdict.account, request.destination.rule.takes_slot
        is_batch = account is not None and account.key.is_batch
        ticket = dispatcher.ask(spec.name, request.client, exchange, takes_slot=takes_slot, is_batch=is_batch)
        if exchange.state is DONE:
            return dispatcher.leave(ticket)  # it crashed while being granted, before it knew its ticket
        exchange.accounting.ticket = ticket
        if exchange.upstream is not None:  # granted before `ask` returned
            return self.granted(exchange, exchange.upstream)
        if (tracer := exchange.context.tracer) is not None:
            attempt(note_wait, exchange.context, tracer, request, spec.name)
        if spec.loading_state is not LoadingState.OFF and exchange.framer is None:
            begin_after_grace(exchange, spec)
        return None

    def granted(self, exchange: Exchange, upstream: Upstream) -> None:
        translation = exchange.request.translation
        if translation is not None and translation.keep_alive is not None:
            exchange.context.dispatcher.tell(KeepAliveChanged(self._spec.name, translation.keep_alive.seconds))
        self.connect_to(exchange, upstream)

    def connect_to(self, exchange: Exchange, upstream: Upstream) -> None:
        self._key = upstream.api_key
        connect(exchange, upstream.address)

    def head(self, exchange: Exchange, address: Address) -> bytes:
        return upstream_head(exchange.context, exchange.request, address, exchange.client.peer, self._key)

    def unreachable(self, exchange: Exchange, problem: str) -> None:
        """It may have just died unnoticed. A request that may have reached one server must not be sent to another."""
        now = exchange.context.now()
        if self._unreachable_since is None:
            self._unreachable_since = now
        is_recent = now - self._unreachable_since <= UNREACHABLE_S
        if exchange.accounting.ticket is None or exchange.was_sent or not is_recent:
            super().unreachable(exchange, problem)
        else:
            exchange.state = Queued(exchange.context.later(ASK_AGAIN_S, exchange.run, self._ask_again, exchange))

    def _ask_again(self, exchange: Exchange) -> None:
        """Return the lease and queue again: a dead server is restarted for waiting requests."""
        exchange.upstream = None
        exchange.accounting.return_lease()
        self._wait_for_lease(exchange)


class PeerModel(Target):
    """A peer is always available, so no lease is needed."""

    __slots__ = ("_remote", "timeouts")

    def __init__(self, remote: RemoteModel) -> None:
        self._remote = remote
        self.timeouts = remote.timeouts

    @property
    def label(self) -> str:
        return self._remote.name

    def start(self, exchange: Exchange) -> None:
        if any(exchange.context.via in value for name, value in exchange.request.head.fields if name.lower() == b"via"):
            raise ForwardingLoop(f"{self.label}: the request came back from this peer. Correct `peers`, here or there.")
        exchange.request.address_peer(self._remote)
        exchange.accounting.sent_to_peer(self._remote.name)
        connect(exchange, self._remote.address)

    def head(self, exchange: Exchange, address: Address) -> bytes:
        context, key, line = exchange.context, self._remote.api_key, b"Via: %b\r\n" % exchange.context.via
        return upstream_head(context, exchange.request, address, exchange.client.peer, key, for_peer=line)


class FleetHost(Target):
    """Another host applies its own limits when the server's turn comes: requests may queue there first."""

    __slots__ = ("_model", "_where", "timeouts")

    def __init__(self, model: ModelName, where: OtherHost) -> None:
        self._model = model
        self._where = where
        self.timeouts = HOST_TIMEOUTS

    @property
    def label(self) -> str:
        return f"{self._model} on {self._where.host}"

    def start(self, exchange: Exchange) -> None:
        exchange.accounting.granted_at = exchange.context.now()
        connect(exchange, self._where.address)

    def head(self, exchange: Exchange, address: Address) -> bytes:
        return host_head(exchange.context, exchange.request, self._where, exchange.client.peer, self._model)

    def unreachable(self, exchange: Exchange, problem: str) -> None:
        """It was not delivered, so another host may serve it."""
        assert exchange.accounting.hop is not None
        exchange.state, exchange.was_sent = QUEUED, False
        reason = problem.replace(f" to {self._where.address}", "")  # clients may read it
        exchange.accounting.hop.turned_away(unreachable=reason)
