"""Keys that earlier versions had, each with what holds now: their names are near to keys that mean something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.config.problems import Path

_CONNECTIONS = "There are at most 10,000 connections, 5,000 of them from one address"
REMOVED: dict[Path, str] = {
    ("limits", "header"): "A request head may have 32 KiB",
    ("limits", "headerTimeout"): "A request head may take ten seconds",
    ("limits", "bodyTimeout"): "limits.idleTimeout limits pauses within a request body",
    ("limits", "connections"): _CONNECTIONS,
    ("limits", "connectionsPerAddress"): _CONNECTIONS,
}


def removed_hint(path: Path) -> str:
    """Empty for a key that never existed."""
    return f"This version no longer has it: {REMOVED[path]}. Remove the line" if path in REMOVED else ""
