"""What clients received, and what the file of usage says."""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NOTHING = (0, 0, 0, 0)
Sums = dict[tuple[str, str], tuple[int, ...]]
"""Requests, prompt, cached and completion tokens of each model and key."""


class Counts(NamedTuple):
    """Of one request."""

    model: str
    key: str
    prompt: int
    cached: int
    completion: int


class Received(NamedTuple):
    at: float
    counts: Counts


class Comparison(NamedTuple):
    """After one process has ended."""

    received: int
    """Requests answered completely while it ran."""
    missing: int
    """Of these, those that are not in the file."""
    recent: int
    """Requests that may be missing, because they were received shortly before."""
    broken: int
    """Requests that its end broke off; it may have counted them."""
    wrong: list[str]


class Book:
    """What clients received while one process ran."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.broken: list[Counts] = []
        self.open = 0
        """Requests that have not ended."""

    def add(self, counts: Counts) -> None:
        self.received.append(Received(time.monotonic(), counts))

    def compare(self, before: Sums, stored: Sums, until: float) -> Comparison:
        """`before`: what the file had when the process began. `until`: what was received later may be missing."""
        surely = summed((each.counts for each in self.received if each.at <= until), before)
        received = summed((each.counts for each in self.received), before)
        at_most = summed(self.broken, received)
        wrong = [
            f"{place}: {stored.get(place, NOTHING)} is stored, but {least} to {at_most[place]} were received"
            for place, least in {**dict.fromkeys(at_most, NOTHING), **surely}.items()
            if not fits(least, stored.get(place, NOTHING), at_most[place])
        ]
        wrong += [f"{place}: nobody asked for this" for place in stored if place not in at_most]
        recent = sum(each.at > until for each in self.received)
        return Comparison(
            len(self.received), requests_in(received) - requests_in(stored), recent, len(self.broken), wrong
        )


def fits(least: tuple[int, ...], found: tuple[int, ...], most: tuple[int, ...]) -> bool:
    return all(low <= each <= high for low, each, high in zip(least, found, most, strict=True))


def summed(all_counts: Iterable[Counts], before: Sums) -> Sums:
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * 4)
    for place, counts in before.items():
        sums[place] = list(counts)
    for each in all_counts:
        for at, count in enumerate((1, each.prompt, each.cached, each.completion)):
            sums[each.model, each.key][at] += count
    return {place: tuple(counts) for place, counts in sums.items()}


def requests_in(sums: Sums) -> int:
    return sum(counts[0] for counts in sums.values())


def stored_in(file: Path) -> Sums:
    """Read without hotseat's code. A process that was killed at once may have left no table."""
    if not file.exists():
        return {}
    with closing(sqlite3.connect(file)) as opened:
        if not opened.execute("select 1 from sqlite_master where name = 'usage'").fetchone():
            return {}
        rows = opened.execute(
            "select model, key, sum(requests), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens)"
            " from usage group by model, key"
        )
        return {(model, key): tuple(counts) for model, key, *counts in rows}
