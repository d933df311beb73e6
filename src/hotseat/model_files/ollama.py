"""Reads Ollama's store: manifests map models to blobs. Never writes to it."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hotseat.estimates.report import CannotEstimate
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODEL, PROJECTOR = "application/vnd.ollama.image.model", "application/vnd.ollama.image.projector"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
MOST_MANIFESTS = 2_000
LONGEST_MANIFEST = 1_000_000
ADVICE = "Join the group of its owner, or run this as its owner."
USUAL = ("registry.ollama.ai", "library")


def manifests(store: Path) -> Iterator[Path]:
    """Each is registry/owner/name/tag below `manifests`."""
    for n, path in enumerate(sorted((store / "manifests").glob("*/*/*/*"))):
        if n >= MOST_MANIFESTS:
            return
        if path.is_file():
            yield path


def refusal(store: Path) -> str:
    """A sentence if this user may not read the store, as often with that of a service; else empty."""
    for folder in (store / "manifests", store / "blobs"):
        with suppress(FileNotFoundError, NotADirectoryError):
            try:
                os.listdir(folder)
            except PermissionError:
                return f"{folder} cannot be read: permission denied. {ADVICE}"
    return ""


def blobs(store: Path, manifest: Path) -> tuple[Path, Path | None]:
    """The files of the model and of its projector; CannotEstimate if the manifest names none that exist."""
    layers = _layers(manifest)
    model, projector = (_blob(store, layers, kind) for kind in (MODEL, PROJECTOR))
    if model is None:
        raise CannotEstimate(f"{manifest} refers to no model file that exists")
    return model, projector


def name_of(manifest: Path) -> str:
    """As `ollama list` shows it."""
    registry, owner, name, tag = manifest.parts[-4:]
    prefix = "" if owner == USUAL[1] else f"{owner}/"
    prefix = prefix if registry == USUAL[0] else f"{registry}/{owner}/"
    return f"{prefix}{name}:{tag}"


def _layers(manifest: Path) -> list[Any]:
    try:
        with manifest.open("rb") as stream:
            layers = parsed(stream.read(LONGEST_MANIFEST))["layers"]
    except (OSError, ValueError, LookupError, TypeError):
        raise CannotEstimate(f"{manifest} is not an Ollama manifest") from None
    return layers if isinstance(layers, list) else []


def _blob(store: Path, layers: list[Any], kind: str) -> Path | None:
    for layer in layers:
        match layer:
            case {"mediaType": str(said), "digest": str(digest)} if said == kind and DIGEST.fullmatch(digest):
                path = store / "blobs" / digest.replace(":", "-")
                return path if path.is_file() else None
    return None
