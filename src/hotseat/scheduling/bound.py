"""The longest wait of a claim, from its start until its model is ready. `why`, the simulator and the docs use it.

Between a model's claim and its load every competing model drains, stops and stays for at most `LONGEST_TURNS` turns; if
requests for it are older, it may load again. A turn is `patience` times two loads, times the urgency of the model that
stays over that of the claim. With `maxWait` all turns together take no longer than it leaves after swaps.
Without cutting requests no better bound is possible: a drain takes as long as the longest request in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hotseat.scheduling.loss import LONGEST_TURNS
from hotseat.scheduling.memory_fit import Free
from hotseat.scheduling.placement import card_choices

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotseat.catalog.catalog import Policy
    from hotseat.identifiers import Seconds
    from hotseat.scheduling.state import ModelState, State


class Competitor(NamedTuple):
    """A model that competes for the same memory."""

    load_s: Seconds
    stop_s: Seconds
    drain_s: Seconds
    """Its longest request."""
    urgency: float = 1.0

    @property
    def swap_s(self) -> Seconds:
        """What its coming and going takes, without its turn."""
        return self.load_s + self.stop_s + self.drain_s


def bound_s(wanted: Competitor, others: Sequence[Competitor], policy: Policy) -> Seconds:
    """The longest time until `wanted` is ready if it competes with `others`."""
    everyone = [wanted, *others]
    slowest_s, least_urgent = max(each.load_s for each in everyone), min(each.urgency for each in everyone)
    turns = [(policy.patience * (each.load_s + slowest_s) * each.urgency / least_urgent, each) for each in others]
    turns_s = sum(max(LONGEST_TURNS * turn_s, turn_s + each.load_s) for turn_s, each in turns)
    swaps_s = sum(each.swap_s for each in everyone)
    if policy.max_wait_s is not None:
        turns_s = min(turns_s, max(0.0, policy.max_wait_s - swaps_s))
    return swaps_s + turns_s


def unkept_max_wait(state: State) -> Iterator[str]:
    """Warn if `maxWait` is shorter than loading, one after the other, the models that compete for memory."""
    max_wait_s = state.catalog.policy.max_wait_s
    if max_wait_s is None:
        return
    known = [(model.stats.load_s, model) for model in state.models.values() if model.stats.load_s is not None]
    rivals: list[ModelState] = []
    total_s = 0.0
    for load_s, model in sorted(known, key=lambda each: -each[0]):
        if total_s <= max_wait_s and all(_are_rivals(state, model, other) for other in rivals):
            rivals.append(model)
            total_s += load_s
    if total_s > max_wait_s:
        names = ", ".join(model.name for model in rivals)
        yield (
            f"maxWait {max_wait_s:g}s cannot be met while {_counted(rivals)} in use"
            f" (loading all of them takes {total_s:.0f}s): {names}"
        )


def _counted(rivals: Sequence[ModelState]) -> str:
    return "this model is" if len(rivals) == 1 else f"these {len(rivals)} models are"


def _are_rivals(state: State, one: ModelState, other: ModelState) -> bool:
    """Can they not be loaded together?"""
    groups = state.catalog.groups
    if groups.pushed_out(one.name, [other.name]) or groups.pushed_out(other.name, [one.name]):
        return True
    return all(
        Free(state, [beside]).lacks(needed)
        for needed in card_choices(state, one).values()
        for beside in card_choices(state, other).values()
    )
