"""What every kind of device can be asked, and where it sits. ram.py, nvidia.py, amd.py and apple.py are the kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotseat.hardware.measurement import DeviceReading, Use


class Device(Protocol):
    """Something that has memory. Nothing here raises."""

    @property
    def label(self) -> str:
        """What people call it."""

    @property
    def has_own_memory(self) -> bool:
        """False where it works in the machine's RAM."""

    def read(self) -> DeviceReading | None:
        """None where it does not answer any more; it is asked again next time."""

    def taken_by(self, trees: Mapping[int, Sequence[int]]) -> Mapping[int, Use] | None:
        """What each of these process trees takes, by root; None where the device does not tell."""


class Slot(NamedTuple):
    """Where a card sits on the PCI bus; compares as the bus counts."""

    domain: int
    bus: int
    device: int
    function: int

    @classmethod
    def parse(cls, written: str) -> Slot:
        """From `0000:01:00.0`; ValueError where it is something else."""
        domain, bus, rest = written.split(":")
        device, function = rest.split(".")
        return cls(*(int(part, 16) for part in (domain, bus, device, function)))

    def __str__(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}.{self.function:x}"


class Card(Device, Protocol):
    """A GPU."""

    @property
    def slot(self) -> Slot: ...

    @property
    def part(self) -> int | None:
        """Which slice of the card it is, where the card is divided; None: all of it."""
