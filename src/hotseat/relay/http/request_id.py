"""PURE except for randomness: the id of a request in its response, at the model server, in the log and in the activity.

A client's own `X-Request-Id` is used if it is short and plain, so that a gateway's id stays the same everywhere.
Any other value in it passes unchanged, in requests and responses, and hotseat adds its own as `Hotseat-Request-Id`.
"""

from __future__ import annotations

import re
import secrets
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.relay.http.fields import Field

NAME = b"x-request-id"
USUAL, BESIDE = b"X-Request-Id", b"Hotseat-Request-Id"
"""The header that carries hotseat's id of a request, and the one used if the first holds another id."""
LONGEST = 128
SIGNS = b"0123456789abcdefghjkmnpqrstvwxyz"
"""Characters that nobody confuses when reading one out."""

PLAIN = rb"([A-Za-z0-9._:/+=@-]{1,%d})" % LONGEST
_is_plain = re.compile(PLAIN).fullmatch
_find_line = re.compile(rb"\r\n(?:X-Request-Id|x-request-id|X-Request-ID): %b(?=\r\n)" % PLAIN).search


def client_id(known: dict[bytes, bytes], fields: list[Field]) -> tuple[bytes, bytes]:
    """The header that carries the id upstream, and the client's id; empty if none is fit for logs and headers."""
    if NAME not in known:
        return USUAL, b""
    if _is_plain(known[NAME]) and [name.lower() for name, _ in fields].count(NAME) == 1:
        return USUAL, known[NAME]
    # That one passes as the client sent it; a fleet host may have had to add the id beside it.
    said = known.get(BESIDE.lower(), b"")
    return BESIDE, said if _is_plain(said) else b""


def split_id(head: bytes) -> tuple[bytes, bytes]:
    """A head without the line of its request id, and the id; the whole head if it has no plain one."""
    found = _find_line(head)
    return (head, b"") if found is None else (head[: found.start()] + head[found.end() :], found[1])


def numbered() -> Callable[[], bytes]:
    """Unique ids. Appending two characters to a number costs a third of formatting a new one."""
    prefix = bytes(secrets.choice(SIGNS) for _ in range(8))
    endings = [bytes((one, other)) for one in SIGNS for other in SIGNS]
    return (block + ending for block in map((prefix + b"-%d").__mod__, count()) for ending in endings).__next__
