"""The versions of drivers, for reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.machines import write
from tests.support.nvml import Driver, Gpu

from hotseat.hardware.drivers import driver_versions
from hotseat.hardware.nvidia import driver_version

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    Install = Callable[[Driver], Any]


def test_a_machine_without_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to report."""
    monkeypatch.setattr("hotseat.hardware.nvidia.library", lambda: None)

    assert driver_versions(tmp_path) == {}


def test_both_drivers(tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA's has the CUDA that it supports; AMD's has a version if it is not the kernel's own."""
    nvml = install(Driver(Gpu()))
    monkeypatch.setattr("hotseat.hardware.nvidia.library", lambda: nvml)
    (tmp_path / "module/amdgpu").mkdir(parents=True)
    of_kernel = driver_versions(tmp_path)
    write(tmp_path / "module/amdgpu/version", "6.12.12\n")

    assert driver_versions(tmp_path) == {"NVIDIA": "580.65.06, CUDA 13.0", "AMD": "6.12.12"}
    assert of_kernel["AMD"].startswith("of Linux ")


def test_a_driver_that_does_not_say(install: Install) -> None:
    """The report goes on without it."""
    assert driver_version(install(Driver(lacks=("nvmlSystemGetCudaDriverVersion",)))).startswith("unknown: ")
