"""API keys of clients: written in the configuration, in a file of their own, or as a hash."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.activity.usage import digest_of
from hotseat.config.problems import nearest
from hotseat.config.schema_base import is_key
from hotseat.settings import BATCH, ApiKey, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotseat.catalog.catalog import Catalog
    from hotseat.config.problems import Path as Place
    from hotseat.config.problems import Problems
    from hotseat.config.schema import KeyForm

LONGEST_SECRET = 4096
SHORTEST_KEY, GOOD_KEY = 8, 16
MAKE_A_KEY = "Make one with `openssl rand -hex 24`"
SHA256 = "sha256:"


class KeyMaker:
    def __init__(self, catalog: Catalog, problems: Problems) -> None:
        self._catalog = catalog
        self._problems = problems

    def keys(self, entries: Sequence[str | KeyForm]) -> tuple[ApiKey, ...]:
        made: list[tuple[Place, ApiKey]] = [
            (("apiKeys", position), self._key(entry, position)) for position, entry in enumerate(entries)
        ]
        for n, (place, key) in enumerate(made):
            self._compare(place, key, made[:n])
        return tuple(key for _, key in made)

    def _key(self, entry: str | KeyForm, position: int) -> ApiKey:
        place: Place = ("apiKeys", position)
        if isinstance(entry, str):
            self._problems.note(place, "this key has full access", "Use {key: …, role: inference} to restrict it")
            self._check_length(entry, place)
            return ApiKey(entry, Role.ADMIN)
        if sum(map(bool, (entry.key, entry.file, entry.hash))) != 1:
            self._problems.error(place, "must have exactly one of key, file and hash")
        secret = secret_in(entry.file, (*place, "file"), self._problems) if entry.file else entry.key
        self._check_length(secret, (*place, "file" if entry.file else "key"))
        return ApiKey(
            secret,
            Role(entry.role),
            entry.name,
            entry.hash.removeprefix(SHA256).lower(),
            tuple(self._own_name(name, (*place, "models", n)) for n, name in enumerate(entry.models)),
            entry.requests,
            entry.tokens,
            entry.concurrency_limit or None,
            entry.priority == BATCH,
        )

    def _check_length(self, secret: str, place: Place) -> None:
        """The length of a hashed key is unknown."""
        if not is_key(secret):
            return  # there is no key, or an error was already reported
        if len(secret) < SHORTEST_KEY:
            said = f"the key has fewer than {SHORTEST_KEY} characters and can be guessed"
            self._problems.error(place, said, MAKE_A_KEY)
        elif len(secret) < GOOD_KEY:
            self._problems.warn(place, f"the key has fewer than {GOOD_KEY} characters", MAKE_A_KEY)

    def _own_name(self, name: str, place: Place) -> str:
        """The model's own name for an alias: a key that may use a model may use all its names."""
        if named_model := self._catalog.named_model(name):
            return named_model.name
        self._problems.warn(place, f'no model is called "{name}"', nearest(name, self._catalog.names()))
        return name

    def _compare(self, place: Place, key: ApiKey, others: Sequence[tuple[Place, ApiKey]]) -> None:
        """Keys identify clients, whether plain or hashed, and so do their names: both must be unique."""
        for there, other in others:
            if (key.secret or key.hashed) and digest_of(key) == digest_of(other):
                first = self._problems.spot(there)
                said = f"the same key is already defined in line {first.line} of {first.file}"
                self._problems.error(place, said, "Give each user a separate key")
        if key.name and any(key.name == other.name for _, other in others):
            self._problems.error((*place, "name"), f'another key is already named "{key.name}"')


# Files


def secret_in(file: str, place: Place, problems: Problems, is_valid: Callable[[str], bool] = is_key) -> str:
    """The key in a file; empty, with an error, if there is none."""
    path = Path(file).expanduser()
    try:
        secret, mode = _read(path)
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        problems.error(place, f"the file cannot be read: {reason}")
        return ""
    if not is_valid(secret):
        problems.error(place, "the file must contain a key and nothing else")
    if mode & stat.S_IROTH:
        problems.warn(place, "any user of this machine may read this key", f"Run chmod o-r {path}")
    return secret


def _read(path: Path) -> tuple[str, int]:
    """The text without its trailing newline. Reads no more than a key's maximal length, and no pipes or devices."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(0, "it is not a regular file")
        return opened.read(LONGEST_SECRET).decode().rstrip("\r\n"), mode
