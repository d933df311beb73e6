"""Deceptive idleness: is an unused model worth waiting for although others want its room?

A client that thinks for half a second between two requests leaves its model unused for half a second. Swapping it out
then costs one load per request. Its own past says whether its next request is about to come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.identifiers import Seconds
    from hotseat.scheduling.model_stats import Habit

EVIDENCE = 2
"""Fewer returns than this say nothing: a cold start behaves like a house without any of this."""
DOUBT = 1.5
"""What others lose is certain, what is gained is a guess: so their waiting weighs more."""

SLACK, LEAST_SLACK_S = 0.1, 0.05
"""Nobody returns to the millisecond: waiting is not given up just before it pays."""


class Pressure(NamedTuple):
    """Those who wait for missing models, all together."""

    waiting: int
    loads_s: Seconds
    """What loading all they wait for takes."""


def linger_s(habit: Habit, load_s: Seconds, unused_s: Seconds, others: Pressure, limit_s: Seconds) -> Seconds:
    """How much longer to keep a model that is unused for `unused_s` already; 0: not at all.

    For each of its past returns the gain of having waited that long is added up, and the best is taken.
    """
    if len(habit.returns) < EVIDENCE:
        return 0.0
    left = sorted(gap - unused_s for gap in habit.returns if gap > unused_s)
    best = stay_s = gained = 0.0
    for n, gap in enumerate(left, start=1):
        if gap > limit_s:
            break
        lost_s = DOUBT * others.waiting * (gap + habit.service_s)
        gained += load_s + max(0.0, others.loads_s - gap) - lost_s
        net = gained - DOUBT * others.waiting * gap * (len(left) - n)
        if net > best:
            best, stay_s = net, gap
    return stay_s and min(limit_s, stay_s * (1 + SLACK) + LEAST_SLACK_S)


def next_use_s(gaps: Iterable[Seconds], unused_s: Seconds) -> Seconds:
    """Expected seconds to the next use of a model that is unused for `unused_s` already.

    The mean of what is left of longer gaps, and one guess: as long again. Without any evidence that is
    "longest unused goes first".
    """
    left = [gap - unused_s for gap in gaps if gap > unused_s]
    return max(0.1, (sum(left) + max(unused_s, 1.0)) / (len(left) + 1))
