"""After any fact: who can be granted, stopped, started, evicted? Passes repeat until nothing changes any more.

The order of the passes is the policy. Residents are served first; then room is made, for the oldest claim first; a
model that has room coming to it counts as if it were there already, so no younger claim can take what was cleared
for an older one. Nothing here remembers an earlier decision: what is under way can be read off the phases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.errors import LoadFailed, NeverFits
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.eviction import choose_victims
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.line import Wish
from hotseat.scheduling.room import fits, is_in_the_way, shortage
from hotseat.scheduling.turns import due, is_protected, may_leave_at, slots

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.catalog.spec import ModelSpec
    from hotseat.scheduling.moves import Moves
    from hotseat.scheduling.state import ModelState, State
    from hotseat.terms import Instant, ModelName, Seconds

NEVER: Instant = float("inf")


def settle(moves: Moves) -> Instant:
    """Bring the house to rest; return when it must be looked at again though nothing happened."""
    while True:
        before = len(moves.commands)
        wake = _pass(moves)
        if len(moves.commands) == before:
            return wake


def _pass(moves: Moves) -> Instant:
    wake = min(_end_rests(moves), _cut_late_leases(moves))
    _serve_residents(moves)
    _stop_drained(moves)
    wake = min(wake, _make_room(moves), _retire_idle(moves))
    _stop_drained(moves)
    return wake


# Failures


def _end_rests(moves: Moves) -> Instant:
    wake = NEVER
    for model in moves.state.in_phase(Phase.RESTING):
        if model.rest_until <= moves.now:
            moves.recover(model)
        else:
            wake = min(wake, model.rest_until)
            moves.refuse_all(model.name, rests(model, moves.now), "it rests after a failure")
    return wake


def rests(model: ModelState, now: Instant) -> LoadFailed:
    left: Seconds = model.rest_until - now
    text = (
        f"{model.name} failed {model.failures} times in a row and rests for {left:.0f} s more;"
        f" load it explicitly to try at once. Last failure: {model.last_error}"
    )
    return LoadFailed(text, retry_after=left)


# Residents


def _serve_residents(moves: Moves) -> None:
    state = moves.state
    for name in state.line.models():
        model = state.models[name]
        if model.phase is not Phase.READY:
            continue
        limit = slots(state, model)
        for ticket in state.line.waiting_for(name):
            if ticket.wish is not Wish.USE or model.slots_used < limit:
                moves.grant(model, ticket, f"{name} is ready")


def _cut_late_leases(moves: Moves) -> Instant:
    wake = NEVER
    for model in moves.state.in_phase(Phase.DRAINING):
        if model.cut_at is None:
            continue
        if model.cut_at <= moves.now:
            moves.cut(model, f"{model.name} is being stopped and the time to finish is over")
        else:
            wake = min(wake, model.cut_at)
    return wake


def _stop_drained(moves: Moves) -> None:
    for model in moves.state.in_phase(Phase.DRAINING):
        if not model.leases:
            moves.stop(model)


def _retire_idle(moves: Moves) -> Instant:
    """Unload models whose ttl is over: only idle ones, so it cannot race with a granted request."""
    wake = NEVER
    for model in moves.state.in_phase(Phase.READY):
        expires = model.expires_at()
        if expires is None or moves.state.line.count(model.name) or model.spec.pinned:
            continue
        if expires <= moves.now:
            moves.dismiss(model, Cause.TTL, f"unused for its ttl of {model.spec.ttl_s:g} s")
        else:
            wake = min(wake, expires)
    return wake


# Claims


def _make_room(moves: Moves) -> Instant:
    """Start what fits; for what does not, evict whoever may leave. Oldest claim first."""
    state, wake = moves.state, NEVER
    promised: list[ModelState] = []
    for name in claims(state):
        model, spec = state.models[name], state.catalog.models[name]
        if error := never_fits(state, spec):
            moves.refuse_all(name, error, "it never fits")
        elif older := _would_block(state, name, promised):
            model.waits_because = f"{older} asked first"
        elif _has_room(state, spec, promised):
            moves.start(model, reason_to_start(state, name))
        else:
            wake = min(wake, _clear_room(moves, model, spec, promised))
    return wake


def claims(state: State) -> list[ModelName]:
    """Missing models that somebody waits for, oldest claim first."""
    wanted = [name for name in state.line.models() if state.models[name].phase is Phase.COLD]
    return sorted(wanted, key=lambda name: (state.claim(name), state.line.oldest(name)))


def _would_block(state: State, name: ModelName, promised: list[ModelState]) -> ModelName | None:
    """The older claim that could not load beside `name`."""
    return next((older.name for older in promised if state.catalog.groups.must_leave(name, older.name)), None)


def _has_room(state: State, spec: ModelSpec, promised: list[ModelState]) -> bool:
    """It fits beside all that run now, and will beside those to whom room is promised."""
    now, then = state.with_process(), _staying(state, promised)
    return fits(spec, specs(now), state.catalog) and fits(spec, specs(then), state.catalog)


def _clear_room(moves: Moves, model: ModelState, spec: ModelSpec, promised: list[ModelState]) -> Instant:
    """See that room is on its way to `model`; where that is too early, return when to try again."""
    state, wake = moves.state, NEVER
    if not fits(spec, specs(_staying(state, promised)), state.catalog):
        wake = _evict_for(moves, model, spec, promised)
    if fits(spec, specs(_staying(state, promised)), state.catalog):
        in_the_way = [
            m.name for m in state.with_process() if m.is_leaving and is_in_the_way(m.spec, spec, state.catalog)
        ]
        model.waits_because = f"waiting for {', '.join(in_the_way)} to leave"
        promised.append(model)
    return wake


def _staying(state: State, promised: list[ModelState]) -> list[ModelState]:
    return [model for model in state.with_process() if not model.is_leaving] + promised


def _evict_for(moves: Moves, model: ModelState, spec: ModelSpec, promised: list[ModelState]) -> Instant:
    """Make room for `model` if that is allowed now, else return when it will be."""
    state, staying = moves.state, _staying(moves.state, promised)
    free, later = _who_may_leave(moves, model.name)
    if busy := loader_busy_with(state):
        model.waits_because = f"{busy} is loading first"
        # Once its turn has come no younger load may begin in its way, or the loader would never be free for it.
        overdue = _overdue_loads(moves, model.name)
        promised += [model] if choose_victims(state, spec, [*free, *overdue], staying) else []
        return NEVER
    victims = choose_victims(state, spec, free, staying)
    if victims is None:
        asked_first = f"{', '.join(older.name for older in promised)} asked first"
        model.waits_because = keeps_its_turn(later, moves.now) if later else asked_first
        return min((when for _, when in later), default=NEVER)
    for victim in victims:
        evict(moves, victim, f"{model.name} needs its room")
    return NEVER


def _who_may_leave(moves: Moves, wanted: ModelName) -> tuple[list[ModelState], list[tuple[ModelState, Instant]]]:
    """Residents that may be evicted for `wanted` now, and those that may be from some time on."""
    residents = _staying(moves.state, [])
    known = [(resident, may_leave_at(moves.state, wanted, resident, moves.now)) for resident in residents]
    free = [resident for resident, when in known if when is not None and when <= moves.now]
    later = [(resident, when) for resident, when in known if when is not None and when > moves.now]
    return free, later


def _overdue_loads(moves: Moves, wanted: ModelName) -> list[ModelState]:
    """Loads that somebody waits for, and that `wanted` has waited for long enough."""
    state = moves.state
    return [
        load
        for load in state.in_phase(Phase.LOADING)
        if not is_protected(state, wanted, load) and due(state, wanted, load) <= moves.now
    ]


def keeps_its_turn(later: list[tuple[ModelState, Instant]], now: Instant) -> str:
    """About the last of those who have to leave."""
    resident, when = max(later, key=lambda each: each[1])
    return (
        f"{resident.name} keeps its turn for {when - now:.1f} s more at most: {len(resident.leases)} requests running"
    )


def evict(moves: Moves, victim: ModelState, because: str) -> None:
    victim.evicted_at = moves.now
    abandoned = " and nobody waits for it any more" if victim.phase is Phase.LOADING else ""
    moves.dismiss(victim, Cause.EVICTION, f"{because}{abandoned}")


def loader_busy_with(state: State) -> ModelName | None:
    """Never empty memory before it can be refilled. A load that nobody waits for any more does not count."""
    return next((model.name for model in state.in_phase(Phase.LOADING) if state.line.count(model.name)), None)


def reason_to_start(state: State, name: ModelName) -> str:
    waiting = state.line.count(name)
    return f"{waiting} {'request waits' if waiting == 1 else 'requests wait'} for it"


# Feasibility, before anything is evicted


def never_fits(state: State, spec: ModelSpec) -> NeverFits | None:
    """Could `spec` be had if everybody left who may?"""
    for_good = [
        model.spec for model in state.with_process() if is_protected(state, spec.name, model) and not model.is_leaving
    ]
    if fits(spec, for_good, state.catalog):
        return None
    return NeverFits(
        f"{spec.name} never fits: it {shortage(spec, for_good, state.catalog)}."
        " Raise the budget, unpin a model or choose a smaller quantisation."
    )


def specs(models: Iterable[ModelState]) -> tuple[ModelSpec, ...]:
    return tuple(model.spec for model in models)
