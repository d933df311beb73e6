"""PURE: Ollama's `keep_alive`: how long a model stays loaded without requests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotseat.errors import ClientError
from hotseat.identifiers import CENTURY_S

if TYPE_CHECKING:
    from hotseat.identifiers import Seconds

LONGEST = 64
"""Characters of a duration, so that a long text costs nothing."""

_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_PLAIN = re.compile(rf"[+-]?{_NUMBER}")
_DURATION = re.compile(rf"[+-]?(?:{_NUMBER}(?:ns|us|µs|μs|ms|s|m|h))+")
_PART = re.compile(rf"({_NUMBER})(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def keep_alive_s(value: object) -> Seconds | None:
    """Seconds from 300, "300", "5m" or "1h30m"; None (negative values): for ever. Raises ClientError."""
    seconds = _seconds(value)
    return seconds if 0 <= seconds < CENTURY_S else None


def _seconds(value: object) -> Seconds:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return max(-1.0, min(value, CENTURY_S))  # also for integers that are too large for a float
    if isinstance(value, str) and len(value) <= LONGEST:
        if _PLAIN.fullmatch(value):
            return float(value)
        if _DURATION.fullmatch(value):
            total = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(value))
            return -1.0 if value.startswith("-") else total
    raise ClientError('`keep_alive` must be a number of seconds or a duration such as "5m"; 0 unloads, -1 keeps')
