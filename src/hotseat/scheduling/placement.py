"""The cards that a model may start on. plan.py picks: fit first, then the least loss, then the fullest cards.

A model that runs is never moved: its cards are chosen when it starts, and chosen again at its next start.
What was computed is remembered: most questions of one pass are asked again in the next.
"""

from __future__ import annotations

from itertools import accumulate, combinations, islice
from typing import TYPE_CHECKING, TypeAlias

from hotseat.catalog.spec import NOTHING, on_cards
from hotseat.identifiers import ANY_GPU
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.state import Spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hotseat.catalog.spec import GpuChoice, ModelSpec
    from hotseat.identifiers import Bytes, Place
    from hotseat.scheduling.state import Cards, Memory, ModelState, State

    Choices: TypeAlias = Mapping[Cards, Memory]

MOST_SETS = 16
"""So many sets of cards are compared: with more, a decision would take longer than a request."""


def card_choices(state: State, model: ModelState) -> Choices:
    """The sets of cards that it may get now, with what it needs there: a server that sleeps keeps its own cards."""
    if model.launch is not None:
        return {model.gpus: needs_on(state, model, model.gpus)}
    return choices_at_start(state, model)


def choices_at_start(state: State, model: ModelState) -> Choices:
    """The sets of cards that it may start on; one empty set if it does not leave the choice to hotseat.

    `auto` means as few cards as the model would fit on beside pinned models only. A model that wants more cards than
    there are gets all.
    """
    choice = state.catalog.models[model.name].gpus
    if choice is None:
        return {(): needs_on(state, model, ())}
    known = state.card_choices.of.get(model.name)
    if known is None:
        known = state.card_choices.of[model.name] = _chosen(state, model, choice)
    return known


def _chosen(state: State, model: ModelState, choice: GpuChoice) -> Choices:
    left = _free_beside_all(state)
    among = sorted(_not_yielded(state, choice), key=lambda card: -left.get(card, 0))
    sets = _as_few_as_fit(state, model, among) if choice.count is None else _sets(among, choice.count)
    return {cards: needs_on(state, model, cards) for cards in sets or [choice.among]}


def _as_few_as_fit(state: State, model: ModelState, among: list[Place]) -> list[Cards]:
    """Beside pinned models. Numbers of cards that are too small together are skipped, because others wait meanwhile."""
    free = _free_beside_pinned(state)
    known = model.spec.footprint(model.stats.memory)
    together = known.memory.get(ANY_GPU, 0) if known else 0
    most = accumulate(sorted((free.get(card, 0) for card in among), reverse=True))
    for count, enough in enumerate(most, start=1):
        sets = _sets(among, count) if enough >= together else []
        if fitting := [cards for cards in sets if _fits(free, needs_on(state, model, cards), cards)]:
            return fitting
    return []


def _sets(cards: list[Place], count: int) -> list[Cards]:
    """In the order of the devices. Beyond the limit, only sets of the emptiest cards: a decision must stay short."""
    return [tuple(sorted(each)) for each in islice(combinations(cards, count), max(MOST_SETS, len(cards)))]


def _not_yielded(state: State, choice: GpuChoice) -> Cards:
    yielded = state.yielding.places if state.yielding else ()
    return tuple(card for card in choice.among if card not in yielded)


def _free_beside_all(state: State) -> Memory:
    memo = state.card_choices
    if memo.beside_all is None:
        memo.beside_all = _free(state, state.with_process())
    return memo.beside_all


def _free_beside_pinned(state: State) -> Memory:
    memo = state.card_choices
    if memo.beside_pinned is None:
        memo.beside_pinned = _free(state, [each for each in state.with_process() if each.spec.pinned])
    return memo.beside_pinned


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

    A split model is divided by the budgets of its cards, which other programs do not change. A model that runs alone
    counts as no more than it was given.
    """
    if not state.catalog.budgets:
        return NOTHING
    if model.spec.memory is not None and model.spec.gpus is None:  # first, because every comparison asks
        return model.spec.memory
    memory, spec, budgets = model.stats.memory, model.spec, state.catalog.budgets
    if spec.memory is None and spec.estimated is None and not memory:
        least = 0 if model.phase.takes_memory and model.phase is not Phase.ASLEEP else 1  # all of nothing is too little
        return {place: max(least, state.limits.get(place, 0)) for place in cards or [*budgets][:1]}
    known = state.card_choices.spread.get((spec.name, cards))
    if known is None or known.spec is not spec or known.measured is not memory or known.budgets is not budgets:
        known = state.card_choices.keep(cards, Spread(spec, memory, budgets, _spread(spec, memory, cards, budgets)))
    if model.given is None:
        return known.memory
    return {place: min(bytes_, model.given.get(place, bytes_)) for place, bytes_ in known.memory.items()}


def _spread(spec: ModelSpec, measured: Memory | None, cards: Cards, budgets: Memory) -> Memory:
    known = spec.footprint(measured)
    memory = known.memory if known else NOTHING
    if ANY_GPU not in memory:
        return memory
    more = dict.fromkeys(cards[1:], spec.per_gpu)
    return {place: bytes_ + more.get(place, 0) for place, bytes_ in on_cards(memory, cards, budgets).items()}


def may_need(state: State, model: ModelState) -> frozenset[Place]:
    """The places whose memory it has or may get."""
    needed = frozenset(needs_on(state, model, model.gpus))
    choice = model.spec.gpus if model.launch is None and state.catalog.budgets else None
    return needed if choice is None else needed.union(choice.among)
