"""A hotseat under test: started, killed, started again on the same port, and observed from the outside."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import yaml
from bench.chaos.requests import BUDGET_GIB, REAL, REAL_GIB, STUBS
from bench.chaos.upstream import PROGRAM as PROGRAM_OF_STUBS
from tests.support.hotseat import MARK, PROGRAM
from tests.support.llama import REPOSITORY, llama
from tests.support.ports import THIS_MACHINE, Machine, free_port
from tests.support.processes import all_pids, command_line, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

DISK = 64 << 20
"""For saved conversations."""
REAL_OPTIONS = "-np 1 -ctk f32 -ctv f32"
"""One slot: requests computed in one batch change each other's last bits, and sometimes a word. A large cache: saving
it takes milliseconds."""
IGNORING = "env --ignore-signal=XFSZ "
"""A limit of its files' size is an error to the server then, and not its end."""
START_WITHIN_S = 150.0
QUIET_WITHIN_S, END_WITHIN_S = 60.0, 40.0
LOG_SHOWN = 20_000
"""Characters of its log, if it does not end."""


class HotseatProcess:
    def __init__(
        self,
        folder: Path,
        program: Sequence[str] = (str(PROGRAM),),
        budget_gib: int = BUDGET_GIB,
        machine: Machine = THIS_MACHINE,
    ) -> None:
        self.port = free_port()
        self.at = (machine.address, self.port)
        self.name = folder.name
        self.folder = folder
        self.fleet: Mapping[str, Any] = {}
        """The fleet section of its configuration; empty: not in a fleet."""
        self.settings: Mapping[str, Mapping[str, Any]] = {}
        """Of some models, besides what all have."""
        (folder / "stubs" / "alive").mkdir(parents=True)
        self.log = folder / "hotseat.log"
        self.cache = folder / "cache"
        """Where it saves conversations."""
        self.disk = DISK
        self._mark = f"{MARK}={folder}".encode()
        self._config = folder / "config.yaml"
        self._program = [*machine.enter, *program]
        self.budget_gib = budget_gib
        self.places = 48
        """Of its queue."""
        self.grace = ""
        """Its crashGrace; empty: none."""
        self._serving: int | None = None
        """The process that serves after a restart; None: the one that was started."""
        self._process: subprocess.Popen[bytes]
        self._serves = False
        self.lives = 0

    # The process

    async def start(self) -> None:
        """Return when it answers."""
        self.lives += 1
        self._serving = None
        self._spawn()
        async with asyncio.timeout(START_WITHIN_S):
            while not await self.ask("GET", "/health"):
                if self._process.poll() is not None:
                    raise AssertionError(f"hotseat ended with {self._process.returncode}:\n{self.log.read_text()}")
                await asyncio.sleep(0.02)
        self._serves = True

    def _spawn(self) -> None:
        argv = [*self._program, "serve", "--config", str(self._config), "--listen", "{}:{}".format(*self.at)]
        folders = {"XDG_STATE_HOME": self.folder / "state", "XDG_CACHE_HOME": self.cache, "TMPDIR": self.folder}
        ours = {MARK: str(self.folder), **{name: str(path) for name, path in folders.items()}}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, env={**os.environ, **ours})

    async def end(self, number: int) -> int:
        """Signal it, and return its exit code once it is gone."""
        self._serves = False
        if number == signal.SIGKILL:
            send_signal(self.pid, number)  # nobody can pass it on
        else:
            self._process.send_signal(number)
        try:
            return await asyncio.to_thread(self._process.wait, END_WITHIN_S)
        except subprocess.TimeoutExpired:
            left = "\n".join(f"{pid}: {command_line(pid)}" for pid in self.processes())
            raise AssertionError(f"hotseat did not end:\n{self.log.read_text()[-LOG_SHOWN:]}\n{left}") from None

    @property
    def pid(self) -> int:
        return self._serving or self._process.pid

    async def restart(self) -> str:
        """Have it replaced by a new process; returns why that failed, empty if it did not."""
        before = await self.ask("GET", "/hotseat/restart") or {"pid": self.pid, "attempts": 0}
        send_signal(self.pid, signal.SIGUSR2)
        begun = time.monotonic()
        while time.monotonic() < begun + START_WITHIN_S:
            state = await self.ask("GET", "/hotseat/restart") or before
            if state["pid"] != before["pid"]:
                self._serving = state["pid"]
                return ""
            if state["attempts"] > before["attempts"] and not state["is_in_progress"]:
                return str(state["problem"])
            await asyncio.sleep(0.02)
        return "there is no new process"

    def reload(self) -> None:
        """Not while it starts: until it serves, the signal would end it, and it reads the newest file anyway."""
        if self._serves:
            self._process.send_signal(signal.SIGHUP)

    def limit(self, what: int, soft: int) -> None:
        """Lower a limit of the running process; -1 removes it."""
        _, hard = resource.prlimit(self.pid, what)
        resource.prlimit(self.pid, what, (hard if soft == -1 else soft, hard))

    # Observations

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def processes(self, name: str = "") -> list[int]:
        """Every process of this hotseat, whatever its parent is now."""
        return [pid for pid in all_pids() if self._mark in environment(pid) and name in command_line(pid)]

    def servers(self, model: str) -> list[int]:
        """The model's running servers: one, unless something is wrong."""
        if model not in STUBS:
            return self.processes("llama-server -m")
        noted = [int(path.stem) for path in (self.folder / "stubs" / "alive").glob(f"*.{model}")]
        return [pid for pid in noted if self._mark in environment(pid)]

    async def ask(self, method: str, path: str) -> Any:
        """The JSON of an answer of hotseat itself; None if there is none."""
        with suppress(OSError, TimeoutError, ValueError, IndexError):
            async with asyncio.timeout(20):
                reader, writer = await asyncio.open_connection(*self.at)
                try:
                    writer.write(f"{method} {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                    return json.loads((await reader.read(-1)).split(b"\r\n\r\n", 1)[1])
                finally:
                    writer.transport.abort()
        return None

    # Its configuration

    def write(self, changed: str = "", without: str = "") -> None:
        """Configure every model; `changed` gets another command, `without` is left out."""
        models = {name: self._stub(name, gib, is_changed=name == changed) for name, gib in STUBS.items()}
        models[REAL] = {"cmd": IGNORING + llama("alpha", REAL_OPTIONS)["cmd"], "memory": f"{REAL_GIB}GiB"}
        for name, more in self.settings.items():
            models[name] |= more
        models.pop(without, None)
        config = {
            "devices": {"gpu0": {"memory": f"{self.budget_gib}GiB"}},
            "healthCheckTimeout": 4,
            "unloadTimeout": 2,
            "scheduler": {"maxQueue": self.places},
            "limits": {"idleTimeout": 10},
            "conversations": {"disk": self.disk},
            "models": models,
        }
        if self.grace:
            config["crashGrace"] = self.grace
        if self.fleet:
            config |= {"fleet": dict(self.fleet), "allowOpen": True}
        self._replace_config(yaml.safe_dump(config, sort_keys=False, width=10_000))

    def write_nonsense(self) -> None:
        self._replace_config("models: {red: {cmdd: nothing}}\n")

    def _replace_config(self, text: str) -> None:
        """At once: two injectors write it, and hotseat may be starting."""
        new = self._config.with_suffix(".new")
        new.write_text(text)
        new.replace(self._config)

    def _stub(self, name: str, gib: int, *, is_changed: bool) -> dict[str, Any]:
        start = [sys.executable, "-I", "-S", "-c", PROGRAM_OF_STUBS, str(REPOSITORY)]
        words = [*start, "${PORT}", name, str(self.folder / "stubs")]
        command = " ".join(word if word == "${PORT}" else shlex.quote(word) for word in words)
        extra = " again" if is_changed else ""
        return {"cmd": command + extra, "memory": f"{gib}GiB", "timeouts": {"responseHeader": 3}}

    def set_behaviour(self, model: str, behaviour: str) -> None:
        """How the next starts of a model fail; empty: they succeed."""
        (self.folder / "stubs" / model).write_text(behaviour)

    def stolen_ports(self) -> list[int]:
        """Ports whose server waits for them to be stolen."""
        stubs = self.folder / "stubs"
        return [int(path.suffix[1:]) for path in stubs.glob("stolen.*") if not self._taken(path).exists()]

    def tell_taken(self, port: int) -> None:
        (self.folder / "stubs" / f"taken.{port}").touch()

    @staticmethod
    def _taken(stolen: Path) -> Path:
        return stolen.with_name(f"taken{stolen.suffix}")


def send_signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


async def until(fact: Callable[[], bool]) -> bool:
    begun = time.monotonic()
    while not fact():
        if time.monotonic() > begun + QUIET_WITHIN_S:
            return False
        await asyncio.sleep(0.05)
    return True
