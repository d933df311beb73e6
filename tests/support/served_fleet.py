"""A fleet in one process whose hosts call each other over HTTP, on real sockets."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx2
from tests.support.fake_launcher import FakeLauncher
from tests.support.fleet_in_process import MODELS, InProcessFleet, in_process_fleet
from tests.support.management import Management, application, around, served

from hotseat.fleet import other_hosts
from hotseat.fleet.other_hosts import HostHttp
from hotseat.net.http_client import Answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

SOON_S = 60.0
"""On a busy machine."""


@dataclass
class Served:
    """A fleet of a, b and c whose APIs are served; c alone has llama, and does not get qwen."""

    fleet: InProcessFleet
    urls: dict[str, str]
    clients: dict[str, httpx2.AsyncClient] = field(default_factory=dict)
    parts: dict[str, Management] = field(default_factory=dict)
    stack: dict[str, AsyncExitStack] = field(default_factory=dict)

    async def ask(self, host: str, method: str, path: str, **options: Any) -> httpx2.Response:
        return await self.clients[host].request(method, path, **options)

    async def get(self, host: str, path: str) -> Any:
        return (await self.clients[host].get(path)).json()

    async def fall_silent(self, host: str) -> None:
        """The host stops listening but remains a member of the fleet."""
        await self.stack[host].aclose()


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts wait longer for each other than in production."""
    monkeypatch.setattr(other_hosts, "DETAILS_S", SOON_S)
    monkeypatch.setattr(other_hosts, "ANSWER_S", SOON_S)


def all_answer(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    """Every host answers every question with this."""

    async def fetch(*_: object, **__: object) -> Answer:
        return Answer(200, {}, body)

    monkeypatch.setattr(HostHttp, "fetch", fetch)


@asynccontextmanager
async def served_fleet(folder: Path) -> AsyncIterator[Served]:
    sockets = {name: socket.create_server(("127.0.0.1", 0)) for name in "abc"}
    urls = {name: f"http://127.0.0.1:{sock.getsockname()[1]}" for name, sock in sockets.items()}
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(
            in_process_fleet(
                *urls,
                models=lambda name: MODELS[1:] if name == "c" else MODELS[:1],
                launcher=lambda name: FakeLauncher(broken=("qwen",) if name == "b" else ()),
                address=urls.__getitem__,
                has_no_sockets=False,
            )
        )
        rig = Served(fleet, urls)
        for name, sock in sockets.items():
            client = await stack.enter_async_context(
                httpx2.AsyncClient(base_url=urls[name], timeout=SOON_S, verify=False)
            )
            host = fleet[name]
            parts = around(host.dispatcher, host.journal, host.launcher, client, folder / name)
            parts.fleet = host.fleet_admin
            rig.clients[name], rig.parts[name] = client, parts
            host_stack = rig.stack[name] = await stack.enter_async_context(AsyncExitStack())
            await host_stack.enter_async_context(served(application(parts), fd=sock.fileno()))
            host_stack.callback(sock.close)
        yield rig
