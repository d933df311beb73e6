"""PURE: does a body mean the same to every parser?

A peer must get the name of one model, the one that the caller was authorised for. It is put into the body, so a body in
which another parser might find another name is not sent to peers: compressed bodies, and forms where parsers differ
about where a part begins or what it is called. Our own model servers need no such check: none authorises requests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.relay.http.body import Body
    from hotseat.relay.http.request_head import RequestHead

_FORM_IN_ONE_LINE = b"application/x-www-form-urlencoded"
_CHARSET = rb";[ \t]*charset=[\w-]+"
_PLAIN_FORM = re.compile(
    rb"multipart/form-data(?:%b)?;[ \t]*boundary=(?:\"[^\"\\]+\"|[^\s\";,]+)(?:%b)?" % (_CHARSET, _CHARSET), re.I
)


def names_one_model(head: RequestHead, body: Body) -> bool:
    """Is the name that we found or set the only one to be found?"""
    kinds = [value for name, value in head.fields if name.lower() == b"content-type"]
    if len(kinds) > 1 or head.known.get(b"content-encoding", b"identity").lower() != b"identity":
        return False
    kind = kinds[0].strip().lower() if kinds else b""
    if kind.startswith(b"multipart/"):
        return body.form is not None and body.form.is_plain and _PLAIN_FORM.fullmatch(kind) is not None
    return not kind.startswith(_FORM_IN_ONE_LINE)
