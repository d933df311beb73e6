"""NVIDIA cards: the real bindings above a fake driver with the answers of real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pynvml
import pytest
from tests.support.machines import A_CONTAINERS, GiB, MiB, Pool, link
from tests.support.nvml import NOT_AVAILABLE, Driver, Gpu

from hotseat.memory.machine import named
from hotseat.memory.measurement import DeviceReading, Sensors, Use
from hotseat.memory.nvidia import NvidiaCard, cards, library

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Install = Callable[[Driver], Any]

RAM = Pool()


def only_card(nvml: Any, proc: Path) -> NvidiaCard:
    (card,) = cards(nvml, RAM, proc)
    return card


def test_what_the_driver_keeps_is_not_there_for_models(install: Install, proc: Path) -> None:
    """The reserved part is neither in the total nor used, so that the total is what models can get."""
    card = only_card(install(Driver(Gpu(total=24 * GiB, reserved=GiB, used=4 * GiB))), proc)

    assert card.read() == DeviceReading(total=23 * GiB, free=19 * GiB)
    assert card.label == "NVIDIA GeForce RTX 4090"
    assert str(card.slot) == "0000:01:00.0"


def test_an_old_driver_counts_its_own_share_as_used(install: Install, proc: Path) -> None:
    """Without the newer call the older one is used: the free memory is the same."""
    driver = Driver(Gpu(reserved=GiB, used=4 * GiB), lacks=("nvmlDeviceGetMemoryInfo_v2",))
    card = only_card(install(driver), proc)

    assert card.read() == DeviceReading(total=24 * GiB, free=19 * GiB)


def test_a_process_that_computes_and_draws_counts_once(install: Install, proc: Path) -> None:
    """It is in both of the driver's lists with the same figure."""
    driver = Driver(Gpu(computing={40: 8 * GiB, 41: GiB, 99: GiB}, drawing={40: 8 * GiB, 50: MiB}))
    card = only_card(install(driver), proc)

    assert card.taken_by({40: [40, 41], 60: [60]}) == {40: Use(9 * GiB)}


def test_a_card_that_nobody_uses_tells_so(install: Install, proc: Path) -> None:
    """Zero is not the same as unknown."""
    card = only_card(install(Driver(Gpu())), proc)

    assert card.taken_by({40: [40]}) == {}


def test_wsl_does_not_tell_who_takes_how_much(install: Install, proc: Path) -> None:
    """A process without a figure makes the card silent, not empty."""
    card = only_card(install(Driver(Gpu(used=8 * GiB, computing={40: NOT_AVAILABLE}))), proc)

    assert card.taken_by({40: [40]}) is None
    assert card.taken_by({60: [60]}) == {}


@pytest.mark.parametrize("listed", [{}, {31337: 8 * GiB}, {40: 8 * GiB}])
def test_a_container_may_see_the_machines_numbers(install: Install, tmp_path: Path, listed: dict[int, int]) -> None:
    """If no listed process is surely ours the card is silent, even if a pid happens to be one of ours."""
    proc = tmp_path / "container"
    link(proc / "self/ns/pid", A_CONTAINERS)
    link(proc / "40/fd/0", "/dev/null")
    card = only_card(install(Driver(Gpu(used=8 * GiB, computing=listed))), proc)

    assert card.taken_by({40: [40]}) is None


def test_a_container_may_see_its_own_numbers(install: Install, tmp_path: Path) -> None:
    """Newer drivers translate pids: then the process with that pid has the card open."""
    proc = tmp_path / "container"
    link(proc / "self/ns/pid", A_CONTAINERS)
    link(proc / "40/fd/7", "/dev/nvidiactl")
    card = only_card(install(Driver(Gpu(used=8 * GiB, computing={40: 8 * GiB}))), proc)

    assert card.taken_by({40: [40]}) == {40: Use(8 * GiB)}


def test_unified_memory_is_the_machines(install: Install, proc: Path) -> None:
    """A GB10 reports no memory of its own, so the machine's counts."""
    card = only_card(install(Driver(Gpu("NVIDIA GB10", has_memory=False))), proc)

    assert card.read() == RAM.read()
    assert not card.has_own_memory


def test_each_slice_of_a_divided_card_is_a_device(install: Install, proc: Path) -> None:
    """MIG slices have their own memory and keep their numbers, gaps included; the whole card does not count then."""
    slices = {number: Gpu(f"NVIDIA A100 MIG {number}", total=20 * GiB, reserved=0) for number in (0, 3)}
    slices[3].computing = {40: 5 * GiB}
    driver = Driver(Gpu("NVIDIA A100", bus="00000000:81:00.0", slices=slices), Gpu(bus="00000000:02:00.0"))
    found = named(cards(install(driver), RAM, proc))

    assert list(found) == ["gpu0", "gpu1.0", "gpu1.3"]
    assert [device.taken_by({40: [40]}) for device in found.values()] == [{}, {}, {40: Use(5 * GiB)}]


def test_a_card_may_be_lost_and_come_back(install: Install, proc: Path) -> None:
    """A card that fell off the bus gives no reading and no error; after a reset it is back."""
    gpu = Gpu(used=GiB)
    card = only_card(install(Driver(gpu)), proc)
    gpu.error = pynvml.NVML_ERROR_GPU_IS_LOST
    lost = (card.read(), card.taken_by({40: [40]}))
    gpu.error = pynvml.NVML_SUCCESS

    assert lost == (None, None)
    assert card.read() is not None


def test_a_dead_card_does_not_hide_the_others(install: Install, proc: Path) -> None:
    """A card that does not answer at startup is left out."""
    dead = Gpu(bus="00000000:01:00.0", error=pynvml.NVML_ERROR_GPU_IS_LOST)
    found = cards(install(Driver(dead, Gpu(bus="00000000:02:00.0"))), RAM, proc)

    assert [str(card.slot) for card in found] == ["0000:02:00.0"]


def test_what_a_driver_tells_besides_memory(install: Install, proc: Path) -> None:
    """Shares, degrees and watts; zero is a figure, and what a card does not have is none."""
    idle = Gpu("NVIDIA GB10", bus="00000000:02:00.0", use=0, celsius=40, milliwatts=None)
    full, borrowing = cards(install(Driver(Gpu(), idle)), RAM, proc)

    assert full.sensors() == Sensors(0.37, 61, 212.5)
    assert borrowing.sensors() == Sensors(0.0, 40, None)


def test_a_lost_card_tells_nothing(install: Install, proc: Path) -> None:
    """A driver that answers with an error has no figures, and none that is zero."""
    gpu = Gpu()
    card = only_card(install(Driver(gpu)), proc)
    gpu.error = pynvml.NVML_ERROR_GPU_IS_LOST

    assert card.sensors() == Sensors()


def test_without_a_driver_there_is_no_library() -> None:
    """A missing driver is not an error."""
    assert library("libno-such-driver.so.1") is None


@pytest.mark.parametrize("error", [pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH])
def test_a_driver_that_does_not_start_is_logged(install: Install, caplog: pytest.LogCaptureFixture, error: int) -> None:
    """After an upgrade, library and driver may not match until the next boot: a line says so."""
    install(Driver(starts=error))
    with caplog.at_level("INFO"):
        found = library("libc.so.6")

    assert found is None
    assert "the NVIDIA driver does not respond" in caplog.text


def test_a_driver_that_starts_is_used(install: Install) -> None:
    """The bindings are returned initialised."""
    bindings = install(Driver(Gpu()))

    assert library("libc.so.6") is bindings
