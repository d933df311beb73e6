"""Machines with several GPUs: which one is gpu0, and how a server is told to use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.machines import GiB, Pool, add_card, add_compute_node, write
from tests.support.nvml import Driver, Gpu

from hotseat.identifiers import RAM, DeviceName
from hotseat.memory import amd, apple, nvidia
from hotseat.memory.machine import Machine, named
from hotseat.model_servers.visible_gpus import CardName, Runtime, visible

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Install = Callable[[Driver], Any]

MEMORY = Pool(128 * GiB)


def nvidias(*gib: int) -> list[Gpu]:
    """Cards of these sizes, each on a bus of its own; the driver lists the last one first."""
    found = [
        Gpu(bus=f"00000000:{0x10 * number + 1:02X}:00.0", uuid=f"GPU-{number:08x}-aaaa", total=size * GiB)
        for number, size in enumerate(gib)
    ]
    return found[::-1]


def amds(sys: Path, *gib: int, has_unique_id: bool = True) -> None:
    """Cards of these sizes; ROCm numbers them from the last bus to the first, after two processors."""
    for processor in (0, 1):
        add_compute_node(sys, processor)
    for number, size in enumerate(gib):
        slot = f"0000:{0x20 * number + 3:02x}:00.0"
        add_card(sys, slot, vram=(size * GiB, 0), number=number)
        unique = 0xABC0 + number if has_unique_id else 0
        add_compute_node(sys, 1 + len(gib) - number, slot, unique)


def machine(install: Install, proc: Path, sys: Path, *gpus: Gpu) -> Machine:
    cards = nvidia.cards(install(Driver(*gpus)), MEMORY, proc)
    return Machine({**named([*cards, *amd.cards(MEMORY, sys, proc)]), RAM: MEMORY}, proc)


@pytest.mark.parametrize("sizes", [(24,), (24, 12), (24, 24, 48, 12), (80,) * 8])
def test_nvidia_cards_are_named_by_their_uuids(
    install: Install, proc: Path, tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    """gpu0 is the first on the bus, whatever order the driver lists them in."""
    found = machine(install, proc, tmp_path / "sys", *nvidias(*sizes))

    assert found.card_names == {
        f"gpu{number}": CardName(Runtime.CUDA, f"GPU-{number:08x}-aaaa", number) for number in range(len(sizes))
    }
    assert [round(seen.total / GiB) for seen in found.devices().values()] == [*sizes, 128]


@pytest.mark.parametrize("sizes", [(24,), (16, 24), (24, 24, 16, 16), (192,) * 8])
def test_amd_cards_are_named_by_their_unique_ids(
    install: Install, proc: Path, tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    """They have sixteen digits, as ROCm writes them."""
    amds(tmp_path, *sizes)
    found = machine(install, proc, tmp_path)

    assert found.card_names == {
        f"gpu{number}": CardName(Runtime.ROCM, f"GPU-{0xABC0 + number:016x}") for number in range(len(sizes))
    }


def test_amd_cards_without_an_id_are_numbered_as_rocm_does(install: Install, proc: Path, tmp_path: Path) -> None:
    """ROCm counts its compute nodes, whose order need not be that of the bus; processors do not count."""
    amds(tmp_path, 24, 24, 24, has_unique_id=False)
    found = machine(install, proc, tmp_path)

    assert [card.name for card in found.card_names.values()] == ["2", "1", "0"]


def test_an_id_may_be_in_the_cards_own_file(install: Install, proc: Path, tmp_path: Path) -> None:
    """Older kernels do not repeat it among the properties of the node."""
    folder = add_card(tmp_path, "0000:03:00.0", vram=(24 * GiB, 0))
    write(folder / "unique_id", "f980f88ef31631a2\n")
    add_compute_node(tmp_path, 1, "0000:03:00.0")

    assert list(machine(install, proc, tmp_path).card_names.values()) == [
        CardName(Runtime.ROCM, "GPU-f980f88ef31631a2")
    ]


def test_a_card_that_rocm_does_not_know_has_no_name(install: Install, proc: Path, tmp_path: Path) -> None:
    """Its memory is known all the same."""
    add_card(tmp_path, "0000:03:00.0", vram=(24 * GiB, 0))
    found = machine(install, proc, tmp_path)

    assert found.card_names == {}
    assert "gpu0" in found.devices()


def test_a_driver_that_does_not_tell_the_uuid_names_nothing(install: Install, proc: Path, tmp_path: Path) -> None:
    """The card is still measured."""
    found = machine(install, proc, tmp_path / "sys", Gpu(uuid=""))

    assert found.card_names == {}
    assert found.devices()[DeviceName("gpu0")].total > 0


def test_slices_have_uuids_of_their_own(install: Install, proc: Path, tmp_path: Path) -> None:
    """CUDA accepts them like those of cards."""
    slices = {number: Gpu("NVIDIA A100 MIG", uuid=f"MIG-{number}", total=20 * GiB) for number in (0, 3)}
    found = machine(install, proc, tmp_path / "sys", Gpu("NVIDIA A100", uuid="GPU-whole", slices=slices))

    assert found.card_names == {
        "gpu0.0": CardName(Runtime.CUDA, "MIG-0"),
        "gpu0.3": CardName(Runtime.CUDA, "MIG-3"),
    }


def test_cards_of_two_vendors_have_the_variables_of_both(install: Install, proc: Path, tmp_path: Path) -> None:
    """HIP reads CUDA's variable unless it has its own, so it gets the numbers of the cards that ROCm leaves."""
    amds(tmp_path, 24)
    names = machine(install, proc, tmp_path, *nvidias(24, 12)).card_names

    assert {device: card.runtime.value for device, card in names.items()} == {
        "gpu0": "CUDA",
        "gpu1": "ROCm",
        "gpu2": "CUDA",
    }
    assert visible(list(names.values())) == {
        "CUDA_VISIBLE_DEVICES": "GPU-00000000-aaaa,GPU-00000001-aaaa",
        "ROCR_VISIBLE_DEVICES": "GPU-000000000000abc0",
        "HIP_VISIBLE_DEVICES": "0",
    }


def test_nvidia_cards_are_counted_without_those_of_others(install: Install, proc: Path, tmp_path: Path) -> None:
    """vLLM reads numbers, and CUDA does not know the card between them."""
    amds(tmp_path, 24)
    names = machine(install, proc, tmp_path, *nvidias(24, 12)).card_names

    assert visible([names[DeviceName("gpu2")]], by_number=True) == {
        "CUDA_VISIBLE_DEVICES": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def test_a_mac_needs_no_variable() -> None:
    """It has one GPU."""
    numbers = {"iogpu.wired_limit_mb": 0, "hw.memsize": 64 * GiB, "vm.pagesize": 16384}
    [card] = apple.cards(apple.MacRam(numbers.get), numbers.get)

    assert visible([card.card_name]) == {}
