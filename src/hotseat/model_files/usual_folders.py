"""Where other programs keep downloaded models, on Linux and macOS, and how Ollama's store names them.

Their environment variables are honoured, and nothing is ever written there.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.estimates.report import CannotEstimate
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MODEL, PROJECTOR = "application/vnd.ollama.image.model", "application/vnd.ollama.image.projector"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
MOST_MANIFESTS = 2_000
LONGEST_MANIFEST = 1_000_000
ADVICE = "Join the group of its owner, or run this as its owner."
USUAL_PLACE = ("registry.ollama.ai", "library")


def usual_folders(env: Mapping[str, str], home: Path) -> list[Path]:
    """The folders that exist, each once, without Ollama's, whose files have no names."""
    folders = (*_hugging_face(env, home), *_llama_cpp(env, home), *_lm_studio(home), home / "models")
    return [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def ollama_stores(env: Mapping[str, str], home: Path) -> list[Path]:
    """Folders with `manifests` and `blobs`: the user's own, and the service's, even if this user may not see it."""
    stores = [Path(env["OLLAMA_MODELS"])] if env.get("OLLAMA_MODELS") else []
    stores += [home / ".ollama/models", Path("/usr/share/ollama/.ollama/models"), Path("/var/lib/ollama/models")]
    return [store for store in dict.fromkeys(stores) if _may_exist(store / "manifests")]


def _may_exist(folder: Path) -> bool:
    try:
        folder.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _cache(env: Mapping[str, str], home: Path) -> Path:
    return Path(env.get("XDG_CACHE_HOME") or home / ".cache")


def _hugging_face(env: Mapping[str, str], home: Path) -> Iterator[Path]:
    for variable, inner in (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub")):
        if env.get(variable):
            yield Path(env[variable], inner)
    yield _cache(env, home) / "huggingface/hub"


def _llama_cpp(env: Mapping[str, str], home: Path) -> Iterator[Path]:
    if env.get("LLAMA_CACHE"):
        yield Path(env["LLAMA_CACHE"])
    yield _cache(env, home) / "llama.cpp"
    yield home / "Library/Caches/llama.cpp"


def _lm_studio(home: Path) -> Iterator[Path]:
    yield home / ".lmstudio/models"
    yield home / ".cache/lm-studio/models"


def ollama_manifests(store: Path) -> Iterator[Path]:
    """Each is registry/owner/name/tag below `manifests`."""
    for n, path in enumerate(sorted((store / "manifests").glob("*/*/*/*"))):
        if n >= MOST_MANIFESTS:
            return
        if path.is_file():
            yield path


def ollama_refusal(store: Path) -> str:
    """A sentence if this user may not read the store, as often with that of a service; else empty."""
    for folder in (store / "manifests", store / "blobs"):
        with suppress(FileNotFoundError, NotADirectoryError):
            try:
                os.listdir(folder)
            except PermissionError:
                return f"{folder} cannot be read: permission denied. {ADVICE}"
    return ""


def ollama_blobs(store: Path, manifest: Path) -> tuple[Path, Path | None]:
    """The files of the model and of its projector; CannotEstimate if the manifest names none that exist."""
    layers = _layers(manifest)
    model, projector = (_blob(store, layers, kind) for kind in (MODEL, PROJECTOR))
    if model is None:
        raise CannotEstimate(f"{manifest} refers to no model file that exists")
    return model, projector


def ollama_name(manifest: Path) -> str:
    """As `ollama list` shows it."""
    registry, owner, name, tag = manifest.parts[-4:]
    prefix = "" if owner == USUAL_PLACE[1] else f"{owner}/"
    prefix = prefix if registry == USUAL_PLACE[0] else f"{registry}/{owner}/"
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
