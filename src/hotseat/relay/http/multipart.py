"""Finds the text fields of a multipart form while it arrives.

The reader moves from delimiter to delimiter and keeps only the positions of field values: a file of any size takes no
memory here, and no search is needed after the last byte. model_name.py is the counterpart for JSON.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.errors import ClientError
from hotseat.settings import KiB

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_PART_HEAD = 8 * KiB
LONGEST_OPENING = 2 * LONGEST_PART_HEAD
"""What is kept of a part until its end is known: its head, and more of its value than any name needs."""
LONGEST_PADDING = 64
"""White space between a boundary and its line end: allowed, but nobody sends any."""
MOST_PARTS = 1_000
"""Each costs work, so there is a limit; anything that begins like a delimiter counts."""
MOST_FIELDS = 16
"""Fields with the requested name: their positions are stored, so there is a limit."""


def boundary_of(content_type: bytes) -> bytes | None:
    """The boundary in this Content-Type; None if it is not a form or has none."""
    found = _BOUNDARY.search(content_type)
    if found is None or content_type.partition(b";")[0].strip().lower() != b"multipart/form-data":
        return None
    quoted, plain = found.groups()
    return plain if quoted is None else _ESCAPED.sub(rb"\1", quoted)


_BOUNDARY = re.compile(rb';[ \t]*boundary=(?:"((?:[^"\\\r\n]|\\.){1,140})"|([^\s";,]{1,70}))', re.IGNORECASE)
_ESCAPED = re.compile(rb"\\(.)")


class Field(Struct, frozen=True):
    """A text field at form[start:end]. `value` is its text, or the first kilobytes of it."""

    value: str
    start: int
    end: int


class FormReader:
    """Finds text fields called `name`; its memory is bounded, however large the form is."""

    def __init__(self, boundary: bytes, name: str) -> None:
        self._delimiter = b"\r\n--" + boundary
        self._reach = len(self._delimiter) + LONGEST_PADDING + len(b"\r\n")
        self._name = name
        self._read = 0
        self._tail = b"\r\n"  # as if a line ended before the form, so that its first delimiter needs no special case
        """The last bytes read, in which a delimiter may begin."""
        self._opened: int | None = None
        """Where the current part begins; None before the first."""
        self._opening = b""
        self._parts, self._counted_until = 0, -2
        self._over_at: int | None = None
        """Where the last part ends; further bytes are ignored."""
        self._is_odd = False
        """Parsers may disagree about what has been read so far."""
        self._fields: list[Field] = []

    def fields(self) -> list[Field]:
        """The complete fields in order; raises if there are too many."""
        if self._parts > MOST_PARTS:
            raise ClientError(f"the form has more than {MOST_PARTS} parts; send fewer, or name the model with ?model=")
        if len(self._fields) > MOST_FIELDS:
            raise ClientError(f"the form has more than {MOST_FIELDS} fields called `{self._name}`; send one")
        return self._fields

    @property
    def is_plain(self) -> bool:
        """Is it complete, from its first byte to its last, and would all parsers find the same parts?"""
        return self._over_at is not None and not self._is_odd and self._read - self._over_at <= len(b"\r\n")

    def feed(self, data: bytes) -> None:
        """Process the next bytes of the form, however they are split."""
        begin = self._read - len(self._tail)
        self._read += len(data)
        if self._over_at is not None:
            return
        window, behind = self._tail + data, 0
        for start, end in self._delimiters(window, begin):
            self._end_part(window, begin, start)
            self._opened, self._opening, behind = begin + end, b"", end
            if window.endswith(b"--", start, end) or len(self._fields) > MOST_FIELDS:
                self._over_at = begin + end
                break
        if self._parts > MOST_PARTS and self._over_at is None:
            self._over_at = 0
        if self._over_at is None:
            self._collect(window, begin, len(window))
            self._tail = window[max(behind - 2, len(window) - self._reach, 0) :]
        else:
            self._tail = self._opening = b""

    def _delimiters(self, window: bytes, begin: int) -> Iterator[tuple[int, int]]:
        """Positions of complete delimiters; the line break after one may be that before the next."""
        start = window.find(self._delimiter)
        while start >= 0 and self._parts <= MOST_PARTS:
            if begin + start >= self._counted_until:  # the next window may show it again
                self._parts, self._counted_until = self._parts + 1, begin + start + 1
            found = _REST_OF_DELIMITER.match(window, start + len(self._delimiter))
            if found:
                yield start, found.end()
            start = window.find(self._delimiter, found.end() - 2 if found else start + 1)

    def _collect(self, window: bytes, begin: int, until: int) -> None:
        """Keep the beginning of the current part, as far as the window shows it."""
        missing = LONGEST_OPENING - len(self._opening)
        if self._opened is not None and missing:
            next_byte = self._opened + len(self._opening) - begin
            self._opening += window[next_byte : min(next_byte + missing, until)]

    def _end_part(self, window: bytes, begin: int, until: int) -> None:
        """The current part, if there is one, ends at `until` in the window."""
        end = begin + until
        if self._opened is None:
            self._is_odd = end > 0  # text before the first part
            return
        self._collect(window, begin, until)
        opening = self._opening[: max(end - self._opened, 0)]  # more was kept while no delimiter was found
        head, blank_line, value = opening.partition(b"\r\n\r\n")
        is_whole = blank_line != b"" and len(head) <= LONGEST_PART_HEAD
        self._is_odd |= not (is_whole and _is_plain_part(head, self._name.encode()))
        if is_whole and _text_field_name(head) == self._name:
            start = self._opened + len(head) + len(blank_line)
            self._fields.append(Field(value.decode("utf-8", "replace"), start, end))


_REST_OF_DELIMITER = re.compile(rb"--|[ \t]{0,%d}\r\n" % LONGEST_PADDING)
_DISPOSITION = re.compile(rb"^content-disposition:[ \t]*form-data[ \t]*(;[^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_PARAMETER = re.compile(rb';[ \t]*([^\s=;"]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))')


def _text_field_name(head: bytes) -> str | None:
    """The name of a part with this head; None for a file, or without a name."""
    disposition = _DISPOSITION.search(head)
    if disposition is None:
        return None
    parameters = {
        key.lower(): _ESCAPED.sub(rb"\1", quoted) or plain for key, quoted, plain in _PARAMETER.findall(disposition[1])
    }
    if b"name" not in parameters or b"filename" in parameters:
        return None
    return parameters[b"name"].decode("utf-8", "replace")


_PLAIN_DISPOSITION = re.compile(
    rb"content-disposition: ?form-data; ?name=(?:\"([^\"\\\r\n]*)\"|([^\s;\"\\=*]+))"
    rb"(; ?filename=(?:\"[^\"\\\r\n]*\"|[^\s;\"\\]+)(?:; ?filename\*=[^\s;\"\\]+)?)?",
    re.I,
)
_HARMLESS = re.compile(rb"content-(?:(?:type|length): ?[^\r\n]*|transfer-encoding: ?(?:binary|8bit|7bit))", re.I)


def _is_plain_part(head: bytes, name: bytes) -> bool:
    """Do all parsers agree on the name of the part, and on whether it is the field `name` or a file?"""
    lines = head.split(b"\r\n")
    found = [match for match in map(_PLAIN_DISPOSITION.fullmatch, lines) if match]
    if len(found) != 1 or len(lines) != 1 + sum(_HARMLESS.fullmatch(line) is not None for line in lines):
        return False
    quoted, plain, file = found[0].groups()
    return file is None or (quoted or plain) != name
