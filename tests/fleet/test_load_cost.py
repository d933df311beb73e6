"""The memory of models whose cards a host chooses, as seen from another host."""

from __future__ import annotations

import pytest
from tests.support.fleet import ALICE, GIB, QWEN, RosterRig, fleet_catalog, host

from hotseat.fleet.load_cost import fits, needs
from hotseat.fleet.placement import Load, place
from hotseat.fleet.records import DeviceBudget, HostRecord, Offer
from hotseat.identifiers import ANY_GPU, RAM, DeviceName


def with_cards(name: str, **free: int) -> HostRecord:
    """A host with cards of 24 GiB, of which so much is free, and 64 GiB of RAM."""
    cards = {DeviceName(card): DeviceBudget(24 * GIB, gib * GIB) for card, gib in free.items()}
    return host(name, devices={**cards, RAM: DeviceBudget(64 * GIB, 64 * GIB)})


def offered(gib: int) -> Offer:
    return Offer(memory={ANY_GPU.device: gib * GIB, RAM: GIB}, load_s=10.0)


@pytest.mark.parametrize(
    ("gib", "needed"),
    [
        (8, {"gpu1": 8, "ram": 1}),
        (30, {"gpu1": 24, "gpu0": 6, "ram": 1}),
        (60, {"gpu1": 24, "gpu0": 24, "gpus": 12, "ram": 1}),
    ],
)
def test_the_emptiest_cards_count(gib: int, needed: dict[str, int]) -> None:
    """As few as it fits on; a model that is larger than all of them fits nowhere there."""
    record = with_cards("a", gpu0=2, gpu1=20)

    assert needs(record, offered(gib)) == {device: size * GIB for device, size in needed.items()}
    assert fits(record, offered(gib)) == (gib <= 48)


def test_a_request_goes_to_the_host_whose_card_is_free() -> None:
    """Not to the one whose first card would have to be cleared, nor to one without a card."""
    rig = RosterRig(catalog=fleet_catalog(qwen=offered(8))).hosts(
        with_cards("a", gpu0=2, gpu1=4), with_cards("b", gpu0=2, gpu1=20), with_cards("here")
    )
    decision = place(QWEN, ALICE, rig.roster, rig.now)

    assert isinstance(decision, Load)
    assert decision.host == "b"
