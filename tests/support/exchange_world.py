"""A world around one real exchange: its client, dispatcher, upstreams, timers and fleet do whatever the test says.

The exchange, its upstream connections and their readers are real; transports, clocks and everybody else are not. The
world keeps books of its own and judges by them: who was answered what, what was given back, what is left.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.fake_launcher import catalog, spec

from hotseat.activity.usage_store import UsageCounter
from hotseat.catalog.spec import LoadingState, Timeouts
from hotseat.errors import NoHostAvailable
from hotseat.fleet.route import THIS_HOST, OtherHost
from hotseat.identifiers import Address, ClientId, HostName, ModelName, TicketId, Upstream
from hotseat.relay.access.policy import Policy
from hotseat.relay.downstream.admission import admit
from hotseat.relay.downstream.limits import Bodies, ConnectionCount
from hotseat.relay.exchange.exchange import DONE, QUEUED, Exchange
from hotseat.relay.exchange.request import Request
from hotseat.relay.exchange.states import TRANSITIONS
from hotseat.relay.http.body import Body
from hotseat.relay.http.head_cache import Memory
from hotseat.relay.http.request_head import parse_request_head
from hotseat.relay.upstream.connection import UpstreamConnection
from hotseat.relay.upstream.response_reader import ResponseReader
from hotseat.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hotseat.errors import HotseatError
    from hotseat.fleet.forwarded import Forwarded
    from hotseat.relay.exchange.exchange import State

HERE = Address("127.0.0.1", 4000)
THERE = OtherHost(HostName("there"), Address("10.0.0.2", 8080))
UPSTREAM = Upstream(HERE, os.getpid())
TIMEOUTS = Timeouts(response_header_s=60.0)
ALPHA = spec("alpha", timeouts=TIMEOUTS, max_request_s=600.0)
SLOW = spec("slow", timeouts=TIMEOUTS, loading_state=LoadingState.COMMENTS)
OUR_NAME = HostName("here")
CATALOG = catalog(ALPHA, SLOW)


class Broken(AssertionError):
    """A promise that was not kept."""


@dataclass(eq=False)
class Timer:
    at: float
    ring: Callable[[], None]
    timers: list[Timer]

    def cancel(self) -> None:
        if self in self.timers:
            self.timers.remove(self)


class FakeTransport(asyncio.Transport):
    """What was written to an upstream, and how its connection ended."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = True
        self.is_paused = False

    def write(self, data: object) -> None:
        if not self.is_open:
            raise Broken("something is sent on a closed connection")

    def is_closing(self) -> bool:
        return not self.is_open

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: object = None) -> Any:
        return _Socket() if name == "socket" else default

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.is_open = False

    abort = close


class _Socket:
    family = 0

    def getsockopt(self, *known: int) -> bytes:
        raise OSError


@dataclass(eq=False)
class PendingConnection:
    """A connection that is being opened."""

    address: Address
    connected: Callable[[UpstreamConnection], None]
    failed: Callable[[str], None]
    pending: list[PendingConnection]

    def cancel(self) -> None:
        if self in self.pending:
            self.pending.remove(self)


class FakePool:
    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.heads: Memory[Any] = Memory()
        self.idle: list[UpstreamConnection] = []
        self.pending: list[PendingConnection] = []
        self.made: list[UpstreamConnection] = []

    def take(self, address: Address) -> UpstreamConnection | None:
        found = [connection for connection in self.idle if connection.address is address]
        if not found:
            return None
        self.idle.remove(found[-1])
        return found[-1]

    def put_back(self, connection: UpstreamConnection) -> None:
        self.idle.append(connection)

    def forget(self, connection: UpstreamConnection) -> None:
        if connection in self.idle:
            self.idle.remove(connection)

    def leave(self, address: Address) -> None:
        self.idle = [connection for connection in self.idle if connection.address is not address]

    def connect(self, address: Address, connected: Any, failed: Any, timeouts: Timeouts) -> PendingConnection:
        self.pending.append(PendingConnection(address, connected, failed, self.pending))
        return self.pending[-1]

    def open(self, address: Address) -> UpstreamConnection:
        connection = UpstreamConnection(address, ResponseReader(self.heads), self)
        connection.connection_made(FakeTransport())
        self.made.append(connection)
        return connection

    @property
    def used(self) -> list[UpstreamConnection]:
        """Open, and neither idle nor given up."""
        return [each for each in self.made if each not in self.idle and not each._transport.is_closing()]


@dataclass
class FakeDispatcher:
    """Queues requests until it is told to grant or refuse them."""

    grants_at_once: bool = False
    waiting: dict[TicketId, Any] = field(default_factory=dict)
    forwarded: dict[TicketId, Any] = field(default_factory=dict)
    """Of requests that the scheduler does not know."""
    left: Counter[TicketId] = field(default_factory=Counter)
    asked: int = 0
    catalog: Any = CATALOG

    def ask(
        self, model: ModelName, client: ClientId, waiter: Any, *, takes_slot: bool = True, is_batch: bool = False
    ) -> TicketId:
        self.asked += 1
        ticket = TicketId(self.asked)
        self.waiting[ticket] = waiter
        if self.grants_at_once:
            waiter.granted(UPSTREAM)
        return ticket

    def leave(self, ticket: TicketId, is_answered: bool = False) -> None:
        self.left[ticket] += 1
        self.waiting.pop(ticket, None)

    @property
    def tickets(self) -> FakeDispatcher:
        return self

    questions = views = tickets

    def enter(self, waiter: Any) -> TicketId:
        self.asked += 1
        self.forwarded[TicketId(self.asked)] = waiter
        return TicketId(self.asked)

    def remove(self, ticket: TicketId) -> None:
        self.left[ticket] += 1
        del self.forwarded[ticket]

    def why(self, model: ModelName) -> str:
        return "it is loading"

    def queue_length(self, model: ModelName) -> int:
        return 0


@dataclass
class FakeClient:
    """What the client of the exchange got."""

    peer: str = "127.0.0.1"
    received: bytes = b""
    endings: list[str] = field(default_factory=list)
    refusals: list[int] = field(default_factory=list)
    is_full: bool = False
    is_tunnel: bool = False
    looks_complete: bool = False

    def write(self, data: bytes) -> None:
        if self.endings:
            raise Broken(f"{data!r} is sent after {self.endings}")
        self.received += data

    def refuse(self, error: HotseatError, *, keep_alive: bool) -> None:
        if self.received or self.refusals:
            raise Broken("an error is sent after a response began")
        self.refusals.append(error.status)

    def exchange_ended(self, *, keep_alive: bool, now: float) -> None:
        self.endings.append("complete" if not self.refusals else "refused")

    def cut(self, last_words: bytes, *, looks_complete: bool) -> None:
        self.write(last_words)
        self.looks_complete = looks_complete
        self.endings.append("cut")

    def become_tunnel(self) -> None:
        self.is_tunnel = True

    def tunnel_used(self) -> None: ...
    def tunnel_ended(self) -> None:
        self.endings.append("tunnel")

    def hold(self) -> None: ...
    def go_on(self) -> None: ...
    def abort(self) -> None:
        self.endings.append("abort")


@dataclass
class FakeHosts:
    """The fleet: the first host may turn a request away, then this host serves it."""

    name: HostName = field(default=OUR_NAME)
    out: Counter[HostName] = field(default_factory=Counter)
    forwarded: list[Forwarded] = field(default_factory=list)
    turned: int = 0
    agreeing: list[Any] = field(default_factory=list)
    must_agree: bool = False
    signer: Any = None

    def __post_init__(self) -> None:
        self.signer = self

    def proof(self, host: HostName, said: bytes) -> bytes:
        return b"proof"

    def select(self, model: ModelName, client: ClientId, without: Collection[HostName]) -> Any:
        if OUR_NAME in without:
            raise NoHostAvailable("no other host can serve it")
        is_here = self.turned or without
        if self.must_agree and not is_here:
            return None
        return THIS_HOST if is_here else THERE

    def claim_and_select(self, model: ModelName, client: ClientId, agreed: Any, without: Collection[HostName]) -> Any:
        task = _Agreement(agreed, self.agreeing)
        self.agreeing.append(task)
        return task

    def sent(self, where: OtherHost, model: ModelName, request: Forwarded) -> None:
        self.out[where.host] += 1
        self.forwarded.append(request)

    def came_back(self, host: HostName, model: ModelName, request: Forwarded) -> None:
        self.out[host] -= 1
        self.forwarded.remove(request)

    def turned_away(self, host: HostName, model: ModelName, problem: str) -> None:
        self.turned += 1

    def check_taken(self, model: ModelName) -> None: ...
    def suspect(self, host: HostName, problem: str) -> None: ...
    def disbelieved(self, host: HostName, reason: str) -> None: ...
    def failed(self, host: HostName, model: ModelName) -> None: ...
    def note_load(self, host: HostName, model: ModelName, load: int) -> None: ...


@dataclass(eq=False)
class _Agreement:
    agreed: Any
    all: list[Any]

    def add_done_callback(self, call: Any) -> None: ...
    def cancel(self) -> None:
        if self in self.all:
            self.all.remove(self)


class FakeContext:
    """As `Context`, with a clock that the test moves."""

    def __init__(self, hosts: FakeHosts | None) -> None:
        self.clock = 1000.0
        self.timers: list[Timer] = []
        self.dispatcher = FakeDispatcher()
        self.policy = Policy(Settings())
        self.management = Address("localhost", 0, unix_path="/run/api")
        self.activity = self
        self.usage = UsageCounter()
        self.pool = FakePool(self.now)
        self.hosts = hosts
        self.tracer = None
        self.scheme = b"http"
        self.is_draining = False
        self.bodies = Bodies()
        self.places = ConnectionCount(None)
        self.peer_requests: Counter[ModelName] = Counter()
        self.recorded: list[int] = []

    def now(self) -> float:
        return self.clock

    def later(self, delay: float, call: Callable[..., None], *args: object) -> Timer:
        timer = Timer(self.clock + delay, lambda: call(*args), self.timers)
        self.timers.append(timer)
        return timer

    def check_space(self, body: Body, peer: str) -> None:
        self.bodies.count(body)

    def refused(self, code: str) -> None: ...
    def finished(self, model: ModelName, status: int, *known: object) -> None:
        self.recorded.append(status)


class CheckedExchange(Exchange):
    """Takes only the transitions of the table."""

    __slots__ = ("_checked",)

    @property
    def state(self) -> State:
        return self._checked

    @state.setter
    def state(self, following: State) -> None:
        before = getattr(self, "_checked", QUEUED)
        allowed = {type(before), *(kind for kind, _ in TRANSITIONS[type(before)])}
        if type(following) not in allowed:
            raise Broken(f"{type(before).__name__} does not lead to {type(following).__name__}")
        self._checked = following


def request_of(lines: bytes, body: bytes) -> Request:
    head = parse_request_head(lines)
    admission = admit(head, Policy(Settings()), CATALOG)
    return Request(b"box-7", admission, Body(body), ClientId("me"), 1000.0)


def is_over(exchange: Exchange) -> bool:
    return exchange.state is DONE
