"""`hotseat devices`: the machine it runs on, with or without a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.support.machines import GiB, Pool

from hotseat.cli.devices import described, load_text, row
from hotseat.identifiers import DeviceName
from hotseat.memory.machine import Machine
from hotseat.memory.measurement import DeviceReading, Reading, Sensors, Use

if TYPE_CHECKING:
    from tests.support.command_line import CommandLine, Typed

GPU, RAM = DeviceName("gpu0"), DeviceName("ram")
SEEN = Reading(
    {GPU: DeviceReading(24 * GiB, 10 * GiB), RAM: DeviceReading(64 * GiB, 60 * GiB)},
    {40: {GPU: Use(12 * GiB), RAM: Use(GiB)}, 41: {RAM: Use(GiB // 2, 4 * GiB)}},
)
PIDS = {"qwen": 40, "gemma": 41, "llama": 99}


def test_without_a_server_the_machine_is_shown(typed: Typed) -> None:
    """No server is needed, and no models are shown."""
    said = typed("devices", "--url", "http://127.0.0.1:9")
    head, *rows = said.out.splitlines()

    assert said.code == 0
    assert head.split() == ["DEVICE", "TOTAL", "USED", "FREE", "WHAT"]
    assert rows[-1].startswith("ram ")
    assert rows[-1].endswith("this machine's RAM")


@pytest.mark.parametrize("url", ["http://192.0.2.7:8080", "192.0.2.7:8080"])
def test_a_server_on_another_machine_says_nothing_of_this_one(typed: Typed, url: str) -> None:
    """Its pids mean nothing here, so it is not even asked."""
    said = typed("devices", "--json", "--url", url)

    assert (said.code, "models" in json.loads(said.out)[-1]) == (0, False)


async def test_a_running_server_adds_its_models(command_line: CommandLine) -> None:
    """A model whose process does not exist takes nothing."""
    await command_line.type("load", "qwen")
    said = await command_line.type("devices", "--json")
    ram = json.loads(said.out)[-1]

    assert (ram["device"], ram["models"]) == ("ram", {})
    assert ram["total"] == ram["used"] + ram["free"] > 0


def test_models_stand_beside_the_device_they_use() -> None:
    """Mapped files are shown apart from anonymous memory."""
    gpu, ram = (row(described(name, "a label", SEEN, PIDS, budget)) for name, budget in ((GPU, 20 * GiB), (RAM, None)))

    assert gpu == ("gpu0", "24.0 GiB", "14.0 GiB", "10.0 GiB", "20.0 GiB", "qwen 12.0 GiB", "a label")
    assert ram[4:6] == ("", "qwen 1.0 GiB, gemma 512 MiB + 4.0 GiB of files")


def test_the_load_of_a_gpu_is_a_column() -> None:
    """What a driver does not report is left out; without any report there is no column."""
    loads = {GPU: Sensors(0.37, 61.0, 212.5)}
    gpu, ram = (row(described(name, "a label", SEEN, None), loads) for name in (GPU, RAM))

    assert gpu == ("gpu0", "24.0 GiB", "14.0 GiB", "10.0 GiB", "37 %, 61 °C, 212 W", "a label")
    assert ram[4] == ""
    assert load_text(Sensors(0.0, None, 9.6)) == "0 %, 10 W"


def test_the_load_is_in_json_and_in_the_table(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device without a report has the same fields, without a value."""
    machine = Machine({GPU: Pool(reported=Sensors(0.5, 40.0)), RAM: Pool()})
    monkeypatch.setattr("hotseat.cli.devices.find_machine", lambda: machine)
    table, document = (typed("devices", *more, "--url", "http://127.0.0.1:9") for more in ((), ("--json",)))
    gpu, ram = json.loads(document.out)

    assert table.out.splitlines()[0].split() == ["DEVICE", "TOTAL", "USED", "FREE", "LOAD", "WHAT"]
    assert "50 %, 40 °C" in table.out
    assert (gpu["utilization"], gpu["celsius"], gpu["watts"]) == (0.5, 40.0, None)
    assert (ram["utilization"], ram["celsius"], ram["watts"]) == (None, None, None)


def test_a_model_in_a_container_is_named_without_a_figure() -> None:
    """Its processes cannot be seen, so its memory is unknown."""
    reading = Reading(SEEN.devices, SEEN.processes, elsewhere=(99,))

    assert row(described(GPU, "", reading, PIDS))[5] == "qwen 12.0 GiB, llama unknown"


def test_a_silent_device_says_so() -> None:
    """Unknown is not the same as unused."""
    silent = Reading(SEEN.devices, SEEN.processes, silent=(GPU,))

    assert row(described(GPU, "", silent, PIDS))[5] == "unknown"
    assert described(GPU, "", silent, PIDS)["models"] is None
    assert "models" not in described(GPU, "", silent, None)
