"""nginx and HAProxy beside the relay: how each parses the same bytes, judged by what reaches its upstream."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.ports import free_port
from tests.support.relay_rig import HELLO, MODELS, relay_rig
from tests.support.scripted_upstream import on_a_port
from tests.support.transport import Wire

from hotseat.settings import Settings
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.support.scripted_upstream import ScriptedUpstream

QUIET_ROUNDS, ROUND_S = 20, 0.05
"""A parser that is silent for so many rounds, and serves another client in each of them, waits for more."""
OTHER = b"GET /other?model=alpha HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
LAST = b"GET /last?model=alpha HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
"""Sent after every request: where that request ends, this one begins."""

NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log /dev/null;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/1; proxy_temp_path {folder}/2;
  fastcgi_temp_path {folder}/3; uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://127.0.0.1:{upstream}; proxy_http_version 1.1; }}
  }}
}}
"""
HAPROXY = """
global
  nbthread 1
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  server s 127.0.0.1:{upstream}
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """How one parser read some bytes."""

    forwarded: tuple[tuple[str, bytes], ...]
    """Method and body of each forwarded request, without the last one."""
    reached_last: bool

    @property
    def accepted(self) -> bool:
        return bool(self.forwarded)


class Parser:
    def __init__(self, port: int, upstream: ScriptedUpstream, tasks: Tasks) -> None:
        self._port = port
        self._upstream = upstream
        self._seen: list[tuple[str, bytes]] = []
        tasks.start(self._answer(), "answer")

    async def read(self, said: bytes) -> Reading:
        self._seen.clear()
        await self._say(said + LAST)
        forwarded = [(line.split(" ")[0], body) for line, body in self._seen if "/last" not in line]
        return Reading(tuple(forwarded), any("/last" in line for line, _ in self._seen))

    async def _say(self, said: bytes) -> None:
        wire = await self._connected()
        with suppress(OSError):
            await wire.send(said)
        await self._end_or_quiet(wire)
        wire.hang_up()

    async def _connected(self) -> Wire:
        sock = socket.socket()
        wire = Wire(sock)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self._port))
        return wire

    async def _end_or_quiet(self, wire: Wire) -> None:
        tasks = Tasks()
        reading = tasks.start(wire.end(), "read")
        quiet = 0
        while quiet < QUIET_ROUNDS:
            before = len(wire.unread), len(self._seen)
            ended, _ = await asyncio.wait([reading], timeout=ROUND_S)
            if ended:
                break
            await self._serve_another()
            quiet = quiet + 1 if (len(wire.unread), len(self._seen)) == before else 0
        await tasks.aclose()

    async def _serve_another(self) -> None:
        """So that a machine that is too busy for the parser is not mistaken for silence."""
        wire = await self._connected()
        await wire.send(OTHER)
        await wire.end()
        wire.hang_up()

    async def _answer(self) -> None:
        while True:
            with suppress(TimeoutError):
                call = await self._upstream.call()
                if "/other" not in call.request.first_line:
                    self._seen.append((call.request.first_line, call.request.body))
                await call.say(HELLO)


@asynccontextmanager
async def three_parsers(folder: Path) -> AsyncIterator[dict[str, Parser]]:
    """The relay, nginx and HAProxy, each in front of a server of its own."""
    tasks, servers = Tasks(), [on_a_port(), on_a_port()]
    try:
        async with relay_rig(folder, Settings(), MODELS) as rig:
            with _nginx(folder, servers[0].address.port) as nginx, _haproxy(folder, servers[1].address.port) as haproxy:
                yield {
                    "hotseat": Parser(rig.port, rig.alpha, tasks),
                    "nginx": Parser(nginx, servers[0], tasks),
                    "haproxy": Parser(haproxy, servers[1], tasks),
                }
            await tasks.aclose()
    finally:
        await tasks.aclose()
        for server in servers:
            await server.aclose()


@contextmanager
def _nginx(folder: Path, upstream: int) -> Iterator[int]:
    port, config = free_port(), folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, upstream=upstream))
    with _running(["nginx", "-p", str(folder), "-c", str(config)], port):
        yield port


@contextmanager
def _haproxy(folder: Path, upstream: int) -> Iterator[int]:
    port, config = free_port(), folder / "haproxy.cfg"
    config.write_text(HAPROXY.format(port=port, upstream=upstream))
    with _running(["haproxy", "-db", "-q", "-f", str(config)], port):
        yield port


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    with subprocess.Popen(
        command,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _wait_for(port, process)
            yield
        finally:
            process.kill()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
    raise AssertionError(f"{process.args!r} ended with {process.returncode} before it listened")
