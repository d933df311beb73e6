"""Use, temperature and power of an AMD card, from the amdgpu driver's files in /sys.

Cards differ in what they have: without the temperature at the edge there is that of the hottest spot, and newer cards
report the present power instead of an average.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.hardware.kernel import number, text
from hotseat.hardware.measurement import Sensors

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PERCENT, MILLIDEGREES, MICROWATTS = 100, 1_000, 1_000_000


def sensors_of(folder: Path) -> Sensors:
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
