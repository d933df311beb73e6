"""`devices: auto`: each byte of a machine is budgeted once."""

from __future__ import annotations

from tests.support.machines import Pool

from hotseat.identifiers import RAM, DeviceName
from hotseat.memory.machine import CARD_KEPT, Machine, budgets_of
from hotseat.memory.measurement import DeviceReading

GiB = 1 << 30
GPU0, GPU1 = DeviceName("gpu0"), DeviceName("gpu1")
RAM_SEEN = {RAM: DeviceReading(64 * GiB, 50 * GiB)}


def test_a_machine_without_a_card() -> None:
    """The budget is seven eighths of its RAM, however much of it is free."""
    assert budgets_of(RAM_SEEN, ()) == {"ram": 56 * GiB}


def test_a_card_with_memory_of_its_own() -> None:
    """The card comes first: it is where a model without a figure runs."""
    found = budgets_of({GPU0: DeviceReading(24 * GiB, 20 * GiB), **RAM_SEEN}, ())

    assert list(found.items()) == [("gpu0", 24 * GiB - CARD_KEPT), ("ram", 56 * GiB)]


def test_unified_memory_is_not_budgeted_twice() -> None:
    """A Mac's GPU and its RAM are the same bytes, so there is one budget: what the GPU may take."""
    assert budgets_of({GPU0: DeviceReading(48 * GiB, 20 * GiB), **RAM_SEEN}, {GPU0}) == {"gpu0": 42 * GiB}


def test_a_card_beside_graphics_that_borrow_the_ram() -> None:
    """The card and the RAM have budgets; the APU has no memory of its own."""
    seen = {GPU0: DeviceReading(24 * GiB, 20 * GiB), GPU1: DeviceReading(40 * GiB, 30 * GiB), **RAM_SEEN}

    assert list(budgets_of(seen, {GPU1})) == ["gpu0", "ram"]


def test_a_card_too_small_to_share() -> None:
    """A card smaller than the reserve has no budget."""
    assert budgets_of({GPU0: DeviceReading(CARD_KEPT, 0)}, ()) == {}


def test_a_machine_knows_which_devices_borrow() -> None:
    """The cards say so themselves."""
    machine = Machine({GPU0: Pool(has_own_memory=False), RAM: Pool()})

    assert machine.borrowers == {"gpu0"}
