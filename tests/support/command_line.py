"""Somebody who types commands, and what is said to them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tests.support.hotseat import PROGRAM

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


def completed(words: str, url: str) -> str:
    """What the shell is told of the word that is being typed."""
    env = {**os.environ, "_HOTSEAT_COMPLETE": "complete_bash", "HOTSEAT_URL": url}
    env |= {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    return subprocess.run([PROGRAM], env=env, capture_output=True, text=True).stdout
