"""The configurations of the simulated hosts. The second version is what operators roll out, host by host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import model, with_budget

from hotseat.catalog.spec import Replicas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec

NAMES = ("a", "b", "c", "d")
RARE = "rare"
ONLY = NAMES[-1]
"""The only host with the rare model."""
ALIAS = "chat"
"""Moves from one model to another with the second version."""
KEPT = "kept"
"""One replica is required by the first version, none by the second."""
BUDGET_GIB = 16


def specs(name: str, version: int) -> Iterator[ModelSpec]:
    first, second = ((ALIAS,), ()) if version == 1 else ((), (ALIAS,))
    yield model("small", gib=4, aliases=first)
    yield model("large", gib=10, aliases=second)
    yield model(KEPT, gib=6, replicas=Replicas(1 if version == 1 else 0, 1))
    if name == ONLY:
        yield model(RARE, gib=4)


def catalog_of(name: str, version: int) -> Catalog:
    return with_budget(*specs(name, version), gib=BUDGET_GIB)


def names_in(catalog: Catalog) -> set[str]:
    return {*catalog.models, *(alias for spec in catalog.models.values() for alias in spec.aliases)}
