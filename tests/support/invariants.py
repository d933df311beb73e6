"""What must hold in the scheduler's state after every event. A violation is a bug in hotseat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_fit import free_later, free_now
from hotseat.scheduling.memory_pressure import holds_yielded_memory
from hotseat.scheduling.slots import serves_at_once
from hotseat.scheduling.state import CLAIMABLE, takes_slot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.scheduling.state import ModelState, State

WITH_SLEEP_LEVEL = (Phase.DRAINING, Phase.UNLOADING, Phase.ASLEEP, Phase.LOADING)


class BrokenPromise(AssertionError): ...


def check(state: State, *, has_other_rules: bool = False) -> None:
    """Raise BrokenPromise listing every violation.

    After a reload that changed groups or budgets, models may run that must leave: these no longer count.
    """
    broken = [
        *_memory(state, has_other_rules=has_other_rules),
        *_books(state),
        *(problem for model in state.models.values() for problem in _model(model)),
    ]
    broken += _service(state)
    if broken:
        raise BrokenPromise("; ".join(broken))


def _memory(state: State, *, has_other_rules: bool) -> Iterator[str]:
    residents = state.with_process()
    is_as_promised = not state.available and all(model.measured is None for model in residents)
    if is_as_promised and not has_other_rules and free_now(state).exceeded():
        yield f"over budget: {[model.name for model in residents]}"
    if not state.may_exceed_memory and (excess := free_later(state).exceeded()):
        yield f"models exceed the limits by {excess}, and no check is pending"
    holding = [model.name for model in residents if holds_yielded_memory(state, model)]
    if holding and not state.is_handing_over:
        yield f"{holding} are still running although a yield is active: {state.yielding}"
    awake = [model for model in residents if not model.is_asleep]
    if has_other_rules:  # during a handover none of them may leave
        awake = [each for each in awake if not (each.is_leaving or each.spec.pinned or state.is_handing_over)]
    matrix, names = state.catalog.groups.matrix, [model.name for model in awake]
    if matrix is not None and names and matrix.pushed_out(names[0], names[1:]):
        yield f"{names} run together, but no set of the matrix holds them all"
    for group in {id(g): g for g in map(state.catalog.groups.of, state.models)}.values():
        together = [model.name for model in awake if state.catalog.groups.of(model.name) is group]
        if group.swap and len(together) > 1:
            yield f"{together} run together, but group {group.name} allows one at a time"


def _books(state: State) -> Iterator[str]:
    leased = {ticket: model.name for model in state.models.values() for ticket in model.leases}
    if leased != {ticket: model.name for ticket, model in state.leases.items()}:
        yield f"leases disagree: {leased} against {list(state.leases)}"
    if set(state.active) != {model.name for model in state.models.values() if model.phase is not Phase.COLD}:
        yield f"active disagrees: {list(state.active)}"
    has_failed = {model.name for model in state.models.values() if model.phase is Phase.COLD and model.failures}
    if set(state.failed) != has_failed:
        yield f"failed disagrees: {list(state.failed)}"
    if unwanted := [name for name in state.read_ahead if state.claims.of(name) is None]:
        yield f"{unwanted} are read ahead, but no claim exists for them"
    if state.postponed and not state.is_handing_over:
        yield f"{state.postponed} are still postponed although no handover is in progress"
    waiting = [ticket.id for ticket in state.queue]
    if len(waiting) != len(state.queue) or set(waiting) & set(leased):
        yield f"waiting and leased at once, or counted twice: {waiting}"


def _model(model: ModelState) -> Iterator[str]:
    description = f"{model.name} is {model.phase.value} ({model.why})"
    if (model.launch is not None) != model.phase.takes_memory:
        yield f"{description} with launch {model.launch}"
    if (model.upstream is not None) != _may_be_asked(model):
        yield f"{description} with upstream {model.upstream}"
    if (model.sleep_level is None and model.phase is Phase.ASLEEP) or (
        model.sleep_level and model.phase not in WITH_SLEEP_LEVEL
    ):
        yield f"{description} with sleep level {model.sleep_level}"
    if model.conversations.is_saving and (model.phase is not Phase.UNLOADING or model.sleep_level):
        yield f"{description} and saves its conversations"
    if model.leases and model.phase not in (Phase.READY, Phase.DRAINING):
        yield f"{description} with leases {list(model.leases)}"
    if model.slots_used != sum(map(takes_slot, model.leases.values())):
        yield f"{description} counts {model.slots_used} slots for {len(model.leases)} leases"
    if model.is_adopted and not model.phase.takes_memory:
        yield f"{description} but counts as adopted"
    if model.keep_alive is not None and not model.phase.takes_memory:
        yield f"{description} but is still kept as a client said: {model.keep_alive}"
    if model.given is not None and (model.spec.memory is not None or not model.phase.takes_memory):
        yield f"{description} but counts as running alone: only a process whose memory is not declared may"
    if model.unload_tickets and not model.phase.takes_memory:
        yield f"{description} but {model.unload_tickets} are still waiting for its exit"


def _may_be_asked(model: ModelState) -> bool:
    return (
        model.phase in (Phase.READY, Phase.DRAINING)
        or model.is_restoring
        or (model.sleep_level is not None and not model.ends_asleep)
    )


def _service(state: State) -> Iterator[str]:
    """Nothing that can be done now is left undone."""
    for model in state.models.values():
        if model.phase is Phase.DRAINING and not model.leases and not state.is_handing_over:
            yield f"{model.name} is drained but was not stopped"
        if any(serves_at_once(state, model, ticket.kind) for ticket in state.queue.waiting_for(model.name)):
            yield f"{model.name} is ready, but a request is still waiting for it"
    has_awake = any(model.phase is not Phase.ASLEEP for model in state.with_process())
    is_idle = not has_awake and not state.is_handing_over
    if is_idle and any(state.models[name].phase in CLAIMABLE for name in state.queue.models()):
        yield f"nothing runs, yet requests wait for {list(state.queue.models())}"
