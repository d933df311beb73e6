"""Which sleep levels are worth it: measured round trips are compared with a stop and a start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hotseat.catalog.sleeping import Sleep, SleepLevel
    from hotseat.identifiers import Seconds
    from hotseat.scheduling.model_stats import SleepStats

TRIES = 2
"""Attempts before a level is judged: the first sleep may include allocating memory."""


class Times(NamedTuple):
    """What is measured of one model."""

    restart_s: Seconds
    """To stop and start it."""
    sleep_stats_by_level: Mapping[str, SleepStats]


def worth_it(sleep: Sleep, failed_levels: Collection[str], times: Times) -> list[SleepLevel]:
    """Levels with few attempts first, in configured order; then those faster than a restart, fastest first."""
    levels = [level for level in sleep.levels if level.name not in failed_levels]
    untried = [level for level in levels if _tried(level, times) < TRIES]
    known = [(times.sleep_stats_by_level[level.name].round_trip_s, level) for level in levels if level not in untried]
    quick = sorted((each for each in known if each[0] < times.restart_s), key=lambda each: each[0])
    return [*untried, *(level for _, level in quick)]


def _tried(level: SleepLevel, times: Times) -> int:
    sleep_stats = times.sleep_stats_by_level.get(level.name)
    return sleep_stats.times if sleep_stats else 0
