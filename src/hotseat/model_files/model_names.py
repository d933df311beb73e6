"""Names for found models: a unique name, and a shorter alias if no other model would have it."""

from __future__ import annotations

import re
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.model_files.file_kind import QUANT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hotseat.model_files.found import Found

UNFIT = re.compile(r"[^A-Za-z0-9._:/-]+")
"""Characters that are hard to type or have a meaning in a shell, a URL or YAML."""


class Named(Struct, frozen=True):
    name: str
    aliases: tuple[str, ...]
    model: Found


def named(models: Sequence[Found]) -> list[Named]:
    stems = [_typeable(model.stem) for model in models]
    names, shorter = _unique(stems), [_shorter(name) for name in stems]
    counts = Counter(shorter)
    taken = set(names)
    return [
        Named(name, (short,) if short and counts[short] == 1 and short not in taken else (), model)
        for name, short, model in zip(names, shorter, models, strict=True)
    ]


def names_in(folder: Path, models: Sequence[Found]) -> list[str]:
    """Files that would have the same name are named with their folders, all of them.

    Numbers would depend on the order: a file that appears later could take the name of another.
    """
    stems = [_typeable(model.stem) for model in models]
    counts = Counter(stems)
    places = [_typeable(f"{_place(folder, model)}/{model.stem}") for model in models]
    return _unique([stem if counts[stem] == 1 else place for stem, place in zip(stems, places, strict=True)])


def _place(folder: Path, model: Found) -> str:
    """The model's folder, relative to this one; of a file in this folder itself, its name."""
    inner = model.path.parent.relative_to(folder)
    return str(inner) if inner.parts else folder.absolute().name


def _typeable(stem: str) -> str:
    return re.sub("-{2,}", "-", UNFIT.sub("-", stem)).strip("-") or "model"


def _unique(candidates: Sequence[str]) -> list[str]:
    """The second of a name gets -2, and so on."""
    given: dict[str, None] = {}
    for candidate in candidates:
        given[next(name for name in _numbered(candidate) if name not in given)] = None
    return list(given)


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def _shorter(name: str) -> str:
    """Lower case, without the number format and without Ollama's `latest`."""
    short = QUANT.sub("", name).removesuffix(":latest").lower()
    return "" if short == name else short
