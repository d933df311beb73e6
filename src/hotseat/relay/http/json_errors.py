"""Explains why a body is not valid JSON."""

from __future__ import annotations

import re

_HALF_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")


def why_not_json(problem: Exception, body: bytes) -> str:
    """The decoder reports the first half of a surrogate pair as the end of the input."""
    if "truncated" in str(problem) and (half := _HALF_PAIR.search(body)):
        where = f"{half.group().decode()} (byte {half.start()})"
        return f"{where} is half of a surrogate pair, which is not a character. Send both halves or neither"
    return str(problem)
