"""Keys of clients, from where the configuration says they are: written out, in a file of their own, or as a hash."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.config.complaints import nearest
from hotseat.settings import ApiKey, Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.catalog.catalog import Catalog
    from hotseat.config.complaints import Notebook
    from hotseat.config.complaints import Path as Place
    from hotseat.config.schema import KeyForm

LONGEST_SECRET = 4096
SHA256 = "sha256:"


class KeyMaker:
    def __init__(self, catalog: Catalog, notebook: Notebook) -> None:
        self._catalog = catalog
        self._notebook = notebook

    def keys(self, entries: Sequence[str | KeyForm]) -> tuple[ApiKey, ...]:
        made = [(("apiKeys", position), self._key(entry, position)) for position, entry in enumerate(entries)]
        for n, (place, key) in enumerate(made):
            self._compare(place, key, [other for _, other in made[:n]])
        return tuple(key for _, key in made)

    def _key(self, entry: str | KeyForm, position: int) -> ApiKey:
        place: Place = ("apiKeys", position)
        if isinstance(entry, str):
            self._notebook.note(place, "this key may do everything", "Write {key: …, role: inference} for less")
            return ApiKey(entry)
        if sum(map(bool, (entry.key, entry.file, entry.hash))) != 1:
            self._notebook.error(place, "must have one of key, file and hash")
        return ApiKey(
            secret_in(entry.file, (*place, "file"), self._notebook) if entry.file else entry.key,
            Role(entry.role),
            entry.name,
            entry.hash.removeprefix(SHA256).lower(),
            tuple(self._own_name(name, (*place, "models", n)) for n, name in enumerate(entry.models)),
            entry.requests_per_minute or None,
            entry.concurrency_limit or None,
        )

    def _own_name(self, name: str, place: Place) -> str:
        """A key that may use a model may use it by all its names."""
        if lead := self._catalog.lead(name):
            return lead.name
        self._notebook.warn(place, f'no model is called "{name}"', nearest(name, self._catalog.names()))
        return name

    def _compare(self, place: Place, key: ApiKey, others: Sequence[ApiKey]) -> None:
        """Holders are told apart by their keys and called by their names."""
        if any((key.secret, key.hashed) == (other.secret, other.hashed) != ("", "") for other in others):
            self._notebook.error(place, "this key is there already")
        if key.name and any(key.name == other.name for other in others):
            self._notebook.error((*place, "name"), f'another key is called "{key.name}"')


# Files


def secret_in(file: str, place: Place, notebook: Notebook) -> str:
    """The key that a file holds; empty, with a complaint, where there is none."""
    path = Path(file).expanduser()
    try:
        secret, mode = _read(path)
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        notebook.error(place, f"the file cannot be read: {reason}")
        return ""
    if not is_key(secret):
        notebook.error(place, "the file must hold a key and nothing else")
    if mode & stat.S_IROTH:
        notebook.warn(place, "everybody on this machine may read this key", f"Run chmod o-r {path}")
    return secret


def _read(path: Path) -> tuple[str, int]:
    """The file's text without the line end behind it; never more than a key can be, and never of a pipe or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(0, "it is no regular file")
        return opened.read(LONGEST_SECRET).decode().rstrip("\r\n"), mode


def is_key(secret: str) -> bool:
    return bool(secret) and not any(sign.isspace() or not sign.isprintable() for sign in secret)
