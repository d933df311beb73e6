"""Counts requests and loads as they end, for GET /metrics; the rest is read at each scrape.

Counters are plain numbers without locks, because one thread counts and reads them. prometheus-client's own metrics take
a lock per number; these become its families only when a page is rendered. Counterparts: metrics_page.py, which makes
the page, and metric_names.py, which has the name and meaning of each metric.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from time import monotonic
from typing import TYPE_CHECKING

from hotseat.scheduling.commands import ReportSwap, StartUpstream, StopUpstream, WakeUp
from hotseat.scheduling.events import UpstreamAwake, UpstreamExited, UpstreamFailed, UpstreamReady, WakeFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.activity.recent import Tokens
    from hotseat.dispatch.journal import Entry
    from hotseat.identifiers import Instant, LaunchId, ModelName

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)
"""From a ready model's first byte to the load of a big one."""
SHORTEST_S = BOUNDS_S[0]
BOUNDS_PER_S = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""From a large model on a CPU to a small one on a big GPU."""
READY, FAILED, GIVEN_UP = OUTCOMES = ("ready", "failed", "given up")
"""Of a start."""


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


class Spread:
    """A histogram of durations or rates."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = BOUNDS_S) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, seen: float) -> None:
        self.counts[bisect_left(self._bounds, seen)] += 1
        self.total += seen

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bound and cumulative count."""
        bounds = [*(str(bound) for bound in self._bounds), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self.counts)), strict=True))


class RequestCounters:
    """The finished requests of one model."""

    __slots__ = (
        "by_status",
        "cached_prompt_tokens",
        "completion_tokens",
        "first_byte",
        "prompt_tokens",
        "seconds",
        "tokens_per_s",
        "waited",
    )

    def __init__(self) -> None:
        self.by_status = [0] * 6
        """Indexed by the status' first digit; 0 for an answer that never began."""
        self.seconds = Spread()
        self.waited = Spread()
        self.first_byte = Spread()
        self.prompt_tokens = 0
        self.cached_prompt_tokens = 0
        self.completion_tokens = 0
        self.tokens_per_s = Spread(BOUNDS_PER_S)

    def add(self, status: int, waited_s: float, first_byte_s: float | None, seconds: float) -> None:
        self.by_status[status // 100 if 100 <= status < 600 else 0] += 1
        if seconds <= SHORTEST_S and first_byte_s is not None:
            return self._add_short(waited_s, first_byte_s, seconds)
        self.seconds.add(seconds)
        self.waited.add(waited_s)
        if first_byte_s is not None:
            self.first_byte.add(first_byte_s)
        return None

    def _add_short(self, waited_s: float, first_byte_s: float, seconds: float) -> None:
        """A request shorter than the first bound: its parts are in the first bucket too, so no lookup is needed."""
        whole, waited, first_byte = self.seconds, self.waited, self.first_byte
        whole.counts[0] += 1
        whole.total += seconds
        waited.counts[0] += 1
        waited.total += waited_s
        first_byte.counts[0] += 1
        first_byte.total += first_byte_s


class LoadCounters:
    """The starts, stops and wakes of one model."""

    __slots__ = ("crashes", "early_evictions", "outcomes", "seconds", "stop_seconds", "stops", "wake_seconds")

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.seconds = Spread()
        """Of the loads that succeeded."""
        self.stops: Counter[str] = Counter()
        """By cause."""
        self.stop_seconds = Spread()
        self.crashes = 0
        self.early_evictions = 0
        """How often the model was evicted sooner than its load time."""
        self.wake_seconds = Spread()


class AllCounters:
    """All counters, by model; refusals by error code."""

    __slots__ = ("loads", "refusals", "requests")

    def __init__(self) -> None:
        self.requests: dict[str, RequestCounters] = {}
        self.loads: dict[str, LoadCounters] = {}
        self.refusals: Counter[str] = Counter()

    def begin(self, model: str) -> None:
        """Start the model's counters at zero, unless they exist."""
        if model not in self.requests:
            self.requests[model] = RequestCounters()
        if model not in self.loads:
            self.loads[model] = LoadCounters()
