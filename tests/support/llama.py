"""Locates the real llama-server and the tiny models, and configures models with them.

`just llama` puts both into .cache; HOTSEAT_LLAMA_SERVER and HOTSEAT_MODELS override that.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
SERVER = Path(os.environ.get("HOTSEAT_LLAMA_SERVER", REPOSITORY / ".cache/llama-server/llama-server"))
MODELS = Path(os.environ.get("HOTSEAT_MODELS", REPOSITORY / ".cache/models"))
EMBEDDINGS = "--embeddings --pooling mean"
RECIPES = {"big": "just llama --big", "whisper-server": "just whisper", "random": "just whisper"}
"""By the stem of a file's name: what makes it, if not `just llama`."""


def llama(weights: str = "alpha", options: str = "", **settings: object) -> dict[str, Any]:
    """The configuration of a model served by llama-server."""
    return {"cmd": command(weights, "${PORT}", options), **settings}


def command(weights: str, port: str | int, options: str = "") -> str:
    # One thread: two on two busy cores take 600 times as long for a token.
    server, model = shlex.quote(str(present(SERVER))), shlex.quote(str(model_file(weights)))
    return f"{server} -m {model} --port {port} -c 8192 -t 1 -tb 1 --slots {options}".rstrip()


def model_file(weights: str) -> Path:
    return present(MODELS / f"{weights}.gguf")


def present(path: Path) -> Path:
    """The path, or a failure that says how to get it: a test that cannot run must not pass."""
    if path.exists():
        return path
    recipe = RECIPES.get(path.stem, "just llama")
    raise AssertionError(f"{path} is missing: run `{recipe}`, or set HOTSEAT_LLAMA_SERVER and HOTSEAT_MODELS")
