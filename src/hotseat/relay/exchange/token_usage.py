"""PURE: how many tokens an answer says it took. Nothing is parsed: a few names are looked for near its end.

OpenAI's `usage`, Anthropic's `usage` of the last `message_delta`, llama.cpp's `timings`: servers write them last, but
for llama.cpp's embeddings, which have theirs at the very beginning. What is not found is not known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotseat.activity.recent import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotseat.identifiers import Bytes

    Read = Callable[[bytes, int], re.Match[bytes] | None]

LAST_PIECES = 4
"""Of an answer are kept: usage, the end of the events, the last chunk, and one more."""
NEAR_THE_END: Bytes = 768
NEAR_THE_BEGINNING: Bytes = 128
LARGE: Bytes = NEAR_THE_BEGINNING + NEAR_THE_END
TIMINGS: Bytes = 384
"""Longer than llama.cpp's, which nothing follows where there is no `usage`."""

PROMPT = (b'"prompt_tokens"', b'"input_tokens"', b'"prompt_n"')
COMPLETION = (b'"completion_tokens"', b'"output_tokens"', b'"predicted_n"')
RATE = (b'"predicted_per_second"',)

# What follows the number must end it: the framing of a chunk may stand in its midst.
_count = re.compile(rb"\s*:\s*(\d{1,12})\s*[,}]").match
_rate = re.compile(rb"\s*:\s*(\d{1,12}(?:\.\d{1,12})?)\s*[,}]").match


def ends_of(piece: bytes) -> bytes:
    """What is worth keeping of a large piece, so that an answer of megabytes is not kept for its last words."""
    return piece[:NEAR_THE_BEGINNING] + b"\n" + piece[-NEAR_THE_END:]


def tokens_in(pieces: Sequence[bytes]) -> Tokens | None:
    """What the last pieces of an answer say; None where they say nothing."""
    tail = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    begin = tail.rfind(b'"usage"', -NEAR_THE_END)
    if begin < 0:
        begin = tail.rfind(b'"timings"', -TIMINGS)
    if begin < 0:
        begin = tail.find(b'"usage"', 0, NEAR_THE_BEGINNING)
    if begin < 0:
        return None
    prompt, completion = _number(tail, begin, PROMPT, _count), _number(tail, begin, COMPLETION, _count)
    if prompt is None and completion is None:
        return None
    return Tokens(
        None if prompt is None else int(prompt),
        None if completion is None else int(completion),
        None if (rate := _number(tail, begin, RATE, _rate)) is None else float(rate),
    )


def _number(tail: bytes, begin: int, names: Sequence[bytes], read: Read) -> bytes | None:
    """Of the first of these names that stands behind `begin` with a number."""
    for name in names:
        place = tail.find(name, begin)
        if place >= 0 and (found := read(tail, place + len(name))):
            return found[1]
    return None
