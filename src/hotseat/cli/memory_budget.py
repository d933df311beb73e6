"""The memory that a first configuration may use: that of GPUs with memory of their own, else the RAM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.identifiers import RAM
from hotseat.memory.machine import find_machine

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes
    from hotseat.memory.machine import Machine

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    memory: Bytes
    label: str = ""

    @property
    def is_gpu(self) -> bool:
        return self.name != RAM

    @property
    def reserve(self) -> Bytes:
        """Memory left for the desktop or the driver on a GPU, and for everything else on the machine."""
        return min(self.memory // 8, GIB) if self.is_gpu else min(self.memory // 4, 4 * GIB)


def devices(machine: Machine | None = None) -> list[Device]:
    """A card that uses the machine's RAM has no budget of its own: the RAM is counted instead."""
    machine = machine or find_machine()
    labels, borrowers = machine.labels, machine.borrowers
    found = {name: Device(name, seen.total, labels[name]) for name, seen in machine.devices().items()}
    cards = [device for name, device in found.items() if device.is_gpu and name not in borrowers]
    return cards or [found[RAM]]
