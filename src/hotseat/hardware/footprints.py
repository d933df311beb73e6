"""Remembers what each model took in its last few launches, for the next start.

A footprint belongs to a recipe, not to a name: another context size is another footprint, another name is not.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NewType, Protocol, TypeAlias

from hotseat.hardware.measurement import Use, merged
from hotseat.identifiers import DeviceName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotseat.catalog.spec import LaunchRecipe
    from hotseat.identifiers import LaunchId

RecipeKey = NewType("RecipeKey", str)
Uses: TypeAlias = "Mapping[DeviceName, Use]"

LIVES = 5
"""How many launches are remembered, so that an old peak, perhaps of an older server, is forgotten."""
MOST_BYTES = 1 << 60
"""A stored figure that is more than any machine has is corrupt."""
WORTH_KEEPING = 1.01
"""Growth below this is not stored: a server in use grows by a page now and then."""


class Keeps(Protocol):
    """Stores facts across restarts."""

    def recall(self) -> Mapping[str, Any]: ...

    def keep(self, key: str, fact: Any) -> None: ...


def key_of(recipe: LaunchRecipe) -> RecipeKey:
    """The same for the same command and environment, across restarts."""
    text = json.dumps([recipe.argv, recipe.env])
    return RecipeKey(hashlib.sha256(text.encode()).hexdigest()[:32])


class Footprints:
    def __init__(self, learned_store: Keeps) -> None:
        self._learned_store = learned_store
        self.recall()

    def recall(self) -> None:
        """What is stored replaces what is known: at a restart the previous process has measured meanwhile."""
        facts = {RecipeKey(key): fact for key, fact in self._learned_store.recall().items()}
        self._lives = {key: lives_in(fact) for key, fact in facts.items()}
        self._launches = {key: facts[key].get("launch") for key, lives in self._lives.items() if lives}
        """The launch of the last entry in `_lives`."""
        self._written: dict[RecipeKey, Uses] = {}
        """What is stored of that launch; missing: it may be another hotseat's, whose launches count from one, too."""

    def peak(self, key: RecipeKey, counted: Callable[[Uses], Uses] = dict) -> Uses | None:
        """The peak on each device over the last launches, each `counted` in a way; None: never measured."""
        lives = self._lives.get(key)
        return merged(*map(counted, lives)) if lives else None

    def note(self, key: RecipeKey, launch: LaunchId, uses: Uses, *, is_adopted: bool = False) -> bool:
        """Record what a launch takes; True if that is a new peak of this launch that was worth storing.

        `is_adopted`: the previous process has started it, and may have noted it.
        """
        if not uses:
            return False
        lives = self._lives.setdefault(key, [])
        if self._launches.get(key) != launch or not (is_adopted or key in self._written):
            self._launches[key], self._written[key] = launch, {}
            lives.append({})
            del lives[:-LIVES]
        before = self._written.setdefault(key, lives[-1])
        lives[-1] = merged(lives[-1], uses)
        if not has_grown(before, lives[-1]):
            return False
        self._written[key] = lives[-1]
        self._learned_store.keep(key, {"launch": launch, "lives": [as_plain(life) for life in lives]})
        return True


def has_grown(before: Uses, now: Uses) -> bool:
    return any(use.total > WORTH_KEEPING * before.get(device, Use()).total for device, use in now.items())


def as_plain(uses: Uses) -> dict[str, Any]:
    """For JSON."""
    return {device: asdict(use) for device, use in uses.items()}


def _use(anonymous: object = 0, file_backed: object = 0) -> Use:
    """Raises TypeError if the values are not sizes."""
    if type(anonymous) is not int or type(file_backed) is not int or max(anonymous, file_backed) > MOST_BYTES:
        raise TypeError("no size")
    return Use(anonymous, file_backed)


def lives_in(fact: Any) -> list[Uses]:
    """The stored launches, as far as they are valid."""
    try:
        return [{DeviceName(device): _use(**use) for device, use in life.items()} for life in fact["lives"]]
    except (LookupError, TypeError, AttributeError):
        return []
