"""The real relay in front of the real management API; model servers and peers record all that they receive."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httpx2
import yaml
from msgspec import structs
from tests.support.fake_launcher import FakeLauncher
from tests.support.management import application, around, served
from tests.support.recording_server import Received, RecordingServer, recorded
from tests.support.role_oracle import Oracle
from tests.support.transport import Wire

from hotseat.activity.usage_store import UsageCounter
from hotseat.config.load import read
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.identifiers import Address, ModelName, Upstream
from hotseat.relay.access.policy import Policy
from hotseat.relay.server import Relay
from hotseat.scheduling.events import ProfileChanged, UpstreamReady
from hotseat.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.management import Management
    from tests.support.role_reading import Request

    from hotseat.scheduling.commands import StartUpstream, StopUpstream
    from hotseat.scheduling.events import UpstreamFailed


PEERS_SECRET = "the-key-of-the-farm"
KEYS: tuple[dict[str, Any], ...] = (
    {"key": "key-of-inference", "role": "inference"},
    {"key": "key-of-inference-alpha", "role": "inference", "models": ["alpha"]},
    {"key": "key-of-inference-some", "role": "inference", "models": ["auto", "far", "org"]},
    {"key": "key-of-operate", "role": "operate"},
    {"key": "key-of-operate-alpha", "role": "operate", "models": ["al"]},
    {"key": "key-of-operate-org", "role": "operate", "models": ["org", "farm/alpha"]},
    {"key": "key-of-admin", "role": "admin"},
)
MODELS: dict[str, dict[str, Any]] = {
    "alpha": {"aliases": ["al", "team/al"]},
    "beta": {"useModelName": "beta-by-its-file"},
    "org": {},
    "org/delta": {"aliases": ["delta"]},
    "hidden": {"unlisted": True},
}


def config(farm: int, barn: int, **more: object) -> dict[str, Any]:
    """A configuration in which every kind of name resolves."""
    return {
        "apiKeys": list(KEYS),
        "models": {name: {"cmd": "serve ${PORT}", **model} for name, model in MODELS.items()},
        "groups": {"all": {"swap": False, "exclusive": False, "members": list(MODELS)}},
        "selectors": {
            "auto": {"strategy": "warm", "targets": ["alpha", "beta"]},
            "away": {"strategy": "pin", "targets": ["farm/near", "beta"]},
        },
        "profiles": {"night": {"pins": {"alpha": "beta", "hidden": None, "org": "farm/near"}}},
        "peers": {
            "farm": {
                "proxy": f"http://127.0.0.1:{farm}",
                "apiKey": PEERS_SECRET,
                "models": ["far", "near", "alpha", "org/x"],
            },
            "barn": {"proxy": f"http://127.0.0.1:{barn}/llm", "models": ["straw"]},
        },
        "inferencePaths": ["/my/generate"],
        **more,
    }


class RecordingLauncher(FakeLauncher):
    """Models are ready at once, each at its recording server; records every start and stop."""

    def __init__(self, ports: dict[str, int]) -> None:
        super().__init__()
        self._ports = ports
        self.started: list[str] = []
        self.stopped: list[str] = []

    async def start(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed:
        self.started.append(command.model)
        ready = await super().start(command)
        assert isinstance(ready, UpstreamReady)
        return structs.replace(ready, upstream=Upstream(Address("127.0.0.1", self._ports[command.model]), os.getpid()))

    async def stop(self, command: StopUpstream) -> None:
        self.stopped.append(command.model)
        await super().stop(command)


@dataclass(frozen=True, slots=True)
class Situation:
    """The state before every request."""

    profile: str
    running: tuple[str, ...]
    default: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """All effects of a request."""

    status: int
    received: tuple[Received, ...]
    started: tuple[str, ...]
    stopped: tuple[str, ...]
    body: bytes = b""


@dataclass
class World:
    situation: Situation
    oracle: Oracle
    rig: Management
    launcher: RecordingLauncher
    received: list[Received]
    port: int
    wire: Wire | None = None

    async def ask(self, request: Request) -> Seen:
        """Send a request and return its effects; restores the state afterwards."""
        for notes in (self.received, self.launcher.started, self.launcher.stopped):
            notes.clear()
        status, body = await self._exchange(request)
        seen = Seen(status, tuple(self.received), tuple(self.launcher.started), tuple(self.launcher.stopped), body)
        await self.restore()
        return seen

    async def _exchange(self, request: Request) -> tuple[int, bytes]:
        if self.wire is None:
            sock = socket.socket()
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
            self.wire = Wire(sock)
        await self.wire.send(as_bytes(request))
        head = await self.wire.read_until(b"\r\n\r\n")
        self.wire.unread = head + self.wire.unread
        if head.startswith(b"HTTP/1.1 101") or b"x-accel-buffering: no" in head.lower():  # has no end
            status, body, is_last = int(head[9:12]), b"", True
        else:
            answer = await self.wire.message(to=request.method)
            status, body, is_last = answer.status, answer.body, "close" in answer.all("connection")
        if is_last:
            self.wire.hang_up()
            self.wire = None
        return status, body

    async def restore(self) -> None:
        await self._restore_profile()
        running = {str(model.name) for model in self.rig.dispatcher.views.current().running()}
        for name in running - set(self.situation.running):
            await self.rig.dispatcher.operator.unload(ModelName(name), force=True)
        for name in set(self.situation.running) - running:
            await self.rig.dispatcher.operator.load(ModelName(name))

    async def _restore_profile(self) -> None:
        changes = [each.request for each in self.received if each.server == "hotseat" and each.request.method != "GET"]
        if any("yield" in unquote(request.path) for request in changes):
            await self.rig.client.delete("/hotseat/yield")
        if (self.rig.dispatcher.catalog.active_profile or "") != self.situation.profile:
            await self.activate()

    async def activate(self) -> None:
        self.rig.dispatcher.tell(ProfileChanged(self.situation.profile or None))


def as_bytes(request: Request) -> bytes:
    length = [("Content-Length", str(len(request.body)))] if request.body or request.method == "POST" else []
    lines = [f"{name}: {value}" for name, value in (("Host", request.host), *request.fields, *length)]
    return "\r\n".join([f"{request.method} {request.target} HTTP/1.1", *lines, "", ""]).encode("latin-1") + request.body


@asynccontextmanager
async def world(folder: Path, situation: Situation) -> AsyncIterator[World]:
    received: list[Received] = []
    loop = asyncio.get_running_loop()
    servers = {
        name: await loop.create_server(lambda name=name: RecordingServer(name, received), "127.0.0.1", 0)  # type: ignore[misc]
        for name in (*MODELS, "farm", "barn")
    }
    ports = {name: server.sockets[0].getsockname()[1] for name, server in servers.items()}
    more = {"defaultModel": situation.default} if situation.default else {}
    configuration = config(ports["farm"], ports["barn"], **more)
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(configuration, sort_keys=False))
    loaded = read([file], environ={})
    launcher, journal = RecordingLauncher(ports), Journal()
    dispatcher = Dispatcher(Scheduler(loaded.catalog), launcher, journal)
    path = folder / "api"
    transport = httpx2.AsyncHTTPTransport(uds=str(path), verify=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://hotseat", timeout=5) as client:
        rig = around(dispatcher, journal, launcher, client, folder)
        rig.settings = loaded.settings
        async with served(recorded(application(rig), received), uds=str(path)):  # type: ignore[arg-type]
            management = Address("localhost", 0, unix_path=str(path))
            relay = Relay(dispatcher, Policy(loaded.settings, rig.accounts), management, rig.activity, UsageCounter())
            sock = socket.create_server(("127.0.0.1", 0))
            await relay.listen([sock])
            oracle = Oracle(configuration, situation.profile, situation.running)
            here = World(situation, oracle, rig, launcher, received, sock.getsockname()[1])
            await here.activate()
            await here.restore()
            try:
                yield here
            finally:
                if here.wire is not None:
                    here.wire.hang_up()
                await relay.drain(within=2)
                await relay.aclose()
        await dispatcher.shut_down(within=0)
    for server in servers.values():
        server.close()
