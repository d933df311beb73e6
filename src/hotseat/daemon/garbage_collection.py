"""Settings of Python's garbage collector."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """Imports create a million objects that stay, and the relay few cycles."""
    gc.set_threshold(50_000, 20, 20)


def collect_nothing_during_start() -> None:
    """Of 170,000 objects that a start leaves behind, a collection frees 900."""
    gc.disable()


def ignore_what_exists() -> None:
    """What a long-running server has created so far lives as long as the process. What it creates is collected."""
    gc.freeze()
    gc.enable()
