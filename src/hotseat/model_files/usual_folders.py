"""Where other programs keep downloaded models, on Linux and macOS. Honours their environment variables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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
