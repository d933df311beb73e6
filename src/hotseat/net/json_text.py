"""JSON that somebody else wrote: a file that may be damaged, an answer that may be hostile."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str | bytes) -> Any:
    """The value; ValueError for whatever is no JSON, for instance 200,000 brackets, on which the parser gives up."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
