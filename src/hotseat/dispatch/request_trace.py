"""The times of each request and the tokens of its prompt, collected only while a recording runs.

The journal only counts requests that find their model ready. A recording needs every request, but only while it lasts:
at other times the dispatcher checks `is_watched` and nothing else.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hotseat.scheduling.commands import Grant, Refuse
from hotseat.scheduling.events import RequestArrived, RequestLeft

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from hotseat.identifiers import ClientId, Instant, ModelName, TicketId
    from hotseat.scheduling.commands import Command
    from hotseat.scheduling.events import Event, PromptProcessed

BEHIND = 4096
"""How many requests a watcher may lag before they are replaced by a count."""


@dataclass(frozen=True, slots=True)
class RequestTiming:
    """One request from its arrival to its end."""

    model: ModelName
    client: ClientId
    arrived: Instant
    granted: Instant | None = None
    """None: it left before it was served."""
    left: Instant | None = None
    prompt: PromptProcessed | None = None
    """None: its server has not reported it."""


@dataclass(frozen=True, slots=True)
class Missed:
    """How many requests a slow watcher lost."""

    count: int


class Traffic:
    def __init__(self) -> None:
        self._in_progress: dict[TicketId, RequestTiming] = {}
        self._watchers: list[asyncio.Queue[RequestTiming | Missed]] = []
        self.is_watched = False

    def note(self, event: Event, commands: Sequence[Command], now: Instant) -> None:
        match event:
            case RequestArrived(takes_slot=True):
                arrived = now - (event.waited_s or 0.0)
                self._in_progress[event.ticket] = RequestTiming(event.model, event.client, arrived)
            case RequestLeft():
                self._left(event.ticket, now)
        for command in commands:
            match command:
                case Grant(ticket=ticket) if ticket in self._in_progress:
                    self._in_progress[ticket] = replace(self._in_progress[ticket], granted=now)
                case Refuse(ticket=ticket):
                    self._left(ticket, now)

    def note_prompt(self, prompt: PromptProcessed) -> None:
        """Also where the scheduler does not need to know."""
        if prompt.ticket in self._in_progress:
            self._in_progress[prompt.ticket] = replace(self._in_progress[prompt.ticket], prompt=prompt)

    def _left(self, ticket: TicketId, now: Instant) -> None:
        """However it ended. Requests that arrived before the watch began are not reported."""
        if passage := self._in_progress.pop(ticket, None):
            for watcher in self._watchers:
                offer(watcher, replace(passage, left=now))

    async def follow(self) -> AsyncGenerator[RequestTiming | Missed, None]:
        """Every request that arrives from now on, once it has ended."""
        queue: asyncio.Queue[RequestTiming | Missed] = asyncio.Queue(maxsize=BEHIND)
        self._watchers.append(queue)
        self.is_watched = True
        try:
            while True:
                yield await queue.get()
        finally:
            self._watchers.remove(queue)
            self.is_watched = bool(self._watchers)
            if not self.is_watched:
                self._in_progress.clear()


def offer(queue: asyncio.Queue[RequestTiming | Missed], passage: RequestTiming) -> None:
    """Never waits: a full queue is replaced by one Missed."""
    if not queue.full():
        return queue.put_nowait(passage)
    missed = 1
    while not queue.empty():
        item = queue.get_nowait()
        missed += item.count if isinstance(item, Missed) else 1
    return queue.put_nowait(Missed(missed))
