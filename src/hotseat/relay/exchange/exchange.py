"""One request, from its model name to its last byte: resolve the model, get a lease, forward, relay, return the lease.

Whatever happens, `_give_back` releases all resources and `_note` records the request, once. The lease ends when the
upstream's response is complete; the exchange ends when the client's connection has taken it. Otherwise one client that
does not read its last buffer would block every swap.

Methods that are called from outside do not raise: a bug of ours ends the exchange (`crashed`).
"""

from __future__ import annotations

import logging
from enum import Enum
from functools import partial, wraps
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec

from hotseat.activity.recent import InProgress
from hotseat.catalog.named_models import FleetModel, RemoteModel, Selector
from hotseat.catalog.spec import DEFAULT_TIMEOUTS, HOST_TIMEOUTS, UNCHANGED, BodyChanges, LoadingState, ModelSpec
from hotseat.error_bodies import stream_error
from hotseat.errors import HotseatError, LoadFailed, UnknownModel, UpstreamError, broken
from hotseat.relay.access import audit
from hotseat.relay.exchange.early_stream import EarlyAnswer, after_grace, can_begin_early
from hotseat.relay.exchange.fleet_hop import FleetHop
from hotseat.relay.exchange.token_usage import tokens_in
from hotseat.relay.http.head import SWITCHING, ResponseHead, response_bytes
from hotseat.relay.http.own_headers import lines_about_waiting, model_name_header, queue_length_header
from hotseat.relay.routing.model_name import MANAGEMENT
from hotseat.relay.routing.route import check_may_start, named_model_of, running_server
from hotseat.relay.upstream.connection import DechunkingConnection, UpstreamConnection
from hotseat.relay.upstream.exiting import is_dying
from hotseat.settings import Role
from hotseat.tasks import attempt

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from hotseat.activity.recent import Tokens
    from hotseat.activity.usage import KeyUse
    from hotseat.catalog.named_models import Servable
    from hotseat.catalog.spec import Timeouts
    from hotseat.fleet.route import OtherHost
    from hotseat.identifiers import Address, Instant, ModelName, Seconds, TicketId, Upstream
    from hotseat.relay.exchange.client_side import Client
    from hotseat.relay.exchange.fleet_hop import Hosts
    from hotseat.relay.exchange.request import Request
    from hotseat.relay.http.head_cache import KnownResponse
    from hotseat.relay.server import Relay

log = logging.getLogger(__name__)

UNREACHABLE_S: Seconds = 1.0
"""How long a ready upstream may refuse connections before the request fails."""
DIAL_AGAIN_S: Seconds = 0.05


class Stage(Enum):
    NAMING = "naming"
    WAITING = "waiting"
    DIALLING = "dialling"
    FORWARDED = "forwarded"
    ANSWERING = "answering"
    OVER = "over"


# Bound once: Python 3.11 needs as long for an enum member lookup as for a call.
NAMING: Final = Stage.NAMING
WAITING: Final = Stage.WAITING
DIALLING: Final = Stage.DIALLING
FORWARDED: Final = Stage.FORWARDED
ANSWERING: Final = Stage.ANSWERING
OVER: Final = Stage.OVER


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
    # Class attributes as defaults: of a thousand exchanges a second, most never set them.
    _stage = NAMING
    _spec: Servable | None = None
    _ticket: TicketId | None = None
    _upstream: Upstream | None = None
    _connection: UpstreamConnection | None = None
    _kind: type[UpstreamConnection] = UpstreamConnection
    _pending: asyncio.Task[None] | asyncio.TimerHandle | None = None
    """The grace period, the connection attempt or its retry, or the timeout of the response head."""
    _limit: asyncio.TimerHandle | None = None
    """The end of the time for which it may use the model."""
    _key_use: KeyUse | None = None
    """Its entry in the usage of its key; None if no keys are configured."""
    _passage: FleetHop | None = None
    """Its routing in the fleet; None without a fleet, or if a fleet host forwarded it."""
    _other_host: OtherHost | None = None
    """The host that it was forwarded to."""
    _peer_model: ModelName | None = None
    """The peer's model whose requests it counts among."""
    _early: EarlyAnswer | None = None
    _head: ResponseHead | None = None
    _granted_at: Instant | None = None
    _waited_for = ""
    """The reason why it was not granted at once."""
    _first_byte_at: Instant | None = None
    _tokens: Tokens | None = None
    _unreachable_since: Instant | None = None
    _was_sent = False
    _dechunks = False
    _chunks = False
    """Do we chunk a response that the upstream ends by closing?"""

    def __init__(self, relay: Relay, client: Client, request: Request, peer: str) -> None:
        self._relay = relay
        self._client = client
        self.write = client.write
        """Writes to the client; the body is relayed only through this."""
        self.request = request
        self._peer = peer
        if request.key_use is not None:
            self._key_use = request.key_use
        if request.head.http10:
            self._kind = DechunkingConnection
        self._closes = not request.keep_alive

    # Start

    def begin(self) -> None:
        try:  # like `guarded`, but faster: every request passes here
            self._begin()
        except Exception as problem:
            self.crashed(problem)

    def _begin(self) -> None:
        try:
            if self.request.destination.kind is MANAGEMENT:
                return self._forward(self._relay.management)
            named_model = named_model_of(self.request, self._relay.dispatcher)
            if (account := self.request.verdict.account) is not None:
                if self._key_use is None:
                    self._key_use = account.enter(named_model.name, self._relay.now())
                else:
                    account.check_may_use(named_model.name)
                    self._key_use.model = named_model.name
            spec = self._spec = self._relay.choose(named_model) if isinstance(named_model, Selector) else named_model
            if (hosts := self._relay.hosts) is not None and not isinstance(spec, RemoteModel) and self._may_travel():
                return self._find_host(hosts, spec)
        except HotseatError as error:
            return self._refuse(error)
        return self.serve_here()

    def serve_here(self) -> None:
        """With a local model, or a peer's."""
        spec = self._spec
        assert spec is not None
        try:
            if spec.changes is not UNCHANGED:
                self._change_body(spec.changes)
            self.request.members = None
            if isinstance(spec, RemoteModel):
                return self._forward_to_peer(spec)
            if isinstance(spec, FleetModel):
                raise UnknownModel(f'model "{spec.name}" is not defined on this host.')
            if self.request.destination.named_model is not None:
                check_may_start(spec, self.request, self._relay.rules, self._relay.dispatcher)
            if spec.ignore_websockets and self.request.head.is_websocket:
                return self._forward(running_server(spec, self._relay.dispatcher))
            return self._wait_for_lease(spec)
        except HotseatError as error:
            return self._refuse(error)

    def _change_body(self, changes: BodyChanges) -> None:
        self.request.change_body(changes)
        if self.request.body.counted_on_disk:  # it may be back in memory
            self._relay.bodies.count(self.request.body)

    def _forward_to_peer(self, remote: RemoteModel) -> None:
        """A peer is always available, so no lease is needed."""
        self.request.address_peer(remote)
        self._relay.peer_requests[remote.name] += 1
        self._peer_model = remote.name
        self._granted_at = self._relay.now()
        self._forward(remote.address)

    def _wait_for_lease(self, spec: ModelSpec) -> None:
        self._stage = WAITING
        request = self.request
        ticket = self._relay.dispatcher.ask(
            spec.name, request.client, self, takes_slot=request.destination.rule.takes_slot
        )
        if self._stage is OVER:
            return self._relay.dispatcher.leave(ticket)  # it crashed while being granted, before it knew its ticket
        self._ticket = ticket
        if self._upstream is not None:  # granted before `ask` returned
            self._forward(self._upstream.address)
        elif spec.loading_state is not LoadingState.OFF and self._early is None:
            self._pending = after_grace(self._relay, partial(self._begin_early, spec))
        return None

    @guarded
    def _begin_early(self, spec: ModelSpec) -> None:
        """After a long wait, begin the response without the model if configured and possible."""
        self._pending = None
        if not can_begin_early(self.request):
            return
        self._closes = self._closes or self._relay.is_draining
        self._early = EarlyAnswer(self._relay, self._client, self.request, spec, self._why)
        self._early.begin(self._relay.rules.cors.lines(self.request.head), close=self._closes)
        self.write = self._early.write
        self._kind = DechunkingConnection
        self.request.ask_for_plain()

    def _why(self) -> str:
        if self._upstream is None and self._spec is not None:
            return self._relay.dispatcher.why(self._spec.name)
        return "it has received the request and has not responded yet"

    def under_way(self) -> InProgress | None:
        """The request's state; None for requests that use no model."""
        if self._spec is None or self._ticket is None:
            return None
        request, now = self.request, self._relay.now()
        return InProgress(
            ticket=self._ticket,
            id=request.id,
            model=self._spec.name,
            client=request.client,
            method=request.head.method,
            target=request.head.target,
            waited_s=(self._granted_at or now) - request.began,
            first_byte_s=None if self._first_byte_at is None else self._first_byte_at - request.began,
            seconds=now - request.began,
            is_waiting=self._stage is WAITING,
        )

    def last_piece(self, model: ModelName) -> object:
        """The last data from the model's server; None if there is none, or for another model."""
        is_about_it = self._upstream is not None and self._spec is not None and self._spec.name == model
        return self._connection.last_piece() if is_about_it and self._connection is not None else None

    # The fleet

    def _may_travel(self) -> bool:
        """Excludes forwarded requests, and those that must not start a model."""
        request = self.request
        return not request.verdict.from_host and self._relay.rules.may_start(request.head, request.destination)

    def _find_host(self, hosts: Hosts, spec: ModelSpec | FleetModel) -> None:
        self._stage = WAITING
        self.request.members = None
        self._passage = FleetHop(hosts, spec.name, self.request.client, self)
        self._passage.find()

    def forward_to_host(self, where: OtherHost) -> None:
        """The other host changes the body itself; only a selector's name must be replaced here."""
        assert self._spec is not None
        if self._spec.changes.model_name == self._spec.name:
            self._change_body(BodyChanges(model_name=self._spec.name))
        self._granted_at = self._relay.now()
        self._other_host = where
        self._forward(where.address)

    def is_turned_away(self, head: ResponseHead) -> bool:
        """Did the host refuse it without doing anything? Then it goes to the next host."""
        if self._other_host is None or not head.is_turned_away:
            return False
        self._connection, self._was_sent = None, False
        self._next_host(head.unproven)
        return True

    def _next_host(self, unproven: str = "") -> None:
        assert self._passage is not None
        self._other_host = None
        self._stop_clock()
        self._passage.turned_away(unproven)

    # Called by the dispatcher

    def granted(self, upstream: Upstream, because: str = "") -> None:
        try:  # like `guarded`, but faster: every request passes here
            self._granted_at = self._relay.now()
            if because:
                self._waited_for = because
            if self._key_use is not None:
                self._count_device_time(self._key_use)
            self._upstream = upstream
            if self._ticket is not None:
                self._stop_clock()
                self._forward(upstream.address)
        except Exception as problem:
            self.crashed(problem)

    def _count_device_time(self, key_use: KeyUse) -> None:
        assert isinstance(self._spec, ModelSpec)
        meter = self._relay.rules.accounts.meter(self._spec.name)
        key_use.granted(meter, len(self._spec.memory or ()) or 1, self._relay.now())

    def confirmed(self) -> None:
        raise AssertionError("only an operator's wish is confirmed")

    @guarded
    def refused(self, error: HotseatError) -> None:
        if isinstance(error, LoadFailed) and self._may_see_output():
            error = error.for_operators()
        self._refuse(error)

    def _may_see_output(self) -> bool:
        """Model server output is for operators. A fleet host does not say for whom it asks."""
        verdict = self.request.verdict
        is_operator = verdict.account is None or verdict.account.key.role is not Role.INFERENCE
        return is_operator and not verdict.from_host

    @guarded
    def cut(self, error: HotseatError) -> None:
        self._break(error)

    def judge_again(self) -> bool:
        """The rules have changed: end the request with an error if they reject it."""
        error = self._relay.rules.objection(self.request, "" if self._key_use is None else self._key_use.model)
        if error is None or self._stage is OVER:
            return False
        self._break(error)
        return True

    # To the upstream

    def _forward(self, address: Address) -> None:
        connection = self._relay.pool.take(address) if self._kind is UpstreamConnection else None
        if connection is not None:
            self._send(connection)
        else:
            self._dial(address)

    def _dial(self, address: Address) -> None:
        self._stage = DIALLING
        timeouts = self._timeouts()
        self._pending = self._relay.pool.dial(address, self._kind, self._connected, self._not_connected, timeouts)

    def _timeouts(self) -> Timeouts:
        if self._other_host is not None:
            return HOST_TIMEOUTS
        return DEFAULT_TIMEOUTS if self._spec is None else self._spec.timeouts

    @guarded
    def _connected(self, connection: UpstreamConnection) -> None:
        self._pending = None
        if self.server_is_dying:  # its listener may briefly outlive its connections
            connection.close()
            return self._not_connected("it is exiting")
        self._send(connection)
        if self._client.is_full:  # a response that began early
            connection.pause()
        return None

    @guarded
    def _not_connected(self, problem: str) -> None:
        """The server may have just died unnoticed: if nothing was sent, request a new lease shortly."""
        self._pending = None
        if self._other_host is not None and not self._was_sent:
            return self._next_host()
        now = self._relay.now()
        self._unreachable_since = self._unreachable_since or now
        spec, is_early = self._spec, now - self._unreachable_since <= UNREACHABLE_S
        # A request that may have reached one server must not be sent to another.
        if not isinstance(spec, ModelSpec) or self._ticket is None or self._was_sent or not is_early:
            return self._break(UpstreamError(f"{self._who()} is unreachable: {problem}."))
        self._stage = WAITING
        self._pending = self._relay.later(DIAL_AGAIN_S, partial(self._ask_again, spec))
        return None

    @guarded
    def _ask_again(self, spec: ModelSpec) -> None:
        """Return the lease and queue again: a dead server is restarted for waiting requests."""
        self._pending = None
        ticket, self._ticket = self._ticket, None
        self._upstream = None
        if ticket is not None:
            self._relay.dispatcher.leave(ticket)
        self._wait_for_lease(spec)

    def _send(self, connection: UpstreamConnection) -> None:
        self._stage = FORWARDED
        self._was_sent = True
        self._connection = connection
        spec = self._spec
        key = spec.api_key if isinstance(spec, RemoteModel) else ""
        limit_s = spec.max_request_s if isinstance(spec, ModelSpec) and self._other_host is None else None
        if limit_s is not None and self._limit is None:
            self._limit = self._relay.later(limit_s, self._takes_too_long, limit_s)
        # Other hosts apply this themselves when the server's turn comes: requests may queue there first.
        head_s = self._timeouts().response_header_s
        if head_s is not None:
            self._pending = self._relay.later(head_s, self._is_too_slow, head_s)
        if self._other_host is not None and spec is not None:
            head = self._relay.host_head(self.request, self._other_host, self._peer, spec.name)
        else:
            head = self._relay.upstream_head(self.request, connection.address, self._peer, key)
        connection.send(self, head, self.request.body)

    @guarded
    def _is_too_slow(self, limit_s: Seconds) -> None:
        self._break(UpstreamError(f"{self._who()} did not respond within {limit_s:g} s (timeouts.responseHeader)."))

    @guarded
    def _takes_too_long(self, limit_s: Seconds) -> None:
        text = f"{self._who()} was used for {limit_s:g} s, the limit for one request (maxRequestDuration)."
        self._break(UpstreamError(text))

    def _stop_clock(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None

    # From the upstream

    @property
    def wants_head_only(self) -> bool:
        return self.request.head.method == b"HEAD"

    @property
    def only_reads(self) -> bool:
        """Can the request be repeated without side effects?"""
        return self.request.head.method in (b"GET", b"HEAD")

    @property
    def is_feed(self) -> bool:
        """Is it a live feed of hotseat itself (events or logs)?"""
        return self._spec is None and self._head is not None and self._head.is_event_stream

    @property
    def response_ends_with_connection(self) -> bool:
        return self._head is not None and self._head.ends_with_the_connection

    @property
    def server_is_dying(self) -> bool:
        pid = self._upstream.pid if self._upstream is not None else None
        return pid is not None and is_dying(pid)

    def head_received(self, head: ResponseHead) -> None:
        self._stage = ANSWERING
        self._stop_clock()
        self._head = head
        self._first_byte_at = self._relay.now()
        if self._other_host is not None and self._passage is not None:
            self._passage.answered(head)
        if self._early is not None:
            return self._early.head_received(head)
        http10 = self.request.head.http10
        endless = head.ends_with_the_connection and not self.wants_head_only
        self._dechunks, self._chunks = head.is_chunked and http10, endless and not http10
        self._closes = self._closes or (endless and http10) or self._dechunks or self._relay.is_draining
        cors, ours = self._relay.rules.cors.lines(self.request.head), self._own_lines(head)
        if self._chunks:
            ours.append(b"Transfer-Encoding: chunked")
            self.write = self._write_chunk
        return self._client.write(
            response_bytes(
                head,
                cors,
                dechunk=self._dechunks,
                close=self._closes,
                http10=http10,
                confine=self._spec is not None and self._relay.rules.confines_pages,
                ours=ours,
            )
        )

    def _write_chunk(self, data: bytes) -> None:
        """If we were killed now, the kernel would close the connection: that must not look like a complete response."""
        if data:
            self._client.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _own_lines(self, head: ResponseHead) -> list[bytes]:
        waited_s = 0.0 if self._granted_at is None else self._granted_at - self.request.began
        lines = lines_about_waiting(self._waited_for, waited_s)
        if name := model_name_header(self.request):
            lines.append(b"%b: %b" % (head.id_header, name))
        if queue_length := queue_length_header(self.request, self._spec, self._relay.dispatcher):
            lines.append(b"Hotseat-Queue-Length: %d" % queue_length)
        return lines

    def known_head_received(self, known: KnownResponse, length: int, data: bytes) -> None:
        """The same for a cached head, which is sent as prepared if the client needs nothing special."""
        relay, asked = self._relay, self.request.head
        may_need_cors = b"origin" in asked.known
        queue_length = queue_length_header(self.request, self._spec, relay.dispatcher)
        is_news = self._waited_for or (self._other_host is not None and known.head.tells_of_host) or queue_length
        if self._closes or asked.http10 or relay.is_draining or may_need_cors or is_news:
            self.head_received(known.with_length(length))
            return self.write(data)
        self._stage = ANSWERING
        if self._pending is not None:
            self._stop_clock()
        self._head = known.head
        self._first_byte_at = relay.now()
        lines = known.confined if self._spec is not None and relay.rules.confines_pages else known.plain
        return self.write(known.with_body(lines, model_name_header(self.request), length, data))

    def ended(self, now: Instant, pieces: Sequence[bytes]) -> None:
        """The upstream's response is complete and passed to the client's connection; `pieces` are its last parts."""
        assert self._head is not None
        if pieces and self._spec is not None:
            self._tokens = tokens_in(pieces)
        self._connection = None
        if self._early is not None:
            self._over(self._early.status, now, is_answered=True)
            return self._early.ended(keep_alive=not self._closes, now=now)
        if self._chunks:
            self._client.write(b"0\r\n\r\n")
        self._over(self._head.status, now, is_answered=True)
        return self._client.exchange_ended(keep_alive=not self._closes, now=now)

    @guarded
    def ended_by_hanging_up(self, now: Instant, pieces: Sequence[bytes]) -> None:
        """The same where the end of the connection ends the response."""
        self.ended(now, pieces)

    @guarded
    def failed(self, error: UpstreamError) -> None:
        self._break(UpstreamError(f"{self._who()} failed: {error.message}."))

    @guarded
    def connection_lost(self, *, may_retry: bool) -> None:
        assert self._connection is not None
        self._stop_clock()
        if self.server_is_dying:
            self._relay.pool.leave(self._connection.address)
        if may_retry:
            if self._other_host is not None:  # nothing was delivered, so another host may serve it
                self._was_sent = False
            return self._dial(self._connection.address)
        when = "before it responded" if self._head is None else "in the middle of its response"
        return self._break(UpstreamError(f"{self._who()} closed the connection {when}.{self._hint()}"))

    # Websockets: bytes both ways, with the lease held

    @property
    def wants_tunnel(self) -> bool:
        return self.request.head.is_websocket

    def switched(self, head: ResponseHead, data: bytes) -> None:
        self.head_received(head)
        self._client.become_tunnel()
        self.from_upstream(data)

    def from_upstream(self, data: bytes) -> None:
        self._client.tunnel_used()
        self.write(data)

    @guarded
    def from_client(self, data: bytes) -> None:
        assert self._connection is not None
        self._client.tunnel_used()
        self._connection.forward(data)

    @guarded
    def upstream_is_full(self) -> None:
        self._client.hold()

    @guarded
    def upstream_is_writable(self) -> None:
        self._client.go_on()

    @guarded
    def tunnel_ended(self) -> None:
        """The upstream closed it."""
        self._over(SWITCHING, self._relay.now(), is_answered=True)
        self._client.tunnel_ended()

    # From the client

    @guarded
    def abandoned(self) -> None:
        """The client disconnected: stop the upstream's work now, or leave the queue."""
        if self._stage is not OVER:
            self._over(499, self._relay.now())

    @guarded
    def client_is_full(self) -> None:
        if self._connection is not None:
            self._connection.pause()

    @guarded
    def client_is_writable(self) -> None:
        if self._connection is not None:
            self._connection.resume()

    # End

    def _refuse(self, error: HotseatError) -> None:
        if self._stage is OVER:
            return None
        keep_alive = self.request.keep_alive and not self._relay.is_draining
        now = self._relay.now()
        self._over(error.status, now)
        if self._early is not None:
            return self._early.refuse(error)
        self._client.refuse(error, keep_alive=keep_alive)
        return self._client.exchange_ended(keep_alive=keep_alive, now=now)

    def _break(self, error: HotseatError) -> None:
        """Send an error while that is still possible, else cut visibly."""
        if self._stage is OVER:
            return None
        log.info("request failed request=%s model=%s error=%r", self.request.id.decode(), self._who(), error.message)
        if self._head is None or self._early is not None:
            return self._refuse(error)
        last_words = self._last_words(error)
        looks_complete = self._ends_with_the_connection
        self._over(error.status, self._relay.now())
        return self._client.cut(last_words, looks_complete=looks_complete)

    def crashed(self, problem: Exception) -> None:
        """A bug of ours: send an error if possible, else cut visibly. The lease is returned in any case."""
        log.error("internal error request=%s", self.request.id.decode(), exc_info=problem)
        was_over, connection = self._stage is OVER, self._connection
        is_told = attempt(self._break, broken(problem)) and not was_over
        if connection is not None:  # even if it is not used yet
            connection.release()
        if is_told:
            return
        self._stage = OVER  # already ending: the client's state is unknown
        attempt(self._give_back, self._relay.now())
        attempt(self._client.abort)

    def _last_words(self, error: HotseatError) -> bytes:
        """An error event, if the stream is at a position where one can be inserted."""
        assert self._head is not None
        assert self._connection is not None
        if not self._head.is_event_stream:
            return b""
        event = b"\n\n" + stream_error(error.message, error.code, self.request.dialect(self._relay.rules.error_format))
        if self._ends_with_the_connection:
            return event
        at_a_chunk = self._chunks or self._connection.is_between_chunks
        return b"%x\r\n%b\r\n" % (len(event), event) if at_a_chunk else b""

    @property
    def _ends_with_the_connection(self) -> bool:
        """Is our closing the connection the only end marker of the response?"""
        assert self._head is not None
        return self._dechunks or (self._head.ends_with_the_connection and not self._chunks)

    def _over(self, status: int, now: Instant, *, is_answered: bool = False) -> None:
        self._stage = OVER
        self._give_back(now, is_answered=is_answered)
        try:
            if self.request.destination.rule.is_action:
                audit.note(self.request, self._peer, status)
            if self._spec is not None:
                self._note(self._spec.name, status, now)
        except Exception:  # from logs or metrics: the client gets its response anyway
            log.exception("internal error request=%s", self.request.id.decode())

    def _give_back(self, now: Instant, *, is_answered: bool = False) -> None:
        """Release each resource once, however often this is called, even if releasing another raises."""
        if self._pending is not None:
            self._stop_clock()
        if self._limit is not None:
            self._limit.cancel()
        if self._early is not None:
            attempt(self._early.stop)
        connection, self._connection = self._connection, None
        if connection is not None and connection.serves(self):
            connection.release()
        try:
            if self._ticket is not None:
                self._relay.dispatcher.leave(self._ticket, is_answered)
        finally:
            self._give_back_counts(now)

    def _give_back_counts(self, now: Instant) -> None:
        """Undo its counts: at another host, at a peer, for its key, among the bodies."""
        if self._passage is not None:
            attempt(self._passage.come_back)
        if self._key_use is not None:
            attempt(self._key_use.ended, now)
        if self._peer_model is not None:
            self._relay.peer_requests[self._peer_model] -= 1
            self._peer_model = None
        body = self.request.body
        if body.counted or body.counted_on_disk or body.is_spooled:
            attempt(self._relay.bodies.forget, body)

    def _note(self, model: ModelName, status: int, now: Instant) -> None:
        began = self.request.began
        waited = (self._granted_at or now) - began
        first_byte = None if self._first_byte_at is None else self._first_byte_at - began
        seconds, it = now - began, self.request
        self._relay.ledger.finished(model, status, waited, first_byte, seconds, it.client, it.head, it.id, self._tokens)

    def _who(self) -> str:
        if self._other_host is not None and self._spec is not None:
            return f"{self._spec.name} on {self._other_host.host}"
        return "hotseat's own API" if self._spec is None else self._spec.name

    def _hint(self) -> str:
        return f" See `hotseat logs {self._spec.name}`." if isinstance(self._spec, ModelSpec) else ""
