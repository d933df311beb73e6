"""The versions of the GPU drivers, for reports."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from hotseat.hardware import nvidia
from hotseat.hardware.kernel import SYS, text

if TYPE_CHECKING:
    from pathlib import Path


def driver_versions(sys: Path = SYS) -> dict[str, str]:
    """By vendor; empty without a driver."""
    nvml = nvidia.library()
    found = {"NVIDIA": nvidia.driver_version(nvml) if nvml else "", "AMD": _amd(sys)}
    return {vendor: version for vendor, version in found.items() if version}


def _amd(sys: Path) -> str:
    folder = sys / "module/amdgpu"
    if not folder.is_dir():
        return ""
    # Only the driver outside the kernel has a version of its own.
    return text(folder / "version").strip() or f"of Linux {platform.release()}"
