"""PURE but for the dice: what a request is called, in its answer, at the model server, in the log and in the activity.

A client's own `X-Request-Id` is taken where it is short and plain, so that a gateway's name for a request goes all the
way through. Else hotseat makes one: some signs that no other process has, and a number.

What others write into `X-Request-Id` passes unchanged, in requests and in answers. Where that is not the name that
hotseat uses, hotseat's own goes beside it as `Hotseat-Request-Id`.
"""

from __future__ import annotations

import re
import secrets
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.relay.http.head import Field, RequestHead

NAME = b"x-request-id"
USUAL, BESIDE = b"X-Request-Id", b"Hotseat-Request-Id"
"""The header that carries hotseat's id of a request, and the one that does where the first holds another id."""
LONGEST = 128
SPELLINGS = (b"\r\nX-Request-Id: ", b"\r\nx-request-id: ", b"\r\nX-Request-ID: ")
SIGNS = b"0123456789abcdefghjkmnpqrstvwxyz"
"""Those that nobody confuses with each other when reading one out."""

_is_plain = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,%d}" % LONGEST).fullmatch


def id_in(head: RequestHead) -> bytes:
    """What the client calls the request; empty where it sent no name, or none to be repeated in logs and headers.

    A host of the fleet that passes a request on may have had to name it beside another id.
    """
    said = head.known.get(NAME if head.id_header is USUAL else BESIDE.lower(), b"")
    return said if _is_plain(said) else b""


def id_header_for(known: dict[bytes, bytes], fields: list[Field]) -> bytes:
    """Which header tells the upstream of a request its id: an id that we cannot use passes as the client sent it."""
    if NAME not in known:
        return USUAL
    is_only_one = [name.lower() for name, _ in fields].count(NAME) == 1
    return USUAL if is_only_one and _is_plain(known[NAME]) else BESIDE


def split_id(head: bytes) -> tuple[bytes, bytes]:
    """A head's bytes without the line that names the request, and the name; all of it where there is no plain one."""
    for spelling in SPELLINGS:
        begin = head.find(spelling)
        if begin >= 0:
            end = head.find(b"\r\n", begin + len(spelling))
            name = head[begin + len(spelling) : end]
            if _is_plain(name):
                return head[:begin] + head[end:], name
    return head, b""


def numbered() -> Callable[[], bytes]:
    """Names that were never given before. Adding two signs to a number costs a third of writing a new one out."""
    prefix = bytes(secrets.choice(SIGNS) for _ in range(8))
    endings = [bytes((one, other)) for one in SIGNS for other in SIGNS]
    return (block + ending for block in map((prefix + b"-%d").__mod__, count()) for ending in endings).__next__
