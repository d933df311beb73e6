"""When the machine is measured, and when it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.machines import Pool

from hotseat.identifiers import DeviceName, ModelName
from hotseat.memory import manager
from hotseat.memory.machine import Machine
from hotseat.memory.manager import MemoryManager, wants_to_look
from hotseat.memory.measurement import Sensors
from hotseat.settings import Measuring, Settings
from hotseat.state.learned_store import LearnedStore

if TYPE_CHECKING:
    from pathlib import Path

RUNNING = {ModelName("qwen"): 7}


def test_an_idle_machine_is_left_alone() -> None:
    """A measurement may wake a sleeping card."""
    assert wants_to_look(RUNNING, is_short=False)
    assert not wants_to_look({}, is_short=False)


def test_others_are_watched_until_they_are_gone() -> None:
    """Their exit gives no event: without measurements, models would be refused because of them for ever."""
    assert wants_to_look({}, is_short=True)


def test_whoever_measures_nothing_does_not_look() -> None:
    """Earlier measurements do not matter."""
    assert not wants_to_look(None, is_short=True)


@pytest.mark.parametrize("is_on", [True, False])
async def test_sensors_are_read_only_where_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_on: bool
) -> None:
    """With `performance.disabled` no driver is asked for them."""
    seen = {DeviceName("gpu0"): Sensors(0.37, 61.0, 212.5)}
    machine = Machine({name: Pool(reported=reported) for name, reported in seen.items()})
    monkeypatch.setattr(manager, "this_machine", lambda: machine)
    settings = Settings(measuring=Measuring(is_on))
    memory = MemoryManager(LearnedStore(tmp_path / "learned.json"), dict, lambda: settings)

    assert await memory.sensors() == (seen if is_on else {})
