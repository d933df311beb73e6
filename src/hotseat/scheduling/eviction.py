"""Choose the models to evict: the set with the smallest loss that frees enough memory.

The whole set is chosen before the first is stopped, so that every eviction helps. Three candidate sets are compared,
never all subsets: their number doubles with each resident.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotseat.identifiers import Bytes, ModelName, Place
    from hotseat.scheduling.state import ModelState

Model = TypeVar("Model")


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
