"""Merges several files: mappings merge, lists concatenate, null gives way to a value, anything else is a conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotseat.config.document import Document
from hotseat.config.problems import Path, Problems, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

# A name that two files define is an error, even if the definitions could be merged.
OWNED: set[Path] = {(key,) for key in ("models", "groups", "profiles", "selectors", "peers", "matrix")}
OWNED |= {("routing", "router", "settings", key) for key in ("groups", "matrix")}


def merge(documents: Sequence[Document], problems: Problems) -> Document:
    """Merge the documents; `problems` gets each conflict with both positions."""
    merged = documents[0]
    for later in documents[1:]:
        merged = _Merge(merged, later, problems).document()
    return merged


class _Merge:
    def __init__(self, earlier: Document, later: Document, problems: Problems) -> None:
        self._earlier = earlier
        self._later = later
        self._problems = problems
        self._spots = dict(earlier.spots)
        self._written = dict(earlier.written)
        self._variables = dict(earlier.variables)
        self._broken = set(earlier.broken)

    def document(self) -> Document:
        value = self._mappings(self._earlier.value, self._later.value, ())
        anchors_only = self._earlier.anchors_only | self._later.anchors_only
        values = {**self._earlier.values, **self._later.values}
        return Document(
            value, self._spots, self._written, self._variables, values, frozenset(self._broken), anchors_only
        )

    def _mappings(self, ours: dict[str, Any], theirs: dict[str, Any], path: Path) -> dict[str, Any]:
        merged = dict(ours)
        for key, value in theirs.items():
            here = (*path, key)
            if merged.get(key) is None:
                merged[key] = value
                self._carry(here, here)
            elif path in OWNED:
                self._clash(here, "is also defined")
            else:
                merged[key] = self._values(merged[key], value, here)
        return merged

    def _values(self, ours: Any, theirs: Any, path: Path) -> Any:
        if theirs is None:
            return ours
        if isinstance(ours, dict) and isinstance(theirs, dict):
            return self._mappings(ours, theirs, path)
        if isinstance(ours, list) and isinstance(theirs, list):
            for position in range(len(theirs)):
                self._carry((*path, position), (*path, len(ours) + position))
            return ours + theirs
        if ours != theirs or type(ours) is not type(theirs):
            self._clash(path, "has another value")
        return ours

    def _carry(self, source: Path, target: Path) -> None:
        """Apply the facts about the later document's values below `source` to those below `target`."""
        for kept, known in (
            (self._spots, self._later.spots),
            (self._written, self._later.written),
            (self._variables, self._later.variables),
        ):
            moved = {_moved(path, source, target): fact for path, fact in known.items() if _beneath(path, source)}
            kept.update(moved)  # type: ignore[arg-type]  # each pair holds the same kind of fact
        self._broken |= {_moved(path, source, target) for path in self._later.broken if _beneath(path, source)}

    def _clash(self, path: Path, how: str) -> None:
        first = self._earlier.spots[path]
        self._problems.write(Severity.ERROR, self._later.spots[path], path, f"{how} in {first}")


def _beneath(path: Path, parent: Path) -> bool:
    return path[: len(parent)] == parent


def _moved(path: Path, source: Path, target: Path) -> Path:
    return (*target, *path[len(source) :])
