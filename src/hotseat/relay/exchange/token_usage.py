"""PURE: token counts in a response. It is not parsed: a few names are searched near its end.

OpenAI's `usage`, Anthropic's `usage` of the last `message_delta`, llama.cpp's `timings`: servers write them last,
except llama.cpp's embeddings, which have theirs at the very beginning. If nothing is found, the counts are unknown.
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
"""How many parts are kept: usage, the end of the events, the last chunk, and one more."""
NEAR_THE_END: Bytes = 768
NEAR_THE_BEGINNING: Bytes = 128
LARGE: Bytes = NEAR_THE_BEGINNING + NEAR_THE_END
TIMINGS: Bytes = 384
"""Longer than llama.cpp's timings, which nothing follows if there is no `usage`."""

PROMPT = (b'"prompt_tokens"', b'"input_tokens"', b'"prompt_n"')
COMPLETION = (b'"completion_tokens"', b'"output_tokens"', b'"predicted_n"')
RATE = (b'"predicted_per_second"',)

# What follows the number must end it: chunk framing may split a number.
_count = re.compile(rb"\s*:\s*(\d{1,12})\s*[,}]").match
_rate = re.compile(rb"\s*:\s*(\d{1,12}(?:\.\d{1,12})?)\s*[,}]").match


def ends_of(piece: bytes) -> bytes:
    """The parts of a large piece worth keeping, so that megabytes are not kept for their last bytes."""
    return piece[:NEAR_THE_BEGINNING] + b"\n" + piece[-NEAR_THE_END:]


def tokens_in(pieces: Sequence[bytes]) -> Tokens | None:
    """The counts in the last parts of a response; None if there are none."""
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
    """The number of the first of these names found after `begin`."""
    for name in names:
        place = tail.find(name, begin)
        if place >= 0 and (found := read(tail, place + len(name))):
            return found[1]
    return None
