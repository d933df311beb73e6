"""Injects faults into one host while clients use it, one after the other, drawn from the seed."""

from __future__ import annotations

import asyncio
import random
import resource
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from bench.chaos.checker import adopted_in
from bench.chaos.conversation_faults import ConversationInjector
from bench.chaos.hotseat_process import QUIET_WITHIN_S, send_signal, until
from bench.chaos.injecting import RESTART, Injector
from bench.chaos.requests import REAL, STUBS
from tests.support.processes import command_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.chaos.hotseat_process import HotseatProcess

GRACE_S = 60
READY = ("ready", "draining")
EXITS_S = 0.3
"""A scripted server that was just being stopped has ended then."""


class ProcessFaults:
    def __init__(self, rig: HotseatProcess, rng: random.Random, trouble: list[str]) -> None:
        self._rig, self._rng, self._trouble = rig, rng, trouble
        self.by_name: dict[str, Callable[[], Awaitable[None]]] = {
            "SIGTERM and restart": self._stop,
            "kill -9 of hotseat": self._kill,
            "kill -9 of the guard": self._kill_guard,
            "crash with grace": self._crash_with_grace,
            RESTART: self._replace,
        }
        self._kept = self._crashes = 0

    @property
    def notes(self) -> list[str]:
        return [f"crashes with grace: {self._crashes}, servers that were kept: {self._kept}"]

    async def _stop(self) -> None:
        code = await self._rig.end(signal.SIGTERM)
        if code != 0:
            self._trouble.append(f"hotseat ended with {code} after SIGTERM")
        if left := self._rig.processes():
            self._trouble.append(f"after SIGTERM of hotseat there are still {[command_line(pid) for pid in left]}")
        await self._rig.start()

    async def _kill(self) -> None:
        await self._rig.end(signal.SIGKILL)
        await self._rig.start()

    async def _kill_guard(self) -> None:
        for pid in self._rig.processes("hotseat.model_servers.guard_process"):
            send_signal(pid, signal.SIGKILL)
        await asyncio.sleep(0.5)

    async def _replace(self) -> None:
        if problem := await self._rig.restart():
            self._trouble.append(f"a restart failed: {problem}")

    # A crash after which the servers are kept

    async def _crash_with_grace(self) -> None:
        await self._configure(GRACE_S)
        await self._rig.ask("GET", f"/upstream/{self._rng.choice(list(STUBS))}/load")
        ready = await self._ready()
        await self._rig.end(signal.SIGKILL)
        await asyncio.sleep(EXITS_S)
        kept, before = ready & self._running(), self._rig.log.stat().st_size
        await self._rig.start()
        if not await until(lambda: kept <= self._adopted_since(before)):
            lost = kept - self._adopted_since(before)
            self._trouble.append(f"after a crash these servers were not adopted: {lost}")
        self._crashes, self._kept = self._crashes + 1, self._kept + len(kept)
        await self._configure(0)

    async def _configure(self, grace_s: int) -> None:
        """Return when that is in force."""
        self._rig.grace = f"{grace_s}s" if grace_s else ""
        self._rig.write()
        self._rig.reload()
        begun = time.monotonic()
        while await self._grace_s() != grace_s:
            if time.monotonic() > begun + QUIET_WITHIN_S:
                return self._trouble.append(f"a crashGrace of {grace_s} s was not applied")
            await asyncio.sleep(0.02)
        return None

    async def _grace_s(self) -> float | None:
        """None: there is no answer."""
        config = await self._rig.ask("GET", "/hotseat/config")
        return float(config["resolved"]["settings"]["crashGrace"]) if config else None

    async def _ready(self) -> set[int]:
        models = (await self._rig.ask("GET", "/hotseat/models") or {"models": []})["models"]
        return {each["pid"] for each in models if each["phase"] in READY and each["model"] in STUBS}

    def _running(self) -> set[int]:
        return {pid for model in STUBS for pid in self._rig.servers(model)}

    def _adopted_since(self, position: int) -> set[int]:
        with self._rig.log.open("rb") as log:
            log.seek(position)
            return adopted_in(log.read().decode(errors="replace"))


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
