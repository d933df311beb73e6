"""AMD cards, read from the amdgpu driver's files in /sys: needs no library and no ROCm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotseat.memory.kernel import PROC, SYS, figures, is_hidden, number, open_files, text
from hotseat.memory.measurement import DeviceReading, Sensors, Slot, Use
from hotseat.model_servers.visible_gpus import CardName, Runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hotseat.identifiers import Bytes
    from hotseat.memory.measurement import Device

_CARD = re.compile(r"card\d+")
APU_METRICS = 2
"""From this version of `gpu_metrics` on, the table describes an APU; 1 is a card."""
PERCENT, MILLIDEGREES, MICROWATTS = 100, 1_000, 1_000_000


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


def sensors_of(folder: Path) -> Sensors:
    """Cards differ in what they have: without the temperature at the edge there is that of the hottest spot, and newer
    cards report the present power instead of an average."""
    monitors = sorted((folder / "hwmon").glob("hwmon*"))
    return Sensors(
        _first([folder / "gpu_busy_percent"], PERCENT),
        _first((each / f"temp{place}_input" for each in monitors for place in (1, 2)), MILLIDEGREES),
        _first((each / f"power1_{kind}" for each in monitors for kind in ("average", "input")), MICROWATTS),
    )


def is_powered_down(folder: Path) -> bool:
    """Its other files would wake it."""
    return text(folder / "power/runtime_status").strip() == "suspended"


def _first(files: Iterable[Path], unit: int) -> float | None:
    """The first number in one of these files."""
    found = (number(file) for file in files)
    return next((value / unit for value in found if value is not None), None)


def card_name(folder: Path, sys: Path) -> CardName | None:
    """What ROCm calls it: by the unique id in the driver's files, else by its number among the compute nodes.

    `folder` is the card's; None if ROCm does not know it.
    """
    slot = Slot.parse(folder.name)
    for place, node in enumerate(compute_nodes(sys)):
        if slot_of(node) == slot:
            unique = node.get("unique_id", 0) or _unique_id(folder)
            return CardName(Runtime.ROCM, f"GPU-{unique:016x}" if unique else str(place))
    return None


def compute_nodes(sys: Path) -> list[dict[str, int]]:
    """The properties of each GPU, in ROCm's order; nodes without SIMD units are processors."""
    folder = sys / "class/kfd/kfd/topology/nodes"
    try:
        numbers = sorted(int(each.name) for each in folder.iterdir() if each.name.isdecimal())
    except OSError:  # the kernel has no compute driver
        return []
    nodes = [figures(folder / str(number) / "properties") for number in numbers]
    return [node for node in nodes if node.get("simd_count")]


def slot_of(node: dict[str, int]) -> Slot:
    """The kernel packs bus, device and function into one number."""
    location = node.get("location_id", 0)
    return Slot(node.get("domain", 0), location >> 8 & 0xFF, location >> 3 & 0x1F, location & 0x7)


def _unique_id(folder: Path) -> int:
    """0 for cards without one, and where the file is missing."""
    written = text(folder / "unique_id").strip()
    return int(written, 16) if re.fullmatch(r"(0x)?[0-9a-fA-F]+", written) else 0


def memory_of(pids: Iterable[int], slot: Slot, regions: Sequence[str], proc: Path = PROC) -> Bytes:
    """What these processes hold of a card, from the kernel's fdinfo of each descriptor on /dev/dri.

    A DRM client may be open under several descriptors; it counts once.
    """
    clients: dict[int, Bytes] = {}
    for fields in (figures(path) for pid in pids for path in on_card(pid, slot, proc)):
        client = fields.get("drm-client-id", 0)
        clients[client] = max(clients.get(client, 0), sum(held(fields, region) for region in regions))
    return sum(clients.values())


def on_card(pid: int, slot: Slot, proc: Path) -> Iterator[str]:
    for fd, name in open_files(pid, proc).items():
        path = f"{proc}/{pid}/fdinfo/{fd}"
        if name.startswith("/dev/dri/") and f"drm-pdev:\t{slot}" in text(path):
            yield path


def held(fields: dict[str, Bytes], region: str) -> Bytes:
    """Older kernels call `drm-resident-` `drm-memory-`."""
    return fields.get(f"drm-resident-{region}", fields.get(f"drm-memory-{region}", 0))
