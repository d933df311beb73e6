"""The cards that a model may start on. plan.py picks: fit first, then the least loss, then the fullest cards.

A model that runs is never moved: its cards are chosen when it starts, and chosen again at its next start.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from hotseat.catalog.cards import on_cards
from hotseat.catalog.spec import NOTHING
from hotseat.identifiers import ANY_GPU

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.identifiers import Bytes, Place
    from hotseat.scheduling.state import ModelState, State

    Memory: TypeAlias = Mapping[Place, Bytes]
    Cards: TypeAlias = tuple[Place, ...]


def card_choices(state: State, model: ModelState) -> list[Cards]:
    """The sets of cards that it may start on; one empty set if it does not leave the choice to hotseat.

    A server that sleeps keeps its cards. `auto` means as few cards as the model would fit on if they were empty.
    A model that wants more cards than there are gets all.
    """
    choice = state.catalog.models[model.name].gpus if model.launch is None else None
    if choice is None:
        return [model.gpus]
    if choice.count is not None:
        return [*combinations(choice.among, choice.count)] or [choice.among]
    by_count = ([*_fitting(state, model, count)] for count in range(1, len(choice.among) + 1))
    return next(filter(None, by_count), [choice.among])


def _fitting(state: State, model: ModelState, count: int) -> Iterator[Cards]:
    choice = state.catalog.models[model.name].gpus
    assert choice is not None
    for cards in combinations(choice.among, count):
        need = needs_on(state, model, cards)
        if all(bytes_ <= state.limits.get(place, 0) for place, bytes_ in need.items() if place in cards):
            yield cards


def needs_on(state: State, model: ModelState, cards: Cards) -> Memory:
    """What it needs to serve on these cards: none without budgets, whole devices if unknown."""
    if not state.catalog.budgets:
        return NOTHING
    if model.spec.memory is not None and model.spec.gpus is None:  # first, because every comparison asks
        return model.spec.memory
    known = model.spec.footprint(model.stats.memory)
    if known is None:
        whole = cards or (next(iter(state.catalog.budgets)),)
        return {place: state.limits[place] for place in whole}
    if ANY_GPU not in known.memory:
        return known.memory
    more = dict.fromkeys(cards[1:], model.spec.per_gpu)
    spread = on_cards(known.memory, cards, state.limits)
    return {place: bytes_ + more.get(place, 0) for place, bytes_ in spread.items()}
