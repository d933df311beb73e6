"""A fleet under test: hosts connected by three NATS servers, and TCP links that can be frozen or cut."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import string
import struct
import subprocess
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from bench.chaos.hotseat_process import QUIET_WITHIN_S, HotseatProcess, send_signal, until
from bench.chaos.requests import REAL
from tests.support.hotseat import PROGRAM
from tests.support.nats import nats_servers
from tests.support.ports import THIS_MACHINE, Machine, free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from tests.support.nats import NatsServer

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]

PIECE = 1 << 16
RESET = struct.pack("ii", 1, 0)


class Wire:
    """Accepts connections for `target`, a port of this machine."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._listener: asyncio.Server | None = None
        self._flows = asyncio.Event()
        self._ends: set[asyncio.StreamWriter] = set()

    async def mend(self) -> None:
        """Let frozen data flow, and accept connections again."""
        self._flows.set()
        if self._listener is None:
            self._listener = await asyncio.start_server(self._carry, "127.0.0.1", self.port)

    def freeze(self) -> None:
        """Forward nothing and close nothing, like a network that loses all packets for a while."""
        self._flows.clear()

    def cut(self) -> None:
        """Reset connections and refuse new ones."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for end in self._ends:
            reset(end)

    # One connection

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = {writer}
        self._ends.add(writer)
        try:
            await self._flows.wait()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            ends.add(far_writer)
            self._ends.add(far_writer)
            await self._join((reader, writer), (far_reader, far_writer))
        except OSError:
            for end in ends:
                reset(end)  # losing one end means losing the other
        finally:
            self._ends -= ends
            for end in ends:
                end.close()

    async def _join(self, near: Ends, far: Ends) -> None:
        """Until both ends are closed; raises OSError if one is lost."""
        if self._listener is None:
            raise ConnectionResetError("it was cut while the way was being made")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(near[0], far[1]))
                group.create_task(self._pump(far[0], near[1]))
        except* OSError as lost:
            raise ConnectionResetError("one end is lost") from lost

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(PIECE):
            await self._flows.wait()
            writer.write(piece)
            await writer.drain()
        await self._flows.wait()
        writer.write_eof()


def reset(end: asyncio.StreamWriter) -> None:
    """Send RST, so that nobody mistakes it for a clean end."""
    with suppress(OSError):
        end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    end.transport.abort()


SERVERS = 3
SECRET = "hush"
AGAIN_S = 0.1
REPLICAS = {"red": {"max": 2}, REAL: {"min": 2, "max": 2}}
"""All others: one."""
AHEAD = ("unshare", "--time", "--monotonic", "86400", "--")
"""A process started by this has a monotonic clock that is one day ahead."""


class Fleet:
    """Hosts and NATS servers; subclasses connect them."""

    def __init__(self, folder: Path, count: int, nats: list[NatsServer], machines: Mapping[str, Machine]) -> None:
        self.nats = nats
        names = host_names(count)
        self.has_skew = may_skew_clocks()
        self.rigs = [
            HotseatProcess(folder / name, self._program(name == names[-1]), machine=machines.get(name, THIS_MACHINE))
            for name in names
        ]
        for rig in self.rigs:
            rig.settings = {name: {"replicas": dict(bounds)} for name, bounds in REPLICAS.items()}

    def _program(self, is_ahead: bool) -> list[str]:
        return [*(AHEAD if is_ahead and self.has_skew else ()), str(PROGRAM)]

    def _join(self, rig: HotseatProcess, address: str, nats: list[str]) -> None:
        """Configure where the others find it, and where it finds NATS: each as a host and a port."""
        urls = [f"nats://{server}" for server in nats]
        rig.fleet = {"nats": urls, "name": rig.name, "secret": SECRET, "address": f"http://{address}"}

    async def mend(self, *rigs: HotseatProcess) -> None:
        """Restore all links of these hosts, or of all."""

    def disconnect(self, rig: HotseatProcess) -> None:
        """Accept no more connections for a host that has ended."""

    async def until_connected(self) -> None:
        if not await until(lambda: all("connected to the fleet" in rig.log.read_text() for rig in self.rigs)):
            raise AssertionError("the hosts do not find each other")

    def end(self) -> None:
        for rig in self.rigs:
            for pid in rig.processes():
                send_signal(pid, signal.SIGCONT)
                send_signal(pid, signal.SIGKILL)

    def leader(self) -> NatsServer:
        """The cluster's leader; any server if it is unknown."""
        for server in self.nats:
            try:
                leader = server.monitoring("jsz")["meta_cluster"].get("leader")
            except (OSError, KeyError):
                continue
            return next((each for each in self.nats if each.name == leader), server)
        return self.nats[0]

    # What hosts know of each other

    async def order(self, method: str, rig: HotseatProcess) -> bool:
        """Drain a host (PUT), or end that (DELETE), through any host; False: it does not obey."""
        return await come_true(lambda: self._obeys(method, rig))

    async def _obeys(self, method: str, rig: HotseatProcess) -> bool:
        for asked in self.rigs:
            answer = await asked.ask(method, f"/hotseat/fleet/hosts/{rig.name}/drain")
            if answer and answer.get("status") == "ok":
                break
        [itself] = [host for host in await members(rig) if host["host"] == rig.name] or [{}]
        return itself.get("drained") is (method == "PUT")

    async def is_alone(self, rig: HotseatProcess) -> bool:
        """Does it know no other host, and no other host know it?"""
        return await come_true(lambda: self._knows_nobody(rig))

    async def _knows_nobody(self, rig: HotseatProcess) -> bool:
        known = {each.name: {host["host"] for host in await members(each)} for each in self.rigs}
        return known.pop(rig.name) == {rig.name} and not any(rig.name in names for names in known.values())


class WiredFleet(Fleet):
    """Its links are forwarders in this process, except those of clients."""

    def __init__(self, folder: Path, count: int, nats: list[NatsServer]) -> None:
        super().__init__(folder, count, nats, {})
        self.wires = {rig.name: Wire(rig.port) for rig in self.rigs}
        """The links that the other hosts use."""
        self.lines = {rig.name: [Wire(server.port) for server in nats] for rig in self.rigs}
        for rig in self.rigs:
            lines = [f"127.0.0.1:{wire.port}" for wire in self.lines[rig.name]]
            self._join(rig, f"127.0.0.1:{self.wires[rig.name].port}", lines)

    async def mend(self, *rigs: HotseatProcess) -> None:
        for rig in rigs or self.rigs:
            for wire in (self.wires[rig.name], *self.lines[rig.name]):
                await wire.mend()

    def disconnect(self, rig: HotseatProcess) -> None:
        self.wires[rig.name].cut()

    def end(self) -> None:
        for rig in self.rigs:
            for wire in (self.wires[rig.name], *self.lines[rig.name]):
                wire.cut()
        super().end()


def host_names(count: int) -> str:
    """One letter each."""
    return string.ascii_lowercase[:count]


async def members(rig: HotseatProcess) -> list[dict[str, Any]]:
    """The present hosts of the fleet, as this one knows them."""
    fleet = await rig.ask("GET", "/hotseat/fleet") or {}
    return list(fleet.get("hosts", []))


async def come_true(fact: Callable[[], Awaitable[bool]]) -> bool:
    begun = time.monotonic()
    while not await fact():
        if time.monotonic() > begun + QUIET_WITHIN_S:
            return False
        await asyncio.sleep(AGAIN_S)
    return True


def may_skew_clocks() -> bool:
    """Whether the kernel lets us give a process another clock."""
    try:
        return os.geteuid() == 0 and subprocess.run([*AHEAD, "true"], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@asynccontextmanager
async def fleet_of(count: int, folder: Path) -> AsyncIterator[WiredFleet]:
    """So many hosts, not started yet, with working links."""
    async with nats_servers(folder / "nats", SERVERS, advertise=False) as servers:
        fleet = WiredFleet(folder, count, servers)
        await fleet.mend()
        try:
            yield fleet
        finally:
            fleet.end()
