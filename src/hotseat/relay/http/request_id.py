"""PURE except for randomness: the id of a request in its response, at the model server, in the log and in the activity.

A client's own `X-Request-Id` is used if it is short and plain, so that a gateway's id stays the same everywhere.
Otherwise hotseat generates one: a random prefix of the process, and a number.

Values of others in `X-Request-Id` pass unchanged, in requests and responses. If that is not the id that hotseat uses,
hotseat's own is added as `Hotseat-Request-Id`.
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
SPELLINGS = (b"\r\nX-Request-Id: ", b"\r\nx-request-id: ", b"\r\nX-Request-ID: ")
SIGNS = b"0123456789abcdefghjkmnpqrstvwxyz"
"""Characters that nobody confuses when reading one out."""

_is_plain = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,%d}" % LONGEST).fullmatch


def id_header_for(known: dict[bytes, bytes], fields: list[Field]) -> bytes:
    """The header that carries the id upstream; an id that we cannot use passes as the client sent it."""
    if NAME not in known:
        return USUAL
    is_only_one = [name.lower() for name, _ in fields].count(NAME) == 1
    return USUAL if is_only_one and _is_plain(known[NAME]) else BESIDE


def usable_id(known: dict[bytes, bytes], id_header: bytes) -> bytes:
    """The client's id of the request; empty if it sent none, or none fit for logs and headers.

    A fleet host that forwards a request may have had to add its id beside another.
    """
    said = known.get(NAME if id_header is USUAL else BESIDE.lower(), b"")
    return said if _is_plain(said) else b""


def split_id(head: bytes) -> tuple[bytes, bytes]:
    """A head without the line of its request id, and the id; the whole head if it has no plain one."""
    for spelling in SPELLINGS:
        begin = head.find(spelling)
        if begin >= 0:
            end = head.find(b"\r\n", begin + len(spelling))
            name = head[begin + len(spelling) : end]
            if _is_plain(name):
                return head[:begin] + head[end:], name
    return head, b""


def numbered() -> Callable[[], bytes]:
    """Unique ids. Appending two characters to a number costs a third of formatting a new one."""
    prefix = bytes(secrets.choice(SIGNS) for _ in range(8))
    endings = [bytes((one, other)) for one in SIGNS for other in SIGNS]
    return (block + ending for block in map((prefix + b"-%d").__mod__, count()) for ending in endings).__next__
