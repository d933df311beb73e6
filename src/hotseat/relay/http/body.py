"""A request's body, read completely before a lease is requested, so a slow upload holds no model.

Small bodies and JSON that must be read stay in memory; the rest goes to an unlinked file, so that two hundred megabytes
of audio cost two hundred megabytes of disk and nothing else. The same holds if form fields are changed: the new values
are in memory, and the rest stays in the file.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from typing import IO, TYPE_CHECKING, TypeVar

from hotseat.relay.http.multipart import FormReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.identifiers import Bytes
    from hotseat.relay.http.request_head import RequestHead

IN_MEMORY: Bytes = 1 << 20
PIECE: Bytes = 256 << 10

Content = TypeVar("Content", bytes, range)


class Body:
    __slots__ = (
        "_content",
        "_file",
        "_layout",
        "_may_spool",
        "counted",
        "counted_on_disk",
        "form",
        "is_privileged",
        "is_spooled",
        "sender",
        "size",
    )

    def __init__(self, content: bytes = b"", *, may_spool: bool = False, boundary: bytes | None = None) -> None:
        self._content: bytes | bytearray = content
        """A single part stays as it is; several are joined, so that a thousand parts are not a thousand objects."""
        self.size: Bytes = len(content)
        self._may_spool = may_spool
        self.is_spooled = False
        self._file: IO[bytes] | None = None
        self._layout: list[bytes | range] | None = None
        """The content of a spooled body after a change: bytes, and ranges of the file."""
        self.counted: Bytes = 0
        self.counted_on_disk: Bytes = 0
        """What it counts for in the totals of memory and disk."""
        self.sender = ""
        """The client, if the body is counted."""
        self.is_privileged = False
        """Is the client an operator or an administrator?"""
        self.form: FormReader | None = None
        if boundary is not None:
            self.form = FormReader(boundary, "model")
            self.form.feed(content)

    def add(self, part: bytes) -> None:
        self.size += len(part)
        if self.form is not None:
            self.form.feed(part)
        if self._may_spool and self.size > IN_MEMORY and self._file is None:
            self._spool()
        if self._file is not None:
            self._file.write(part)
        elif isinstance(self._content, bytearray):
            self._content += part
        else:
            self._content = bytearray().join((self._content, part)) if self._content else part

    def complete(self) -> None:
        """The body is complete; raises if the disk does not take what was buffered for it."""
        if self._file is not None:
            self._file.flush()

    def copied(self) -> bytes:
        """All of it; what is on disk stays there."""
        return self.whole() if self._file is None else self.pieces_from(0, self.size)

    def whole(self) -> bytes:
        """All of it; what is on disk is moved back to memory."""
        if self._file is not None:
            self._content, file, self._file = self.pieces_from(0, self.size), self._file, None
            self.is_spooled = False
            file.close()
        if isinstance(self._content, bytearray):
            self._content = bytes(self._content)
        return self._content

    def replace(self, content: bytes) -> None:
        self._content, self.size = content, len(content)

    def splice(self, spans: Iterable[tuple[int, int]], value: bytes) -> None:
        """Replace each span by `value`; what is on disk stays there."""
        if self._file is None:
            self.replace(b"".join(_spliced(self.whole(), spans, value)))
        else:
            self._layout = _spliced(range(self.size), spans, value)
            self.size = sum(map(len, self._layout))

    def pieces_from(self, offset: int, length: Bytes = PIECE) -> bytes:
        """The next part of a spooled body, up to `length` bytes; empty at its end."""
        for content in [range(self.size)] if self._layout is None else self._layout:
            if offset < len(content):
                part = content[offset : offset + length]
                if isinstance(part, bytes):
                    return part
                assert self._file is not None
                self._file.seek(part.start)
                return self._file.read(len(part))
            offset -= len(content)
        return b""

    def close(self) -> None:
        self._content = b""
        if self._file is not None:
            with suppress(OSError):  # what a full disk did not take is no longer needed
                self._file.close()

    def _spool(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="hotseat-body-")  # noqa: SIM115 - lives as long as the body
        self.is_spooled = True
        self._file.write(self._content)
        self._content = b""


def _spliced(content: Content, spans: Iterable[tuple[int, int]], value: bytes) -> list[Content | bytes]:
    pieces, kept = list[Content | bytes](), 0
    for start, end in spans:
        pieces += [content[kept:start], value]
        kept = end
    pieces.append(content[kept:])
    return pieces


_CHARSET = rb";[ \t]*charset=[\w-]+"
_is_plain_form = re.compile(
    rb"multipart/form-data(?:%b)?;[ \t]*boundary=(?:\"[^\"\\]+\"|[^\s\";,]+)(?:%b)?" % (_CHARSET, _CHARSET), re.I
).fullmatch


def names_one_model(head: RequestHead, body: Body) -> bool:
    """Is the name that we found or set in the body the only one that any parser would find?

    A peer must get the name of the model that the caller was authorised for. So it gets neither compressed bodies nor
    forms where parsers differ about where a part begins or what it is called. Our own model servers authorise nobody.
    """
    kinds = [value.strip().lower() for name, value in head.fields if name.lower() == b"content-type"]
    if len(kinds) > 1 or head.is_encoded:
        return False
    if kinds and kinds[0].startswith(b"multipart/"):
        return body.form is not None and body.form.is_plain and _is_plain_form(kinds[0]) is not None
    return not (kinds and kinds[0].startswith(b"application/x-www-form-urlencoded"))
