"""Finds out which values of a configuration were made from which environment variables, also through macros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotseat.catalog.template import holes
from hotseat.config.env_values import Concealed, Place
from hotseat.config.problems import value_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.config.document import Document
    from hotseat.config.problems import Path


class Provenance:
    """Maps each value of a document to the variables it was made from, also through macros."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def variables(self, path: Path) -> frozenset[str]:
        found: set[str] = set()
        seen: set[Path] = set()
        waiting = [path]
        while waiting:
            here = waiting.pop()
            if here in seen:
                continue
            seen.add(here)
            found |= self._document.variables.get(here, frozenset())
            waiting += self._macros(value_at(self._document.value, here), path)
        return frozenset(found)

    def _macros(self, text: Any, path: Path) -> Iterator[Path]:
        """A model's own macros and those of the whole file, since the text may use either."""
        for name in holes(text) if isinstance(text, str) else ():
            yield ("macros", name)
            if path[0] == "models":
                yield (*path[:2], "macros", name)

    def by_place(self) -> dict[Place, frozenset[str]]:
        """The places that hold values of variables, each with the variables' names."""
        found: dict[Place, frozenset[str]] = {}
        for path in self._document.spots if self._document.variables else ():
            if variables := self.variables(path):
                place = Concealed.place_of(path)
                found[place] = found.get(place, frozenset()) | variables
        return found
