"""Choose which models to evict. The whole set is chosen before the first is stopped, so that every eviction helps.

A model's price is its reload time divided by the expected time until its next use. A model in use costs more than any
number of unused ones; for a sleeping one the price is the time that waking saves over loading. Three candidate sets are
compared, never all subsets: their number doubles with each resident.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.linger import next_use_s
from hotseat.scheduling.memory_fit import takes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotseat.identifiers import Bytes, Instant, ModelName, Place, Seconds
    from hotseat.scheduling.state import ModelState, State

Model = TypeVar("Model")

BUSY = 1e6
"""More than the total price of any number of unused models."""


class Offer(NamedTuple, Generic[Model]):
    """A model that may be evicted, the price, and the memory it frees on devices that lack some."""

    price: float
    name: ModelName
    model: Model
    memory: Mapping[Place, Bytes]

    @property
    def gives(self) -> Bytes:
        return sum(self.memory.values())


def price(state: State, model: ModelState, now: Instant) -> float:
    """Seconds of loading per second until the next use."""
    users = len(model.leases) + state.queue.count(model.name)
    if users:
        return price_in_use(users)
    return price_unused(_lost_s(state, model), next_use_s(model.stats.gaps, now - model.idle_since))


def price_in_use(users: int) -> float:
    return BUSY * (1 + users)


def price_unused(lost_s: Seconds, again_s: Seconds) -> float:
    return lost_s / again_s


def _lost_s(state: State, model: ModelState) -> Seconds:
    """Delay of the next use if it is evicted; for a sleeping model, loading instead of waking."""
    load_s = state.load_s(model.name)
    return max(0.0, state.model_stats.load_s(model.name) - load_s) if model.phase is Phase.ASLEEP else load_s


def price_in_words(state: State, model: ModelState, now: Instant) -> str:
    """Why it was the cheapest, for the swap log."""
    if model.leases or state.queue.count(model.name):
        running = len(model.leases)
        return f"its turn was over ({running} {'request' if running == 1 else 'requests'} running)"
    unused_s = now - model.idle_since
    again_s = next_use_s(model.stats.gaps, unused_s)
    loads = f"loads in {state.load_s(model.name):.1f} s"
    return f"idle for {unused_s:.1f} s, next request expected in about {again_s:.0f} s, {loads}"


def choose_victims(
    state: State, free: Sequence[ModelState], missing: Mapping[Place, Bytes], now: Instant
) -> tuple[ModelState, ...] | None:
    """The cheapest of `free` that release enough memory; None if all together do not."""
    if not missing:
        return ()
    best = cheapest((_offer(state, model, missing, now) for model in free), missing)
    return None if best is None else tuple(offer.model for offer in best)


def cheapest(offered: Iterable[Offer[Model]], missing: Mapping[Place, Bytes]) -> list[Offer[Model]] | None:
    """The cheapest set that releases enough memory; None if all together do not."""
    offers = sorted((offer for offer in offered if offer.memory), key=lambda offer: (offer.price, offer.name))
    if not _covers(offers, missing):
        return None
    alone = next(([offer] for offer in offers if _covers([offer], missing)), None)
    by_price = _pruned(_enough(offers, missing), missing)
    by_value = _pruned(_enough(sorted(offers, key=lambda offer: offer.price / offer.gives), missing), missing)
    return min((cost(chosen), n, chosen) for n, chosen in enumerate([by_price, by_value, alone]) if chosen)[2]


def _offer(state: State, model: ModelState, missing: Mapping[Place, Bytes], now: Instant) -> Offer[ModelState]:
    given = takes(state, model)
    memory = {place: given[place] for place in missing if given.get(place)}
    return Offer(price(state, model, now), model.name, model, memory)


def _enough(offers: Sequence[Offer[Model]], missing: Mapping[Place, Bytes]) -> list[Offer[Model]]:
    """The shortest prefix that releases enough memory."""
    left, chosen = dict(missing), []
    for offer in offers:
        if all(lack <= 0 for lack in left.values()):
            break
        chosen.append(offer)
        for place, bytes_ in offer.memory.items():
            left[place] -= bytes_
    return chosen


def _pruned(chosen: list[Offer[Model]], missing: Mapping[Place, Bytes]) -> list[Offer[Model]]:
    """Drop the offers that are not needed, the most expensive first."""
    for offer in sorted(chosen, key=itemgetter(0), reverse=True):
        others = [other for other in chosen if other is not offer]
        if _covers(others, missing):
            chosen = others
    return chosen


def _covers(offers: Iterable[Offer[Model]], missing: Mapping[Place, Bytes]) -> bool:
    given = dict.fromkeys(missing, 0)
    for offer in offers:
        for place, bytes_ in offer.memory.items():
            given[place] += bytes_
    return all(given[place] >= lack for place, lack in missing.items())


def cost(offers: Iterable[Offer[Model]]) -> float:
    return sum(offer.price for offer in offers)
