"""PURE: prevents pages of a model server, which share our address, from acting as our own pages.

In a sandbox a page has an opaque origin, and its requests to us are rejected like those of any foreign page. Every
response that is not known to be harmless is sandboxed, because browsers interpret a doubtful Content-Type in ways that
nobody can list; `nosniff` stops them from ignoring the type. The checks use the headers sent to the client, not those
the server sent: a header that is removed here must not count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.relay.http.fields import Field

SANDBOX = (
    b"Content-Security-Policy",
    b"sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts",
)
NOSNIFF = (b"X-Content-Type-Options", b"nosniff")

# Browsers show these as text, picture or sound, or save them; opened directly, none of them runs a script.
HARMLESS = (
    "application/(?:json|jsonl|x-ndjson|problem[+]json|javascript|octet-stream|wasm)",
    "text/(?:event-stream|plain|css|javascript|csv|vtt)",
    "image/(?:avif|bmp|gif|jpeg|png|vnd[.]microsoft[.]icon|webp|x-icon)",
    "audio/(?:aac|flac|mp3|mp4|mpeg|ogg|opus|pcm|wav|webm|x-wav)",
    "video/(?:mp4|ogg|webm)",
    "font/(?:otf|ttf|woff|woff2)",
)
_is_harmless_type = re.compile(
    rf"(?:{'|'.join(HARMLESS)})(?:[ \t]*;[ \t]*charset=[a-z0-9._-]+)?[ \t]*".encode(), re.IGNORECASE
).fullmatch

ACTING = frozenset((b"refresh", b"link"))
"""Headers that make the browser send requests in the name of their page, even of plain text."""


def confined(fields: Iterable[Field]) -> list[Field]:
    """The headers for the client, after those that confine the content."""
    kept = [field for field in fields if field[0].lower() != NOSNIFF[0].lower()]
    if is_harmless(kept):
        return [NOSNIFF, *kept]
    return [NOSNIFF, SANDBOX, *(field for field in kept if field != SANDBOX)]  # another host may have added it


def is_harmless(fields: Iterable[Field]) -> bool:
    """Is there exactly one Content-Type that is never a page, and no acting header?"""
    values = [(name.lower(), value) for name, value in fields]
    types = [value for name, value in values if name == b"content-type"]
    is_acting = any(name in ACTING for name, _ in values)
    return not is_acting and len(types) == 1 and _is_harmless_type(types[0]) is not None
