"""The text fields of a multipart form, found and replaced without copying its files.

A form is walked from delimiter to delimiter; only the few header lines of each part and the value asked for are
taken out. naming.py is the counterpart for JSON.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.settings import KiB, MiB

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK_AHEAD = 64 * MiB
LONGEST_PART_HEAD = 8 * KiB


def boundary_of(content_type: bytes) -> bytes | None:
    """What separates the parts of a form with this Content-Type; None when it is no form or does not say."""
    found = _BOUNDARY.search(content_type)
    if found is None or content_type.partition(b";")[0].strip().lower() != b"multipart/form-data":
        return None
    quoted, plain = found.groups()
    return plain if quoted is None else _ESCAPED.sub(rb"\1", quoted)


def field(body: bytes | memoryview, boundary: bytes, name: str, limit: int = LOOK_AHEAD) -> str | None:
    """The first text field called `name`, if it lies whole within the first `limit` bytes."""
    for part in _parts(body, boundary, limit):
        if part.name == name:
            return bytes(body[part.start : part.end]).decode("utf-8", "replace")
    return None


def replace_field(body: bytes, boundary: bytes, name: str, value: str) -> bytes:
    """The form with every text field called `name` holding `value`; all other bytes are as they were."""
    pieces, kept = [], 0
    for part in _parts(body, boundary, len(body)):
        if part.name == name:
            pieces += [body[kept : part.start], value.encode()]
            kept = part.end
    return b"".join([*pieces, body[kept:]])


_BOUNDARY = re.compile(rb';[ \t]*boundary=(?:"((?:[^"\\\r\n]|\\.){1,140})"|([^\s";,]{1,70}))', re.IGNORECASE)
_ESCAPED = re.compile(rb"\\(.)")
_PART_HEAD_END = re.compile(rb"\r\n\r\n")
_DISPOSITION = re.compile(rb"^content-disposition:[ \t]*form-data[ \t]*(;[^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_PARAMETER = re.compile(rb';[ \t]*([^\s=;"]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))')


@dataclass(frozen=True, slots=True)
class _Part:
    """A text field: its value is body[start:end]."""

    name: str
    start: int
    end: int


def _parts(body: bytes | memoryview, boundary: bytes, limit: int) -> Iterator[_Part]:
    """The text fields that end within `limit`, in their order; files are stepped over."""
    # Plain bytes first: they are found several times faster. The line break before them is checked afterwards.
    delimiter = re.compile(b"--" + re.escape(boundary) + rb"(?:--|[ \t]*\r\n)")
    opened: int | None = None
    for found in delimiter.finditer(body, 0, min(limit, len(body))):
        start, end = found.span()
        if start and body[start - 2 : start] != b"\r\n":
            continue
        if opened is not None and (part := _part(body, opened, start - 2)):
            yield part
        if body[end - 2 : end] == b"--":
            return
        opened = end


def _part(body: bytes | memoryview, start: int, end: int) -> _Part | None:
    head_end = _PART_HEAD_END.search(body, start, min(end, start + LONGEST_PART_HEAD))
    if head_end is None:
        return None
    name = _text_field_name(bytes(body[start : head_end.start()]))
    return None if name is None else _Part(name, head_end.end(), end)


def _text_field_name(head: bytes) -> str | None:
    disposition = _DISPOSITION.search(head)
    if disposition is None:
        return None
    parameters = {
        key.lower(): _ESCAPED.sub(rb"\1", quoted) or plain for key, quoted, plain in _PARAMETER.findall(disposition[1])
    }
    if b"name" not in parameters or b"filename" in parameters:
        return None
    return parameters[b"name"].decode("utf-8", "replace")
