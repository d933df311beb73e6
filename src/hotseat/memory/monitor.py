"""Turns measurements into events for the scheduler: what each model takes, and what other programs leave."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from hotseat.catalog.spec import Source
from hotseat.identifiers import ANY_GPU, LOCAL_HOST, RAM, Place
from hotseat.memory.measurement import folded
from hotseat.memory.model_figures import is_unified, key_of
from hotseat.scheduling.events import DevicesChanged, MemoryMeasured
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_fit import in_gib

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hotseat.catalog.spec import ModelSpec
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import Bytes, DeviceName, ModelName, Seconds
    from hotseat.memory.measurement import Reading
    from hotseat.memory.meter import Measured
    from hotseat.memory.model_figures import Figures, Footprints
    from hotseat.scheduling.view import ModelView

log = logging.getLogger(__name__)

WORTH_REPORTING = 0.01
"""A smaller change is not reported: a server in use grows by a page now and then."""
SETTLED_S: Seconds = 5.0
"""A server that went to sleep less than this ago may have been measured awake or halfway."""
LOOKS = 3
"""Other programs count once seen in so many measurements in a row: released memory is not free at once."""
ALWAYS_THERE = 0.05
"""Other programs that take less than this share of a device do not count: the desktop does, and budgets are round."""


class MemoryMonitor:
    def __init__(
        self,
        dispatcher: Dispatcher,
        footprints: Footprints,
        figures: Figures,
        borrowers: Callable[[], Collection[DeviceName]],
    ) -> None:
        self._dispatcher, self._footprints, self._figures, self._borrowers = dispatcher, footprints, figures, borrowers
        self._left: deque[Mapping[Place, Bytes]] = deque(maxlen=LOOKS)
        self._warned: set[ModelName] = set()

    def report_measurement(self, measured: Measured | None) -> None:
        """Called by `Polling` with each measurement; None: nobody measures, so other programs' use is unknown."""
        if measured is None:
            return self._forget_others()
        if not measured.reading.devices:  # no driver answers, and nobody should wait for one here
            return None
        budgets = self._dispatcher.catalog.budgets
        reading = self._folded(measured.reading, budgets)
        view = self._dispatcher.views.current()
        for seen in view.models:
            if not seen.upstream or seen.upstream.pid not in reading.processes:
                continue
            if seen.phase is Phase.READY:
                self._note(seen, reading)
            elif seen.phase is Phase.ASLEEP and view.now - seen.since >= SETTLED_S:
                self._note_asleep(seen, reading, budgets)
        return self._note_others(reading, budgets)

    def _folded(self, reading: Reading, budgets: Mapping[Place, Bytes]) -> Reading:
        if not is_unified(budgets, self._borrowers()):
            return reading
        return folded(reading, RAM, next(iter(budgets)).device)

    # Models

    def _note(self, seen: ModelView, reading: Reading) -> None:
        assert seen.upstream is not None
        assert seen.upstream.pid is not None
        assert seen.launch is not None
        catalog = self._dispatcher.catalog
        spec = catalog.models[seen.name]
        uses = reading.processes[seen.upstream.pid]
        self._footprints.note(key_of(spec.recipe), seen.launch, uses, is_adopted=seen.is_adopted)
        peak = self._figures.peak(spec, catalog.budgets)
        if peak and is_news(peak, seen):
            budgets = {place: budget_of(place, spec, catalog.budgets) for place in peak}
            self._dispatcher.tell(MemoryMeasured(seen.name, seen.launch, peak, seen.estimated, budgets))
            self._warn(seen, peak)

    def _note_asleep(self, seen: ModelView, reading: Reading, budgets: Mapping[Place, Bytes]) -> None:
        """Record what a sleeping server keeps, separately from what it needs awake."""
        assert seen.upstream is not None
        assert seen.upstream.pid is not None
        assert seen.launch is not None
        uses = {Place(LOCAL_HOST, name): use for name, use in reading.processes[seen.upstream.pid].items()}
        kept = {place: use.anonymous for place, use in uses.items() if place in budgets}
        if any(differs(size, (seen.measured or {}).get(place, 0)) for place, size in kept.items()):
            self._dispatcher.tell(MemoryMeasured(seen.name, seen.launch, kept))

    def _warn(self, seen: ModelView, peak: Mapping[Place, Bytes]) -> None:
        """Once per model: the declared figure stays in force, but its author should know."""
        footprint = seen.footprint
        if footprint is None or footprint.source is not Source.DECLARED or seen.name in self._warned:
            return
        for place, bytes_ in peak.items():
            declared = footprint.memory.get(place, 0)
            if differs(bytes_, declared) and bytes_ > declared:
                self._warned.add(seen.name)
                sizes = (in_gib(bytes_), in_gib(declared))
                log.warning(
                    "model uses more memory than declared model=%s device=%s used=%r declared=%r",
                    seen.name,
                    place,
                    *sizes,
                )

    # Others

    def _forget_others(self) -> None:
        self._left.clear()
        if self._dispatcher.questions.available:
            self._dispatcher.tell(DevicesChanged({}))

    def _note_others(self, reading: Reading, budgets: Mapping[Place, Bytes]) -> None:
        self._left.append(left_by_others(reading, budgets))
        most = {place: max(left.get(place, 0) for left in self._left) for place in self._left[-1]}
        before = self._dispatcher.questions.limits
        if any(differs(size, before[place]) for place, size in most.items()):
            for place, size in most.items():
                log.info(
                    "memory left by other programs changed device=%s available=%r budget=%r",
                    place,
                    in_gib(size),
                    in_gib(budgets[place]),
                )
            self._dispatcher.tell(DevicesChanged(most))


def budget_of(place: Place, spec: ModelSpec, budgets: Mapping[Place, Bytes]) -> Bytes:
    """PURE: the budget of a place, or of all cards that the model may get."""
    if place != ANY_GPU or spec.gpus is None:
        return budgets[place]
    return sum(budgets[card] for card in spec.gpus.among)


def left_by_others(reading: Reading, budgets: Mapping[Place, Bytes]) -> dict[Place, Bytes]:
    """PURE: the part of each budget that other programs leave; all of it if they take next to nothing."""
    foreign = reading.foreign()
    found = {}
    for place, budget in budgets.items():
        if seen := reading.devices.get(place.device):
            others = foreign.get(place.device, 0)
            found[place] = budget if others < ALWAYS_THERE * seen.total else min(budget, seen.total - others)
    return found


def is_news(peak: Mapping[Place, Bytes], seen: ModelView) -> bool:
    """Whether to report a peak: it replaces the figure once the model was used; until then it may still grow."""
    if any(differs(size, (seen.measured or {}).get(place, 0)) for place, size in peak.items()):
        return True
    footprint = seen.footprint
    if not seen.served or (footprint and footprint.source is Source.DECLARED):
        return False
    if footprint is None or footprint.source is Source.ESTIMATED:
        return True
    return any(differs(size, footprint.memory.get(place, 0)) for place, size in peak.items())


def differs(one: Bytes, other: Bytes) -> bool:
    return abs(one - other) > WORTH_REPORTING * max(one, other)
