"""Is sleeping worth it, and how deeply? Measured round trips against stopping and starting anew decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hotseat.catalog.sleeping import Sleep, SleepLevel
    from hotseat.identifiers import Seconds
    from hotseat.scheduling.model_stats import Nap

TRIES = 2
"""How often a level is tried before it is judged: the first time a server may have to set memory aside."""


class Times(NamedTuple):
    """What is known of one model."""

    restart_s: Seconds
    """To stop it and to start it anew."""
    naps: Mapping[str, Nap]


def worth_it(sleep: Sleep, sleepless: Collection[str], times: Times) -> list[SleepLevel]:
    """Levels hardly tried come first, as they are configured; then those that beat a restart, the quickest first."""
    levels = [level for level in sleep.levels if level.name not in sleepless]
    untried = [level for level in levels if _tried(level, times) < TRIES]
    known = [(times.naps[level.name].round_trip_s, level) for level in levels if level not in untried]
    quick = sorted((each for each in known if each[0] < times.restart_s), key=lambda each: each[0])
    return [*untried, *(level for _, level in quick)]


def _tried(level: SleepLevel, times: Times) -> int:
    nap = times.naps.get(level.name)
    return nap.times if nap else 0
