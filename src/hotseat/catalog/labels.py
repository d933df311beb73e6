"""A DNS label for each model: `LABEL.localhost` is the address of its server's own pages."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hotseat.identifiers import ModelName

LONGEST = 63
SUFFIX_DIGITS = 6
NAMELESS = "model"
"""For a name without a single letter or digit that a label may have."""
_UNFIT = re.compile(r"[^a-z0-9]+")


class Labels(Struct, frozen=True):
    of_model: Mapping[ModelName, str]
    models: Mapping[str, ModelName]
    """Label to name."""


@lru_cache(maxsize=4)
def labelled(names: tuple[ModelName, ...]) -> Labels:
    """A name that is a label keeps it. Others that would get the same label have a suffix, whatever their order is."""
    slugs = {name: slug(name) for name in names}
    wanted = Counter(slugs.values())
    labels = {name: each for name, each in slugs.items() if each == name or wanted[each] == 1}
    taken = set(wanted)
    for name in sorted(slugs.keys() - labels.keys()):
        labels[name] = _with_suffix(name, slugs[name], taken)
        taken.add(labels[name])
    return Labels(labels, {label: name for name, label in labels.items()})


def slug(name: str) -> str:
    """Never two hyphens in a row: browsers take a label that begins with `xn--` for an encoded one."""
    return _UNFIT.sub("-", name.lower()).strip("-")[:LONGEST].rstrip("-") or NAMELESS


def _with_suffix(name: str, base: str, taken: Collection[str]) -> str:
    """It depends on the name alone, so that it stays the same when other models come and go."""
    base = base[: LONGEST - SUFFIX_DIGITS - 1].rstrip("-")
    texts = (f"{name}\n{number}".encode("utf-8", "surrogatepass") for number in count())
    found = (f"{base}-{sha256(text).hexdigest()[:SUFFIX_DIGITS]}" for text in texts)
    return next(label for label in found if label not in taken)
