"""Assembles everything that deals with real memory; the application creates one of these."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from hotseat.memory.launcher import MemoryGatedLauncher
from hotseat.memory.machine import budgets_of, find_machine
from hotseat.memory.meter import BackgroundMeter, Polling
from hotseat.memory.model_figures import Figures, Footprints
from hotseat.memory.monitor import MemoryMonitor
from hotseat.memory.precedence import Precedence
from hotseat.scheduling.events import (
    CatalogChanged,
    ServerAdopted,
    UpstreamAsleep,
    UpstreamAwake,
    UpstreamExited,
    UpstreamFailed,
    UpstreamReady,
)
from hotseat.state.learned_store import LEARNED, LearnedStore
from hotseat.state.state_file import state_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.dispatch.server_tasks import Launcher
    from hotseat.estimates.report import Estimate
    from hotseat.identifiers import Bytes, DeviceName, MeasuredMemory, ModelName, Seconds
    from hotseat.memory.machine import Machine
    from hotseat.memory.measurement import DeviceReading, Reading, Sensors
    from hotseat.model_servers.visible_gpus import CardName
    from hotseat.scheduling.events import Event
    from hotseat.scheduling.scheduler import Scheduler
    from hotseat.settings import Settings
    from hotseat.tasks import Tasks

SECTION = "memory"
"""The section of the learned facts."""
CHANGES_MEMORY = (
    UpstreamReady,
    UpstreamExited,
    UpstreamFailed,
    UpstreamAsleep,
    UpstreamAwake,
    CatalogChanged,
    ServerAdopted,
)


@cache
def this_machine() -> Machine:
    """Detected once, at first use: drivers may be slow."""
    return find_machine()


def devices_for_models() -> dict[DeviceName, Bytes]:
    """The value of `devices: auto` on this machine."""
    machine = this_machine()
    return budgets_of(machine.devices(), machine.borrowers)


def card_names() -> Mapping[DeviceName, CardName]:
    """What CUDA and ROCm call the GPUs. Without delay: a model gets GPUs only after a catalog with devices was filled,
    and that has detected the machine.
    """
    return this_machine().card_names


def figures_of_this_machine() -> Figures:
    """The figures that a hotseat started here and now would use."""
    kept = LearnedStore(state_directory(os.environ) / LEARNED).section(SECTION)
    return Figures(Footprints(kept), os.environ, this_machine)


class ThisMachine:
    """The meter of this machine; its devices are detected only when something is measured."""

    def devices(self) -> Mapping[DeviceName, DeviceReading]:
        return this_machine().devices()

    def sample(self, roots: Collection[int]) -> Reading:
        return this_machine().sample(roots)

    def sensors(self) -> Mapping[DeviceName, Sensors]:
        return this_machine().sensors()


class MemoryManager:
    def __init__(
        self, learned: LearnedStore, pids: Callable[[], Mapping[ModelName, int]], settings: Callable[[], Settings]
    ) -> None:
        self._footprints = Footprints(learned.section(SECTION))
        self._figures = Figures(self._footprints, os.environ, this_machine)
        self._gauge = BackgroundMeter(ThisMachine())
        self._pids, self._settings = pids, settings

    def fill(self, catalog: Catalog) -> Catalog:
        """The catalog with an estimate of each model. Reads files and queries drivers: not for the event loop."""
        return self._figures.fill(catalog)

    def measured(self, catalog: Catalog) -> MeasuredMemory:
        """What earlier runs measured of its models."""
        return self._figures.measured(catalog)

    def recall(self) -> None:
        """Read again what other processes have measured."""
        self._footprints.recall()

    def explain(self, spec: ModelSpec, catalog: Catalog) -> Estimate:
        """The estimate of one model, line by line. Raises CannotEstimate. Not for the event loop, like `fill`."""
        return self._figures.explain(spec, catalog.budgets)

    async def sensors(self) -> Mapping[DeviceName, Sensors]:
        """Use, temperature and power of the GPUs; none if nothing is to be measured."""
        return await self._gauge.sensors() if self._settings().measuring.is_on else {}

    def launcher(self, launcher: Launcher, scheduler: Scheduler) -> MemoryGatedLauncher:
        return MemoryGatedLauncher(
            launcher, self._gauge, lambda: scheduler if self._settings().measuring.is_on else None
        )

    def watch(self, dispatcher: Dispatcher, tasks: Tasks) -> MemoryWatch:
        """Start to report measurements and programs with precedence to the scheduler."""
        monitor = MemoryMonitor(dispatcher, self._footprints, self._figures, lambda: this_machine().borrowers)
        polling = Polling(
            self._gauge,
            lambda: self._looked_at(dispatcher),
            monitor.report_measurement,
            lambda: self._pause_s(dispatcher),
        )
        precedence = Precedence(dispatcher, lambda: self._settings().yield_to, lambda: self._pids().values())
        tasks.start(polling.walk(), "measure memory")
        tasks.start(precedence.walk(), "look for programs with precedence")
        return MemoryWatch(polling, precedence)

    def _looked_at(self, dispatcher: Dispatcher) -> Mapping[ModelName, int] | None:
        """Model pids; None where memory decides nothing, so that no driver is woken."""
        return self._pids() if dispatcher.catalog.budgets and self._settings().measuring.is_on else None

    def _pause_s(self, dispatcher: Dispatcher) -> Seconds | None:
        is_short = dispatcher.questions.limits != dispatcher.catalog.budgets
        wants = wants_to_look(self._looked_at(dispatcher), is_short=is_short)
        return self._settings().measuring.every_s if wants else None


@dataclass(frozen=True, slots=True)
class MemoryWatch:
    """The tasks that look at memory while hotseat runs."""

    polling: Polling
    precedence: Precedence

    def on_event(self, event: Event) -> None:
        """Measure at once when a server starts or stops."""
        if isinstance(event, CHANGES_MEMORY):
            self.polling.look_now()


def wants_to_look(running: Mapping[ModelName, int] | None, *, is_short: bool) -> bool:
    """PURE: measure if a model runs, or if others take memory: only a measurement shows that they have left."""
    return bool(running) or (running is not None and is_short)
