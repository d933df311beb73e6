"""PURE: the existing keys of a bucket, from the changes received.

Duplicate and late changes have no effect, in whatever order writes and removals arrive. After an interruption the whole
state is sent again, and only its end shows which keys are gone.
"""

from __future__ import annotations

from hotseat.fleet.store import Revision

UNKNOWN = Revision(0)
MOST_GONE = 1000
"""Removed keys that are remembered: hosts come and go under new names, and a late write is seconds late."""


class Ledger:
    __slots__ = ("_again", "_gone", "_present")

    def __init__(self) -> None:
        self._present: dict[str, Revision] = {}
        """The last revision of each key; UNKNOWN if it was not received since the state is sent again."""
        self._gone: dict[str, Revision] = {}
        """Of the keys removed last: a write that arrives after its removal must not restore it."""
        self._again: dict[str, Revision] | None = None
        """The keys received so far while the state is sent again."""

    def __contains__(self, key: str) -> bool:
        return key in self._present

    def wrote(self, key: str, revision: Revision) -> bool:
        """True if the revision is new."""
        if not self._is_later(key, revision):
            return False
        self._gone.pop(key, None)
        self._present[key] = revision
        if self._again is not None:
            self._again[key] = revision
        return True

    def removed(self, key: str, revision: Revision) -> bool:
        """True if it is new and the key existed."""
        if not self._is_later(key, revision):
            return False
        if self._again is not None:
            self._again.pop(key, None)
        self._gone.pop(key, None)
        self._gone[key] = revision  # the newest last
        if len(self._gone) > MOST_GONE:
            del self._gone[next(iter(self._gone))]
        was_there = key in self._present
        self._present.pop(key, None)
        return was_there

    def _is_later(self, key: str, revision: Revision) -> bool:
        return revision > (self._present.get(key) or self._gone.get(key) or UNKNOWN)

    def begun_anew(self) -> None:
        """Reset revisions: the bucket may have been recreated."""
        self._present, self._gone, self._again = dict.fromkeys(self._present, UNKNOWN), {}, {}

    def caught_up(self) -> list[str]:
        """The keys that are gone."""
        if self._again is None:
            return []
        gone = [key for key in self._present if key not in self._again]
        self._present, self._again = self._again, None
        return gone
