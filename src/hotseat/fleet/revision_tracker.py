"""PURE: which keys of a bucket are there, by the changes that were heard.

What comes twice or late changes nothing, in whatever order writes and removals arrive. After an interruption the whole
state comes again, and only at its end is it known what has gone meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.fleet.store import Revision


class Ledger:
    __slots__ = ("_again", "_last", "_present")

    def __init__(self) -> None:
        self._last: dict[str, Revision] = {}
        """Of removed keys too: a write that arrives after its own removal must not bring it back."""
        self._present: dict[str, None] = {}
        self._again: dict[str, None] | None = None
        """While the whole state comes anew: what of it has come."""

    def __contains__(self, key: str) -> bool:
        return key in self._present

    def wrote(self, key: str, revision: Revision) -> bool:
        """Is that news?"""
        if not self._is_later(key, revision):
            return False
        self._present[key] = None
        if self._again is not None:
            self._again[key] = None
        return True

    def removed(self, key: str, revision: Revision) -> bool:
        """Is that news about something that was there?"""
        if not self._is_later(key, revision):
            return False
        if self._again is not None:
            self._again.pop(key, None)
        was_there = key in self._present
        self._present.pop(key, None)
        return was_there

    def _is_later(self, key: str, revision: Revision) -> bool:
        if revision <= self._last.get(key, 0):
            return False
        self._last[key] = revision
        return True

    def begun_anew(self) -> None:
        """Revisions count from here: the bucket itself may be another one."""
        self._last, self._again = {}, {}

    def caught_up(self) -> list[str]:
        """What has gone meanwhile."""
        if self._again is None:
            return []
        gone = [key for key in self._present if key not in self._again]
        self._present, self._again = self._again, None
        return gone
