"""A real fleet on one machine: NATS servers, hotseats and llama-servers as separate processes."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import nats
from nats.js.errors import KeyNotFoundError
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.nats import nats_servers
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.support.hotseat import Hotseat
    from tests.support.nats import NatsServer

CONNECT_S = 90.0
"""A busy machine needs that long to start a cluster and its hosts, as for any start."""


@contextmanager
def nats_cluster(folder: Path, count: int = 3) -> Iterator[list[NatsServer]]:
    with asyncio.Runner() as runner:
        servers = nats_servers(folder, count)
        try:
            yield runner.run(servers.__aenter__())
        finally:
            runner.run(servers.__aexit__(None, None, None))


class Hosts:
    """Hosts by name; those that still run at the end are stopped and checked."""

    def __init__(
        self, folder: Path, nats: list[NatsServer], stack: ExitStack, program: Callable[..., Hotseat] = ForkedHotseat
    ) -> None:
        self._folder = folder
        self._stack = stack
        self._program = program
        self.nats = nats
        self.by_name: dict[str, Hotseat] = {}

    def __getitem__(self, name: str) -> Hotseat:
        return self.by_name[name]

    def start(
        self,
        name: str,
        models: Mapping[str, Any],
        fleet: Mapping[str, Any] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        **keys: Any,
    ) -> Hotseat:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        said = {"nats": [server.url for server in self.nats], "name": name, "secret": "hush", **(fleet or {})}
        config = {"models": dict(models), "fleet": said, **keys}
        self.by_name[name] = self._stack.enter_context(self._program(config, folder, environ=environ))
        return self.by_name[name]

    def until_connected(self) -> None:
        """Return when each host knows all others' models and answers for them."""
        everything = {name for host in self.by_name.values() for name in names_at(host)}
        eventually(lambda: all(names_at(host) >= everything for host in self.by_name.values()), within=CONNECT_S)
        eventually(
            lambda: all("connected to the fleet" in host.log() for host in self.by_name.values()),
            within=CONNECT_S,
        )

    def running(self) -> dict[str, list[str]]:
        """The running models of each host."""
        return {name: sorted(host.running()) for name, host in self.by_name.items()}


def names_at(host: Hotseat) -> set[str]:
    return {entry["id"] for entry in host.call("GET", "/v1/models").json()["data"]}


@contextmanager
def fleet_of(folder: Path, *names: str, models: Mapping[str, Any], nats: int = 3, **keys: Any) -> Iterator[Hosts]:
    """Hosts with the same models, in one fleet."""
    with ExitStack() as stack:
        servers = stack.enter_context(nats_cluster(folder / "nats", nats))
        hosts = Hosts(folder, servers, stack)
        for name in names:
            hosts.start(name, models, **keys)
        hosts.until_connected()
        yield hosts


def record_of(host: str, server: NatsServer) -> Any:
    """What the host has published; None: nothing, or its lease has ended."""
    return asyncio.run(_record_of(host, server))


async def _record_of(host: str, server: NatsServer) -> Any:
    client = await nats.connect(server.url)
    try:
        found = await (await client.jetstream().key_value("hotseat-hosts")).get(host)
    except KeyNotFoundError:
        return None
    finally:
        await client.close()
    return json.loads(found.value or b"")["record"]
