"""Counts requests and loads as they end, for GET /metrics; the rest is read at each scrape.

Counterparts: metrics_text.py, which makes the page, and metric_names.py, which has the name and meaning of each metric.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from hotseat.scheduling.commands import ReportSwap, StartUpstream, StopUpstream, WakeUp
from hotseat.scheduling.events import UpstreamAwake, UpstreamExited, UpstreamFailed, UpstreamReady, WakeFailed
from hotseat.telemetry.counters import FAILED, GIVEN_UP, READY, AllCounters, LoadCounters, RequestCounters

if TYPE_CHECKING:
    from hotseat.activity.recent import Tokens
    from hotseat.dispatch.journal import Entry
    from hotseat.identifiers import Instant, LaunchId, ModelName


class Metrics:
    """Counts finished requests and journal entries."""

    def __init__(self) -> None:
        self.counters = counters = AllCounters()
        self.reload_succeeded = True
        self._requests, self._loads, self._refusals = counters.requests, counters.loads, counters.refusals
        self._began: dict[LaunchId, Instant] = {}
        self._stopped: dict[LaunchId, Instant] = {}
        self._woken: dict[LaunchId, Instant] = {}

    def finished(
        self, model: ModelName, status: int, waited_s: float, first_byte_s: float | None, seconds: float
    ) -> None:
        """Count a finished request by its status towards the client; 0 if no answer began."""
        counters = self._requests.get(model)
        if counters is None:
            counters = self._requests[model] = RequestCounters()
        counters.add(status, waited_s, first_byte_s, seconds)

    def counted(self, model: ModelName, tokens: Tokens, per_second: float | None) -> None:
        """Count the tokens that a finished request's answer reports; call after `finished`."""
        counters = self._requests[model]
        counters.prompt_tokens += tokens.prompt or 0
        counters.cached_prompt_tokens += tokens.cached or 0
        counters.completion_tokens += tokens.completion or 0
        if per_second is not None:
            counters.tokens_per_s.add(per_second)

    def refused(self, code: str) -> None:
        """Count an error answer of hotseat itself."""
        self._refusals[code] += 1

    def reloaded(self, success: bool) -> None:
        """Count a reload; False: the new configuration has errors and the old one stays active."""
        self.reload_succeeded = success

    def watch(self, entry: Entry) -> None:
        """Count starts and stops from the journal; pass this to `Journal.listen`."""
        match entry.event:
            case UpstreamReady() | UpstreamFailed() as ended:
                self._note_end_of_start(ended)
            case UpstreamExited(model=model, launch=launch) if not self._note_end_of_stop(model, launch):
                self._loads_of(model).crashes += 1
            case UpstreamAwake(model=model, launch=launch):
                self._loads_of(model).wake_seconds.add(monotonic() - self._woken.pop(launch))
            case WakeFailed(launch=launch):
                self._woken.pop(launch, None)
        for command in entry.commands:
            match command:
                case StartUpstream(launch=launch):
                    self._began[launch] = monotonic()
                case WakeUp(launch=launch):
                    self._woken[launch] = monotonic()
                case ReportSwap(evicted=evicted):
                    for went in evicted:
                        self._loads_of(went.model).early_evictions += went.is_early
                case StopUpstream(model=model, launch=launch, cause=cause):
                    self._stopped[launch] = monotonic()
                    self._loads_of(model).stops[cause.value] += 1

    def _note_end_of_start(self, ended: UpstreamReady | UpstreamFailed) -> None:
        began = self._began.pop(ended.launch)
        counters = self._loads_of(ended.model)
        if ended.launch in self._stopped:
            counters.outcomes[GIVEN_UP] += 1
        elif isinstance(ended, UpstreamFailed):
            counters.outcomes[FAILED] += 1
        else:
            counters.outcomes[READY] += 1
            counters.seconds.add(monotonic() - began)
        if isinstance(ended, UpstreamFailed):  # its process is gone
            self._note_end_of_stop(ended.model, ended.launch)

    def _note_end_of_stop(self, model: ModelName, launch: LaunchId) -> bool:
        """A process is gone; False if nobody had stopped it."""
        stopped_at = self._stopped.pop(launch, None)
        if stopped_at is None:
            return False
        self._loads_of(model).stop_seconds.add(monotonic() - stopped_at)
        return True

    def _loads_of(self, model: ModelName) -> LoadCounters:
        return self._loads.setdefault(model, LoadCounters())
