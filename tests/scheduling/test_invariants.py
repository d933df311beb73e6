"""The watchman: each promise that is broken by hand is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import invariants
from tests.support.catalogs import in_sets, level, model, one_at_a_time, with_budget
from tests.support.invariants import BrokenPromise
from tests.support.scheduler_driver import upstream_of

from hotseat.identifiers import ClientId, LaunchId, ModelName, TicketId
from hotseat.scheduling.events import KeepAliveChanged, UnloadRequested
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.queue import RequestKind, Ticket
from hotseat.scheduling.state import ModelState, State

if TYPE_CHECKING:
    from collections.abc import Callable

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
TICKET = Ticket(TicketId(1), QWEN, ClientId("someone"), 0.0, RequestKind.USE)


def a_sound_state() -> State:
    """qwen is ready with one lease, llama is cold."""
    state = State(one_at_a_time("qwen", "llama"))
    qwen = run(state, QWEN, Phase.READY)
    qwen.leases[TICKET.id] = TICKET
    qwen.slots_used = 1
    state.leases[TICKET.id] = qwen
    return state


def run(state: State, name: ModelName, phase: Phase) -> ModelState:
    state.active[name] = model = state.models[name]
    model.phase, model.launch = phase, LaunchId(1)
    model.upstream = upstream_of(name) if phase in (Phase.READY, Phase.DRAINING) else None
    return model


def test_a_sound_state_is_sound() -> None:
    """The watchman does not cry without a reason."""
    invariants.check(a_sound_state())


def two_run_where_one_may(state: State) -> None:
    run(state, LLAMA, Phase.LOADING)


def a_lease_is_missing_in_the_books(state: State) -> None:
    state.leases.clear()


def an_active_model_is_missing_in_the_books(state: State) -> None:
    state.active.clear()


def a_failed_model_is_missing_in_the_books(state: State) -> None:
    state.models[LLAMA].failures = 1


def somebody_waits_and_is_served(state: State) -> None:
    state.queue.join(TICKET)


def files_are_read_for_nobody(state: State) -> None:
    state.read_ahead[LLAMA] = state.models[LLAMA].spec.recipe


def a_process_without_a_launch(state: State) -> None:
    state.models[QWEN].launch = None


def a_ready_model_without_an_address(state: State) -> None:
    state.models[QWEN].upstream = None


def a_lease_on_a_stopping_model(state: State) -> None:
    run(state, QWEN, Phase.UNLOADING)


def slots_are_miscounted(state: State) -> None:
    state.models[QWEN].slots_used = 2


def an_operator_waits_for_what_is_gone(state: State) -> None:
    state.models[LLAMA].unload_tickets.append(TicketId(7))


def what_is_gone_is_kept(state: State) -> None:
    state.models[LLAMA].keep_alive = KeepAliveChanged(LLAMA, None)


def what_is_cold_counts_as_running_alone(state: State) -> None:
    state.models[LLAMA].given = {}


def a_drained_model_runs_on(state: State) -> None:
    run(state, QWEN, Phase.DRAINING).leases.clear()


def a_sleeper_without_a_sleep_level(state: State) -> None:
    run(state, LLAMA, Phase.ASLEEP)


def a_ready_model_with_a_sleep_level(state: State) -> None:
    state.models[QWEN].sleep_level = level("1")


def a_ready_model_saves_conversations(state: State) -> None:
    state.models[QWEN].conversations.is_saving = True


def what_is_cold_counts_as_adopted(state: State) -> None:
    state.models[LLAMA].is_adopted = True


def an_unload_is_postponed_without_a_handover(state: State) -> None:
    state.postponed.append(UnloadRequested(TicketId(9), QWEN))


def somebody_waits_for_a_ready_model(state: State) -> None:
    state.queue.join(Ticket(TicketId(2), QWEN, ClientId("someone"), 0.0, RequestKind.USE))


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (two_run_where_one_may, r"\['qwen', 'llama'\] run together"),
        (a_lease_is_missing_in_the_books, "leases disagree"),
        (a_ready_model_saves_conversations, "qwen is ready .* and saves its conversations"),
        (an_active_model_is_missing_in_the_books, "active disagrees"),
        (a_failed_model_is_missing_in_the_books, "failed disagrees"),
        (somebody_waits_and_is_served, "waiting and leased at once"),
        (files_are_read_for_nobody, r"\['llama'\] are read ahead, but no claim exists for them"),
        (a_process_without_a_launch, "with launch None"),
        (a_ready_model_without_an_address, "with upstream None"),
        (a_lease_on_a_stopping_model, "qwen is unloading .* with leases"),
        (slots_are_miscounted, "counts 2 slots for 1 leases"),
        (an_operator_waits_for_what_is_gone, "are still waiting for its exit"),
        (what_is_gone_is_kept, "but is still kept as a client said"),
        (what_is_cold_counts_as_adopted, "llama is cold .* but counts as adopted"),
        (what_is_cold_counts_as_running_alone, "llama is cold .* but counts as running alone"),
        (an_unload_is_postponed_without_a_handover, "are still postponed although no handover is in progress"),
        (a_drained_model_runs_on, "qwen is drained but was not stopped"),
        (a_sleeper_without_a_sleep_level, "llama is asleep .* with sleep level None"),
        (a_ready_model_with_a_sleep_level, "qwen is ready .* with sleep level"),
        (somebody_waits_for_a_ready_model, "qwen is ready, but a request is still waiting"),
    ],
)
def test_a_broken_invariant_is_reported(break_it: Callable[[State], None], message: str) -> None:
    """Each violation names the model and its phase."""
    state = a_sound_state()
    break_it(state)

    with pytest.raises(BrokenPromise, match=message):
        invariants.check(state)


def test_too_much_memory_breaks_an_invariant() -> None:
    """Processes of any phase count."""
    state = State(with_budget(model("qwen", gib=14), model("llama", gib=14)))
    run(state, QWEN, Phase.UNLOADING)
    run(state, LLAMA, Phase.LOADING)

    with pytest.raises(BrokenPromise, match=r"over budget: \['qwen', 'llama'\]"):
        invariants.check(state)


def test_a_queue_without_running_models_is_reported() -> None:
    """A request waits and nothing is done about it."""
    state = State(one_at_a_time("qwen", "llama"))
    state.queue.join(TICKET)

    with pytest.raises(BrokenPromise, match="nothing runs, yet"):
        invariants.check(state)


def test_two_run_whom_no_set_of_the_matrix_holds() -> None:
    """Each may run, but not beside the other."""
    state = State(in_sets("qwen", "llama", models=("qwen", "llama")))
    run(state, QWEN, Phase.READY)
    run(state, LLAMA, Phase.READY)

    with pytest.raises(BrokenPromise, match="no set of the matrix holds them all"):
        invariants.check(state)
