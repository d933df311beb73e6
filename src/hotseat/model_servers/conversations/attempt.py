"""One attempt to save or restore the conversations of a server, within its allowance."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from hotseat.model_servers.conversations.part import NotKept
from hotseat.model_servers.conversations.slots_api import Refused
from hotseat.scheduling.events import Transfer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotseat.identifiers import Bytes, Instant, Seconds
    from hotseat.scheduling.commands import Allowance

EXIT_S: Seconds = 1.0
LEAST_EXIT_S: Seconds = 0.1
"""A server that dies closes its connections a moment before its exit is known, which ends the attempt."""


class Outcome(NamedTuple):
    done: tuple[Transfer, ...] = ()
    problem: str = ""
    """Why not all was done."""
    is_late: bool = False
    """The server had not answered when the time was over."""
    unfinished: Transfer | None = None
    """What it was working on then; its size is not known."""


class Attempt:
    def __init__(self, allowance: Allowance) -> None:
        self._allowance, self._clock = allowance, asyncio.get_running_loop().time
        self._until = self._clock() + allowance.within_s
        self._done: list[Transfer] = []
        self._problems: list[str] = []
        self._without_time = 0
        self._is_late = False
        self._began: tuple[int, Instant] | None = None
        """Tokens and time of the transfer in progress."""

    @property
    def outcome(self) -> Outcome:
        return Outcome(tuple(self._done), "; ".join(self._all_problems()), self._is_late, self._unfinished())

    @asynccontextmanager
    async def limited(self) -> AsyncIterator[None]:
        """What happens in here ends with the allowance; failures become problems."""
        try:
            async with asyncio.timeout_at(self._until):
                yield
        except TimeoutError:
            self._is_late = True
            self.note(f"the server had not answered after {self._allowance.within_s:g} seconds")
        except (Refused, NotKept) as problem:
            self.note(str(problem))
        except (OSError, ValueError) as problem:  # no response, or not a whole one
            self.note(str(problem) or type(problem).__name__)
            await asyncio.sleep(min(EXIT_S, max(LEAST_EXIT_S, self._until - self._clock())))

    def _unfinished(self) -> Transfer | None:
        if not self._is_late or self._began is None:
            return None
        tokens, began = self._began
        return Transfer(tokens, 0, self._until - began)

    def note(self, problem: str) -> None:
        self._problems.append(problem)

    def is_worthwhile(self, tokens: int) -> bool:
        """Whether a conversation is long enough, and its expected time is left."""
        if tokens < max(self._allowance.least_tokens, 1):
            return False
        if self._clock() + tokens * self._allowance.token_s <= self._until:
            return True
        self._without_time += 1
        return False

    @asynccontextmanager
    async def transfer(self, tokens: int) -> AsyncIterator[list[Bytes]]:
        """Measures one conversation; the size is put into the list."""
        began, size = self._clock(), list[int]()
        self._began = (tokens, began)
        yield size
        self._began = None
        self._done.append(Transfer(tokens, sum(size), self._clock() - began))

    def _all_problems(self) -> list[str]:
        return [*self._problems, *([f"no time was left for {self._without_time} more"] if self._without_time else [])]
