"""Where files are kept that can be made again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def cache_directory(environ: Mapping[str, str]) -> Path:
    """The cache directory: systemd's, else XDG_CACHE_HOME, else ~/.cache."""
    if given := environ.get("CACHE_DIRECTORY"):
        return Path(given.split(":")[0])
    usual = Path(environ.get("HOME", "/")) / ".cache"
    return Path(environ.get("XDG_CACHE_HOME") or usual) / "hotseat"


def conversations_directory(environ: Mapping[str, str]) -> Path:
    return cache_directory(environ) / "conversations"
