"""`hotseat doctor --report` on machines that this one is not."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from tests.support.machines import GiB, Pool

from hotseat.cli.reports.machine_report import LONGEST_S
from hotseat.identifiers import DeviceName
from hotseat.memory.machine import Machine
from hotseat.memory.measurement import DeviceReading

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import CommandLine, Typed


class Filled(Pool):
    """A GPU that does not report its users, and has less free memory from the third reading on."""

    readings = 0

    def read(self) -> DeviceReading:
        self.readings += 1
        return DeviceReading(24 * GiB, (20 if self.readings <= 2 else 14) * GiB)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    gpus = {"gpu0": Filled(label="a card"), "gpu1": Pool(label="in the chip", has_own_memory=False, taken={})}
    machine = Machine({DeviceName(name): gpu for name, gpu in gpus.items()})
    monkeypatch.setattr("hotseat.cli.reports.machine_report.find_machine", lambda: machine)
    return machine


@pytest.fixture
def config(command_line: CommandLine, tmp_path: Path) -> Path:
    """Of the running server."""
    config = tmp_path / "config.yaml"
    models = "{qwen: {cmd: 'server ${PORT}', aliases: [q]}, dud: {cmd: 'server ${PORT}'}}"
    config.write_text(f"listen: {command_line.url.removeprefix('http://')}\nmodels: {models}\n")
    return config


@pytest.mark.usefixtures("machine")
async def test_a_report_beside_loaded_models(command_line: CommandLine, config: Path) -> None:
    """It stops nothing that somebody has loaded, and says what to do."""
    await command_line.type("load", "qwen")
    said = await asyncio.to_thread(command_line.typed, "doctor", "--report", "--config", str(config))
    listed = await command_line.type("ps")

    assert said.code == 1
    assert "the report would unload qwen (ready); `hotseat stop --all` frees them, then try again" in said.out
    assert "qwen" in listed.out


@pytest.mark.usefixtures("machine")
async def test_a_report_leaves_nothing_loaded(command_line: CommandLine, config: Path) -> None:
    """What it loaded is unloaded at the end. Its output is the report and nothing else."""
    words = ("doctor", "--report", "--config", str(config), "--model", "q", "--json")
    said = await asyncio.to_thread(command_line.typed, *words)
    listed = await command_line.type("ps")

    assert said.code == 0
    assert "qwen" not in listed.out
    assert json.loads(said.out)["problem"] == ""


async def test_a_report_takes_no_longer_than_five_minutes(
    command_line: CommandLine, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not there by then is missing, and the report says so."""
    monkeypatch.setattr("hotseat.cli.reports.machine_report.LONGEST_S", 0.0)
    said = await asyncio.to_thread(command_line.typed, "doctor", "--report", "--config", str(config))

    assert said.code == 1
    assert "It ended early: the time limit was reached" in said.out
    assert LONGEST_S < 300


@pytest.mark.usefixtures("machine")
async def test_a_model_on_a_gpu(command_line: CommandLine, config: Path) -> None:
    """Its memory is what is less free than before, if the driver does not say who uses it."""
    said = await asyncio.to_thread(command_line.typed, "doctor", "--report", "--config", str(config), "--model", "q")

    assert said.code == 0, said.err
    assert "| gpu0 | a card | 24.0 GiB | 4.0 GiB | no | no |" in said.out
    assert "| gpu1 | in the chip | 64.0 GiB | 16.0 GiB | yes | yes |" in said.out
    assert "| gpu0 6.0 GiB |" in said.out
    assert "| unload qwen | " in said.out


def test_options_that_need_a_report(typed: Typed) -> None:
    """Without it they would be ignored."""
    said = typed("doctor", "--model", "qwen")

    assert (said.code, "--model needs --report" in said.err) == (2, True)


def test_a_report_without_a_configuration(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to load."""
    monkeypatch.chdir(tmp_path)
    said = typed("doctor", "--report")

    assert (said.code, "config.yaml does not exist" in said.err) == (3, True)


def test_a_report_about_a_server_on_another_machine(typed: Typed, config: Path) -> None:
    """The report would mix the memory of two machines, so that machine is not even asked."""
    said = typed("doctor", "--report", "--config", str(config), "--url", "http://192.0.2.7:8080")

    assert said.code == 1
    assert "the report measures this machine, and http://192.0.2.7:8080 is another; run it there" in said.err


def test_a_report_about_the_configured_address(typed: Typed, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is this machine's, whatever it looks like: the report goes on, here until its time is over."""
    monkeypatch.setattr("hotseat.cli.reports.machine_report.LONGEST_S", 0.0)
    config.write_text("listen: 127.0.0.2:1\nmodels: {qwen: {cmd: 'server ${PORT}'}}\n")
    said = typed("doctor", "--report", "--config", str(config), "--url", "http://127.0.0.2:1")

    assert said.err == "hotseat: `hotseat serve` did not respond within the time limit: it printed nothing\n"
