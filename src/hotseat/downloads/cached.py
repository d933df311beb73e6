"""Where a link into the hub's cache leads: the file itself, and the names under which the cache lists it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def cached_files(link: Path) -> list[Path]:
    """The names in the cache's snapshots, then the file; empty if `link` does not lead into a hub's cache."""
    if not link.is_symlink():
        return []
    blob = link.resolve()
    repository = blob.parent.parent
    if blob.parent.name != "blobs" or not repository.name.startswith("models--"):
        return []
    names = [name for name in repository.glob("snapshots/**/*") if name.is_symlink() and name.resolve() == blob]
    return [*sorted(names), blob]
