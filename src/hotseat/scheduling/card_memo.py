"""Remembers what placement.py computed about cards: most questions of one pass are asked again in the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes, ModelName, Place

    Memory: TypeAlias = Mapping[Place, Bytes]
    Cards: TypeAlias = tuple[Place, ...]

MOST_SPREADS = 4096
"""Only the models of a few claims are asked for at a time."""


class Spread(NamedTuple):
    """What a model needs on some cards, and the objects from which that was computed: none of them ever changes."""

    spec: ModelSpec
    measured: Memory | None
    budgets: Memory
    memory: Memory


class CardMemo:
    __slots__ = ("beside_all", "beside_pinned", "of", "spread")

    def __init__(self) -> None:
        self.spread: dict[tuple[ModelName, Cards], Spread] = {}
        self.clear()

    def clear(self) -> None:
        """After every change of what models have or may have."""
        self.of: dict[ModelName, Mapping[Cards, Memory]] = {}
        self.beside_all: Memory | None = None
        self.beside_pinned: Memory | None = None

    def keep(self, cards: Cards, spread: Spread) -> Spread:
        if len(self.spread) >= MOST_SPREADS:
            self.spread.clear()
        self.spread[spread.spec.name, cards] = spread
        return spread
