"""A real relay over a real dispatcher, with scripted model servers and a scripted management API."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msgspec import structs
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.scripted_upstream import ScriptedUpstream, on_a_path, on_a_port
from tests.support.traces import KeptTraces, tracer_into
from tests.support.transport import Wire
from tests.support.waiting import come_true

from hotseat.activity.recent import Activity
from hotseat.activity.usage import Accounts
from hotseat.activity.usage_store import UsageCounter
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.identifiers import Address, ModelName, Upstream
from hotseat.net.listeners import bound
from hotseat.relay.access.policy import Policy
from hotseat.relay.downstream.connection import ClientConnection
from hotseat.relay.downstream.connections import SWEEP_S
from hotseat.relay.server import Relay
from hotseat.scheduling.events import UpstreamReady
from hotseat.scheduling.scheduler import Scheduler
from hotseat.state.audit_file import AUDIT, AuditFile

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.scripted_upstream import Call
    from tests.support.transport import Message

    from hotseat.activity.recent import Asked, Tokens
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import ClientId
    from hotseat.scheduling.commands import StartUpstream
    from hotseat.scheduling.events import UpstreamFailed
    from hotseat.settings import Settings

OUR_ID = b"box-7"
NOON = 20_000.5 * 86_400
"""The time for budgets, so that no window ends during a test."""
"""The id of every request that comes without one."""
HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
MODELS = (spec("alpha"), spec("beta"), spec("slow"))


def get(target: str = "/slots?model=alpha", *fields: str, method: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{method} {target} HTTP/{version}", "Host: box", *fields]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def post(body: bytes, *fields: str, target: str = "/v1/chat/completions", version: str = "1.1") -> bytes:
    length = f"Content-Length: {len(body)}"
    return get(target, *fields, length, method="POST", version=version) + body


def chat(model: str = "alpha", *fields: str) -> bytes:
    return post(b'{"model":"%b"}' % model.encode(), "Content-Type: application/json", *fields)


def chunked(*chunks: bytes) -> bytes:
    """A chunked body, including the last chunk."""
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


async def turns() -> None:
    """Run the loop until bytes in the kernel's buffers have been read."""
    for _ in range(20):
        await asyncio.sleep(0)


class ScriptedLauncher(FakeLauncher):
    """A fake launcher whose models are at the addresses of the test's servers."""

    def __init__(self, addresses: dict[str, Address]) -> None:
        super().__init__(slow=("slow",))
        self.addresses = addresses
        self.pids: dict[str, int] = {}
        """Of models whose server is another process."""
        self.listeners: dict[str, int] = {}
        """Of models whose server was started by another process."""

    async def start(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed:
        started = await super().start(command)
        if not isinstance(started, UpstreamReady):
            return started
        pid = self.pids.get(command.model, os.getpid())
        upstream = Upstream(self.addresses[command.model], pid, self.listeners.get(command.model))
        return structs.replace(started, upstream=upstream)


@dataclass(frozen=True, slots=True)
class Finished:
    model: str | None
    status: int
    waited_s: float
    first_byte_s: float | None
    seconds: float
    id: bytes
    tokens: Tokens | None
    why: str


class RecordedActivity(Activity):
    """Records finished requests and refusals."""

    def __init__(self) -> None:
        self.entries: list[Finished] = []
        self.refusals: list[str] = []

    def refused(self, code: str) -> None:
        self.refusals.append(code)

    def finished(
        self,
        model: ModelName,
        status: int,
        waited_s: float,
        first_byte_s: float | None,
        seconds: float,
        client: ClientId,
        asked: Asked,
        request_id: bytes,
        tokens: Tokens | None = None,
        why: str = "",
    ) -> None:
        self.entries.append(Finished(model, status, waited_s, first_byte_s, seconds, request_id, tokens, why))


@dataclass
class RelayRig:
    relay: Relay
    dispatcher: Dispatcher
    launcher: ScriptedLauncher
    upstreams: dict[str, ScriptedUpstream]
    management: ScriptedUpstream
    activity: RecordedActivity
    usage: UsageCounter
    port: int
    audit: Path
    journal: Journal
    clients: list[Wire] = field(default_factory=list)

    @property
    def alpha(self) -> ScriptedUpstream:
        return self.upstreams["alpha"]

    async def client(self, *, source: str | None = None, receive_buffer: int | None = None) -> Wire:
        """A new connection to the relay; `receive_buffer` limits what the kernel buffers for the client."""
        sock = socket.socket()
        if source is not None:
            sock.bind((source, 0))
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.clients.append(Wire(sock))
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        return self.clients[-1]

    def connection(self) -> ClientConnection:
        """The only client connection, as the relay has it."""
        [connection] = self.relay.connections.open
        assert isinstance(connection, ClientConnection)
        return connection

    def stop_clocks(self) -> None:
        """From now on only `later` advances the relay's clocks, however long the test takes."""
        for clock in (self.relay.context, self.relay.context.pool):
            now = clock.now()
            clock.now = lambda now=now: now  # type: ignore[misc]

    async def clocks_seen(self) -> None:
        """Return when the relay has checked all deadlines once more."""
        start = self.relay.context.now()
        await come_true(lambda: self.relay.context.now() > start + 1.1 * SWEEP_S)

    async def send(self, request: bytes) -> Wire:
        client = await self.client()
        await client.send(request)
        return client

    async def reached(self, request: bytes) -> tuple[Wire, Call]:
        """A request that has reached alpha and waits for its response."""
        client = await self.send(request)
        return client, await self.alpha.call()

    async def exchange(self, request: bytes, answer: bytes = HELLO) -> tuple[Message, Message]:
        """The request that alpha received and the response that the client received."""
        client, call = await self.reached(request)
        await call.say(answer)
        answered = await client.message(to=request.partition(b" ")[0].decode())
        client.hang_up()
        return call.request, answered

    async def refusal(self, request: bytes) -> Message:
        client = await self.send(request)
        answered = await client.message()
        client.hang_up()
        return answered

    def trace(self) -> KeptTraces:
        """From now on requests are traced."""
        kept = KeptTraces()
        self.relay.context.tracer = tracer_into(kept, self.journal, self.relay.context.now)
        return kept

    def in_flight(self, model: str = "alpha") -> int:
        return self.dispatcher.views.of(ModelName(model)).in_flight

    def waiting(self) -> int:
        return len(self.dispatcher.views.current().queue)

    def phase(self, model: str) -> str:
        return self.dispatcher.views.of(ModelName(model)).phase.value

    async def later(self, seconds: float) -> None:
        """Wait until all data sent so far has arrived, then advance the relay's clocks."""
        await turns()
        for clock in (self.relay.context, self.relay.context.pool):
            before = clock.now
            clock.now = lambda before=before: before() + seconds  # type: ignore[misc]
        self.relay.connections.check_deadlines()  # the first check after such a jump only detects it


@asynccontextmanager
async def relay_rig(
    folder: Path, settings: Settings, models: tuple[ModelSpec, ...], *, send_buffer: int | None = None, **known: Any
) -> AsyncIterator[RelayRig]:
    """Inside the block the relay listens; afterwards nothing is left, and no error went unnoticed."""
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
    upstreams: dict[str, ScriptedUpstream] = {each.name: on_a_port() for each in models}
    launcher = ScriptedLauncher({name: upstream.address for name, upstream in upstreams.items()})
    journal = Journal()
    dispatcher = Dispatcher(Scheduler(replace(catalog(*models), **known)), launcher, journal)
    management, activity, usage = on_a_path(folder / "api"), RecordedActivity(), UsageCounter()
    audit_file = AuditFile(folder / AUDIT)
    policy = Policy(settings, Accounts(wall_clock=lambda: NOON))
    relay = Relay(dispatcher, policy, management.address, activity, usage, audit_file=audit_file)
    relay.context.new_id = lambda: OUR_ID  # tests compare the bytes on the wire
    (sock,) = bound(("127.0.0.1", 0))
    if send_buffer is not None:  # accepted connections inherit it
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    await relay.listen([sock])
    port, parts = sock.getsockname()[1], (relay, dispatcher, launcher, upstreams, management, activity, usage)
    rig = RelayRig(*parts, port, audit_file.path, journal)
    try:
        yield rig
    finally:
        await _tidy_up(rig)

    assert problems == [], problems


async def _tidy_up(rig: RelayRig) -> None:
    for client in rig.clients:
        client.hang_up()
    await rig.relay.drain(within=5)
    await come_true(lambda: rig.waiting() == 0)
    leases = {model.name: model.in_flight for model in rig.dispatcher.views.current().models if model.in_flight}
    tickets = rig.dispatcher.tickets.in_progress()
    await rig.relay.aclose()
    await rig.dispatcher.shut_down(within=0)
    for upstream in (*rig.upstreams.values(), rig.management):
        await upstream.aclose()

    assert (leases, tickets) == ({}, [])
    assert (rig.relay.context.bodies.in_memory, rig.relay.context.bodies.on_disk) == (0, 0)
