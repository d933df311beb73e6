"""A saved conversation is used only by a server that would compute the same."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hotseat.catalog.spec import LaunchRecipe
from hotseat.model_servers.conversations.fingerprint import basis_of, fingerprint
from hotseat.model_servers.conversations.slots_api import Build

if TYPE_CHECKING:
    from pathlib import Path

BUILD = Build(4, 4096, "b1")


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"weights")
    return path


def recipe_for(weights: Path) -> LaunchRecipe:
    return LaunchRecipe(("llama-server", "-m", str(weights), "--port", "${PORT}"), "http://127.0.0.1:${PORT}")


def test_the_same_server_again(weights: Path) -> None:
    """Neither the port nor the number of slots matters, and most variables do not."""
    recipe = recipe_for(weights)
    basis = basis_of(recipe, {"PATH": "/bin"})

    assert basis_of(recipe, {"PATH": "/usr/bin"}) == basis
    assert fingerprint(basis, BUILD) == fingerprint(basis, BUILD._replace(slots=1))


@pytest.mark.parametrize("build", [BUILD._replace(context=8192), BUILD._replace(version="b2")])
def test_another_context_or_build(weights: Path, build: Build) -> None:
    """The format of the cache may have changed."""
    basis = basis_of(recipe_for(weights), {})

    assert fingerprint(basis, build) != fingerprint(basis, BUILD)


def test_another_command_or_environment(weights: Path) -> None:
    """Cache types, adapters and the like come from there."""
    recipe = recipe_for(weights)
    others = [
        basis_of(replace(recipe, argv=(*recipe.argv, "-ctk", "q8_0")), {}),
        basis_of(replace(recipe, env=(("GGML_X", "1"),)), {}),
        basis_of(recipe, {"LLAMA_ARG_CACHE_TYPE_K": "q8_0"}),
    ]

    assert basis_of(recipe, {}) not in others
    assert len({*others}) == len(others)


@pytest.mark.parametrize("through", ["argv", "shell", "env", "inherited", "container", "part"])
def test_files_that_were_replaced(tmp_path: Path, weights: Path, through: str) -> None:
    """By size or by time, however the command names them."""
    part = tmp_path / "big-00002-of-00002.gguf"
    part.touch()
    recipe, env = recipe_for(weights), {}
    if through == "shell":
        recipe = replace(recipe, argv=("sh", "-c", f"exec llama-server -m {weights}"))
    elif through == "env":
        recipe = replace(recipe, argv=("llama-server",), env=(("LLAMA_ARG_MODEL", str(weights)),))
    elif through == "inherited":
        recipe, env = replace(recipe, argv=("llama-server",)), {"LLAMA_ARG_MODEL": str(weights)}
    elif through == "container":
        recipe = replace(
            recipe, argv=("docker", "run", "-v", f"{tmp_path}:/m", "ghcr.io/llama.cpp", "-m", "/m/model.gguf")
        )
    elif through == "part":
        recipe, weights = replace(recipe, argv=("llama-server", "-m", f"{tmp_path}/big-00001-of-00002.gguf")), part
    before = basis_of(recipe, env)
    os.utime(weights, ns=(1, 1))
    touched = basis_of(recipe, env)
    weights.write_bytes(b"other weights")
    os.utime(weights, ns=(1, 1))

    assert len({before, touched, basis_of(recipe, env)}) == 3
