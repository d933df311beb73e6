"""Injects faults into one host while clients use it, one after the other, drawn from the seed."""

from __future__ import annotations

import asyncio
import random
import resource
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from bench.chaos.conversation_faults import ConversationInjector
from bench.chaos.hotseat_process import send_signal
from bench.chaos.injecting import Injector
from bench.chaos.process_faults import ProcessFaults
from bench.chaos.requests import REAL, STUBS

if TYPE_CHECKING:
    from bench.chaos.hotseat_process import HotseatProcess

LASTS_S = 1.5


class FaultInjector(Injector):
    def __init__(self, rig: HotseatProcess, rng: random.Random) -> None:
        super().__init__(rng)
        self._rig = rig
        self._conversations = ConversationInjector(rig, random.Random(f"{rng.random()}"))
        self._conversations.share(self)
        self._processes = ProcessFaults(rig, rng, self.trouble)
        self._faults = {
            "kill -9 of a server": self._kill_server,
            "SIGSTOP of a server": self._stop_server,
            "health check hangs": lambda: self._misbehave("hang", 4.5),
            "server exits at start": lambda: self._misbehave("exit", LASTS_S),
            "slow load": lambda: self._misbehave("slow", LASTS_S),
            "port taken by another process": self._steal_port,
            "unload by an operator": self._unload,
            "load by an operator": self._load,
            "reload with a changed model": lambda: self._reload(changed=self._any_stub()),
            "reload without a model": lambda: self._reload(without=self._any_stub()),
            "reload of an invalid file": self._reload_nonsense,
            "no descriptors": self._run_out_of_descriptors,
            "full disk": self._fill_disk,
            **self._processes.by_name,
        }
        self._weights = [8, 4, 2, 2, 3, 2, 3, 4, 3, 2, 2, 2, 2, 1, 1, 1, 1, 3]

    async def run(self, is_over: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run(is_over))
            group.create_task(self._conversations.run(is_over))

    def _draw(self) -> str:
        return self._rng.choices(list(self._faults), self._weights)[0]

    @property
    def notes(self) -> list[str]:
        return [*self._conversations.notes, *self._processes.notes]

    # Servers

    def _any_stub(self) -> str:
        return self._rng.choice(list(STUBS))

    def _any_server(self) -> list[int]:
        """The processes of a random model that runs."""
        models = [*STUBS, REAL]
        self._rng.shuffle(models)
        return next((servers for model in models if (servers := self._rig.servers(model))), [])

    async def _kill_server(self) -> None:
        for pid in self._any_server():
            send_signal(pid, signal.SIGKILL)

    async def _stop_server(self) -> None:
        stopped = self._any_server()
        for pid in stopped:
            send_signal(pid, signal.SIGSTOP)
        await asyncio.sleep(self._rng.uniform(0.1, LASTS_S))
        for pid in stopped:
            send_signal(pid, signal.SIGCONT)

    async def _misbehave(self, behaviour: str, lasts_s: float) -> None:
        model = self._any_stub()
        self._rig.set_behaviour(model, behaviour)
        for pid in self._rig.servers(model):
            send_signal(pid, signal.SIGKILL)
        await asyncio.sleep(lasts_s)
        self._rig.set_behaviour(model, "")

    async def _steal_port(self) -> None:
        """Another process listens on the next server's port and answers health checks."""
        async with asyncio.TaskGroup() as group:
            occupying = group.create_task(self._occupy_ports())
            await self._misbehave("steal", LASTS_S)
            await asyncio.sleep(0.5)
            occupying.cancel()

    async def _occupy_ports(self) -> None:
        servers = []
        try:
            while True:
                for port in self._rig.stolen_ports():
                    with suppress(OSError):
                        servers.append(await asyncio.start_server(self._pretend, "127.0.0.1", port))
                    self._rig.tell_taken(port)
                await asyncio.sleep(0.01)
        finally:
            for server in servers:
                server.close()

    async def _pretend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"POST"):
                self.trouble.append("a request went to another process on a stolen port")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            await writer.drain()
        writer.close()

    # Operators

    async def _unload(self) -> None:
        force = self._rng.choice(["", "?force=true"])
        await self._rig.ask("DELETE", f"/upstream/{self._any_stub()}{force}")

    async def _load(self) -> None:
        await self._rig.ask("GET", f"/upstream/{self._any_stub()}/load")

    async def _reload(self, changed: str = "", without: str = "") -> None:
        self._rig.write(changed, without)
        self._rig.reload()
        await asyncio.sleep(self._rng.uniform(0, LASTS_S))
        self._rig.write()
        self._rig.reload()

    async def _reload_nonsense(self) -> None:
        self._rig.write_nonsense()
        self._rig.reload()
        await asyncio.sleep(0.2)
        self._rig.write()

    # The machine

    async def _run_out_of_descriptors(self) -> None:
        await self._limited(resource.RLIMIT_NOFILE, self._rig.descriptors() + 2)

    async def _fill_disk(self) -> None:
        """Limit the size of its files: to a writer, that is a full disk."""
        await self._limited(resource.RLIMIT_FSIZE, 1 << 20)

    async def _limited(self, what: int, soft: int) -> None:
        self._rig.limit(what, soft)
        await asyncio.sleep(self._rng.uniform(0.1, LASTS_S))
        self._rig.limit(what, -1)
