"""The memory of models whose cards a host chooses, as seen from another host."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.catalogs import on_any, with_budget
from tests.support.fleet import ALICE, CATALOG, GIB, QWEN, RosterRig, fleet_catalog, host
from tests.support.scheduler_driver import SchedulerDriver

from hotseat.fleet.host_record import Identity, catalog_record, host_record
from hotseat.fleet.load_cost import fits, needs
from hotseat.fleet.placement import Load, place
from hotseat.fleet.records import DeviceBudget, HostRecord, Offer
from hotseat.identifiers import ANY_GPU, RAM, DeviceName, HostName, ModelName


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


@pytest.mark.parametrize(
    ("gib", "gpus", "among", "needed"),
    [
        (20, 2, [], {"gpu1": 10, "gpu2": 10, "ram": 1}),
        (20, 1, ["gpu0"], {"gpu0": 20, "ram": 1}),
        (30, 1, ["gpu0"], {"gpu0": 24, "gpus": 6, "ram": 1}),
        (30, 2, ["gpu0", "gpu1"], {"gpu1": 15, "gpu0": 15, "ram": 1}),
        (8, 0, ["gpu0", "gpu2"], {"gpu2": 8, "ram": 1}),
    ],
)
def test_a_number_or_a_list_of_cards_counts(gib: int, gpus: int, among: list[str], needed: dict[str, int]) -> None:
    """The host chooses no others, so its other cards do not help."""
    record = with_cards("a", gpu0=2, gpu1=20, gpu2=10)
    offer = msgspec.structs.replace(offered(gib), gpus=gpus, among=[DeviceName(card) for card in among])

    assert needs(record, offer) == {device: size * GIB for device, size in needed.items()}
    assert fits(record, offer) == ("gpus" not in needed)


def test_a_model_of_unknown_size_takes_the_emptiest_of_its_cards() -> None:
    """As many as its host chooses for it."""
    record = with_cards("a", gpu0=2, gpu1=20, gpu2=10)

    assert needs(record, Offer(gpus=2)) == {"gpu1": 24 * GIB, "gpu2": 24 * GIB}
    assert needs(record, Offer(gpus=1, among=[DeviceName("gpu2")])) == {"gpu2": 24 * GIB}


def test_an_idle_model_on_chosen_cards_can_make_way() -> None:
    """Its memory counts on the cards that it has, so its host is a place for another model."""
    driver = SchedulerDriver(with_budget(on_any("old", 40, 0, 1), on_any("new", 20, 0, 1), gib={0: 24, 1: 24}))
    driver.with_ready("old")
    catalog = driver.scheduler.catalog
    identity, view = Identity(HostName("a"), "http://a:8080", "boot"), driver.scheduler.view(driver.now)
    full = host_record(identity, {}, view, catalog, CATALOG, is_leaving=False)
    rig = RosterRig(catalog=fleet_catalog(new=catalog_record(catalog).offers[ModelName("new")])).hosts(full)
    decision = place(ModelName("new"), ALICE, rig.roster, rig.now)

    assert full.residents[0].memory == {"gpu0": 20 * GIB, "gpu1": 20 * GIB}
    assert isinstance(decision, Load)
    assert decision.host == "a"


def test_a_request_goes_to_the_host_whose_card_is_free() -> None:
    """Not to the one whose first card would have to be cleared, nor to one without a card."""
    rig = RosterRig(catalog=fleet_catalog(qwen=offered(8))).hosts(
        with_cards("a", gpu0=2, gpu1=4), with_cards("b", gpu0=2, gpu1=20), with_cards("here")
    )
    decision = place(QWEN, ALICE, rig.roster, rig.now)

    assert isinstance(decision, Load)
    assert decision.host == "b"
