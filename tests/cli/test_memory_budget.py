"""The memory that a first configuration uses."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.support.machines import GiB, Pool

from hotseat.cli.fit import devices
from hotseat.identifiers import RAM, DeviceName
from hotseat.memory.machine import Machine


@dataclass
class Card(Pool):
    has_own_memory: bool = True


@pytest.mark.parametrize(
    ("cards", "counted"),
    [
        ((), ["ram"]),
        ((Card(24 * GiB, label="RTX"), Card(8 * GiB)), ["gpu0", "gpu1"]),
        ((Card(24 * GiB), Card(16 * GiB, has_own_memory=False)), ["gpu0"]),
        ((Card(16 * GiB, has_own_memory=False),), ["ram"]),
    ],
)
def test_cards_with_memory_of_their_own_count_before_ram(cards: tuple[Card, ...], counted: list[str]) -> None:
    """An APU's graphics use the RAM, which must not be counted twice."""
    named = {DeviceName(f"gpu{number}"): card for number, card in enumerate(cards)}
    found = devices(Machine({**named, RAM: Pool(64 * GiB)}))

    assert [device.name for device in found] == counted
    assert all(0 < device.reserve < device.memory for device in found)
