"""Measures the devices of this machine under stable names, and gives each its default budget.

Blocks; meter.py does not."""

from __future__ import annotations

import logging
import platform
import sys
from typing import TYPE_CHECKING, Protocol

from hotseat.identifiers import RAM, DeviceName
from hotseat.memory import amd, apple, nvidia
from hotseat.memory.kernel import PROC, SYS, text
from hotseat.memory.measurement import Reading, Sensors
from hotseat.memory.processes import census, trees, with_containers
from hotseat.memory.ram import Ram
from hotseat.model_servers.remote_launchers import ELSEWHERE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from hotseat.identifiers import Bytes
    from hotseat.memory.measurement import Card, Device, DeviceReading, Use
    from hotseat.model_servers.visible_gpus import CardName

log = logging.getLogger(__name__)
RAM_KEPT = 8
"""One part in so many of the RAM is left to other programs."""
CARD_KEPT: Bytes = 256 << 20
"""Left free on a card, for what a server takes beyond its buffers and for the desktop."""


class Meter(Protocol):
    """Measures devices. Each call may take milliseconds, and none raises."""

    def devices(self) -> Mapping[DeviceName, DeviceReading]:
        """Every device that answers."""

    def sample(self, roots: Collection[int]) -> Reading:
        """Every device that answers, and what the process trees with these roots take."""

    def sensors(self) -> Mapping[DeviceName, Sensors]:
        """Of each GPU whose driver reports something."""


class Machine:
    """The meter of real devices."""

    def __init__(self, devices: Mapping[DeviceName, Device], proc: Path = PROC) -> None:
        self._devices, self._proc = devices, proc

    @property
    def labels(self) -> dict[DeviceName, str]:
        return {name: device.label for name, device in self._devices.items()}

    @property
    def borrowers(self) -> frozenset[DeviceName]:
        """Cards that use the machine's RAM: their bytes and those of `ram` are the same."""
        return frozenset(name for name, device in self._devices.items() if not device.has_own_memory)

    @property
    def card_names(self) -> dict[DeviceName, CardName]:
        """How servers are told to use a card; asks no driver."""
        return {name: card for name, device in self._devices.items() if (card := device.card_name)}

    def devices(self) -> dict[DeviceName, DeviceReading]:
        return {name: reading for name, device in self._devices.items() if (reading := device.read())}

    def sensors(self) -> dict[DeviceName, Sensors]:
        reported = {name: device.sensors() for name, device in self._devices.items()}
        return {name: sensors for name, sensors in reported.items() if sensors != Sensors()}

    def sample(self, roots: Collection[int]) -> Reading:
        everybody = census(self._proc) if roots else {}
        grown = trees(roots, everybody)
        apart = {root: pids for root, pids in grown.items() if any(everybody[p].name in ELSEWHERE for p in pids)}
        found = with_containers(apart, everybody, self._proc)
        elsewhere = tuple(root for root in apart if root not in found)
        here = {root: pids for root, pids in {**grown, **found}.items() if root not in elsewhere}
        taken = {name: device.taken_by(here) for name, device in self._devices.items()}
        silent = tuple(name for name, uses in taken.items() if uses is None)
        return Reading(self.devices(), by_root(here, taken), silent, elsewhere)


def by_root(
    roots: Iterable[int], taken: Mapping[DeviceName, Mapping[int, Use] | None]
) -> dict[int, dict[DeviceName, Use]]:
    return {root: {name: uses[root] for name, uses in taken.items() if uses and root in uses} for root in roots}


def find_machine() -> Machine:
    """Detect and log the devices; without a driver there is still the RAM."""
    machine = Machine(_devices_of_mac() if sys.platform == "darwin" else _devices_of_linux())
    labels = machine.labels
    found = (f"{name}={f'{labels[name]}, {_gib(seen)}'!r}" for name, seen in machine.devices().items())
    log.info("devices found %s", " ".join(found) or "none")
    return machine


def _devices_of_linux() -> dict[DeviceName, Device]:
    ram = Ram()
    nvml = nvidia.library()
    nvidias = nvidia.cards(nvml, ram) if nvml else []
    return {**named([*nvidias, *amd.cards(ram)]), RAM: ram}


def _devices_of_mac() -> dict[DeviceName, Device]:
    ram = apple.MacRam()
    return {**named(apple.cards(ram)), RAM: ram}


def named(cards: Iterable[Card]) -> dict[DeviceName, Device]:
    """gpu0, gpu1 … in bus order, cards that borrow the machine's RAM last; gpu0.1 is a slice of gpu0."""
    ordered = sorted(cards, key=lambda card: (not card.has_own_memory, card.slot, card.part or 0))
    numbers = {slot: number for number, slot in enumerate(dict.fromkeys(card.slot for card in ordered))}
    return {DeviceName(f"gpu{numbers[card.slot]}{_suffix(card)}"): card for card in ordered}


def _suffix(card: Card) -> str:
    return "" if card.part is None else f".{card.part}"


def _gib(seen: DeviceReading) -> str:
    return f"{seen.total / (1 << 30):.1f} GiB"


def budgets_of(seen: Mapping[DeviceName, DeviceReading], borrowers: Collection[DeviceName]) -> dict[DeviceName, Bytes]:
    """Each byte is budgeted once: cards with memory of their own and the RAM, or the one card that borrows the RAM."""
    own = {name: reading for name, reading in seen.items() if name not in borrowers and name != RAM}
    borrowed = next((name for name in seen if name in borrowers), None)
    if not own and borrowed is not None:
        return {borrowed: _without_share(seen[borrowed].total)}
    cards = {name: reading.total - CARD_KEPT for name, reading in own.items() if reading.total > CARD_KEPT}
    return {**cards, **({RAM: _without_share(seen[RAM].total)} if RAM in seen else {})}


def _without_share(total: Bytes) -> Bytes:
    return total - total // RAM_KEPT


def driver_versions(sys: Path = SYS) -> dict[str, str]:
    """Of the GPU drivers, by vendor, for reports; empty without a driver."""
    nvml = nvidia.library()
    found = {"NVIDIA": nvidia.driver_version(nvml) if nvml else "", "AMD": _amdgpu_version(sys)}
    return {vendor: version for vendor, version in found.items() if version}


def _amdgpu_version(sys: Path) -> str:
    folder = sys / "module/amdgpu"
    if not folder.is_dir():
        return ""
    # Only the driver outside the kernel has a version of its own.
    return text(folder / "version").strip() or f"of Linux {platform.release()}"
