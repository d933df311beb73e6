"""Fake machines: trees of small files as in /proc and /sys, and devices of a given size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotseat.memory.measurement import DeviceReading, Sensors, Slot, Use

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hotseat.model_servers.visible_gpus import CardName

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30
MACHINES_OWN = "pid:[4026531836]"
A_CONTAINERS = "pid:[4026532574]"


@dataclass
class Pool:
    """A device with a given reading."""

    total: int = 64 * GiB
    free: int = 48 * GiB
    taken: Mapping[int, Use] | None = None
    label: str = "a pool"
    has_own_memory: bool = True
    card_name: CardName | None = None
    reported: Sensors = field(default_factory=Sensors)

    def read(self) -> DeviceReading | None:
        return DeviceReading(self.total, self.free)

    def taken_by(self, trees: Mapping[int, Sequence[int]]) -> Mapping[int, Use] | None:
        return self.taken

    def sensors(self) -> Sensors:
        return self.reported


def write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def add_process(
    proc: Path,
    pid: int,
    parent: int = 1,
    session: int | None = None,
    name: str = "server",
    command: str = "",
    start: int = 0,
) -> None:
    before_start = "0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0"
    write(proc / f"{pid}/stat", f"{pid} ({name}) S {parent} {pid} {session or pid} {before_start} {start}")
    write(proc / f"{pid}/cmdline", "".join(f"{word}\0" for word in command.split()))


def add_card(
    sys: Path, slot: str, vram: tuple[int, int], gtt: tuple[int, int] = (0, 0), metrics: int = 1, number: int = 0
) -> Path:
    """An AMD card with (total, used) of both its pools; returns its folder."""
    folder = sys / "devices/pci0000:00" / slot
    for pool, (total, used) in (("vram", vram), ("gtt", gtt)):
        write(folder / f"mem_info_{pool}_total", f"{total}\n")
        write(folder / f"mem_info_{pool}_used", f"{used}\n")
    write(folder / "device", "0x744c\n")
    write(folder / "gpu_metrics", bytes([128, 0, metrics, 3]))
    link(sys / f"class/drm/card{number}/device", f"../../../devices/pci0000:00/{slot}")
    return folder


def add_compute_node(sys: Path, number: int, slot: str = "", unique_id: int = 0) -> None:
    """A node of ROCm's kernel driver: a card, or without a slot a processor."""
    at = Slot.parse(slot) if slot else Slot(0, 0, 0, 0)
    location = at.bus << 8 | at.device << 3 | at.function
    lines = {"cpu_cores_count": 0 if slot else 16, "simd_count": 192 if slot else 0}
    lines |= {"location_id": location, "domain": at.domain}
    lines |= {"unique_id": unique_id} if unique_id else {}
    text = "".join(f"{name} {value}\n" for name, value in lines.items())
    write(sys / f"class/kfd/kfd/topology/nodes/{number}/properties", text)


def open_client(proc: Path, pid: int, fd: int, slot: str, client: int, figures: str) -> None:
    """A descriptor on a card, with the kernel's fdinfo."""
    link(proc / f"{pid}/fd/{fd}", "/dev/dri/renderD128")
    head = f"pos:\t0\nflags:\t02100002\nmnt_id:\t27\ndrm-driver:\tamdgpu\ndrm-client-id:\t{client}\ndrm-pdev:\t{slot}\n"
    write(proc / f"{pid}/fdinfo/{fd}", head + figures)
