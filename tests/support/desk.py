"""Somebody who types commands, and what is said to them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tests.support.management import Management


@dataclass(frozen=True)
class Said:
    code: object
    out: str
    err: str


class Typed(Protocol):
    """Type a command line; returns what it said when it has ended."""

    def __call__(self, *words: str) -> Said: ...


@dataclass(frozen=True)
class Desk:
    """A served house and somebody who types commands at it."""

    house: Management
    url: str
    typed: Typed

    async def type(self, *words: str) -> Said:
        return await asyncio.to_thread(self.typed, *words, "--url", self.url)
