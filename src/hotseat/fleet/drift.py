"""Warns if a model of this host is defined differently on another host.

A request may be served by either, so clients get different answers for one name. Each host compares the others' offers
with its own: both sides log it.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hotseat.fleet.records import Offer
    from hotseat.fleet.roster import Roster
    from hotseat.identifiers import HostName, Instant, ModelName, Seconds

log = logging.getLogger(__name__)

MOST_LINES, WINDOW_S = 20, 3600.0
"""Hundreds of models may differ, and hundreds of hosts may each have a configuration of their own."""
MOST_REMEMBERED = 10_000
"""Differences that are not logged again."""
MOST_NAMED = 3
"""Hosts in one line."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A model that two catalogs define differently: its differing keys, with the values of each."""

    model: ModelName
    ours: str
    theirs: str


class Drifts:
    def __init__(self, clock: Callable[[], Instant] = time.monotonic) -> None:
        self._compared: tuple[str, frozenset[str]] = "", frozenset()
        """Our catalog, and those of the other hosts."""
        self._logged: set[Drift] = set()
        self._line_limit = LineLimit(MOST_LINES, WINDOW_S, clock)

    def look(self, roster: Roster) -> None:
        """Called for each record; compares only if a host has a new catalog."""
        me = roster.hosts.get(roster.me)
        if me is None:
            return
        ours = me.record.catalog
        before, self._compared = self._compared, (ours, roster.catalog.used())
        if before == self._compared:
            return
        known = before[1] if before[0] == ours else frozenset()
        for theirs in sorted(self._compared[1] - known - {ours}):
            for drift in drifts(roster.catalog.offers_in(ours), roster.catalog.offers_in(theirs)):
                self._log(drift, roster.me, roster.hosts.by_catalog.names(theirs))

    def _log(self, drift: Drift, here: HostName, there: Sequence[HostName]) -> None:
        if drift in self._logged:
            return
        if len(self._logged) >= MOST_REMEMBERED:
            self._logged.clear()
        self._logged.add(drift)
        if not self._line_limit.lets_through():
            return
        log.warning(
            "a model is defined differently on another host model=%s host=%s other_host=%s ours=%r theirs=%r",
            drift.model,
            here,
            ",".join(there[:MOST_NAMED]),
            drift.ours,
            drift.theirs,
        )


class LineLimit:
    """Lets a number of lines through in each window of time."""

    def __init__(self, most: int, window_s: Seconds, clock: Callable[[], Instant]) -> None:
        self._most = most
        self._window_s = window_s
        self._clock = clock
        self._since: Instant = float("-inf")
        self._lines = 0

    def lets_through(self) -> bool:
        now = self._clock()
        if now - self._since >= self._window_s:
            self._since, self._lines = now, 0
        self._lines += 1
        return self._lines <= self._most


def drifts(ours: Mapping[ModelName, Offer], theirs: Mapping[ModelName, Offer]) -> Iterator[Drift]:
    """PURE: the models that are in both and differ."""
    for model in sorted(ours.keys() & theirs.keys()):
        mine, other = ours[model], theirs[model]
        if mine != other and (keys := differing(mine, other)):
            yield Drift(model, _text(definition(mine), keys), _text(definition(other), keys))


def differing(mine: Offer, other: Offer) -> list[str]:
    """Estimates depend on the devices of a host, so they do not count."""
    before, after = definition(mine), definition(other)
    uncounted = "memory" if mine.is_estimate and other.is_estimate else None
    return [key for key in before if before[key] != after[key] and key != uncounted]


def definition(offer: Offer) -> dict[str, Any]:
    """By the keys of the configuration."""
    return {
        "command": offer.recipe,
        "memory": offer.memory,
        "gpus": offer.among or offer.gpus,
        "hosts": offer.labels,
        "aliases": sorted(offer.aliases),
        "replicas.min": offer.least,
        "replicas.max": offer.most,
    }


def _text(definition: Mapping[str, Any], keys: Sequence[str]) -> str:
    return ", ".join(f"{key}: {definition[key]}" for key in keys)
