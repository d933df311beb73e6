"""Symbolic links to files in the hub's cache; apart from the hub, whose library takes long to import."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hotseat.downloads.problems import DownloadProblem

if TYPE_CHECKING:
    from pathlib import Path


def link(place: Path, target: Path) -> None:
    """Replace a link atomically; a file that is no link stays as it is."""
    if place.exists() and not place.is_symlink():
        raise DownloadProblem(f"{place} exists and is not a link; move it away, or name another file")
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(place)


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
