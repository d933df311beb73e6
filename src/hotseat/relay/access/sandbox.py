"""PURE: what keeps a page of a model server from acting as one of ours, though it has our address.

In a sandbox a page has an origin of its own, and what it asks of us is refused like the wishes of any foreign page.
Everything goes into the sandbox that is not known to be harmless, because browsers read a doubtful Content-Type in
ways that nobody can list; and with `nosniff` they take nothing for what its type does not say. All of this judges what
is sent to the client, not what the server sent: a field that ends here must not speak for the answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.relay.http.head import Field

SANDBOX = (
    b"Content-Security-Policy",
    b"sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts",
)
NOSNIFF = (b"X-Content-Type-Options", b"nosniff")

# Browsers show these as text, picture or sound, or save them; opened by themselves, none of them runs a script.
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
"""Fields that make the browser ask for more, in the name of whatever page they belong to: also of a plain text."""


def confined(fields: Iterable[Field]) -> list[Field]:
    """The fields that go to the client, behind those that confine what comes with them."""
    kept = [field for field in fields if field[0].lower() != NOSNIFF[0].lower()]
    if is_harmless(kept):
        return [NOSNIFF, *kept]
    return [NOSNIFF, SANDBOX, *(field for field in kept if field != SANDBOX)]  # another host may have said it already


def is_harmless(fields: Iterable[Field]) -> bool:
    """Is there one Content-Type, of a kind that is never a page, and nothing that acts without one?"""
    types = []
    for name, value in fields:
        lower = name.lower()
        if lower in ACTING:
            return False
        if lower == b"content-type":
            types.append(value)
    return len(types) == 1 and _is_harmless_type(types[0]) is not None
