"""Macs, from the numbers that sysctl returns there."""

from __future__ import annotations

import pytest
from tests.support.machines import GiB

from hotseat.memory.apple import MacRam, cards, sysctl
from hotseat.memory.machine import named
from hotseat.memory.measurement import DeviceReading, Sensors

MAC = {
    "hw.memsize": 64 * GiB,
    "vm.pagesize": 16384,
    "vm.page_free_count": GiB // 16384,
    "vm.page_pageable_external_count": 20 * GiB // 16384,
    "vm.page_purgeable_count": 2 * GiB // 16384,
    "iogpu.wired_limit_mb": 0,
}


def test_files_in_memory_count_as_free() -> None:
    """Free, cached and purgeable pages are available at once."""
    assert MacRam(MAC.get).read() == DeviceReading(64 * GiB, 23 * GiB)


@pytest.mark.parametrize(
    ("memory", "wired_mb", "limit"),
    [(16 * GiB, 0, 16 * GiB * 2 // 3), (64 * GiB, 0, 48 * GiB), (64 * GiB, 57344, 56 * GiB)],
)
def test_the_gpu_has_a_part_of_the_ram(memory: int, wired_mb: int, limit: int) -> None:
    """The operator's limit, else macOS's; and never more than is free."""
    values = {**MAC, "hw.memsize": memory, "iogpu.wired_limit_mb": wired_mb}
    (gpu,) = cards(MacRam(values.get), values.get)

    assert gpu.read() == DeviceReading(limit, min(limit, 16 * GiB if memory == 16 * GiB else 23 * GiB))
    assert list(named([gpu])) == ["gpu0"]


def test_a_mac_tells_nothing_of_its_sensors() -> None:
    """sysctl has neither use nor temperature nor power."""
    ram = MacRam(MAC.get)
    (gpu,) = cards(ram, MAC.get)

    assert gpu.sensors() == ram.sensors() == Sensors()


def test_memory_per_process_is_unknown() -> None:
    """macOS does not report memory per process, so the devices are silent."""
    ram = MacRam(MAC.get)
    (gpu,) = cards(ram, MAC.get)

    assert (ram.taken_by({40: [40]}), gpu.taken_by({40: [40]})) == (None, None)


def test_a_mac_without_an_apple_gpu_has_its_ram() -> None:
    """An Intel Mac does not have the limit."""
    values = {name: value for name, value in MAC.items() if not name.startswith("iogpu")}

    assert cards(MacRam(values.get), values.get) == []


def test_what_cannot_be_asked_is_unknown() -> None:
    """On other systems, and for unknown names, there is no number and no error."""
    nothing: dict[str, int] = {}
    (gpu,) = cards(MacRam(nothing.get), MAC.get)

    assert sysctl("no.such.name") is None
    assert (MacRam(nothing.get).read(), gpu.read()) == (None, None)
