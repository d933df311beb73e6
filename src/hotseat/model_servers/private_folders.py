"""Folders that only hotseat's user may enter."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def make_private(folder: Path) -> None:
    """Create it if it is missing, with missing parents such as the state directory; OSError if that is impossible.

    `Path.mkdir(parents=True)` would let everybody enter the parents.
    """
    if not folder.parent.exists():
        make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
