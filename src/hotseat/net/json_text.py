"""JSON from an untrusted source: a file that may be damaged, a response that may be hostile."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str | bytes) -> Any:
    """ValueError for anything invalid, including nesting (200,000 brackets) on which the parser gives up."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
