"""Macs: one memory for processor and GPU, read with sysctl, which does not report memory per process."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, TypeAlias

from hotseat.memory.measurement import DeviceReading, Sensors, Slot
from hotseat.model_servers.visible_gpus import CardName, Runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotseat.identifiers import Bytes
    from hotseat.memory.measurement import Use

Sysctl: TypeAlias = "Callable[[str], int | None]"

GiB = 1 << 30
HAD_AT_ONCE = ("vm.page_free_count", "vm.page_pageable_external_count", "vm.page_purgeable_count")
"""Pages that are free, hold files, or are marked purgeable."""


def sysctl(name: str) -> int | None:
    """A number from the kernel; None if it does not know the name."""
    value = ctypes.c_uint64()
    size = ctypes.c_size_t(ctypes.sizeof(value))
    try:
        failed = ctypes.CDLL(None).sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, 0)
    except AttributeError:  # not a Mac
        return None
    return None if failed else value.value


class MacRam:
    label, has_own_memory, card_name = "this machine's RAM", True, None

    def __init__(self, ask: Sysctl = sysctl) -> None:
        self._ask = ask

    def read(self) -> DeviceReading | None:
        total, page, *pages = (self._ask(name) for name in ("hw.memsize", "vm.pagesize", *HAD_AT_ONCE))
        if total is None or page is None:
            return None
        return DeviceReading(total, min(total, page * sum(count or 0 for count in pages)))

    def taken_by(self, trees: Mapping[int, Sequence[int]]) -> Mapping[int, Use] | None:
        return None

    def sensors(self) -> Sensors:
        return Sensors()


class AppleGpu:
    """The part of the RAM that the GPU may wire."""

    label, slot, part, has_own_memory = "Apple GPU", Slot(0, 0, 0, 0), None, False
    card_name = CardName(Runtime.METAL, "0")

    def __init__(self, ram: MacRam, ask: Sysctl = sysctl) -> None:
        self._ram, self._ask = ram, ask

    def read(self) -> DeviceReading | None:
        ram = self._ram.read()
        if ram is None:
            return None
        limit = self._limit(ram.total)
        return DeviceReading(limit, min(limit, ram.free))

    def _limit(self, memory: Bytes) -> Bytes:
        """The operator's setting, else the least that macOS has always allowed; newer versions allow more."""
        if wired_mb := self._ask("iogpu.wired_limit_mb"):
            return wired_mb << 20
        return memory * 2 // 3 if memory <= 36 * GiB else memory * 3 // 4

    def taken_by(self, trees: Mapping[int, Sequence[int]]) -> Mapping[int, Use] | None:
        return None

    def sensors(self) -> Sensors:
        return Sensors()


def cards(ram: MacRam, ask: Sysctl = sysctl) -> list[AppleGpu]:
    """There is an Apple GPU if its limit can be read."""
    return [] if ask("iogpu.wired_limit_mb") is None else [AppleGpu(ram, ask)]
