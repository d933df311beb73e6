"""What ROCm calls AMD cards: by the unique id in the driver's files, else by their number among its compute nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotseat.hardware.device import Slot
from hotseat.hardware.kernel import figures, text
from hotseat.model_servers.visible_gpus import CardName, Runtime

if TYPE_CHECKING:
    from pathlib import Path


def card_name(folder: Path, sys: Path) -> CardName | None:
    """`folder` is the card's; None if ROCm does not know it."""
    slot = Slot.parse(folder.name)
    for number, node in enumerate(compute_nodes(sys)):
        if slot_of(node) == slot:
            unique = node.get("unique_id", 0) or _unique_id(folder)
            return CardName(Runtime.ROCM, f"GPU-{unique:016x}" if unique else str(number))
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
