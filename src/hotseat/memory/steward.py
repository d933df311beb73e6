"""Everything that knows of real memory, put together: the composition root opens one of these."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from hotseat.hardware.budgets import budgets_of
from hotseat.hardware.footprints import Footprints
from hotseat.hardware.gauge import Gauge
from hotseat.hardware.machine import find_machine
from hotseat.hardware.rounds import Rounds
from hotseat.keeper import LEARNED, Keeper, state_directory
from hotseat.memory.figures import Figures
from hotseat.memory.hands import PatientHands
from hotseat.memory.precedence import Precedence
from hotseat.memory.watch import MemoryWatch
from hotseat.scheduling.events import CatalogChanged, UpstreamExited, UpstreamFailed, UpstreamReady

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.hardware.machine import Machine
    from hotseat.hardware.reading import DeviceReading, Reading
    from hotseat.memory.hands import Hands
    from hotseat.memory.watch import House
    from hotseat.scheduling.events import Event
    from hotseat.tasks import Tasks
    from hotseat.terms import Bytes, DeviceName, ModelName

SECTION = "memory"
"""Of what was learned."""
CHANGES_MEMORY = (UpstreamReady, UpstreamExited, UpstreamFailed, CatalogChanged)


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
    def __init__(self, learned: Keeper, pids: Callable[[], Mapping[ModelName, int]]) -> None:
        self._footprints = Footprints(learned.section(SECTION))
        self._figures = Figures(self._footprints, os.environ, this_machine)
        self._gauge = Gauge(ThisMachine())
        self._pids = pids

    def fill(self, catalog: Catalog) -> Catalog:
        """The catalog with a figure for each model. Reads files and asks drivers: not for the event loop."""
        return self._figures.fill(catalog)

    def hands(self, hands: Hands, catalog: Callable[[], Catalog]) -> PatientHands:
        return PatientHands(hands, self._gauge, catalog)

    def watch_over(self, house: House, patterns: Callable[[], Collection[str]], tasks: Tasks) -> None:
        """From here on the house is told what is measured, and who has precedence."""
        watch = MemoryWatch(house, self._footprints, self._figures, lambda: this_machine().borrowers)
        self._rounds = Rounds(self._gauge, lambda: self._pids() if house.catalog.budgets else {}, watch.hear)
        self.precedence = Precedence(house.tell, patterns, lambda: self._pids().values())
        tasks.start(self._rounds.walk(), "measure memory")
        tasks.start(self.precedence.walk(), "look for programs with precedence")

    def hear(self, event: Event) -> None:
        """Something began or ended: its memory is looked at now."""
        if isinstance(event, CHANGES_MEMORY):
            self._rounds.look_now()
