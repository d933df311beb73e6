"""PURE: how many tokens a request took, as far as its model server does not say: because its client left before the
end, or because the server never does.

Nobody shall use a key's tokens without their being counted, so this is rather too much than too little: an event of a
stream is a token, and so are four bytes of a prompt or of a text that is no stream.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from hotseat.relay.exchange.token_usage import tokens_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotseat.activity.recent import Tokens
    from hotseat.identifiers import Bytes
    from hotseat.relay.http.response_head import ResponseHead

EVENT = b"data:"
BYTES_PER_TOKEN = 4
ENCODED = (b";base64,", b'"data":"', b'"data": "')
"""What is before an image or a recording in JSON."""
MOST_ENCODED = 64
"""Of each kind; further ones count as text."""
MOST_PER_ENCODED = 256
"""Tokens of an image or a recording: as text up to these, so that a text that looks like one is not free."""
BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_"
ERROR = 400
_generates_text = re.compile(
    rb"(?:/v1)?/(?:chat/completions|completions?|responses|messages|infill|generate)"
).fullmatch


class Response(Protocol):
    """What is known of a response that is complete or was cut."""

    head: ResponseHead
    pieces: list[bytes]
    """Its first and last parts; none: it has not begun, or is complete."""
    size: Bytes


def of_complete(
    said: Tokens | None, path: bytes, prompt: Callable[[], int], response: Response, pieces: Sequence[bytes]
) -> int:
    """The tokens that the server did not report. `prompt` estimates those of the prompt."""
    if response.head.status >= ERROR:
        return 0
    of_whole_prompt = prompt() if said is None or said.prompt is None else 0
    return of_whole_prompt + (of_text(path, response, pieces) if said is None or said.completion is None else 0)


def of_cut(path: bytes, prompt: Callable[[], int], response: Response) -> int:
    """All tokens. What the server has reported until then may be of the beginning only."""
    if response.head.status >= ERROR:
        return 0
    said, text = tokens_in(response.pieces), of_text(path, response, response.pieces)
    if said is None:
        return prompt() + text
    return (prompt() if said.prompt is None else said.prompt) + max(said.completion or 0, text)


def of_text(path: bytes, response: Response, pieces: Sequence[bytes]) -> int:
    """Of a stream: the events in the parts that are known, and as many for the size of the others."""
    if response.head.is_event_stream:
        known = sum(map(len, pieces))
        return response.size * sum(piece.count(EVENT) for piece in pieces) // known if known else 0
    return response.size // BYTES_PER_TOKEN if _generates_text(path) else 0


def of_prompt(body: bytes) -> int:
    """Images and recordings are long, but few tokens."""
    return (len(body) - sum(_encoded(body, mark) for mark in ENCODED)) // BYTES_PER_TOKEN


def _encoded(body: bytes, mark: bytes) -> Bytes:
    """How many bytes behind these marks do not count."""
    size, end = 0, 0
    for _ in range(MOST_ENCODED):
        begin = body.find(mark, end)
        if begin < 0:
            break
        begin += len(mark)
        end = body.find(b'"', begin)
        if end < 0:
            break
        if not body[begin:end].replace(rb"\/", b"/").translate(None, BASE64):
            size += max(0, end - begin - MOST_PER_ENCODED * BYTES_PER_TOKEN)
    return size
