"""Settings of Python's garbage collector for a long-running server."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """What exists now lives as long as the process, and the relay creates few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
