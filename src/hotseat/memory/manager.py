"""Everything that knows of real memory, put together: the composition root opens one of these."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from hotseat.hardware.background_meter import Gauge
from hotseat.hardware.budgets import budgets_of
from hotseat.hardware.footprints import Footprints
from hotseat.hardware.machine import find_machine
from hotseat.hardware.polling import Rounds
from hotseat.memory.launcher import PatientHands
from hotseat.memory.model_figures import Figures
from hotseat.memory.monitor import MemoryWatch
from hotseat.memory.precedence import Precedence
from hotseat.scheduling.events import (
    CatalogChanged,
    UpstreamAsleep,
    UpstreamAwake,
    UpstreamExited,
    UpstreamFailed,
    UpstreamReady,
)
from hotseat.state.learned_store import LEARNED, Keeper, state_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.hardware.machine import Machine
    from hotseat.hardware.measurement import DeviceReading, Reading
    from hotseat.identifiers import Bytes, DeviceName, ModelName, Seconds
    from hotseat.memory.launcher import Hands
    from hotseat.memory.monitor import House
    from hotseat.scheduling.events import Event
    from hotseat.settings import Settings
    from hotseat.tasks import Tasks

SECTION = "memory"
"""Of what was learned."""
CHANGES_MEMORY = (UpstreamReady, UpstreamExited, UpstreamFailed, UpstreamAsleep, UpstreamAwake, CatalogChanged)


@cache
def this_machine() -> Machine:
    """Found once, by the first who needs it: drivers may take their time."""
    return find_machine()


def devices_for_models() -> dict[DeviceName, Bytes]:
    """What `devices: auto` stands for here."""
    machine = this_machine()
    return budgets_of(machine.devices(), machine.borrowers)


def with_figures(catalog: Catalog) -> Catalog:
    """The catalog as a hotseat that is started here and now would count it."""
    kept = Keeper(state_directory(os.environ) / LEARNED).section(SECTION)
    return Figures(Footprints(kept), os.environ, this_machine).fill(catalog)


class ThisMachine:
    """The meter of this machine, which is only looked for when somebody measures."""

    def devices(self) -> Mapping[DeviceName, DeviceReading]:
        return this_machine().devices()

    def sample(self, roots: Collection[int]) -> Reading:
        return this_machine().sample(roots)


class Steward:
    def __init__(
        self, learned: Keeper, pids: Callable[[], Mapping[ModelName, int]], settings: Callable[[], Settings]
    ) -> None:
        self._footprints = Footprints(learned.section(SECTION))
        self._figures = Figures(self._footprints, os.environ, this_machine)
        self._gauge = Gauge(ThisMachine())
        self._pids, self._settings = pids, settings

    def fill(self, catalog: Catalog) -> Catalog:
        """The catalog with a figure for each model. Reads files and asks drivers: not for the event loop."""
        return self._figures.fill(catalog)

    def hands(self, hands: Hands, catalog: Callable[[], Catalog]) -> PatientHands:
        return PatientHands(hands, self._gauge, lambda: catalog() if self._settings().measuring.is_on else None)

    def watch_over(self, house: House, tasks: Tasks) -> None:
        """From here on the house is told what is measured, and who has precedence."""
        watch = MemoryWatch(house, self._footprints, self._figures, lambda: this_machine().borrowers)
        self._rounds = Rounds(self._gauge, lambda: self._looked_at(house), watch.hear, lambda: self._pause_s(house))
        self.precedence = Precedence(house.tell, lambda: self._settings().yield_to, lambda: self._pids().values())
        tasks.start(self._rounds.walk(), "measure memory")
        tasks.start(self.precedence.walk(), "look for programs with precedence")

    def _looked_at(self, house: House) -> Mapping[ModelName, int] | None:
        """None where memory decides nothing: no driver is woken then."""
        return self._pids() if house.catalog.budgets and self._settings().measuring.is_on else None

    def _pause_s(self, house: House) -> Seconds | None:
        wants = wants_to_look(self._looked_at(house), house.catalog)
        return self._settings().measuring.every_s if wants else None

    def hear(self, event: Event) -> None:
        """Something began or ended: its memory is looked at now."""
        if isinstance(event, CHANGES_MEMORY):
            self._rounds.look_now()


def wants_to_look(running: Mapping[ModelName, int] | None, catalog: Catalog) -> bool:
    """PURE: nobody looks where nothing of ours runs, unless others were seen: only a look tells that they have gone."""
    return bool(running) or (running is not None and catalog.limits != catalog.budgets)
