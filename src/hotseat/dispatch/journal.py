"""The record of events and decisions: the answer to "why did it swap?".

Bounded in memory. Requests that are granted at once do not affect others; they are counted, not recorded, so that
10,000 of them per second cost nothing and do not displace the swaps.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.scheduling.commands import Grant, WakeAt
from hotseat.scheduling.events import (
    ClockReached,
    Event,
    KeepAliveChanged,
    PromptProcessed,
    RequestArrived,
    RequestLeft,
)
from hotseat.tasks import attempt

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from hotseat.scheduling.commands import Command

KEPT = 4096
BEHIND = 1024
"""How many entries a subscriber may lag before they are replaced by a gap."""


@dataclass(frozen=True, slots=True)
class Entry:
    n: int
    at: float
    """Wall-clock time, for display."""
    event: Event
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """A slow subscriber missed entries; `n` is the newest of them."""

    n: int


class Journal:
    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._subscribers: list[asyncio.Queue[Entry | Gap]] = []
        self._listeners: list[Callable[[Entry], None]] = []
        self._wall_clock = wall_clock
        self.n = 0
        self.passed_by = 0
        """Requests granted at once: not recorded."""

    def record(self, event: Event, commands: Sequence[Command]) -> None:
        if is_routine(event, commands):
            self.passed_by += type(event) is RequestArrived
            return
        self.n += 1
        entry = Entry(self.n, self._wall_clock(), event, tuple(commands))
        self._entries.append(entry)
        for queue in self._subscribers:
            offer(queue, entry)
        for listener in self._listeners:
            attempt(listener, entry)

    def listen(self, listener: Callable[[Entry], None]) -> None:
        """Call `listener` synchronously with each new entry; it must return at once."""
        self._listeners.append(listener)

    def entries(self, after: int = 0) -> list[Entry]:
        return [entry for entry in self._entries if entry.n > after]

    async def follow(self, after: int | None = None) -> AsyncGenerator[Entry | Gap, None]:
        """New entries as they are written, after those since entry `after` that are still kept."""
        queue: asyncio.Queue[Entry | Gap] = asyncio.Queue(maxsize=BEHIND)
        self._subscribers.append(queue)
        try:
            for entry in [] if after is None else self.entries(after):
                yield entry
            while True:
                yield await queue.get()
        finally:
            self._subscribers.remove(queue)


def is_routine(event: Event, commands: Sequence[Command]) -> bool:
    """True if only this request is affected."""
    match event:
        case RequestArrived():
            return len(commands) == 1 and type(commands[0]) is Grant
        case RequestLeft() | ClockReached() | KeepAliveChanged():  # some clients set it with every request
            return all(type(command) is WakeAt for command in commands)
        case PromptProcessed():
            return not commands
        case _:
            return False


def offer(queue: asyncio.Queue[Entry | Gap], entry: Entry) -> None:
    """Never waits: a full queue is replaced by one Gap."""
    if not queue.full():
        return queue.put_nowait(entry)
    while not queue.empty():
        queue.get_nowait()
    return queue.put_nowait(Gap(entry.n))
