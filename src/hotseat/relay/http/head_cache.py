"""Recognises heads that came before, but for their Content-Length, and keeps what was found out about them.

Clients and servers repeat themselves, and the same bytes mean the same. Only heads that llhttp and every check accepted
are kept. downstream/admission.py uses this for requests, upstream/ for responses.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes

MOST_KNOWN = 512
LONGEST_KNOWN: Bytes = 4 << 10
LONGEST_NUMBER = 18
_find_length = re.compile(rb"\r\n(?:Content-Length|content-length): ([0-9]{1,%d})(?=\r\n)" % LONGEST_NUMBER).search

Head = TypeVar("Head")


def split_length(head: bytes) -> tuple[bytes, int | None]:
    """A head without its Content-Length line, and the length; None if there is no such line.

    The caller checks that this was all the framing that the parser found before it keeps a head.
    """
    found = _find_length(head)
    return (head, None) if found is None else (head[: found.start()] + head[found.end() :], int(found[1]))


class HeadTemplate:
    """A head with a gap for its length: comparing with the previous head is faster than a lookup."""

    __slots__ = ("_before", "_begin", "_behind", "_rest")

    def __init__(self, head: bytes) -> None:
        found = _find_length(head)
        assert found is not None
        begin, end = found.span(1)
        self._before, self._behind = head[:begin], head[end:]
        self._begin, self._rest = begin, len(head) - end

    def found_in(self, data: bytes) -> tuple[int, int] | None:
        """The stated length and the end of the head, if `data` begins with this head."""
        if not data.startswith(self._before):
            return None
        end = data.find(b"\r", self._begin, self._begin + LONGEST_NUMBER + 1)
        number = data[self._begin : end]
        if not number.isdigit() or not data.startswith(self._behind, end):
            return None
        return int(number), end + self._rest


class Memory(Generic[Head]):
    """A few hundred heads. When full, it is cleared: that costs less than tracking the oldest."""

    def __init__(self) -> None:
        self._known: dict[bytes, Head] = {}
        self.recall = self._known.get

    def learn(self, key: bytes, head: Head) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        if len(key) <= LONGEST_KNOWN:
            self._known[key] = head
