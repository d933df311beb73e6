"""Faults of saved conversations: servers killed while they write or read one, damaged files, no disk, little disk.

They run beside the other faults, because each of them takes a swap or two. The files are damaged from the outside, and
compared with their budget.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.chaos.client import Client, End
from bench.chaos.file_moments import HeldFiles, OpenedFiles
from bench.chaos.hotseat_process import DISK, send_signal
from bench.chaos.injecting import Injector
from bench.chaos.requests import PROMPTS, REAL, Behaviour, Kind, PlannedRequest
from tests.support.processes import environment

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from bench.chaos.hotseat_process import HotseatProcess

SAVED, PART, LOCK = ".slot", ".part", "lock"
LOOK_S = 0.2
OBEYS_WITHIN_S = 10.0
"""A smaller budget applies after a reload, which hotseat may not survive; the next one has to start first."""


class ConversationDisk:
    def __init__(self, rig: HotseatProcess, rng: random.Random) -> None:
        self._rig, self._rng = rig, rng
        self.most = 0
        """Bytes of all files, at the worst moment."""
        self.damaged = 0

    # Damage

    def truncate(self) -> None:
        for path in self._some():
            with suppress(FileNotFoundError):
                os.truncate(path, self._rng.randrange(path.stat().st_size + 1))

    def replace(self) -> None:
        """With noise of the same size or with another conversation, at once: nobody reads a mixture of both."""
        other = self._rig.folder / "other"
        for path in self._some():
            with suppress(FileNotFoundError):
                source = self._rng.choice(saved(self._rig))
                size = path.stat().st_size
                other.write_bytes(source.read_bytes() if source != path else self._rng.randbytes(size))
                os.replace(other, path)

    def remove(self) -> None:
        for path in self._some():
            path.unlink(missing_ok=True)

    def remove_folder(self) -> None:
        self.damaged += bool(saved(self._rig))
        shutil.rmtree(self._rig.cache, ignore_errors=True)

    def _some(self) -> list[Path]:
        """Half of them, and at least one."""
        there = saved(self._rig)
        chosen = self._rng.sample(there, (len(there) + 1) // 2)
        self.damaged += len(chosen)
        return chosen

    # The budget

    async def watch(self, is_over: asyncio.Event) -> str | None:
        """Until `is_over`; what is wrong."""
        obeyed_at = time.monotonic()
        while not is_over.is_set():
            size = sum(map(size_of, files(self._rig)))
            self.most = max(self.most, size)
            now = time.monotonic()
            obeyed_at = now if size <= self._rig.disk else obeyed_at
            if now > obeyed_at + OBEYS_WITHIN_S:
                return f"saved conversations took {size} bytes for {OBEYS_WITHIN_S:g} s, {self._rig.disk} are allowed"
            await asyncio.sleep(LOOK_S)
        return None


def saved(rig: HotseatProcess) -> list[Path]:
    return [path for path in files(rig) if path.suffix == SAVED]


def parts(rig: HotseatProcess) -> list[Path]:
    return [path for path in files(rig) if path.suffix == PART]


def files(rig: HotseatProcess) -> list[Path]:
    """Except locks. Folders may vanish meanwhile."""
    with suppress(OSError):
        return sorted(path for path in rig.cache.rglob("*") if path.name != LOCK and path.is_file())
    return []


def size_of(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


FOLDER = b"LLAMA_ARG_SLOT_SAVE_PATH="
ADDRESS = "127.0.0.2"
"""Of a client that does not share the place in the queue with all others."""
TRIES = 3
RESTARTS_IN_S = 1.0
"""While nobody listens."""
WATCH_S = 2.0
"""How long a server may take until it opens a conversation's file."""
LONGEST_SWAP_S = 1.5
STOPPED_S = (0.0, 0.0, 0.02, 0.02, 0.1, 0.4)
"""How long a server hangs before it is killed. If somebody waits for the memory, hotseat waits 0.25 s for a save, and
saves less after it was too slow."""
NICE = 12
LARGEST_FILE = 8 << 20
LITTLE_DISK = 12 << 20
"""Enough for two of the three conversations."""


class ConversationInjector(Injector):
    def __init__(self, rig: HotseatProcess, rng: random.Random) -> None:
        super().__init__(rng)
        self._rig = rig
        self._disk = disk = ConversationDisk(rig, rng)
        self._tried: Counter[str] = Counter()
        self._struck: Counter[str] = Counter()
        self._faults = {
            "kill -9 while saving": self._kill_while_saving,
            "kill -9 while restoring": self._kill_while_restoring,
            "no disk for conversations": self._take_disk,
            "little disk for conversations": self._reduce_budget,
            "truncated conversations": lambda: self._during_swap(disk.truncate),
            "replaced conversations": lambda: self._during_swap(disk.replace),
            "removed conversations": lambda: self._during_swap(disk.remove),
            "removed folder": lambda: self._during_swap(disk.remove_folder),
        }
        self._weights = [8, 8, 2, 1, 1, 1, 1, 1]

    def _draw(self) -> str:
        return self._rng.choices(list(self._faults), self._weights)[0]

    async def run(self, is_over: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._disk.watch(is_over))
            group.create_task(super().run(is_over))
        if problem := watching.result():
            self.trouble.append(problem)

    @property
    def notes(self) -> list[str]:
        kills = [f"{self._struck[doing]} of {self._tried[doing]} while {doing}" for doing in ("saving", "restoring")]
        return [
            f"kills that struck: {', '.join(kills)}",
            f"servers without disk: {self._struck['disk']}, damaged files: {self._disk.damaged}",
            f"most disk taken by conversations: {self._disk.most / (1 << 20):.1f} MiB",
        ]

    # Servers

    async def _kill_while_saving(self) -> None:
        """It is stopped for a moment, so that it hangs in the middle of it. Another swap may come first."""
        before = self._struck["saving"]
        for _ in range(TRIES):
            if self._struck["saving"] == before and (pid := await self._talked()):
                with suppress(OSError), OpenedFiles(folder_of(pid)) as opened:
                    yield_processors(pid)
                    await asyncio.gather(self._strike_at_save(opened, pid), self._unload())

    async def _kill_while_restoring(self) -> None:
        """It hangs when it opens the file."""
        await self._talked()
        await self._unload()
        with suppress(OSError), HeldFiles(saved(self._rig)) as held:
            await asyncio.gather(self._strike_at_restore(held), self._load())

    async def _strike_at_save(self, opened: OpenedFiles, pid: int) -> None:
        self._tried["saving"] += 1
        if await asyncio.to_thread(opened.stops, pid, PART, WATCH_S):
            await self._kill("saving", [pid])

    async def _strike_at_restore(self, held: HeldFiles) -> None:
        self._tried["restoring"] += 1
        if await held.is_wanted(WATCH_S):
            await self._kill("restoring", self._rig.servers(REAL))

    async def _kill(self, doing: str, servers: list[int]) -> None:
        await asyncio.sleep(self._rng.choice(STOPPED_S))
        for pid in servers:
            self._struck[doing] += 1
            send_signal(pid, signal.SIGKILL)

    async def _take_disk(self) -> None:
        """Limit the size of the server's files: to a writer that ignores SIGXFSZ, that is a full disk."""
        if pid := await self._talked():
            with suppress(ProcessLookupError):
                _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (self._rng.randrange(LARGEST_FILE), hard))
                self._struck["disk"] += 1
        await self._swap()

    # Files

    async def _reduce_budget(self) -> None:
        self._configure(LITTLE_DISK)
        for prompt in range(len(PROMPTS)):
            await self._talked(prompt)
            await self._unload()
        self._configure(DISK)

    def _configure(self, disk: int) -> None:
        self._rig.disk = disk
        self._rig.write()
        self._rig.reload()

    async def _during_swap(self, damage: Callable[[], None]) -> None:
        """At any moment: before, while it saves, while it restores, after."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._swap())
            await asyncio.sleep(self._rng.uniform(0.0, LONGEST_SWAP_S))
            damage()

    async def _swap(self) -> None:
        """Away and back, with a conversation that goes on if it was restored."""
        prompt = self._rng.randrange(len(PROMPTS))
        await self._talked(prompt)
        await self._unload()
        await self._ask(prompt)

    # What is done to the real model

    async def _talked(self, prompt: int | None = None) -> int | None:
        """The server of the real model, which has a conversation now; None if it cannot be reached."""
        prompt = self._rng.randrange(len(PROMPTS)) if prompt is None else prompt
        for _ in range(TRIES):
            await self._load()
            if await self._ask(prompt) and (servers := self._rig.servers(REAL)):
                return servers[0]
            if self.asked[-1].end is End.UNREACHED:
                await asyncio.sleep(RESTARTS_IN_S)
        return None

    async def _ask(self, prompt: int) -> bool:
        client = Client(self._rig.at, address=ADDRESS)
        planned = PlannedRequest("saved", REAL, Kind.UNARY, "", Behaviour.PATIENT, 8, 0, prompt)
        self.asked.append(await client.ask(planned))
        client.close()
        return self.asked[-1].end is End.WHOLE

    async def _load(self) -> None:
        """As operators do: conversations that were given up are tried again."""
        await self._rig.ask("GET", f"/upstream/{REAL}/load")

    async def _unload(self) -> None:
        await self._rig.ask("DELETE", f"/upstream/{REAL}")


def yield_processors(pid: int) -> None:
    """Let whoever watches the process run before it, also where many programs run."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.setpriority(os.PRIO_PROCESS, int(thread), NICE)


def folder_of(pid: int) -> Path:
    """Where a server saves its conversations; OSError if it is gone."""
    for variable in environment(pid).split(b"\0"):
        if variable.startswith(FOLDER):
            return Path(variable.removeprefix(FOLDER).decode())
    raise ProcessLookupError(pid)
