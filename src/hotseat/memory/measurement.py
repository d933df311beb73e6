"""PURE: measurements as plain data, what follows from them, and the interface of all devices.

machine.py makes them; ram.py, nvidia.py, amd.py and apple.py have the devices.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hotseat.catalog.spec import NOTHING
from hotseat.identifiers import ANY_GPU, RAM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotseat.identifiers import Bytes, DeviceName
    from hotseat.model_servers.visible_gpus import CardName


@dataclass(frozen=True, slots=True)
class Use:
    """What a process tree takes of one device.

    File-backed pages belong to the page cache: other processes may share them, and the kernel may reclaim them.
    On a GPU everything is anonymous.
    """

    anonymous: Bytes = 0
    file_backed: Bytes = 0

    @property
    def total(self) -> Bytes:
        return self.anonymous + self.file_backed

    def __add__(self, other: Use) -> Use:
        return Use(self.anonymous + other.anonymous, self.file_backed + other.file_backed)

    def __or__(self, other: Use) -> Use:
        """The maximum of each kind."""
        return Use(max(self.anonymous, other.anonymous), max(self.file_backed, other.file_backed))


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """Memory that programs may use; what a driver keeps for itself is not part of `total`."""

    total: Bytes
    free: Bytes

    @property
    def used(self) -> Bytes:
        return self.total - self.free

    def at_most(self, other: DeviceReading) -> DeviceReading:
        """The tighter of two limits on the same memory."""
        total = min(self.total, other.total)
        return DeviceReading(total, max(0, min(total, self.free, other.free)))


@dataclass(frozen=True, slots=True)
class Sensors:
    """What a driver reports of a GPU besides its memory; None: it does not."""

    utilization: float | None = None
    """The share of time in which the GPU computed, from 0 to 1; the driver chooses the interval."""
    celsius: float | None = None
    watts: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One measurement of the machine. A device that does not answer is missing."""

    devices: Mapping[DeviceName, DeviceReading] = field(default_factory=lambda: NOTHING)
    processes: Mapping[int, Mapping[DeviceName, Use]] = field(default_factory=lambda: NOTHING)
    """What each requested pid takes together with all its descendants."""
    silent: tuple[DeviceName, ...] = ()
    """Devices that do not report who uses them."""
    elsewhere: tuple[int, ...] = ()
    """Requested pids whose servers run in processes that we cannot see, for example in a container."""

    def foreign(self) -> dict[DeviceName, Bytes]:
        """What processes other than the requested ones use. A device that does not report its users is missing, and all
        are if the processes of one of our servers cannot be seen, because it would count as foreign.

        The page cache does not count as used, so only anonymous memory is subtracted.
        """
        if self.elsewhere:
            return {}
        reporting = {name: seen for name, seen in self.devices.items() if name not in self.silent}
        return {name: max(0, seen.used - self._anonymous_on(name)) for name, seen in reporting.items()}

    def available(self) -> dict[DeviceName, Bytes]:
        """What models may use: each device without what other programs are known to use."""
        foreign = self.foreign()
        return {name: seen.total - foreign.get(name, 0) for name, seen in self.devices.items()}

    def _anonymous_on(self, device: DeviceName) -> Bytes:
        return sum(uses[device].anonymous for uses in self.processes.values() if device in uses)


def folded(reading: Reading, ram: DeviceName, into: DeviceName) -> Reading:
    """For a machine whose GPU uses the RAM: what a process takes of both counts on the GPU."""
    both = {pid: uses.get(ram, Use()) + uses.get(into, Use()) for pid, uses in reading.processes.items()}
    return replace(reading, processes={pid: {**uses, into: both[pid]} for pid, uses in reading.processes.items()})


def on_any_gpu(uses: Mapping[DeviceName, Use]) -> dict[DeviceName, Use]:
    """For a model whose cards are chosen at each start: what it takes of all cards together, and of the RAM."""
    cards = [use for device, use in uses.items() if device != RAM]
    together = {ANY_GPU.device: sum(cards, Use())} if cards else {}
    return {**together, **({RAM: uses[RAM]} if RAM in uses else {})}


def footprint(pid: int, now: Reading, before: Reading) -> dict[DeviceName, Use]:
    """What a server takes, by its process tree; if the device does not report that, by how much less is free than
    `before`. That difference is this server's only if nothing else started, ended or grew meanwhile; the caller knows.
    """
    unreported = now.devices if pid in now.elsewhere else now.silent
    compared = [device for device in unreported if device in before.devices and device in now.devices]
    shrunk = {device: before.devices[device].free - now.devices[device].free for device in compared}
    return {**now.processes.get(pid, NOTHING), **{device: Use(max(0, bytes_)) for device, bytes_ in shrunk.items()}}


def merged(*several: Mapping[DeviceName, Use]) -> dict[DeviceName, Use]:
    """The maximum, device by device."""
    most: dict[DeviceName, Use] = {}
    for uses in several:
        most |= {device: use | most.get(device, Use()) for device, use in uses.items()}
    return most


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
