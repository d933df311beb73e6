"""The cards that a model may start on. plan.py picks: fit first, then the least loss, then the fullest cards.

A model that runs is never moved: its cards are chosen when it starts, and chosen again at its next start.
"""

from __future__ import annotations

from itertools import combinations, islice
from typing import TYPE_CHECKING, TypeAlias

from hotseat.catalog.cards import on_cards
from hotseat.catalog.spec import NOTHING
from hotseat.identifiers import ANY_GPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hotseat.catalog.spec import GpuChoice
    from hotseat.identifiers import Bytes, Place
    from hotseat.scheduling.state import ModelState, State

    Memory: TypeAlias = Mapping[Place, Bytes]
    Cards: TypeAlias = tuple[Place, ...]


MOST_SETS = 16
"""So many sets of cards are compared: with more, a decision would take longer than a request."""


def card_choices(state: State, model: ModelState) -> list[Cards]:
    """The sets of cards that it may get now: a server that sleeps keeps its own."""
    return [model.gpus] if model.launch is not None else choices_at_start(state, model)


def choices_at_start(state: State, model: ModelState) -> list[Cards]:
    """The sets of cards that it may start on; one empty set if it does not leave the choice to hotseat.

    `auto` means as few cards as the model would fit on beside pinned models only. A model that wants more cards than
    there are gets all.
    """
    choice = state.catalog.models[model.name].gpus
    if choice is None:
        return [()]
    known = state.card_choices.get(model.name)
    if known is None:
        known = state.card_choices[model.name] = _chosen(state, model, choice)
    return known


def _chosen(state: State, model: ModelState, choice: GpuChoice) -> list[Cards]:
    present = state.with_process()
    free, left = _free(state, [each for each in present if each.spec.pinned]), _free(state, present)
    among = sorted(_not_yielded(state, choice), key=lambda card: -left.get(card, 0))
    if choice.count is not None:
        return _sets(among, choice.count) or [choice.among]
    by_count = (
        [cards for cards in _sets(among, count) if _fits(free, needs_on(state, model, cards), cards)]
        for count in range(1, len(among) + 1)
    )
    return next(filter(None, by_count), [choice.among])


def _sets(cards: list[Place], count: int) -> list[Cards]:
    """In the order of the devices. Beyond the limit, only sets of the emptiest cards: a decision must stay short."""
    return [tuple(sorted(each)) for each in islice(combinations(cards, count), max(MOST_SETS, len(cards)))]


def _not_yielded(state: State, choice: GpuChoice) -> Cards:
    yielded = state.yielding.places if state.yielding else ()
    return tuple(card for card in choice.among if card not in yielded)


def _free(state: State, beside: Iterable[ModelState]) -> dict[Place, Bytes]:
    free = dict(state.limits)
    for each in beside:
        for place, bytes_ in needs_on(state, each, each.gpus).items():
            free[place] = free.get(place, 0) - bytes_
    return free


def _fits(free: Memory, need: Memory, cards: Cards) -> bool:
    return all(bytes_ <= free.get(place, 0) for place, bytes_ in need.items() if place in cards)


def needs_on(state: State, model: ModelState, cards: Cards) -> Memory:
    """What it needs to serve on these cards: none without budgets, whole devices if unknown.

    A split model is divided by the budgets of its cards, which other programs do not change.
    """
    if not state.catalog.budgets:
        return NOTHING
    if model.spec.memory is not None and model.spec.gpus is None:  # first, because every comparison asks
        return model.spec.memory
    known = model.spec.footprint(model.stats.memory)
    if known is None:
        whole = cards or (next(iter(state.catalog.budgets)),)
        return {place: state.limits.get(place, 0) for place in whole}
    if ANY_GPU not in known.memory:
        return known.memory
    more = dict.fromkeys(cards[1:], model.spec.per_gpu)
    spread = on_cards(known.memory, cards, state.catalog.budgets)
    return {place: bytes_ + more.get(place, 0) for place, bytes_ in spread.items()}


def may_need(state: State, model: ModelState) -> frozenset[Place]:
    """The places whose memory it has or may get."""
    needed = frozenset(needs_on(state, model, model.gpus))
    choice = model.spec.gpus if model.launch is None and state.catalog.budgets else None
    return needed if choice is None else needed.union(choice.among)
