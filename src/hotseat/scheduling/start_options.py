"""The ways to start a model: its cards, what is missing there, and which models leave for it with the smallest loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hotseat.scheduling.eviction import cheapest, offer, total
from hotseat.scheduling.memory_fit import added_up, beyond, holds, will_hold
from hotseat.scheduling.placement import card_choices, needs_on

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from hotseat.identifiers import Bytes, ModelName, Place
    from hotseat.scheduling.loss import Loss
    from hotseat.scheduling.memory_fit import Free
    from hotseat.scheduling.state import ModelState, State

    Memory: TypeAlias = Mapping[Place, Bytes]


class Option(NamedTuple):
    """One way to start a model: on these cards, or as its server decides."""

    gpus: tuple[Place, ...]
    more: Memory
    """What it takes beyond what it holds."""
    missing: Memory
    left: Bytes
    """Free memory on its cards: the fullest are taken first, so that large gaps stay whole for large models."""

    def is_helped_by(self, memory: Memory) -> bool:
        return not self.missing.keys().isdisjoint(memory)


class Eviction(NamedTuple):
    """The models that leave for one option."""

    loss: float
    left: Bytes
    option: Option
    victims: tuple[ModelState, ...]


def options_for(state: State, wanted: ModelState, free: Free) -> list[Option]:
    held, found = will_hold(state, wanted), []
    for gpus in card_choices(state, wanted):
        more = beyond(needs_on(state, wanted, gpus), held)
        found.append(Option(gpus, more, free.lacks(more), free.left_on(gpus)))
    return found


def cheapest_eviction(
    state: State, options: Iterable[Option], leave: Sequence[Loss], excluded: Collection[ModelName]
) -> Eviction | None:
    """The eviction with the smallest loss; None: no option fits, even if all in `leave` left."""
    found = (_eviction_for(state, option, leave, excluded) for option in options)
    return min((each for each in found if each), key=lambda each: each[:2], default=None)


def _eviction_for(
    state: State, option: Option, leave: Sequence[Loss], excluded: Collection[ModelName]
) -> Eviction | None:
    """The models that the groups exclude, and the others with the smallest loss that free the rest."""
    pushed = [each for each in leave if each.resident.name in excluded]
    if len(pushed) < len(excluded):
        return None
    given = added_up(holds(state, each.resident) for each in pushed)
    missing = {place: lack - given.get(place, 0) for place, lack in option.missing.items()}
    missing = {place: lack for place, lack in missing.items() if lack > 0}
    others = [each for each in leave if each.resident.name not in excluded]
    chosen = cheapest(
        (offer(each.resident, each.client_s, holds(state, each.resident), missing) for each in others), missing
    )
    if chosen is None:
        return None
    victims = (*(each.resident for each in pushed), *(each.model for each in chosen))
    return Eviction(total(chosen) + sum(each.client_s for each in pushed), option.left, option, victims)
