"""PURE: model names with Ollama's tags.

Every model of Ollama has a tag, `latest` if none is given. Its clients send back the names that were listed to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.named_models import NamedModel

LATEST = ":latest"


def named_model(name: str, catalog: Catalog) -> NamedModel | None:
    """What a client of Ollama's API means by this name; None if there is no such model."""
    return catalog.named_model(configured_name(name, catalog))


def configured_name(name: str, catalog: Catalog) -> str:
    """The same name as the configuration has it, if it has it."""
    return name if catalog.named_model(name) else name.removesuffix(LATEST)


def listed_name(name: str) -> str:
    """The name as Ollama would list it: always with a tag. A colon before the last slash belongs to a host."""
    return name if ":" in name.rpartition("/")[2] else name + LATEST
