"""AMD cards, from a tree of files as amdgpu shows it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tests.support.machines import GiB, MiB, Pool, add_card, open_client, write

from hotseat.memory.amd import cards
from hotseat.memory.measurement import DeviceReading, Sensors, Use

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SLOT = "0000:03:00.0"
RAM = Pool(total=128 * GiB, free=40 * GiB)


def test_a_card_tells_its_memory(tmp_path: Path) -> None:
    """Borrowed memory is not the card's own; outputs of the card and cards of other vendors do not count."""
    folder = add_card(tmp_path, SLOT, vram=(24 * GiB, 2 * GiB), gtt=(32 * GiB, GiB))
    write(folder / "product_name", "Radeon RX 7900 XTX\n")
    (tmp_path / "class/drm/card0-DP-1").mkdir()
    write(tmp_path / "class/drm/card1/device/vendor", "0x8086\n")
    (card,) = cards(RAM, tmp_path)

    assert card.read() == DeviceReading(24 * GiB, 22 * GiB)
    assert (card.label, str(card.slot), card.has_own_memory) == ("Radeon RX 7900 XTX", SLOT, True)


def test_a_processors_graphics_borrow_from_the_ram(tmp_path: Path) -> None:
    """An APU may use its fixed part and what it can borrow, as far as RAM is free."""
    add_card(tmp_path, "0000:c5:00.0", vram=(GiB, GiB // 2), gtt=(112 * GiB, 10 * GiB), metrics=3)
    (card,) = cards(RAM, tmp_path)

    assert card.read() == DeviceReading(113 * GiB, 40 * GiB + GiB // 2)
    assert not card.has_own_memory
    assert card.label == "AMD GPU 0x744c"


def test_a_process_counts_each_client_once(tmp_path: Path, proc: Path) -> None:
    """Descriptors may be duplicated and inherited; other cards' memory and borrowed memory do not count."""
    add_card(tmp_path, SLOT, vram=(24 * GiB, 9 * GiB))
    open_client(proc, 40, 5, SLOT, 7, "drm-memory-vram:\t4096 MiB\ndrm-memory-gtt: \t9 MiB\n")
    open_client(proc, 40, 6, SLOT, 7, "drm-memory-vram:\t4096 MiB\n")
    open_client(proc, 41, 5, SLOT, 7, "drm-memory-vram:\t4096 MiB\n")
    open_client(proc, 41, 8, SLOT, 8, "drm-total-vram:\t99999 MiB\ndrm-resident-vram:\t1024 KiB\n")
    open_client(proc, 41, 9, "0000:0a:00.0", 9, "drm-memory-vram:\t4096 MiB\n")
    (card,) = cards(RAM, tmp_path, proc)

    assert card.taken_by({40: [40, 41], 60: [60]}) == {40: Use(4097 * MiB)}


def test_borrowed_memory_counts_where_there_is_no_other(tmp_path: Path, proc: Path) -> None:
    """On an APU the process's memory in both pools counts."""
    add_card(tmp_path, SLOT, vram=(GiB, 0), gtt=(96 * GiB, 0), metrics=2)
    open_client(proc, 40, 5, SLOT, 7, "drm-memory-vram:\t512 MiB\ndrm-memory-gtt:\t2048 MiB\n")
    (card,) = cards(RAM, tmp_path, proc)

    assert card.taken_by({40: [40]}) == {40: Use(2560 * MiB)}


def test_a_lost_card_reads_nothing(tmp_path: Path) -> None:
    """The driver removes its files."""
    folder = add_card(tmp_path, SLOT, vram=(24 * GiB, 0))
    (card,) = cards(RAM, tmp_path)
    (folder / "mem_info_vram_used").unlink()

    assert card.read() is None


def test_what_the_driver_tells_besides_memory(tmp_path: Path) -> None:
    """The kernel's percent, millidegrees and microwatts as shares, degrees and watts."""
    folder = add_card(tmp_path, SLOT, vram=(24 * GiB, 0))
    write(folder / "power/runtime_status", "active\n")
    write(folder / "gpu_busy_percent", "37\n")
    write(folder / "hwmon/hwmon4/temp1_input", "61000\n")
    write(folder / "hwmon/hwmon4/temp2_input", "78000\n")
    write(folder / "hwmon/hwmon4/power1_average", "212500000\n")
    (card,) = cards(RAM, tmp_path)

    assert card.sensors() == Sensors(0.37, 61.0, 212.5)


def test_a_card_with_other_sensors(tmp_path: Path) -> None:
    """Where there is no temperature at the edge, the hottest spot's counts; newer cards tell the present power."""
    folder = add_card(tmp_path, SLOT, vram=(24 * GiB, 0))
    write(folder / "hwmon/hwmon4/temp2_input", "78000\n")
    write(folder / "hwmon/hwmon4/power1_input", "9000000\n")
    (card,) = cards(RAM, tmp_path)

    assert card.sensors() == Sensors(None, 78.0, 9.0)


def test_a_card_without_sensors(tmp_path: Path) -> None:
    """In a container the files may be missing."""
    add_card(tmp_path, SLOT, vram=(24 * GiB, 0))
    (card,) = cards(RAM, tmp_path)

    assert card.sensors() == Sensors()


def test_a_card_that_is_powered_down_is_not_woken(tmp_path: Path) -> None:
    """Only its power state is read: every other file would wake it."""
    folder = add_card(tmp_path, SLOT, vram=(24 * GiB, 0))
    write(folder / "power/runtime_status", "suspended\n")
    write(folder / "gpu_busy_percent", "0\n")
    (card,) = cards(RAM, tmp_path)

    assert card.sensors() == Sensors()


def test_without_graphics_there_are_no_cards(tmp_path: Path) -> None:
    """A server may have no graphics at all."""
    assert cards(RAM, tmp_path) == []


def test_the_memory_of_another_users_process_is_not_nothing(
    tmp_path: Path, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container's server often belongs to root. The card then reports no users at all, and an estimate stays."""
    add_card(tmp_path, SLOT, vram=(24 * GiB, 9 * GiB))
    open_client(proc, 40, 5, SLOT, 7, "drm-memory-vram:\t512 MiB\n")
    open_client(proc, 41, 5, SLOT, 8, "drm-memory-vram:\t512 MiB\n")
    (card,) = cards(RAM, tmp_path, proc)

    def forbidden(path: str) -> Any:
        if "/41/" in path:
            raise PermissionError
        return scandir(path)

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", forbidden)

    assert card.taken_by({40: [40]}) == {40: Use(512 * MiB)}
    assert card.taken_by({40: [40], 41: [41]}) is None
