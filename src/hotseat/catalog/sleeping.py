"""How a model server is put to sleep and woken instead of stopped and started, and what it keeps meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from hotseat.catalog.template import split_command, unsealed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Bytes, Place, Seconds

METHODS = ("GET", "POST", "PUT", "DELETE")
LONGEST_S: Seconds = 120.0


class Ask(Struct, frozen=True):
    """A request to the model server, which must answer 2xx."""

    method: str
    path: str
    body: str = ""
    """JSON, or empty."""

    @property
    def words(self) -> tuple[str, ...]:
        return (self.method, self.path, *([self.body] if self.body else []))

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Run(Struct, frozen=True):
    """A program that must exit with 0. Its arguments may contain ${PORT} and ${PID}."""

    argv: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return self.argv

    def __str__(self) -> str:
        return self.argv[0]


Step: TypeAlias = Ask | Run


def step_of(text: str) -> Step:
    """`POST /path`, optionally followed by a JSON body, or else a command; ValueError: neither."""
    method, _, rest = text.strip().partition(" ")
    if method in METHODS and rest.startswith("/"):
        path, _, body = rest.partition(" ")
        return Ask(method, unsealed(path, quote), unsealed(body.strip(), _in_json))
    words = split_command(text)
    if not words:
        raise ValueError("holds neither a request nor a command")
    return Run(words)


def _in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


class SleepLevel(Struct, frozen=True):
    name: str
    suspend: tuple[Step, ...]
    resume: tuple[Step, ...]
    check: str | None = None
    """A path that returns JSON with `is_sleeping`; None: the steps are sufficient."""
    memory: Mapping[Place, Bytes] | None = None
    """Declared memory asleep."""
    keeps_weights: bool = True
    """Device memory is moved to RAM; False: it is dropped and read again."""
    timeout_s: Seconds = LONGEST_S
    """For falling asleep and for waking, each."""


class Sleep(Struct, frozen=True):
    """All sleep levels of a model, in order of preference until they have been measured."""

    levels: tuple[SleepLevel, ...]
    ttl_s: Seconds | None = None
    """Sleep time after which it is stopped; None: until its memory is needed."""
