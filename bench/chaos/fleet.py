"""A fleet under test: hosts connected by three NATS servers, and TCP links that can be cut."""

from __future__ import annotations

import os
import signal
import string
import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bench.chaos.hotseat_process import HotseatProcess, send_signal, until
from bench.chaos.requests import REAL
from bench.chaos.tcp_links import Wire
from tests.support.hotseat import PROGRAM
from tests.support.nats import nats_servers

from hotseat.fleet.jetstream.store import JetStream
from hotseat.fleet.records import HostOrder, encoded
from hotseat.fleet.store import Bucket
from hotseat.identifiers import HostName
from hotseat.settings import Fleet as FleetSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.nats import NatsServer

SERVERS = 3
CONNECTED_S = 60.0
REPLICAS = {"red": {"max": 2}, REAL: {"min": 2, "max": 2}}
"""All others: one."""
AHEAD = ("unshare", "--time", "--monotonic", "86400", "--")
"""A process started by this has a monotonic clock that is one day ahead."""


class Fleet:
    def __init__(self, folder: Path, count: int, nats: list[NatsServer]) -> None:
        self.nats = nats
        names = string.ascii_lowercase[:count]
        self.has_skew = may_skew_clocks()
        self.rigs = [HotseatProcess(folder / name, self._program(name == names[-1])) for name in names]
        self.wires = {rig.name: Wire(rig.port) for rig in self.rigs}
        """The links that the other hosts use; clients do not."""
        self.lines = {rig.name: [Wire(server.port) for server in nats] for rig in self.rigs}
        for rig in self.rigs:
            rig.replicas = REPLICAS
            rig.fleet = {
                "nats": [f"nats://127.0.0.1:{wire.port}" for wire in self.lines[rig.name]],
                "name": rig.name,
                "secret": "hush",
                "address": f"http://127.0.0.1:{self.wires[rig.name].port}",
            }

    def _program(self, is_ahead: bool) -> list[str]:
        return [*(AHEAD if is_ahead and self.has_skew else ()), str(PROGRAM)]

    async def mend(self, *rigs: HotseatProcess) -> None:
        for rig in rigs or self.rigs:
            for wire in (self.wires[rig.name], *self.lines[rig.name]):
                await wire.mend()

    async def until_connected(self) -> None:
        if not await until(lambda: all("connected to the fleet" in rig.log.read_text() for rig in self.rigs)):
            raise AssertionError("the hosts do not find each other")

    def end(self) -> None:
        for rig in self.rigs:
            for wire in (self.wires[rig.name], *self.lines[rig.name]):
                wire.cut()
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

    async def order(self, host: str, order: HostOrder | None) -> None:
        """Set an operator's order; None withdraws it."""
        store = JetStream(FleetSettings(tuple(server.url for server in self.nats), HostName("operator")))
        store.open()
        try:
            await store.until_connected(CONNECTED_S)
            if order is None:
                await store.remove(Bucket.ORDERS, host)
            else:
                await store.put(Bucket.ORDERS, host, encoded(order))
        finally:
            await store.aclose()


def may_skew_clocks() -> bool:
    """Whether the kernel lets us give a process another clock."""
    try:
        return os.geteuid() == 0 and subprocess.run([*AHEAD, "true"], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@asynccontextmanager
async def fleet_of(count: int, folder: Path) -> AsyncIterator[Fleet]:
    """So many hosts, not started yet, with working links."""
    async with nats_servers(folder / "nats", SERVERS, advertise=False) as servers:
        fleet = Fleet(folder, count, servers)
        await fleet.mend()
        try:
            yield fleet
        finally:
            fleet.end()
