"""PURE: models whose cards are chosen when they start: their choice as people write it, and their memory on cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.spec import GpuChoice
from hotseat.identifiers import ANY_GPU, LOCAL_HOST, RAM, DeviceName, Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotseat.identifiers import Bytes


def gpus_in(places: Iterable[Place]) -> tuple[Place, ...]:
    return tuple(place for place in places if place.device != RAM)


def written(choice: GpuChoice) -> str | int | list[str]:
    """`auto`, a number, or a list of devices."""
    if choice.count is None:
        return "auto"
    return [place.device for place in choice.among] if choice.is_list else choice.count


def choice_of(said: str | int | Sequence[str], cards: tuple[Place, ...]) -> GpuChoice:
    """What such a text means on a machine with these cards."""
    if isinstance(said, str):
        return GpuChoice(None, cards)
    if isinstance(said, int):
        return GpuChoice(said, cards)
    return GpuChoice(len(said), tuple(Place(LOCAL_HOST, DeviceName(device)) for device in said))


def on_cards(memory: Mapping[Place, Bytes], cards: Sequence[Place], sizes: Mapping[Place, Bytes]) -> dict[Place, Bytes]:
    """`memory` with its part of ANY_GPU on these cards, in proportion to their sizes, as llama-server splits a model.

    Without cards, that part is left out: nobody knows where it will be.
    """
    kept = {place: bytes_ for place, bytes_ in memory.items() if place != ANY_GPU}
    together, all_cards = memory.get(ANY_GPU, 0), sum(sizes.get(card, 0) for card in cards)
    shares = {card: -(-together * sizes.get(card, 0) // all_cards) for card in cards} if all_cards else {}
    if cards and not all_cards:
        shares = {cards[0]: together}
    return {**shares, **kept}
