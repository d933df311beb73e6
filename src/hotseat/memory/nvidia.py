"""NVIDIA cards through NVML and its bindings, nvidia-ml-py. No driver error leaves this module.

The library stays open while hotseat runs: opening it can take a second on a card that nobody else uses.
"""

from __future__ import annotations

import ctypes
import logging
from typing import TYPE_CHECKING, Any

from hotseat.memory.kernel import PROC, is_first_pid_namespace, open_files
from hotseat.memory.measurement import DeviceReading, Sensors, Slot, Use
from hotseat.model_servers.visible_gpus import CardName, Runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hotseat.identifiers import Bytes
    from hotseat.memory.measurement import Device

log = logging.getLogger(__name__)

Nvml = Any
"""The module pynvml, which has no types."""


def library(driver: str = "libnvidia-ml.so.1") -> Nvml | None:
    """NVML, initialised; None if there is no driver, which is checked first because the bindings import slowly."""
    try:
        ctypes.CDLL(driver)
        import pynvml
    except (OSError, ImportError):
        return None
    try:
        pynvml.nvmlInit()
        pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        log.info("the NVIDIA driver does not respond error=%r", str(error))
        return None
    return pynvml


def driver_version(nvml: Nvml) -> str:
    """And the newest CUDA that it supports."""
    try:
        cuda = nvml.nvmlSystemGetCudaDriverVersion()
        return f"{nvml.nvmlSystemGetDriverVersion()}, CUDA {cuda // 1000}.{cuda % 1000 // 10}"
    except nvml.NVMLError as error:
        return f"unknown: {error}"


def cards(nvml: Nvml, ram: Device, proc: Path = PROC) -> list[NvidiaCard]:
    """Each card, or each slice of one that is divided by MIG."""
    found: list[NvidiaCard] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            whole = nvml.nvmlDeviceGetHandleByIndex(index)
            found += [NvidiaCard(nvml, handle, whole, part, ram, proc) for part, handle in parts(nvml, whole)]
        except nvml.NVMLError as error:
            log.info("an NVIDIA GPU does not respond and is ignored index=%d error=%r", index, str(error))
    for card in found:
        card.number = sorted({each.slot for each in found}).index(card.slot)
    return found


def parts(nvml: Nvml, whole: Any) -> Iterator[tuple[int | None, Any]]:
    """Number and handle of each MIG slice; the whole card if it has none."""
    try:
        is_divided, _ = nvml.nvmlDeviceGetMigMode(whole)
    except nvml.NVMLError:  # a card without MIG
        is_divided = 0
    if not is_divided:
        yield None, whole
        return
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(whole)):
        try:
            yield number, nvml.nvmlDeviceGetMigDeviceHandleByIndex(whole, number)
        except nvml.NVMLError_NotFound:  # slices may be numbered with gaps
            continue


class NvidiaCard:
    def __init__(self, nvml: Nvml, handle: Any, whole: Any, part: int | None, ram: Device, proc: Path = PROC) -> None:
        self._nvml, self._handle, self._ram, self._proc = nvml, handle, ram, proc
        self.label: str = nvml.nvmlDeviceGetName(handle)
        self.slot = Slot.parse(nvml.nvmlDeviceGetPciInfo(whole).busId)
        self.part = part
        self._uuid = str(self._reported(nvml.nvmlDeviceGetUUID) or "")
        self.number = 0
        """In the order of the PCI bus."""
        self.has_own_memory = self._reports_memory()

    def read(self) -> DeviceReading | None:
        if not self.has_own_memory:
            return self._ram.read()
        try:
            return self._memory()
        except self._nvml.NVMLError:
            return None

    @property
    def card_name(self) -> CardName | None:
        number = self.number if self.part is None else None
        return CardName(Runtime.CUDA, self._uuid, number) if self._uuid else None

    def sensors(self) -> Sensors:
        """None of a slice: the driver has them for the whole card only."""
        nvml = self._nvml
        use = self._reported(nvml.nvmlDeviceGetUtilizationRates)
        celsius = self._reported(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU)
        milliwatts = self._reported(nvml.nvmlDeviceGetPowerUsage)
        return Sensors(use and use.gpu / 100, celsius, milliwatts and milliwatts / 1000)

    def _reported(self, ask: Callable[..., Any], *what: object) -> Any:
        """None: the driver does not report it."""
        try:
            return ask(self._handle, *what)
        except self._nvml.NVMLError:
            return None

    def _reports_memory(self) -> bool:
        """GB10 and Jetson do not: they have no memory of their own and use the machine's."""
        try:
            self._memory()
        except self._nvml.NVMLError_NotSupported:
            return False
        return True

    def _memory(self) -> DeviceReading:
        try:
            info = self._nvml.nvmlDeviceGetMemoryInfo(self._handle, version=self._nvml.nvmlMemory_v2)
            return DeviceReading(info.total - info.reserved, info.free)
        except self._nvml.NVMLError_FunctionNotFound:  # drivers before 510 count their own share as used
            info = self._nvml.nvmlDeviceGetMemoryInfo(self._handle)
            return DeviceReading(info.total, info.free)

    def taken_by(self, trees: Mapping[int, Sequence[int]]) -> Mapping[int, Use] | None:
        """None in a container whose processes the driver knows by other pids, and under WSL."""
        try:
            listed = self._listed()
        except self._nvml.NVMLError:
            return None
        known = {root: [pid for pid in pids if pid in listed and self._means(pid)] for root, pids in trees.items()}
        ours = [pid for pids in known.values() for pid in pids]
        if not ours and not is_first_pid_namespace(self._proc):
            return None
        if any(listed[pid] is None for pid in ours):
            return None
        return {root: Use(sum(listed[pid] or 0 for pid in pids)) for root, pids in known.items() if pids}

    def _listed(self) -> dict[int, Bytes | None]:
        """Memory by pid; a process that uses compute and graphics is in both lists with the same figure."""
        computing = self._nvml.nvmlDeviceGetComputeRunningProcesses_v3(self._handle)
        try:
            drawing = self._nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(self._handle)
        except self._nvml.NVMLError_NotSupported:  # a card without graphics
            drawing = []
        return {process.pid: process.usedGpuMemory for process in (*computing, *drawing)}

    def _means(self, pid: int) -> bool:
        """Whether the driver's pid is the process that we know by it. In a container the driver may report the host's
        pids, depending on its version; a process that uses the card has it open.
        """
        if is_first_pid_namespace(self._proc):
            return True
        return any(name.startswith("/dev/nvidia") for name in open_files(pid, self._proc).values())
