"""The ways to start a model: its cards, what is missing there, and which models leave for it with the smallest loss.

The whole set is chosen before the first is stopped, so that every eviction helps. Three candidate sets are compared,
never all subsets: their number doubles with each resident.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from hotseat.scheduling.memory_fit import added_up, beyond, will_hold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from hotseat.identifiers import Bytes, ModelName, Place
    from hotseat.scheduling.loss import Loss
    from hotseat.scheduling.memory_fit import Free
    from hotseat.scheduling.placement import Choices
    from hotseat.scheduling.state import ModelState, State

    Memory: TypeAlias = Mapping[Place, Bytes]

Model = TypeVar("Model")


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


def options_for(state: State, wanted: ModelState, choices: Choices, free: Free) -> list[Option]:
    held, found = will_hold(state, wanted), []
    for gpus, needed in choices.items():
        more = beyond(needed, held) if held else needed
        found.append(Option(gpus, more, free.lacks(more), free.left_on(gpus)))
    return found


class Leaving:
    """Models that may leave together: what they free is added up once for all options."""

    __slots__ = ("_has_all_excluded", "_held", "_offered", "_others", "_pushed", "_pushed_free")

    def __init__(
        self, losses: Iterable[Loss], excluded: Collection[ModelName], held: Mapping[ModelName, Memory]
    ) -> None:
        """`excluded` are the models that the groups exclude; `held` is what each model holds."""
        losses, self._held = list(losses), held
        self._pushed = [each for each in losses if each.resident.name in excluded]
        self._others = [each for each in losses if each.resident.name not in excluded]
        self._has_all_excluded = len(self._pushed) == len(excluded)
        self._pushed_free = added_up(held[each.resident.name] for each in self._pushed)
        self._offered = added_up(held[each.resident.name] for each in self._others)

    def are_enough(self, option: Option) -> bool:
        missing = self._missing(option)
        return self._has_all_excluded and all(self._offered.get(place, 0) >= lack for place, lack in missing.items())

    def cheapest(self, options: Iterable[Option]) -> Eviction | None:
        """The eviction with the smallest loss; None: no option fits, even if all left."""
        found = (self._eviction_for(option) for option in options if self.are_enough(option))
        return min(found, key=lambda each: each[:2], default=None)

    def _eviction_for(self, option: Option) -> Eviction:
        """The models that the groups exclude, and the others with the smallest loss that free the rest."""
        missing = self._missing(option)
        offers = (offer(each.resident, each.client_s, self._held[each.resident.name], missing) for each in self._others)
        chosen = cheapest(offers, missing)
        assert chosen is not None
        victims = (*(each.resident for each in self._pushed), *(each.model for each in chosen))
        return Eviction(total(chosen) + sum(each.client_s for each in self._pushed), option.left, option, victims)

    def _missing(self, option: Option) -> Memory:
        """What the excluded models leave missing."""
        if not self._pushed:
            return option.missing
        missing = {place: lack - self._pushed_free.get(place, 0) for place, lack in option.missing.items()}
        return {place: lack for place, lack in missing.items() if lack > 0}


class Offer(NamedTuple, Generic[Model]):
    """A model that may be evicted, the loss, and the memory it frees on devices that lack some."""

    loss: float
    name: ModelName
    model: Model
    memory: Mapping[Place, Bytes]

    @property
    def gives(self) -> Bytes:
        return sum(self.memory.values())


def offer(
    model: ModelState, loss: float, given: Mapping[Place, Bytes], missing: Mapping[Place, Bytes]
) -> Offer[ModelState]:
    return Offer(loss, model.name, model, {place: given[place] for place in missing if given.get(place)})


def cheapest(offered: Iterable[Offer[Model]], missing: Mapping[Place, Bytes]) -> list[Offer[Model]] | None:
    """The cheapest set that frees the missing memory; None if all together do not."""
    offers = sorted((offer for offer in offered if offer.memory), key=lambda offer: (offer.loss, offer.name))
    by_loss = _enough(offers, missing)
    if by_loss is None:
        return None
    by_value = _enough(sorted(offers, key=lambda offer: offer.loss / offer.gives), missing) or []
    alone = next(([offer] for offer in offers if _is_enough(offer, missing)), None)
    sets = (_pruned(by_loss, missing), _pruned(by_value, missing), alone)
    return min((chosen for chosen in sets if chosen is not None), key=total)


def total(offers: Iterable[Offer[Model]]) -> float:
    return sum(offer.loss for offer in offers)


def _enough(offers: Sequence[Offer[Model]], missing: Mapping[Place, Bytes]) -> list[Offer[Model]] | None:
    """The shortest prefix that is enough; None if all are not."""
    lacks = dict(missing)
    for count, offer in enumerate(offers):
        if not lacks:
            return list(offers[:count])
        for place, bytes_ in offer.memory.items():
            if place in lacks and (lack := lacks.pop(place) - bytes_) > 0:
                lacks[place] = lack
    return None if lacks else list(offers)


def _pruned(chosen: list[Offer[Model]], missing: Mapping[Place, Bytes]) -> list[Offer[Model]]:
    """Drop the offers that are not needed, the most expensive first."""
    spare = {place: sum(offer.memory.get(place, 0) for offer in chosen) - lack for place, lack in missing.items()}
    for offer in sorted(chosen, key=itemgetter(0), reverse=True):
        if all(bytes_ <= spare[place] for place, bytes_ in offer.memory.items()):
            chosen = [other for other in chosen if other is not offer]
            for place, bytes_ in offer.memory.items():
                spare[place] -= bytes_
    return chosen


def _is_enough(offer: Offer[Model], missing: Mapping[Place, Bytes]) -> bool:
    return all(offer.memory.get(place, 0) >= lack for place, lack in missing.items())
