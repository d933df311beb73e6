"""Cheap counters: plain numbers without locks, because one thread counts and reads them.

prometheus-client's own metrics take a lock per number; these become its families only when a page is rendered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)
"""From a ready model's first byte to the load of a big one."""
SHORTEST_S = BOUNDS_S[0]
BOUNDS_PER_S = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""From a large model on a CPU to a small one on a big GPU."""
READY, FAILED, GIVEN_UP = OUTCOMES = ("ready", "failed", "given up")
"""Of a start."""


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
