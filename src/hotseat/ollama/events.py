"""PURE: the events of an event stream, in whatever pieces its bytes arrive."""

from __future__ import annotations

from hotseat.errors import UpstreamError

MOST_OF_AN_EVENT = 16 << 20


class EventReader:
    __slots__ = ("_data", "_partial", "_size")

    def __init__(self) -> None:
        self._partial = bytearray()
        """The begin of a line."""
        self._data: list[bytes] = []
        """Of an event that is not complete."""
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The data of the events that are complete now."""
        if not self._partial and not self._data and _is_one_event(data):
            return [data[6:-2]]
        if b"\n" not in data:
            self._partial += data
            self._check_size(len(self._partial))
            return []
        *lines, rest = bytes(self._partial + data).split(b"\n")
        self._partial = bytearray(rest)
        return [event for line in lines if (event := self._line(line.removesuffix(b"\r"))) is not None]

    def _line(self, line: bytes) -> bytes | None:
        """The data of the event that this line ends. Comments and names of events are not needed."""
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            self._size += len(line)
            self._check_size(self._size)
        if line or not self._data:
            return None
        event, self._data, self._size = b"\n".join(self._data), [], 0
        return event

    def _check_size(self, size: int) -> None:
        if size > MOST_OF_AN_EVENT:
            raise UpstreamError(f"the upstream sent an event of more than {MOST_OF_AN_EVENT} bytes")


def _is_one_event(data: bytes) -> bool:
    """Servers nearly always write one event at a time, in one line."""
    is_one_line = data.endswith(b"\n\n") and data.find(b"\n") == len(data) - 2
    return is_one_line and data.startswith(b"data: ") and not data.endswith(b"\r\n\n")
