"""Counting that costs next to nothing: plain numbers without locks, because one thread counts and reads them.

prometheus-client's own metrics take a lock per number; these are turned into its families only when somebody looks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)
"""From a ready model's first byte to the load of a big one."""
SHORTEST_S = BOUNDS_S[0]


class Spread:
    """How often which duration was seen."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bound and how many were at most that long."""
        bounds = [*(str(bound) for bound in BOUNDS_S), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self.counts)), strict=True))


class RequestTally:
    """The finished requests of one model."""

    __slots__ = ("by_status", "first_byte", "seconds", "waited")

    def __init__(self) -> None:
        self.by_status = [0] * 6
        """Indexed by the status' first digit; 0 for an answer that never began."""
        self.seconds = Spread()
        self.waited = Spread()
        self.first_byte = Spread()

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
        """A request so quick that its parts need no looking up: they were no longer than the whole."""
        whole, waited, first_byte = self.seconds, self.waited, self.first_byte
        whole.counts[0] += 1
        whole.total_s += seconds
        waited.counts[0] += 1
        waited.total_s += waited_s
        first_byte.counts[0] += 1
        first_byte.total_s += first_byte_s


class LoadTally:
    """The starts and stops of one model."""

    __slots__ = ("crashes", "early_evictions", "outcomes", "seconds", "stop_seconds", "stops")

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.seconds = Spread()
        """Of the loads that succeeded."""
        self.stops: Counter[str] = Counter()
        """By cause."""
        self.stop_seconds = Spread()
        self.crashes = 0
        self.early_evictions = 0
        """How often it had to go sooner than loading it had taken."""


class Tallies:
    """All that is counted, by model; refusals by their code."""

    __slots__ = ("loads", "refusals", "requests")

    def __init__(self) -> None:
        self.requests: dict[str, RequestTally] = {}
        self.loads: dict[str, LoadTally] = {}
        self.refusals: Counter[str] = Counter()

    def begin(self, model: str) -> None:
        """Count from nought, if that has not begun."""
        if model not in self.requests:
            self.requests[model] = RequestTally()
        if model not in self.loads:
            self.loads[model] = LoadTally()
