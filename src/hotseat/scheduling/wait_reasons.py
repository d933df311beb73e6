"""Why does a request wait, and how much longer? One reason and one estimate per model that requests wait for.

The reasons come from the decision itself: a ticket waits for what plan.py cannot do for its claim now.
A time is told only if the loads, drains and stops in it were measured and none of them is late; guesses are for
decisions.
"""

from __future__ import annotations

from math import inf, isfinite, isinf
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.scheduling.bound import Competitor, bound_s
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.loss import Because, Loss, claim_urgency
from hotseat.scheduling.memory_fit import is_in_the_way
from hotseat.scheduling.plan import Action, ClaimDecision, decisions
from hotseat.scheduling.slots import slots

if TYPE_CHECKING:
    from hotseat.identifiers import Instant, ModelName, Seconds
    from hotseat.scheduling.queue import Ticket
    from hotseat.scheduling.state import ModelState, State

RESTARTING = "hotseat is restarting"
LONG_S: Seconds = 60.0
"""A request that has run for so long is named to those that wait for its end."""


class Wait(Struct, frozen=True):
    """What the tickets of one model wait for."""

    why: str
    ready_in_s: Seconds
    """Estimated time until the model is ready; infinite: not known."""
    not_later_than: Instant | None = None


def waits(state: State, now: Instant) -> dict[ModelName, Wait]:
    found = _claims(state, now)
    for name in state.queue.models():
        if name not in found:
            found[name] = _resident(state, state.models[name], now)
    return {name: _held_back(state, name, wait) for name, wait in found.items()} if state.is_handing_over else found


def _held_back(state: State, name: ModelName, wait: Wait) -> Wait:
    """A load in progress goes on during a handover, and a ready model serves."""
    if state.models[name].phase in (Phase.LOADING, Phase.READY):
        return wait
    return Wait(f"{RESTARTING}, then: {wait.why}", wait.ready_in_s)


def _claims(state: State, now: Instant) -> dict[ModelName, Wait]:
    """Missing models, oldest claim first; each estimate builds on the one before."""
    found: dict[ModelName, Wait] = {}
    explainer = _Explainer(state, now)
    for decision in decisions(state, now):
        found[decision.claim.model] = explainer.about(decision)
    for claim in state.claims:
        if claim.model not in found:
            found[claim.model] = explainer.behind(claim.model, None)
    return found


class _Explainer:
    def __init__(self, state: State, now: Instant) -> None:
        self._state, self._now = state, now
        self._present = state.with_process()
        self._number = 0
        self._before: tuple[ModelName, Instant] | None = None
        """The previous claim, and since when it waits."""
        self._before_s: Seconds = 0.0

    def about(self, decision: ClaimDecision) -> Wait:
        name = decision.claim.model
        match decision.action:
            case Action.LEAVING | Action.EVICT:
                wait = self._leaving(decision)
            case Action.LOADER:
                wait = self._loader(decision.others[0], name)
            case Action.HELD:
                wait = self._held(max(decision.staying, key=lambda each: each.until), decision)
            case _:
                return self.behind(name, self._latest(decision))
        self._note(name, decision.claim.since, wait.ready_in_s)
        return Wait(wait.why, wait.ready_in_s, self._latest(decision))

    def behind(self, name: ModelName, latest: Instant | None) -> Wait:
        claim = self._state.claims.of(name)
        assert claim is not None
        first, since = self._before or (name, claim.since)
        place = f"{_ordinal(self._number + 1)} in queue"
        why = f"{place}{'' if first == name else f', behind {first}'} (waiting for {self._now - since:.0f} s)"
        ready_in_s = self._before_s + self._swap_s(name)
        self._note(name, claim.since, ready_in_s)
        return Wait(why, ready_in_s, latest)

    def _note(self, name: ModelName, since: Instant, ready_in_s: Seconds) -> None:
        self._number += 1
        self._before, self._before_s = (name, since), ready_in_s

    def _swap_s(self, name: ModelName) -> Seconds:
        """To stop a loaded model, or the one that is loaded before, and load this one."""
        staying = {each.name for each in self._present if not (each.is_leaving or each.is_asleep or each.spec.pinned)}
        staying |= {self._before[0]} if self._before else set()
        usual_stop_s = max(map(self._state.usual_stop_s, staying), default=0.0)
        return usual_stop_s + self._state.usual_load_s(name)

    def _leaving(self, decision: ClaimDecision) -> Wait:
        load_s = self._state.usual_load_s(decision.claim.model)
        leaving = [each for each in self._present if each.is_leaving and self._is_in_the_way(each, decision)]
        leaving += decision.others
        left_s = max((leaves_in_s(self._state, each, self._now) for each in leaving), default=0.0)
        gone = ", ".join(_leaves(each, self._now) for each in leaving)
        then = f"{'waking' if decision.model.sleep_level else 'loading'} {decision.claim.model}"
        return Wait(f"{gone}, then {then}{_about(load_s)}", left_s + load_s)

    def _loader(self, busy: ModelState, name: ModelName) -> Wait:
        left_s = loads_in_s(self._state, busy, self._now)
        left = f"{left_s:.0f} s left" if isfinite(left_s) else usual_load(self._state, busy, self._now, 0)
        return Wait(f"waiting for {busy.name} to finish loading ({left})", left_s + self._swap_s(name))

    def _held(self, stays: Loss, decision: ClaimDecision) -> Wait:
        load_s = self._state.usual_load_s(decision.claim.model)
        if stays.because is Because.LOADING:
            return self._loader(stays.resident, decision.claim.model)
        resident, left_s = stays.resident, stays.until - self._now
        stops_s = leaves_in_s(self._state, resident, self._now)
        return Wait(self._sentence(stays, left_s, load_s), left_s + stops_s + load_s)

    def _sentence(self, stays: Loss, left_s: Seconds, load_s: Seconds) -> str:
        resident = stays.resident
        match stays.because:
            case Because.EXPECTED:
                return (
                    f"{resident.name} is idle, but its next request is expected soon: protected for {left_s:.1f} s more"
                )
            case Because.OLDER_REQUESTS:
                older = self._state.queue.count(resident.name)
                return f"{resident.name} first serves {_counted(older, 'older request')}, for at most {left_s:.1f} s"
            case _:
                swap_s = load_s + self._state.usual_load_s(resident.name)
                running = f"{_counted(len(resident.leases), 'request')} running"
                cost = f", swap cost {swap_s:.0f} s" if isfinite(swap_s) else ""
                return f"{resident.name} is protected for at most {left_s:.1f} s more ({running}{cost})"

    def _is_in_the_way(self, other: ModelState, decision: ClaimDecision) -> bool:
        return is_in_the_way(self._state, other, decision.model, decision.gpus)

    def _latest(self, decision: ClaimDecision) -> Instant | None:
        """None while a figure is unknown of a model that competes."""
        state, claim = self._state, decision.claim
        awake = [each for each in self._present if each.phase is not Phase.ASLEEP]
        older = [state.models[each.model] for each in state.claims if each < claim]
        others = [each for each in [*awake, *older] if self._is_in_the_way(each, decision)]
        own = Competitor(state.usual_load_s(claim.model), 0.0, 0.0, claim_urgency(state, decision.model))
        if isinf(own.load_s) or any(_is_unknown(state, each) for each in others):
            return None
        return claim.since + bound_s(own, [competitor(state, each) for each in others], state.catalog.policy)


def _is_unknown(state: State, model: ModelState) -> bool:
    """Would a guess be a part of what its coming and going takes?"""
    return model.stats.load_s is None or isinf(state.usual_stop_s(model.name)) or not model.stats.drain_s


def competitor(state: State, model: ModelState) -> Competitor:
    return Competitor(state.load_s(model.name), state.stop_s(model.name), model.stats.drain_s, model.spec.urgency)


def leaves_in_s(state: State, model: ModelState, now: Instant) -> Seconds:
    """Estimated time until a model that was told to leave is gone; infinite: not known, or longer than it ever took."""
    if model.phase is Phase.UNLOADING:
        return _left(model.since + state.usual_stop_s(model.name) - now)
    running_s = max((now - lease.since for lease in model.leases.values()), default=None)
    return (0.0 if running_s is None else _left(model.stats.drain_s - running_s)) + state.usual_stop_s(model.name)


def loads_in_s(state: State, model: ModelState, now: Instant) -> Seconds:
    began = model.since if model.phase is Phase.LOADING else now
    return _left(began + state.usual_load_s(model.name) - now)


def _left(seconds: Seconds) -> Seconds:
    """Nobody knows how long something takes that is late."""
    return seconds if seconds > 0.0 else inf


def _about(load_s: Seconds) -> str:
    return f" (about {load_s:.0f} s)" if isfinite(load_s) else ""


def _leaves(model: ModelState, now: Instant) -> str:
    if not model.leases:
        return f"putting {model.name} to sleep" if model.falls_asleep else f"stopping {model.name}"
    longest_s = max(now - lease.since for lease in model.leases.values())
    running = f"{_counted(len(model.leases), 'request')} running for {longest_s:.0f} s"
    return f"draining {model.name} ({running}{in_the_way(model, now)})"


def in_the_way(model: ModelState, now: Instant) -> str:
    """Names the request that has kept a model from leaving, or a slot from others, for long, and what limits it."""
    oldest = min(model.leases.values(), key=lambda lease: lease.since, default=None)
    if oldest is None or now - oldest.since < LONG_S or model.cut_at is not None:
        return ""
    limit_s = model.spec.max_request_s
    limit = "no maxRequestDuration limits it" if limit_s is None else f"maxRequestDuration ends it after {limit_s:g} s"
    return f"; ticket {oldest.id} of {model.name} has run for {now - oldest.since:.0f} s, {limit}"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing if number == 1 else thing + 's'}"


def _ordinal(number: int) -> str:
    """`2nd`: a position in the queue as people write it."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _resident(state: State, model: ModelState, now: Instant) -> Wait:
    load_s = state.usual_load_s(model.name)
    match model.phase:
        case Phase.LOADING:
            doing = "waking" if model.sleep_level else "loading"
            why = f"{doing} {model.name}: {now - model.since:.0f} s so far, {usual_load(state, model, now, 0)}"
            return Wait(why, loads_in_s(state, model, now))
        case Phase.READY:
            busy = f"{model.slots_used} of {slots(state, model):g} busy{in_the_way(model, now)}"
            return Wait(f"waiting for a free slot on {model.name} ({busy})", 0.0)
        case _:
            then = "woken" if model.falls_asleep else "loaded again"
            why = f"{_leaves(model, now)} ({model.why}), then it is {then}{_about(load_s)}"
            return Wait(why, leaves_in_s(state, model, now) + load_s)


def usual_load(state: State, model: ModelState, now: Instant, digits: int) -> str:
    """A model that was never loaded has no usual time, only the scheduler's guess."""
    usual_s = state.usual_load_s(model.name)
    if isinf(usual_s):
        return "its usual time is not known yet"
    is_late = now - model.since > usual_s
    return f"{'longer than the usual' if is_late else 'usually about'} {usual_s:.{digits}f} s"


def served_in_s(state: State, model: ModelState, ahead: int) -> Seconds:
    """Estimated time until a slot is free for a ticket with `ahead` tickets before it, once the model is ready."""
    at_once = slots(state, model)
    free = at_once - model.slots_used if model.phase is Phase.READY else at_once
    rounds = max(0.0, ahead + 1 - free) / at_once if at_once < float("inf") else 0.0
    return rounds * (model.stats.service_s or inf) if rounds else 0.0


def waited_for(model: ModelState, ticket: Ticket) -> str:
    """What a ticket that is granted now had waited for."""
    # If both are within one tick of the clock, the load is what is certain to have happened.
    if ticket.since > model.ready_at:
        return f"all slots of {model.name} were in use"
    gone = ", ".join(each.model for each in model.evicted_for_it)
    done = "load" if model.fell_asleep_in_s is None else "wake"
    return f"waited for {model.name} to {done}{f' after evicting {gone}' if gone else ''}"


def newcomer_waits_s(state: State, name: ModelName, now: Instant) -> Seconds:
    """Estimated wait of one more request for this model."""
    model, wait = state.models[name], waits(state, now).get(name)
    ready_in_s = inf if wait is None else wait.ready_in_s
    served_s = served_in_s(state, model, state.queue.count(name))
    return (ready_in_s if isfinite(ready_in_s) else state.load_s(name)) + (served_s if isfinite(served_s) else 0.0)
