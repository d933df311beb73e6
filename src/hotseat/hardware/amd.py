"""AMD cards, read from the amdgpu driver's files in /sys: needs no library and no ROCm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotseat.hardware.amd_sensors import is_powered_down, sensors_of
from hotseat.hardware.device import Slot
from hotseat.hardware.drm import memory_of
from hotseat.hardware.kernel import PROC, SYS, is_hidden, number, text
from hotseat.hardware.measurement import DeviceReading, Sensors, Use
from hotseat.hardware.rocm import card_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hotseat.hardware.device import Device
    from hotseat.model_servers.visible_gpus import CardName

_CARD = re.compile(r"card\d+")
APU_METRICS = 2
"""From this version of `gpu_metrics` on, the table describes an APU; 1 is a card."""


def cards(ram: Device, sys: Path = SYS, proc: Path = PROC) -> list[AmdCard]:
    folder = sys / "class/drm"
    if not folder.is_dir():
        return []
    devices = {(each / "device").resolve() for each in folder.iterdir() if _CARD.fullmatch(each.name)}
    folders = [device for device in sorted(devices) if (device / "mem_info_vram_total").exists()]
    return [AmdCard(device, ram, proc, card_name(device, sys)) for device in folders]


class AmdCard:
    part = None

    def __init__(self, folder: Path, ram: Device, proc: Path = PROC, card_name: CardName | None = None) -> None:
        self._folder, self._ram, self._proc = folder, ram, proc
        self.card_name = card_name
        self.slot = Slot.parse(folder.name)
        self.label = text(folder / "product_name").strip() or f"AMD GPU {text(folder / 'device').strip()}"
        self.has_own_memory = not is_apu(folder)

    def read(self) -> DeviceReading | None:
        own = self._pool("vram")
        if own is None or self.has_own_memory:
            return own
        # An APU has a fixed part of the RAM and borrows the rest of what it needs.
        borrowed, ram = self._pool("gtt"), self._ram.read()
        if borrowed is None or ram is None:
            return own
        return DeviceReading(own.total + borrowed.total, own.free + min(borrowed.free, ram.free))

    def _pool(self, name: str) -> DeviceReading | None:
        total = number(self._folder / f"mem_info_{name}_total")
        used = number(self._folder / f"mem_info_{name}_used")
        return None if total is None or used is None else DeviceReading(total, max(0, total - used))

    def taken_by(self, trees: Mapping[int, Sequence[int]]) -> Mapping[int, Use] | None:
        """None if one of the processes is another user's, for example root's in a container."""
        if any(is_hidden(pid, self._proc) for pids in trees.values() for pid in pids):
            return None
        regions = ("vram",) if self.has_own_memory else ("vram", "gtt")
        taken = {root: memory_of(pids, self.slot, regions, self._proc) for root, pids in trees.items()}
        return {root: Use(bytes_) for root, bytes_ in taken.items() if bytes_}

    def sensors(self) -> Sensors:
        return Sensors() if is_powered_down(self._folder) else sensors_of(self._folder)


def is_apu(folder: Path) -> bool:
    """The header of the metrics table is a size of two bytes, then its version."""
    try:
        return (folder / "gpu_metrics").read_bytes()[2] >= APU_METRICS
    except (OSError, IndexError):
        return False
