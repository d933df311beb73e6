"""What is measured per model: the time to load, stop, sleep, wake and answer, and the gaps between uses.

A few numbers per model: they are kept across restarts (`export`, `adopt`) and cost a request next to nothing, two
additions when it ends and one sample when it finds its model unused.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from hotseat.identifiers import ModelName
from hotseat.scheduling.conversation_state import ConversationStats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Bytes, ClientId, Instant, Place, Seconds

UNKNOWN_LOAD_S: Seconds = 20.0
"""Used until the first load has been measured."""
UNKNOWN_STOP_S: Seconds = 1.0
LONGEST_S: Seconds = 1e9
"""Longer stored times are corrupt and ignored."""
MOST_BYTES: Bytes = 1 << 60
"""Larger stored sizes are corrupt and ignored."""
FRESH = 0.3
"""Weight of the newest load: one load from a cold page cache must not mark a model as slow for long."""
FRESH_REQUEST = 0.2
FORGETTING = 0.95
"""Decay of the longest request per further request."""
KEPT_GAPS = 16
KEPT_CLIENTS = 4096
KEPT_REMOVED = 200
"""As many as are stored for the next start."""


class SleepStats(Struct):
    """What one sleep level costs one model."""

    sleep_s: Seconds = 0.0
    wake_s: Seconds = 0.0
    times: int = 0
    """How often it was put to sleep and woken."""
    memory: dict[str, Bytes] | None = None
    """Measured memory asleep, by device; None: never measured."""

    @property
    def round_trip_s(self) -> Seconds:
        return self.sleep_s + self.wake_s

    def woke(self, sleep_s: Seconds, wake_s: Seconds) -> None:
        fresh = FRESH if self.times else 1.0
        self.sleep_s += fresh * (sleep_s - self.sleep_s)
        self.wake_s += fresh * (wake_s - self.wake_s)
        self.times += 1


@dataclass(slots=True)
class ModelStats:
    """The figures of one model."""

    load_s: Seconds | None = None
    stop_s: Seconds | None = None
    service_s: Seconds = 0.0
    """Mean duration of its requests, weighted towards the newest."""
    drain_s: Seconds = 0.0
    """The longest of them, with decay."""
    gaps: deque[Seconds] = field(default_factory=lambda: deque(maxlen=KEPT_GAPS))
    """How long it was unused before each of its last uses, loaded or not."""
    reuse_gaps: deque[Seconds] = field(default_factory=lambda: deque(maxlen=KEPT_GAPS))
    """The same gaps; infinite where keeping the model loaded would not have helped."""
    memory: Mapping[Place, Bytes] | None = field(default=None, compare=False)
    """Measured memory of its recipe, awake; not exported, because it is stored by recipe."""
    sleep_stats_by_level: dict[str, SleepStats] = field(default_factory=dict)
    """By name of the sleep level."""
    conversations: ConversationStats = field(default_factory=ConversationStats)
    unused_since: Instant | None = None
    """Since when no request uses it or waits for it; None if in use or never used."""

    def loaded(self, seconds: Seconds) -> None:
        self.load_s = seconds if self.load_s is None else self.load_s + FRESH * (seconds - self.load_s)

    def stopped(self, seconds: Seconds) -> None:
        self.stop_s = seconds if self.stop_s is None else self.stop_s + FRESH * (seconds - self.stop_s)

    def sleep_stats(self, level: str) -> SleepStats:
        return self.sleep_stats_by_level.setdefault(level, SleepStats())

    def served(self, seconds: Seconds) -> None:
        mean, longest = self.service_s, FORGETTING * self.drain_s
        self.service_s = mean + FRESH_REQUEST * (seconds - mean) if mean else seconds
        self.drain_s = seconds if seconds > longest else longest

    def used_again(self, gap: Seconds, *, straight: bool) -> None:
        """`straight`: its client used no other model during the gap."""
        self.gaps.append(gap)
        self.reuse_gaps.append(gap if straight else inf)
        self.unused_since = None


class StatsOfModels:
    """The figures of all models, and the last model of each client."""

    def __init__(self) -> None:
        self._of: dict[ModelName, ModelStats] = {}
        self._used: dict[ModelName, ModelStats] = {}
        """Those of models used in this run, the last used last."""
        self._removed: dict[ModelName, None] = {}
        """Those of models that have left the configuration and may come back, the last removed last."""
        self._last_visits: dict[ClientId, tuple[ModelName, Instant]] = {}
        """Last model of each client, and when that request ended."""
        self._loads_s: Seconds = 0.0
        """The load times of all models that have one, added up."""
        self._loaded = 0
        """How many those are."""

    def of(self, model: ModelName) -> ModelStats:
        """Always returns the same object for a model, unless that was removed long ago."""
        self._removed.pop(model, None)
        stats = self._of.get(model)
        if stats is None:
            stats = self._of[model] = ModelStats()
        return stats

    def removed(self, model: ModelName) -> None:
        self._removed[model] = None
        if len(self._removed) > KEPT_REMOVED:
            oldest = next(iter(self._removed))
            del self._removed[oldest]
            self._used.pop(oldest, None)
            load_s = self._of.pop(oldest).load_s
            self._loads_s -= load_s or 0.0
            self._loaded -= load_s is not None

    def load_s(self, model: ModelName) -> Seconds:
        """Expected load time; for a model never loaded, the mean of the others."""
        known = self.of(model).load_s
        return self._usual_load_s if known is None else known

    @property
    def _usual_load_s(self) -> Seconds:
        return self._loads_s / self._loaded if self._loaded else UNKNOWN_LOAD_S

    def stop_s(self, model: ModelName) -> Seconds:
        known = self.of(model).stop_s
        return UNKNOWN_STOP_S if known is None else known

    def loaded(self, model: ModelName, seconds: Seconds) -> None:
        stats = self.of(model)
        self.used(model, stats)
        before = stats.load_s
        stats.loaded(seconds)
        assert stats.load_s is not None
        self._loads_s += stats.load_s - (before or 0.0)
        self._loaded += before is None

    def used(self, model: ModelName, stats: ModelStats) -> None:
        self._used.pop(model, None)
        self._used[model] = stats

    # Clients

    def came(self, model: ModelName, stats: ModelStats, client: ClientId, now: Instant) -> None:
        """A request arrived for an unused model."""
        since = stats.unused_since
        assert since is not None
        last = self._last_visits.get(client)
        straight = last is None or last[0] == model or last[1] < since
        stats.used_again(now - since, straight=straight)

    def went(self, model: ModelName, stats: ModelStats, client: ClientId, began: Instant, now: Instant) -> None:
        visits = self._last_visits
        self.used(model, stats)
        stats.served(now - began)
        if len(visits) >= KEPT_CLIENTS and client not in visits:
            del visits[next(iter(visits))]
        visits[client] = (model, now)

    # Across restarts

    def export(self) -> dict[str, dict[str, Any]]:
        """Plain data of the models used in this run, the last used last."""
        return {name: _plain(stats) for name, stats in self._used.items()}

    def adopt(self, known: Mapping[str, Any]) -> None:
        """What an earlier run exported replaces what is known of those models; invalid entries are ignored."""
        for name, plain in known.items():
            if isinstance(plain, dict):
                _take_over(self.of(ModelName(name)), plain)
        loads = [stats.load_s for stats in self._of.values() if stats.load_s is not None]
        self._loads_s, self._loaded = sum(loads), len(loads)


def _plain(stats: ModelStats) -> dict[str, Any]:
    return {
        "load_s": stats.load_s,
        "stop_s": stats.stop_s,
        "service_s": stats.service_s,
        "drain_s": stats.drain_s,
        "gaps": list(stats.gaps),
        "reuse_gaps": [gap if isfinite(gap) else None for gap in stats.reuse_gaps],
        "sleep_stats": {level: asdict(sleep_stats) for level, sleep_stats in stats.sleep_stats_by_level.items()},
        "conversations": stats.conversations.export(),
    }


def _take_over(stats: ModelStats, plain: dict[str, Any]) -> None:
    stats.load_s = _seconds(plain.get("load_s"))
    stats.stop_s = _seconds(plain.get("stop_s"))
    stats.service_s = _seconds(plain.get("service_s")) or 0.0
    stats.drain_s = _seconds(plain.get("drain_s")) or 0.0
    gaps, reuse_gaps = (map(_seconds, _list(plain.get(name))) for name in ("gaps", "reuse_gaps"))
    stats.gaps = deque((gap for gap in gaps if gap is not None), KEPT_GAPS)
    stats.reuse_gaps = deque((inf if gap is None else gap for gap in reuse_gaps), KEPT_GAPS)
    stats.sleep_stats_by_level.update(
        {level: _sleep_stats(sleep_stats) for level, sleep_stats in _mapping(plain.get("sleep_stats")).items()}
    )
    stats.conversations = ConversationStats.adopt(_mapping(plain.get("conversations")))


def _sleep_stats(plain: object) -> SleepStats:
    parsed = _mapping(plain)
    times, memory = parsed.get("times"), parsed.get("memory")
    sizes = {place: size for place, size in _mapping(memory).items() if isinstance(size, int) and size <= MOST_BYTES}
    return SleepStats(
        _seconds(parsed.get("sleep_s")) or 0.0,
        _seconds(parsed.get("wake_s")) or 0.0,
        times if isinstance(times, int) and times > 0 else 0,
        None if memory is None else sizes,
    )


def _seconds(value: object) -> Seconds | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= LONGEST_S else None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
