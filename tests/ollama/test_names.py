"""Names with Ollama's tags."""

from __future__ import annotations

import pytest

from hotseat.catalog.catalog import Catalog
from hotseat.catalog.spec import LaunchRecipe, ModelSpec
from hotseat.identifiers import ModelName
from hotseat.ollama.names import listed_name, named_model

RECIPE = LaunchRecipe(argv=("server",), proxy="http://127.0.0.1:1")


def catalog(*names: str) -> Catalog:
    return Catalog({ModelName(name): ModelSpec(ModelName(name), RECIPE) for name in names})


@pytest.mark.parametrize(
    ("asked", "found"),
    [("qwen", "qwen"), ("qwen:latest", "qwen"), ("qwen:7b", None), ("qwen:7b:latest", None), ("latest", None)],
)
def test_a_tag_that_says_nothing_is_left_out_to_find_a_model(asked: str, found: str | None) -> None:
    """`latest` is what Ollama adds to a name without a tag; any other tag is part of the name."""
    model = named_model(asked, catalog("qwen", "llama:8b"))

    assert (None if model is None else model.name) == found


def test_a_model_that_is_called_latest_itself_wins() -> None:
    """The exact name goes first."""
    model = named_model("qwen:latest", catalog("qwen", "qwen:latest"))

    assert model is not None
    assert model.name == "qwen:latest"


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("qwen", "qwen:latest"),
        ("qwen:7b", "qwen:7b"),
        ("org/qwen", "org/qwen:latest"),
        ("host:5000/qwen", "host:5000/qwen:latest"),
        ("host:5000/qwen:7b", "host:5000/qwen:7b"),
    ],
)
def test_every_listed_name_has_a_tag(name: str, listed: str) -> None:
    """Tools split the name at its colon; what they were shown leads back to the model."""
    model = named_model(listed_name(name), catalog(name))

    assert listed_name(name) == listed
    assert model is not None
    assert model.name == name
