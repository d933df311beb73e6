"""Deceptive idleness: keep an unused model for a while although others need its memory?

A client that pauses half a second between two requests leaves its model unused for half a second. Evicting it then
costs one load per request. Past gaps show whether the next request is likely to arrive soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.identifiers import Seconds
    from hotseat.scheduling.model_stats import ModelStats

EVIDENCE = 2
"""With fewer samples than this a model does not linger."""
DELAY_WEIGHT = 1.5
"""The delay of others is certain and the gain is a guess, so the delay weighs more."""

SLACK, LEAST_SLACK_S = 0.1, 0.05
"""Clients are not exact: wait a little longer than the expected gap."""


class Pressure(NamedTuple):
    """All requests that wait for missing models."""

    waiting: int
    loads_s: Seconds
    """Time to load all those models."""


def linger_s(stats: ModelStats, load_s: Seconds, unused_s: Seconds, others: Pressure, limit_s: Seconds) -> Seconds:
    """How much longer to keep a model that has been unused for `unused_s`; 0: do not keep it.

    Compares waiting as long as each past gap, and picks the wait with the highest expected gain.
    """
    if len(stats.reuse_gaps) < EVIDENCE:
        return 0.0
    left = sorted(gap - unused_s for gap in stats.reuse_gaps if gap > unused_s)
    best = stay_s = gained = 0.0
    for n, gap in enumerate(left, start=1):
        if gap > limit_s:
            break
        lost_s = DELAY_WEIGHT * others.waiting * (gap + stats.service_s)
        gained += load_s + max(0.0, others.loads_s - gap) - lost_s
        net = gained - DELAY_WEIGHT * others.waiting * gap * (len(left) - n)
        if net > best:
            best, stay_s = net, gap
    return stay_s and min(limit_s, stay_s * (1 + SLACK) + LEAST_SLACK_S)


def next_use_s(gaps: Iterable[Seconds], unused_s: Seconds) -> Seconds:
    """Expected seconds until the next use of a model that has been unused for `unused_s`.

    The mean of the remainders of longer gaps and one guess: as long again. Without samples this orders models by least
    recent use.
    """
    left = [gap - unused_s for gap in gaps if gap > unused_s]
    return max(0.1, (sum(left) + max(unused_s, 1.0)) / (len(left) + 1))
