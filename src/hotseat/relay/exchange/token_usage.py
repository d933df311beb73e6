"""PURE: token counts in a response. It is not parsed: a few names are searched near its end and its beginning.

OpenAI's `usage`, Anthropic's `usage` of the last `message_delta`, llama.cpp's `timings`, Ollama's `prompt_eval_count`:
servers write them last, except llama.cpp's embeddings, which have theirs at the very beginning, and the prompt of
Anthropic's streams, which is in their first event. If nothing is found, the counts are unknown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotseat.activity.recent import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotseat.identifiers import Bytes, Seconds

    Read = Callable[[bytes, int], re.Match[bytes] | None]

FIRST_PIECES = 2
"""How many first parts are kept: what came with the head, if anything, and the first event."""
MOST_PIECES = FIRST_PIECES + 4
"""With the last ones: usage, the end of the events, the last chunk, and one more."""
NEAR_THE_END: Bytes = 768
NEAR_THE_BEGINNING: Bytes = 512
LARGE: Bytes = NEAR_THE_BEGINNING + NEAR_THE_END
LONGEST_TIMINGS: Bytes = 384
"""Longer than llama.cpp's timings, which nothing follows if there is no `usage`."""

MOST_USAGES = 16
"""No server writes more near the end, so a client made it repeat them, and the counts are unknown."""

USAGE, TIMINGS = b'"usage"', b'"timings":'
"""Only as the name of an object: a client can make a server repeat any word, as `user` of OpenAI's Responses API."""
OLLAMAS_PROMPT = b'"prompt_eval_count"'
PROMPT = (b'"prompt_tokens"', b'"input_tokens"', b'"prompt_n"', OLLAMAS_PROMPT)
COMPLETION = (b'"completion_tokens"', b'"output_tokens"', b'"predicted_n"', b'"eval_count"')
RATE = (b'"predicted_per_second"',)
MESSAGE_START = b'"message_start"'
ABOUT_CACHE = b'"cache'
"""How the name of each number of cached tokens begins."""
READ_FROM_CACHE = b"cache_read_input_tokens"
"""Anthropic's name. Its prompt includes neither these tokens nor those written to the cache; OpenAI's does."""

# What follows the number must end it: chunk framing may split a number.
_count = re.compile(rb"\s*:\s*(\d{1,12})\s*[,}]").match
_decimal = re.compile(rb"\s*:\s*(\d{1,12}(?:\.\d{1,20})?)\s*[,}]").match
_timings = re.compile(
    rb'"cache_n"\s*:\s*(\d{1,12})\s*,\s*"prompt_n"\s*:\s*(\d{1,12})\s*,'
    rb'\s*"prompt_ms"\s*:\s*(\d{1,12}(?:\.\d{1,20})?)\s*[,}]'
).search
_is_object = re.compile(rb"\s*:\s*\{").match
_written_to_cache = re.compile(rb'"cache_creation_input_tokens"\s*:\s*(\d{1,12})\s*[,}]').search
_cached = re.compile(rb'"(cached_tokens|cache_read_input_tokens)"\s*:\s*(\d{1,12})\s*[,}]').search


def ends_of(piece: bytes) -> bytes:
    """The parts of a large piece worth keeping, so that megabytes are not kept for their last bytes."""
    return piece[:NEAR_THE_BEGINNING] + b"\n" + piece[-NEAR_THE_END:]


def tokens_in(pieces: Sequence[bytes]) -> Tokens | None:
    """The counts in the first and last parts of a response; None if there are none."""
    tail = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    begins = _usages(tail, max(0, len(tail) - NEAR_THE_END), len(tail))
    if len(begins) > MOST_USAGES:
        return None
    return _largest(tail, begins) or _elsewhere(tail)


def _usages(tail: bytes, first: int, end: int) -> list[int]:
    """Where objects of this name begin, the last one first."""
    begins: list[int] = []
    while (end := tail.rfind(USAGE, first, end)) >= 0 and len(begins) <= MOST_USAGES:
        if _is_object(tail, end + len(USAGE)):
            begins.append(end)
    return begins


def _largest(tail: bytes, begins: Sequence[int]) -> Tokens | None:
    """A client can make a server repeat a `usage` of its own: only one that makes it pay more is believed."""
    largest, most = None, -1
    for begin in begins:
        tokens = _read(tail, begin)
        if tokens is not None and (size := (tokens.prompt or 0) + (tokens.completion or 0)) > most:
            largest, most = tokens, size
    return largest


def _elsewhere(tail: bytes) -> Tokens | None:
    begin = tail.rfind(TIMINGS, -LONGEST_TIMINGS)
    if begin < 0 and (begins := _usages(tail, 0, NEAR_THE_BEGINNING)):
        begin = begins[-1]
    if begin < 0:
        begin = tail.rfind(OLLAMAS_PROMPT, -NEAR_THE_END)
    return None if begin < 0 else _read(tail, begin)


def _read(tail: bytes, begin: int) -> Tokens | None:
    """The counts after `begin`."""
    prompt, cached, prompt_s = _of_prompt(tail, begin)
    completion = _number(tail, begin, COMPLETION, _count)
    if prompt is None:
        if completion is None:
            return None
        if (start := tail.find(MESSAGE_START, 0, NEAR_THE_BEGINNING)) >= 0:
            prompt, cached, prompt_s = _of_prompt(tail, start)
    rate = _number(tail, begin, RATE, _decimal)
    return Tokens(
        prompt,
        None if completion is None else int(completion),
        None if rate is None else float(rate),
        cached,
        prompt_s,
    )


def _of_prompt(tail: bytes, begin: int) -> tuple[int | None, int | None, Seconds | None]:
    """All its tokens, those that were cached, and how long it took to compute the others."""
    is_cache_known = tail.find(ABOUT_CACHE, begin) >= 0
    number = _number(tail, begin, PROMPT, _count)
    prompt = None if number is None else int(number)
    if is_cache_known and (found := _timings(tail, begin)):
        return max(int(found[2]) + int(found[1]), prompt or 0), int(found[1]), float(found[3]) / 1000
    if not is_cache_known or not (found := _cached(tail, begin)):
        return prompt, None, None
    cached = int(found[2])
    if prompt is not None and found[1] == READ_FROM_CACHE:
        written = _written_to_cache(tail, begin)
        prompt += cached + (0 if written is None else int(written[1]))
    return prompt, cached, None


def _number(tail: bytes, begin: int, names: Sequence[bytes], read: Read) -> bytes | None:
    """The first number after `begin` that has one of these names."""
    first, end = None, len(tail)
    for name in names:
        place = tail.find(name, begin, end)
        if place >= 0 and (found := read(tail, place + len(name))):
            first, end = found[1], place
    return first
