"""The devices of this machine: their names and the versions of their drivers."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.machines import GiB, MiB, Pool, add_process, write
from tests.support.nvml import Driver, Gpu

from hotseat.identifiers import RAM, DeviceName
from hotseat.memory.machine import Machine, driver_versions, find_machine, named
from hotseat.memory.measurement import DeviceReading, Sensors, Slot, Use
from hotseat.memory.nvidia import driver_version
from hotseat.memory.ram import Ram

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    Install = Callable[[Driver], Any]

GPU = DeviceName("gpu0")


@dataclass
class Plugged(Pool):
    """A card on the bus."""

    slot: Slot = field(default_factory=lambda: Slot(0, 1, 0, 0))
    part: int | None = None
    has_own_memory: bool = True


def test_cards_are_numbered_as_the_bus_counts() -> None:
    """The order of drivers and of text does not matter; APUs come last, whatever their slot."""
    far, near = Plugged(slot=Slot.parse("0000:a1:00.0")), Plugged(slot=Slot.parse("00000000:0A:00.0"))
    borrows = Plugged(slot=Slot.parse("0000:05:00.0"), has_own_memory=False)
    found = named([far, borrows, near])

    assert found == {"gpu0": near, "gpu1": far, "gpu2": borrows}


def test_one_look_sees_devices_and_trees(proc: Path) -> None:
    """The figures of each device are combined by process; a device that reports none is silent."""
    add_process(proc, 40)
    add_process(proc, 41)
    devices = {
        GPU: Pool(24 * GiB, 10 * GiB, {40: Use(9 * GiB)}),
        DeviceName("gpu1"): Pool(8 * GiB, GiB, None),
        RAM: Pool(64 * GiB, 32 * GiB, {40: Use(GiB, 2), 41: Use(MiB)}),
    }
    reading = Machine(devices, proc).sample([40, 41, 99])

    assert reading.processes == {40: {GPU: Use(9 * GiB), RAM: Use(GiB, 2)}, 41: {RAM: Use(MiB)}}
    assert reading.silent == ("gpu1",)
    assert reading.devices[GPU] == DeviceReading(24 * GiB, 10 * GiB)


def test_a_containers_client_stands_for_a_server_elsewhere(proc: Path) -> None:
    """The memory of `docker run` itself says nothing about the server, so it is not measured."""
    add_process(proc, 40, name="sh")
    add_process(proc, 41, parent=40, session=40, name="docker")
    add_process(proc, 50)
    reading = Machine({RAM: Pool(taken={50: Use(MiB)})}, proc).sample([40, 50])

    assert reading.elsewhere == (40,)
    assert list(reading.processes) == [50]


def test_the_sensors_of_all_devices() -> None:
    """A device whose driver tells nothing is missing, and so is the RAM."""
    reported = Sensors(0.5, None, 90.0)
    machine = Machine({GPU: Pool(reported=reported), DeviceName("gpu1"): Pool(), RAM: Ram()})

    assert machine.sensors() == {GPU: reported}


def test_a_lost_device_is_missing(proc: Path) -> None:
    """The others keep their names."""

    class Lost(Pool):
        def read(self) -> DeviceReading | None:
            return None

    machine = Machine({GPU: Lost(taken=None), DeviceName("gpu1"): Pool(taken={})}, proc)

    assert list(machine.sample([]).devices) == ["gpu1"]
    assert machine.sample([]).foreign() == {"gpu1": 16 * GiB}
    assert list(machine.labels) == ["gpu0", "gpu1"]


def test_every_machine_has_ram(caplog: pytest.LogCaptureFixture) -> None:
    """RAM is found whatever drivers there are, and one line says so."""
    with caplog.at_level("INFO", logger="hotseat.memory.machine"):
        machine = find_machine()
    said = [record.message for record in caplog.records if record.name == "hotseat.memory.machine"]

    assert list(machine.devices())[-1] == RAM
    assert len(said) == 1
    assert said[0].startswith("devices found ")
    assert "ram=\"this machine's RAM, " in said[0]


def test_a_look_at_a_real_tree_finds_its_memory() -> None:
    """A shell and its child are one tree with some memory."""
    with subprocess.Popen(["sh", "-c", "cat; true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdin
        assert shell.stdout
        shell.stdin.write(b"both run\n")
        shell.stdin.flush()
        shell.stdout.readline()
        use = Machine({RAM: Ram()}).sample([shell.pid]).processes[shell.pid][RAM]
        shell.stdin.close()

    assert 0 < use.total < 100 * MiB


def test_a_machine_without_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to report."""
    monkeypatch.setattr("hotseat.memory.nvidia.library", lambda: None)

    assert driver_versions(tmp_path) == {}


def test_both_drivers(tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA's has the CUDA that it supports; AMD's has a version if it is not the kernel's own."""
    nvml = install(Driver(Gpu()))
    monkeypatch.setattr("hotseat.memory.nvidia.library", lambda: nvml)
    (tmp_path / "module/amdgpu").mkdir(parents=True)
    of_kernel = driver_versions(tmp_path)
    write(tmp_path / "module/amdgpu/version", "6.12.12\n")

    assert driver_versions(tmp_path) == {"NVIDIA": "580.65.06, CUDA 13.0", "AMD": "6.12.12"}
    assert of_kernel["AMD"].startswith("of Linux ")


def test_a_driver_that_does_not_say(install: Install) -> None:
    """The report goes on without it."""
    assert driver_version(install(Driver(lacks=("nvmlSystemGetCudaDriverVersion",)))).startswith("unknown: ")
