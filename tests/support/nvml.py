"""A fake libnvidia-ml.so at its C interface, below the real bindings.

Its answers follow NVML's header and what owners report of their machines; they were not recorded from a card. The
bindings (pynvml) are real, so the tests cover their structures, versions and error classes.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import pynvml

SUCCESS: int = pynvml.NVML_SUCCESS
NOT_SUPPORTED: int = pynvml.NVML_ERROR_NOT_SUPPORTED
NOT_FOUND: int = pynvml.NVML_ERROR_NOT_FOUND
TOO_SMALL: int = pynvml.NVML_ERROR_INSUFFICIENT_SIZE
WRONG_VERSION: int = pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
NOT_AVAILABLE = (1 << 64) - 1


@dataclass
class Gpu:
    """A card, or a slice of one."""

    name: str = "NVIDIA GeForce RTX 4090"
    bus: str = "00000000:01:00.0"
    uuid: str = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
    total: int = 24 << 30
    reserved: int = 512 << 20
    used: int = 0
    computing: dict[int, int] = field(default_factory=dict)
    drawing: dict[int, int] = field(default_factory=dict)
    has_memory: bool = True
    """False: unified memory, as on GB10."""
    slices: dict[int, Gpu] = field(default_factory=dict)
    """By number: MIG is on."""
    use: int | None = 37
    """In percent; None: not supported, as on slices."""
    celsius: int | None = 61
    milliwatts: int | None = 212_500
    error: int = SUCCESS
    """The result of every call about this card."""


class Driver:
    """Replaces the loaded library: its attributes are the exported functions."""

    def __init__(self, *gpus: Gpu, lacks: tuple[str, ...] = (), starts: int = SUCCESS) -> None:
        self._gpus, self._lacks, self._starts = gpus, lacks, starts
        self._handles: dict[int, Gpu] = {}

    def __getattr__(self, name: str) -> Any:
        if name in self._lacks or not name.startswith("nvml"):
            raise AttributeError(name)
        return getattr(self, f"do_{name}")

    # The library as a whole

    def do_nvmlInitWithFlags(self, flags: int) -> int:
        return self._starts

    def do_nvmlSystemGetDriverVersion(self, version: Any, size: Any) -> int:
        version.value = b"580.65.06"
        return self._starts

    def do_nvmlSystemGetCudaDriverVersion(self, version: Any) -> int:
        version._obj.value = 13000
        return self._starts

    def do_nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self._gpus)
        return SUCCESS

    def do_nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        gpu = self._gpus[index.value]
        return gpu.error or self._hand_out(gpu, handle)

    def _hand_out(self, gpu: Gpu, handle: Any) -> int:
        number = next((n for n, known in self._handles.items() if known is gpu), len(self._handles) + 1)
        self._handles[number] = gpu
        ctypes.c_void_p.from_buffer(handle._obj).value = number
        return SUCCESS

    def _gpu(self, handle: Any) -> Gpu:
        return self._handles[ctypes.cast(handle, ctypes.c_void_p).value or 0]

    # One card

    def do_nvmlDeviceGetName(self, handle: Any, name: Any, size: Any) -> int:
        name.value = self._gpu(handle).name.encode()
        return self._gpu(handle).error

    def do_nvmlDeviceGetUUID(self, handle: Any, uuid: Any, size: Any) -> int:
        uuid.value = self._gpu(handle).uuid.encode()
        return self._gpu(handle).error if uuid.value else NOT_SUPPORTED

    def do_nvmlDeviceGetPciInfo_v3(self, handle: Any, info: Any) -> int:
        info._obj.busId = self._gpu(handle).bus.encode()
        return self._gpu(handle).error

    def do_nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        gpu = self._gpu(handle)
        memory._obj.total, memory._obj.used = gpu.total, gpu.used + gpu.reserved
        memory._obj.free = gpu.total - gpu.used - gpu.reserved
        return gpu.error if gpu.has_memory else NOT_SUPPORTED

    def do_nvmlDeviceGetMemoryInfo_v2(self, handle: Any, memory: Any) -> int:
        gpu = self._gpu(handle)
        if memory._obj.version != pynvml.nvmlMemory_v2:
            return WRONG_VERSION
        memory._obj.total, memory._obj.reserved, memory._obj.used = gpu.total, gpu.reserved, gpu.used
        memory._obj.free = gpu.total - gpu.used - gpu.reserved
        return gpu.error if gpu.has_memory else NOT_SUPPORTED

    def do_nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, listed: Any) -> int:
        gpu = self._gpu(handle)
        return gpu.error or write_list(gpu.computing, count, listed)

    def do_nvmlDeviceGetGraphicsRunningProcesses_v3(self, handle: Any, count: Any, listed: Any) -> int:
        gpu = self._gpu(handle)
        return (NOT_SUPPORTED if "A100" in gpu.name else gpu.error) or write_list(gpu.drawing, count, listed)

    def do_nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> int:
        rates._obj.gpu = self._gpu(handle).use or 0
        return self._reported(handle, self._gpu(handle).use)

    def do_nvmlDeviceGetTemperature(self, handle: Any, sensor: Any, celsius: Any) -> int:
        celsius._obj.value = self._gpu(handle).celsius or 0
        return self._reported(handle, self._gpu(handle).celsius)

    def do_nvmlDeviceGetPowerUsage(self, handle: Any, milliwatts: Any) -> int:
        milliwatts._obj.value = self._gpu(handle).milliwatts or 0
        return self._reported(handle, self._gpu(handle).milliwatts)

    def _reported(self, handle: Any, figure: int | None) -> int:
        return NOT_SUPPORTED if figure is None else self._gpu(handle).error

    # MIG

    def do_nvmlDeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> int:
        current._obj.value = pending._obj.value = int(bool(self._gpu(handle).slices))
        is_able = "GeForce" not in self._gpu(handle).name
        return SUCCESS if is_able else NOT_SUPPORTED

    def do_nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, count: Any) -> int:
        count._obj.value = 7
        return SUCCESS

    def do_nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, part: Any) -> int:
        found = self._gpu(handle).slices.get(index.value)
        return self._hand_out(found, part) if found else NOT_FOUND


def write_list(processes: dict[int, int], count: Any, listed: Any) -> int:
    """NVML's convention for lists: too small a buffer is an error that returns the required size."""
    capacity, count._obj.value = count._obj.value, len(processes)
    if capacity < len(processes):
        return TOO_SMALL
    for place, (pid, used) in zip(listed or (), processes.items(), strict=False):
        place.pid, place.usedGpuMemory = pid, used
    return SUCCESS
