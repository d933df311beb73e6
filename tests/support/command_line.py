"""Runs command lines and captures their output."""

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
    """Run a command line; returns its output when it has ended."""

    def __call__(self, *words: str) -> Said: ...


@dataclass(frozen=True)
class CommandLine:
    """A running server and a command line for it."""

    rig: Management
    url: str
    typed: Typed

    async def type(self, *words: str) -> Said:
        return await asyncio.to_thread(self.typed, *words, "--url", self.url)


def completed(words: str, url: str) -> str:
    """The shell completions of the word being typed."""
    env = {**os.environ, "_HOTSEAT_COMPLETE": "complete_bash", "HOTSEAT_URL": url}
    env |= {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    return subprocess.run([PROGRAM], env=env, capture_output=True, text=True).stdout
