"""The interface of all devices, and PCI slots. ram.py, nvidia.py, amd.py and apple.py implement it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotseat.hardware.measurement import DeviceReading, Sensors, Use
    from hotseat.model_servers.visible_gpus import CardName


class Device(Protocol):
    """Something that has memory. No method raises."""

    @property
    def label(self) -> str:
        """A name for people."""

    @property
    def has_own_memory(self) -> bool:
        """False if it uses the machine's RAM."""

    @property
    def card_name(self) -> CardName | None:
        """How a server is told to use it; None if it is no GPU, or if nothing tells a server to use it."""

    def read(self) -> DeviceReading | None:
        """None if it does not answer at present; the next call asks again."""

    def taken_by(self, trees: Mapping[int, Sequence[int]]) -> Mapping[int, Use] | None:
        """What each of these process trees takes, by root; None if the device does not report it."""

    def sensors(self) -> Sensors:
        """What its driver reports at present; of the RAM nothing."""


class Slot(NamedTuple):
    """A card's address on the PCI bus; sorts in bus order."""

    domain: int
    bus: int
    device: int
    function: int

    @classmethod
    def parse(cls, written: str) -> Slot:
        """From `0000:01:00.0`; ValueError for anything else."""
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
        """The number of the slice, if the card is divided; None: the whole card."""
