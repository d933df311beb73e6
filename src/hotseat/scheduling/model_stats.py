"""What is learned of each model by watching it: how long it loads, stops, naps and answers, how soon it is used again.

Everything here is a few numbers per model, so it can be kept across restarts (`export`, `adopt`) and costs next to
nothing where requests pass: two additions when one ends, one note when it finds its model unused.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, field
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Bytes, ClientId, Instant, Seconds

UNKNOWN_LOAD_S: Seconds = 20.0
"""A guess for a house that has never loaded anything."""
UNKNOWN_STOP_S: Seconds = 1.0
LONGEST_S: Seconds = 1e9
"""What was kept and is longer than any span that was ever measured is damaged, and is not believed."""
MOST_BYTES: Bytes = 1 << 60
"""Likewise."""
FRESH = 0.3
"""Weight of the newest load: a cold page cache once must not look like a slow model for ever."""
FRESH_REQUEST = 0.2
FORGETTING = 0.95
"""How much of the longest request is still believed after one more."""
KEPT_GAPS = 16
KEPT_CLIENTS = 4096


@dataclass(slots=True)
class Nap:
    """What one way to sleep costs one model."""

    sleep_s: Seconds = 0.0
    """To fall asleep."""
    wake_s: Seconds = 0.0
    times: int = 0
    """How often it slept and was woken."""
    memory: dict[str, Bytes] | None = None
    """What it was seen to take asleep, by device; None: nobody looked."""

    @property
    def round_trip_s(self) -> Seconds:
        return self.sleep_s + self.wake_s

    def woke(self, sleep_s: Seconds, wake_s: Seconds) -> None:
        fresh = FRESH if self.times else 1.0
        self.sleep_s += fresh * (sleep_s - self.sleep_s)
        self.wake_s += fresh * (wake_s - self.wake_s)
        self.times += 1


@dataclass(slots=True)
class Habit:
    """One model's."""

    load_s: Seconds | None = None
    stop_s: Seconds | None = None
    service_s: Seconds = 0.0
    """Mean of the requests it answered, the newest counting most."""
    drain_s: Seconds = 0.0
    """The longest of them, slowly forgotten."""
    gaps: deque[Seconds] = field(default_factory=lambda: deque(maxlen=KEPT_GAPS))
    """How long it was unused before each of its last uses, whether it was resident then or not."""
    returns: deque[Seconds] = field(default_factory=lambda: deque(maxlen=KEPT_GAPS))
    """The same, as far as waiting for that use would have helped; infinite where it would not."""
    naps: dict[str, Nap] = field(default_factory=dict)
    """By the name of each level at which it ever slept."""
    unused_since: Instant | None = None
    """Since when nobody uses or wants it, if it was ever used."""

    def loaded(self, seconds: Seconds) -> None:
        self.load_s = seconds if self.load_s is None else self.load_s + FRESH * (seconds - self.load_s)

    def stopped(self, seconds: Seconds) -> None:
        self.stop_s = seconds if self.stop_s is None else self.stop_s + FRESH * (seconds - self.stop_s)

    def nap(self, level: str) -> Nap:
        return self.naps.setdefault(level, Nap())

    def served(self, seconds: Seconds) -> None:
        mean, longest = self.service_s, FORGETTING * self.drain_s
        self.service_s = mean + FRESH_REQUEST * (seconds - mean) if mean else seconds
        self.drain_s = seconds if seconds > longest else longest

    def used_again(self, gap: Seconds, *, straight: bool) -> None:
        """After `gap` seconds; `straight` unless its client was served by another model in between."""
        self.gaps.append(gap)
        self.returns.append(gap if straight else inf)
        self.unused_since = None


class Habits:
    """All models', and where each client was served last."""

    def __init__(self) -> None:
        self._of: dict[ModelName, Habit] = {}
        self._last_visits: dict[ClientId, tuple[ModelName, Instant]] = {}
        """Where each client was served last, and until when."""
        self._usual_load_s: Seconds = UNKNOWN_LOAD_S

    def of(self, model: ModelName) -> Habit:
        """The habit of this model, now and later the same object."""
        habit = self._of.get(model)
        if habit is None:
            habit = self._of[model] = Habit()
        return habit

    def load_s(self, model: ModelName) -> Seconds:
        """Expected seconds to load; for a model never seen, the mean of those that were."""
        known = self.of(model).load_s
        return self._usual_load_s if known is None else known

    def measured_load_s(self, model: ModelName) -> Seconds | None:
        return self.of(model).load_s

    def stop_s(self, model: ModelName) -> Seconds:
        known = self.of(model).stop_s
        return UNKNOWN_STOP_S if known is None else known

    def loaded(self, model: ModelName, seconds: Seconds) -> None:
        self.of(model).loaded(seconds)
        self._reckon_usual_load()

    def _reckon_usual_load(self) -> None:
        seen = [habit.load_s for habit in self._of.values() if habit.load_s is not None]
        self._usual_load_s = sum(seen) / len(seen) if seen else UNKNOWN_LOAD_S

    # Clients

    def came(self, model: ModelName, habit: Habit, client: ClientId, now: Instant) -> None:
        """A request for a model that nobody used or wanted."""
        since = habit.unused_since
        assert since is not None
        last = self._last_visits.get(client)
        straight = last is None or last[0] == model or last[1] < since
        habit.used_again(now - since, straight=straight)

    def went(self, model: ModelName, habit: Habit, client: ClientId, began: Instant, now: Instant) -> None:
        """A request was answered."""
        visits = self._last_visits
        habit.served(now - began)
        if len(visits) >= KEPT_CLIENTS and client not in visits:
            del visits[next(iter(visits))]
        visits[client] = (model, now)

    # Across restarts

    def export(self) -> dict[str, dict[str, Any]]:
        """As plain data; what was never seen is left out."""
        return {name: _plain(habit) for name, habit in self._of.items() if habit != Habit()}

    def adopt(self, known: Mapping[str, Any]) -> None:
        """Believe what an earlier run exported; whatever does not look like it is passed over."""
        for name, plain in known.items():
            if isinstance(plain, dict):
                _take_over(self.of(ModelName(name)), plain)
        self._reckon_usual_load()


def _plain(habit: Habit) -> dict[str, Any]:
    return {
        "load_s": habit.load_s,
        "stop_s": habit.stop_s,
        "service_s": habit.service_s,
        "drain_s": habit.drain_s,
        "gaps": list(habit.gaps),
        "returns": [gap if isfinite(gap) else None for gap in habit.returns],
        "naps": {level: asdict(nap) for level, nap in habit.naps.items()},
    }


def _take_over(habit: Habit, plain: dict[str, Any]) -> None:
    habit.load_s = _seconds(plain.get("load_s"))
    habit.stop_s = _seconds(plain.get("stop_s"))
    habit.service_s = _seconds(plain.get("service_s")) or 0.0
    habit.drain_s = _seconds(plain.get("drain_s")) or 0.0
    habit.gaps.extend(gap for gap in map(_seconds, _list(plain.get("gaps"))) if gap is not None)
    habit.returns.extend(inf if gap is None else gap for gap in map(_seconds, _list(plain.get("returns"))))
    habit.naps.update({level: _nap(nap) for level, nap in _mapping(plain.get("naps")).items()})


def _nap(plain: object) -> Nap:
    told = _mapping(plain)
    times, memory = told.get("times"), told.get("memory")
    sizes = {place: size for place, size in _mapping(memory).items() if isinstance(size, int) and size <= MOST_BYTES}
    return Nap(
        _seconds(told.get("sleep_s")) or 0.0,
        _seconds(told.get("wake_s")) or 0.0,
        times if isinstance(times, int) and times > 0 else 0,
        None if memory is None else sizes,
    )


def _seconds(value: object) -> Seconds | None:
    """A span of time, if it is one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= LONGEST_S else None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
