"""GET /metrics: what Prometheus may know. Requests and loads are counted as they end; the rest is read when asked.

Labels hold configured names only: no client can make a new time series.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from hotseat.scheduling.commands import ReportSwap, StartUpstream, StopUpstream
from hotseat.scheduling.events import UpstreamFailed, UpstreamReady
from hotseat.telemetry.page import Page
from hotseat.telemetry.tally import LoadTally, RequestTally

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client.registry import Collector

    from hotseat.journal import Entry
    from hotseat.scheduling.commands import Cause
    from hotseat.scheduling.view import View
    from hotseat.terms import Instant, LaunchId, ModelName

NO_MODEL = ""
"""The label of requests that never got as far as a model."""


class Metrics:
    """Hears of finished requests and of journal entries; `render` is the page."""

    def __init__(
        self, view: Callable[[], View], lag: Callable[[], float], clock: Callable[[], Instant] = time.monotonic
    ) -> None:
        self._requests: dict[str, RequestTally] = {}
        self._loads: dict[str, LoadTally] = {}
        self._reload_succeeded = True
        self._clock = clock
        self._began: dict[LaunchId, Instant] = {}
        self._stopped: set[LaunchId] = set()
        self._registry = CollectorRegistry()
        self._registry.register(Page(self._requests, self._loads, view, lag, lambda: self._reload_succeeded))
        ProcessCollector(registry=self._registry)

    def include(self, more: Collector) -> None:
        """Show what somebody else counts, too."""
        self._registry.register(more)

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def finished(
        self, model: ModelName | None, status: int, waited_s: float, first_byte_s: float | None, seconds: float
    ) -> None:
        """One request has ended, with this status towards the client; 0 where no answer began."""
        tally = self._requests.get(model or NO_MODEL)
        if tally is None:
            tally = self._requests[model or NO_MODEL] = RequestTally()
        tally.add(status, waited_s, first_byte_s, seconds)

    def reloaded(self, success: bool) -> None:
        """The configuration was read again, or kept because the new one is wrong."""
        self._reload_succeeded = success

    def watch(self, entry: Entry) -> None:
        """Count what the journal tells of starts and stops; give this to `Journal.listen`."""
        self._note_end_of_start(entry)
        for command in entry.commands:
            match command:
                case StartUpstream(launch=launch):
                    self._began[launch] = self._clock()
                case ReportSwap(evicted=evicted):
                    for went in evicted:
                        self._loads_of(went.model).early_evictions += went.is_early
                case StopUpstream(model=model, launch=launch, cause=cause):
                    self._note_stop(model, launch, cause)

    def _note_end_of_start(self, entry: Entry) -> None:
        event = entry.event
        if not isinstance(event, UpstreamReady | UpstreamFailed) or event.launch not in self._began:
            return
        took_s = self._clock() - self._began.pop(event.launch)
        tally = self._loads_of(event.model)
        if event.launch in self._stopped:
            self._stopped.discard(event.launch)
            tally.outcomes["given up"] += 1
        elif isinstance(event, UpstreamFailed):
            tally.outcomes["failed"] += 1
        else:
            tally.outcomes["ready"] += 1
            tally.seconds.add(took_s)

    def _note_stop(self, model: ModelName, launch: LaunchId, cause: Cause) -> None:
        if launch in self._began:
            self._stopped.add(launch)
        self._loads_of(model).stops[cause.value] += 1

    def _loads_of(self, model: ModelName) -> LoadTally:
        return self._loads.setdefault(model, LoadTally())
