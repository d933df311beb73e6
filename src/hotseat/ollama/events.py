"""PURE: the events of an event stream, in whatever pieces its bytes arrive."""

from __future__ import annotations

from hotseat.errors import UpstreamError

MOST_OF_AN_EVENT = 1 << 20
"""Bytes: more than any model generates, and little enough to be decoded at once."""
MOST_EVENTS = 6_000
"""In one read, which has 256 KiB at most: no server writes events of 43 bytes, and each costs some microseconds."""


class EventReader:
    __slots__ = ("_data", "_partial", "_size")

    def __init__(self) -> None:
        self._partial = bytearray()
        """The begin of a line."""
        self._data: list[bytes] = []
        """Of an event that is not complete."""
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The data of the events that are complete now. Comments and names of events are not needed."""
        if not self._partial and not self._data and _is_one_event(data):
            return [data[6:-2]]
        self._partial += data
        if b"\n" not in data:
            self._check_size(len(self._partial))
            return []
        *lines, rest = bytes(self._partial).split(b"\n")
        self._partial = bytearray(rest)
        events: list[bytes] = []
        for line in lines:  # there may be a quarter of a million: those that are not needed cost no call of ours
            if line.startswith(b"data:"):
                self._data.append(line[5:].removesuffix(b"\r").removeprefix(b" "))
                self._size += len(line)
                self._check_size(self._size)
            elif self._data and line in (b"", b"\r"):
                events.append(b"\n".join(self._data))
                self._data, self._size = [], 0
        if len(events) > MOST_EVENTS:
            raise UpstreamError(f"the upstream sent more than {MOST_EVENTS} tiny events at once")
        return events

    def _check_size(self, size: int) -> None:
        if size > MOST_OF_AN_EVENT:
            raise UpstreamError(f"the upstream sent an event of more than {MOST_OF_AN_EVENT} bytes")


def _is_one_event(data: bytes) -> bool:
    """Servers nearly always write one event at a time, in one line."""
    is_one_line = data.endswith(b"\n\n") and data.find(b"\n") == len(data) - 2
    return is_one_line and data.startswith(b"data: ") and not data.endswith(b"\r\n\n")
