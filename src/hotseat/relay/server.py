"""The relay's server: accepts connections, holds their shared state, and drains them on shutdown."""

from __future__ import annotations

import asyncio
import logging
import select
import socket
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from hotseat.fleet.host_headers import client_in_line, line_of_proof, lines_for_host, said_by
from hotseat.relay.access.api_keys import line_about_key
from hotseat.relay.access.host_requests import line_for_model, model_in_line, stated_role
from hotseat.relay.access.wrong_keys import WrongKeys
from hotseat.relay.downstream.body_limits import Bodies
from hotseat.relay.downstream.connection import ClientConnection
from hotseat.relay.downstream.connection_count import ConnectionCount
from hotseat.relay.downstream.tls import BACKLOG, TlsListener
from hotseat.relay.http.head import framed
from hotseat.relay.http.head_cache import KnownRequest, Memory
from hotseat.relay.http.request_id import numbered
from hotseat.relay.routing.selector import choose
from hotseat.relay.upstream.pool import Pool
from hotseat.tasks import Tasks, attempt

if TYPE_CHECKING:
    import ssl

    from hotseat.activity.recent import Asked, InProgress, Tokens
    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.named_models import Selector, Servable
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.fleet.route import OtherHost
    from hotseat.identifiers import Address, ClientId, ModelName, Seconds
    from hotseat.relay.access.policy import Policy
    from hotseat.relay.downstream.connection_count import Excess
    from hotseat.relay.exchange.fleet_hop import Hosts
    from hotseat.relay.exchange.request import Request
    from hotseat.relay.http.body import Body

log = logging.getLogger(__name__)

SWEEP_S: Seconds = 0.25
STOPPED_S: Seconds = 1.0
"""A longer gap between two sweeps means that the process was stopped or had no CPU."""
HUNG_UP = getattr(select, "POLLRDHUP", select.POLLHUP)
"""What Linux reports for a connection that the peer has closed, even if earlier bytes are unread."""


class Ledger(Protocol):
    """Records finished requests, and counts refused ones."""

    def refused(self, code: str) -> None: ...

    def finished(
        self,
        model: ModelName,
        status: int,
        waited_s: Seconds,
        first_byte_s: Seconds | None,
        seconds: Seconds,
        client: ClientId,
        asked: Asked,
        request_id: bytes,
        tokens: Tokens | None,
    ) -> None: ...


class Relay:
    def __init__(
        self,
        dispatcher: Dispatcher,
        rules: Policy,
        management: Address,
        ledger: Ledger,
        *,
        most_connections: int | None = None,
    ) -> None:
        """`most_connections`: how many fit into the process's file descriptors; None: any number."""
        self.dispatcher = dispatcher
        self.rules = rules
        self.management = management
        self.ledger = ledger
        self.pool = Pool()
        self.hosts: Hosts | None = None
        """The fleet; None if this host is in none."""
        self.new_id = numbered()
        self.is_draining = False
        self.scheme = b"http"
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self.later = self._loop.call_later
        self._clients: set[ClientConnection] = set()
        self.connection_count = ConnectionCount(most_connections)
        self.tasks = Tasks()
        """TLS handshakes and their listeners."""
        self.held: set[ClientConnection] = set()
        """Connections with paused reading, whose transports would not notice a disconnect."""
        self._all_gone = asyncio.Event()
        self.bodies = Bodies()
        self.peer_requests: Counter[ModelName] = Counter()
        """Requests at models of peers."""
        self._known: Memory[KnownRequest] = Memory()
        self.known_under: tuple[Policy, Catalog] = (rules, dispatcher.catalog)
        self.wrong_keys = WrongKeys(self.now, self.later)
        self._servers: list[asyncio.Server | TlsListener] = []
        self._looked_at = self.now()
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    # Start and shutdown

    async def listen(self, sockets: list[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        self.scheme = b"http" if tls is None else b"https"
        for sock in sockets:
            # Accepted sockets inherit this: uvloop sets it itself, asyncio only for some sockets.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._servers.append(TlsListener(self, sock, tls))
                continue
            server = await self._loop.create_server(lambda: ClientConnection(self), sock=sock, backlog=BACKLOG)
            self._servers.append(server)

    async def drain(self, within: Seconds) -> None:
        """Stop accepting; return when every client is gone, after `within` seconds at the latest."""
        self.is_draining = True
        self._close_listeners()
        for client in tuple(self._clients):
            if not attempt(client.drain):
                attempt(client.abort)
        if self._clients:
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._all_gone.wait()

    async def aclose(self) -> None:
        self._close_listeners()
        self._sweeper.cancel()
        await self.tasks.aclose()
        for client in tuple(self._clients):
            attempt(client.abort)
        await self.pool.aclose()

    def _close_listeners(self) -> None:
        for server in self._servers:
            server.close()

    # Shared by connections

    @property
    def clients(self) -> int:
        return len(self._clients)

    def under_way(self) -> list[InProgress]:
        """Every request to a model that has not ended, oldest first."""
        found = [request for client in self._clients if (request := client.under_way()) is not None]
        return sorted(found, key=lambda request: request.ticket)

    def last_pieces(self, model: ModelName) -> list[object]:
        """The last data from the model's server, by request. While the objects stay the same, nothing arrived."""
        return [piece for client in self._clients if (piece := client.last_piece(model)) is not None]

    def arrived(self, peer: str) -> Excess | None:
        """Count a connection; returns the limit that it exceeds, if any."""
        return self.connection_count.add(peer, self.rules.limits, is_proxy=self.rules.trusts(peer))

    def departed(self, peer: str) -> None:
        self.connection_count.remove(peer)

    def join(self, client: ClientConnection) -> Excess | None:
        self.join_counted(client)
        return self.arrived(client.peer)

    def join_counted(self, client: ClientConnection) -> None:
        self._clients.add(client)

    def part(self, client: ClientConnection) -> None:
        self._clients.discard(client)
        self.held.discard(client)
        self.departed(client.peer)
        if self.is_draining and not self._clients:
            self._all_gone.set()

    def check_space(self, body: Body) -> None:
        """Count what this body takes; raises if all of them together take too much."""
        self.bodies.count(body)
        self.bodies.check(body, self.rules.limits, is_proxy=body.is_spooled and self.rules.trusts(body.sender))

    def forget(self, request: Request) -> None:
        """Release a request that ends before it began: its client left, or the rest of it is not read."""
        self.bodies.forget(request.body)
        if request.key_use is not None:
            request.key_use.ended(self.now())

    def upstream_head(self, request: Request, address: Address, peer: str, api_key: str = "") -> bytes:
        lines = self._remembered_lines(request, address, peer, api_key)
        return framed(lines, request.head.id_header, request.id, request.stated_length)

    def host_head(self, request: Request, where: OtherHost, peer: str, model: ModelName) -> bytes:
        """The same for a fleet host, with what we know already and a proof for this request only."""
        lines = self._remembered_lines(request, where.address, peer, to_host=True)
        lines += line_for_model(model) + line_of_proof(self._proof(request, where, model))
        return framed(lines, request.head.id_header, request.id, request.stated_length)

    def _proof(self, request: Request, where: OtherHost, model: ModelName) -> bytes:
        assert self.hosts is not None
        role = stated_role(request.verdict, has_keys=self.rules.has_keys)
        said = said_by(
            self.hosts.name.encode(),
            request.head.method,
            where.address.prefix.encode() + request.destination.target,
            model_in_line(model),
            client_in_line(request.client),
            role,
        )
        return self.hosts.signer.proof(where.host, said)

    def _remembered_lines(
        self, request: Request, address: Address, peer: str, api_key: str = "", *, to_host: bool = False
    ) -> bytes:
        """An address always or never belongs to a fleet host, so the two kinds of lines are never mixed up."""
        known = request.known
        if known is None or api_key:  # a head with a peer's key is not cached
            return self._upstream_lines(request, address, peer, api_key, to_host)
        if known.sent_to is not address or known.sent_for != peer:
            known.sent_to, known.sent_for = address, peer
            known.sent_as = self._upstream_lines(request, address, peer, "", to_host)
        return known.sent_as

    def _upstream_lines(self, request: Request, address: Address, peer: str, api_key: str, to_host: bool) -> bytes:
        trusts = bool(request.verdict.from_host) or self.rules.trusts(peer)
        lines = request.upstream_lines(address, peer, self.scheme, trust_proxies=trusts, api_key=api_key)
        if address is self.management:
            return lines + line_about_key(request.verdict)
        if not to_host or self.hosts is None:
            return lines
        role = stated_role(request.verdict, has_keys=self.rules.has_keys)
        return lines + lines_for_host(self.hosts.name, request.client, role)

    def choose(self, selector: Selector) -> Servable:
        """The target that a selector means now."""
        targets = self.dispatcher.catalog.choices(selector)
        return choose(selector, targets, self.dispatcher.view(), self.peer_requests)

    def change_rules(self, rules: Policy) -> None:
        """Apply new rules, also to requests in progress whose key is gone or no longer allows them."""
        self.rules = rules
        if ended := sum(self._judged_again(client) for client in tuple(self._clients)):
            log.warning("requests were aborted because their keys no longer allow them count=%d", ended)

    def _judged_again(self, client: ClientConnection) -> int:
        """How many of its requests ended. One that cannot be checked is cut, so that the others still are."""
        try:
            return client.judge_again()
        except Exception:
            log.exception("internal error client=%s", client.peer)
            return int(attempt(client.abort))

    def known_requests(self) -> Memory[KnownRequest]:
        """The cache for the current configuration."""
        rules, catalog = self.rules, self.dispatcher.catalog
        if self.known_under[0] is not rules or self.known_under[1] is not catalog:
            self._known = Memory()
            self.known_under = (rules, catalog)
        return self._known

    def is_current(self, known: KnownRequest) -> bool:
        return known.under[0] is self.rules and known.under[1] is self.dispatcher.catalog

    def _sweep(self) -> None:
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)
        self.look_at_deadlines()
        self._look_for_departed()

    def look_at_deadlines(self) -> None:
        """One sweep over all connections costs less than a timer per request.

        After a stop of the process it waits for the next sweep: what clients sent in time is not read yet.
        """
        now, before = self.now(), self._looked_at
        self._looked_at = now
        if now - before > STOPPED_S:
            return
        for client in [client for client in self._clients if client.deadline <= now]:
            if not attempt(client.time_is_up):
                attempt(client.abort)

    def _look_for_departed(self) -> None:
        if not self.held:
            return
        by_number = {client.fileno(): client for client in self.held}
        poll = select.poll()
        for number in by_number:
            poll.register(number, HUNG_UP)
        for number, _ in poll.poll(0):
            attempt(by_number[number].hung_up)
