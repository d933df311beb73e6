"""Logs the limits of the configuration that cannot be met, each once until it changes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hotseat.scheduling.events import CatalogChanged, UpstreamReady

if TYPE_CHECKING:
    from hotseat.dispatch.journal import Entry
    from hotseat.scheduling.scheduler import Scheduler

log = logging.getLogger(__name__)


class UnmetLimits:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._logged: list[str] = []

    def watch(self, entry: Entry) -> None:
        """A listener of the journal: a load changes what is known about limits that can be met."""
        if isinstance(entry.event, UpstreamReady | CatalogChanged):
            self.log_new()

    def log_new(self) -> None:
        warnings = self._scheduler.warnings()
        for warning in warnings:
            if warning not in self._logged:
                log.warning("configuration problem=%r", warning)
        self._logged = warnings
