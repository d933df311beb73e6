"""The random search of test_world.py finds each of these planted bugs, so it would find such bugs of our own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.support.chaos import Chaos
from tests.support.world import Broken

from hotseat.errors import HotseatError
from hotseat.scheduling import (
    conversations,
    eviction,
    handover_transitions,
    loss,
    memory_fit,
    memory_pressure,
    placement,
    plan,
    settle,
    slots,
    transitions,
)
from hotseat.scheduling import queue as line_of
from hotseat.scheduling.commands import Allowance
from hotseat.scheduling.lifecycle import Phase as ModelPhase
from hotseat.scheduling.plan import Plan
from hotseat.scheduling.queue import ModelQueue
from hotseat.scheduling.scheduler import Scheduler
from hotseat.scheduling.state import LONG_AGO, ModelState, State
from hotseat.scheduling.transitions import Transitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hotseat.identifiers import Instant, ModelName, Place, TicketId
    from hotseat.scheduling.events import ConversationsSaved, RequestLeft, UpstreamExited
    from hotseat.scheduling.plan import ClaimDecision
    from hotseat.scheduling.queue import Claim, Ticket

pytestmark = [pytest.mark.uncounted, pytest.mark.deep]

SEARCH = settings(
    max_examples=2000,
    stateful_step_count=40,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


ALL = Chaos.rigs
PINNED, SLEEP, GROUPS, CARDS = ("one pinned",), ("sleepers", "beds"), ("groups",), ("cards",)
CONVERSATIONS, ONE_AT_A_TIME, GUESSES = ("conversations",), ("one at a time",), ("guesses",)
"""Catalogs in which a bug shows: among all of them some take minutes to find."""


# What is wrong with each, in its name.


def unloading_memory_counts_as_free(state: State) -> list[ModelState]:
    return [model for model in state.active.values() if model.phase in (ModelPhase.LOADING, ModelPhase.READY)]


def a_departed_client_stays_in_line(scheduler: Scheduler, transitions: Transitions, event: RequestLeft) -> None:
    transitions.give_back(event.ticket, event.is_answered)


def a_busy_model_is_stopped(transitions: Transitions) -> None:
    for model in transitions.state.in_phase(ModelPhase.DRAINING):
        transitions.stop(model)


def an_eviction_is_never_commanded(transitions: Transitions, model: ModelState) -> None:
    STOP(transitions, model)
    transitions.commands.pop()


def a_stale_launch_is_believed(state: State, event: UpstreamExited) -> ModelState | None:
    model = state.models.get(event.model)
    return model if model and model.launch else None


def a_draining_model_is_revived(transitions: Transitions) -> None:
    for model in transitions.state.in_phase(ModelPhase.DRAINING):
        if transitions.state.queue.count(model.name):
            model.phase = ModelPhase.READY
    SERVE(transitions)


def the_ttl_forgets_leases(model: ModelState) -> Instant | None:
    if model.phase is not ModelPhase.READY or model.ttl_s is None:
        return None
    return model.idle_since + model.ttl_s


def the_loader_is_never_busy(state: State) -> None:
    return None


def a_lease_is_never_given_back(transitions: Transitions, ticket: TicketId, is_answered: bool) -> ModelState | None:
    return transitions.state.leases.get(ticket)


def an_unload_is_never_confirmed(transitions: Transitions, model: ModelState) -> None:
    model.unload_tickets.clear()
    REMOVE(transitions, model)


def a_slot_is_given_twice(state: State, model: ModelState) -> float:
    return SLOTS(state, model) + 1


def what_never_fits_is_waited_for(*_: object) -> None:
    return None


def a_guess_refuses(*_: object) -> dict[tuple[Place, ...], Mapping[Place, int]]:
    return {}


def who_asks_most_has_most_places(line: ModelQueue, ticket: Ticket) -> None:
    with patch.object(line_of, "PLACES", 1000):
        JOIN(line, ticket)


def a_claim_is_lost_when_its_model_cools_down(state: State, model: ModelState) -> None:
    if model.evicted_at <= LONG_AGO:
        RECKON(state, model)


def the_first_one_is_evicted_for_the_second(plan: Plan, claim: Claim) -> ClaimDecision:
    plan._loader = None
    return DECIDE(plan, claim)


def what_sleepers_keep_is_not_counted(state: object, model: object, level: object) -> dict[Place, int]:
    return {}


def memory_is_free_before_a_model_sleeps(state: State, model: ModelState) -> Mapping[Place, int]:
    if model.is_falling_asleep and model.sleep_level:
        return KEPT(state, model, model.sleep_level)
    return HOLDS(state, model)


def a_busy_model_is_put_to_sleep(transitions: Transitions) -> None:
    for model in transitions.state.in_phase(ModelPhase.DRAINING):
        if model.sleep_level:
            transitions.suspend(model)
    STOP_DRAINED(transitions)


def a_sleeper_is_asked(transitions: Transitions) -> None:
    SERVE(transitions)
    for model in transitions.state.in_phase(ModelPhase.ASLEEP):
        for ticket in transitions.state.queue.waiting_for(model.name):
            transitions.grant(model, ticket, "it is there")


def what_was_saved_is_never_stopped(transitions: Transitions, model: ModelState, event: ConversationsSaved) -> None:
    model.conversations.has_saved = bool(event.saved)


def a_busy_model_saves(transitions: Transitions) -> None:
    for model in transitions.state.in_phase(ModelPhase.DRAINING):
        if allowance := SAVING(transitions.state, model):
            conversations.save(transitions, model, allowance)
    STOP_DRAINED(transitions)


def everything_is_saved_at_the_end(state: State, model: ModelState) -> Allowance | None:
    return Allowance(1.0, 1, 0.0) if model.spec.keeps_conversations else None


def requests_are_served_while_it_restores(transitions: Transitions, model: ModelState, upstream: Any, _: Any) -> None:
    RESTORE(transitions, model, upstream, _)
    transitions.become_ready(model, upstream)


def pinned_models_are_evicted(state: State, wanted: object, resident: ModelState) -> bool:
    return False


def a_failing_model_is_tried_without_rest(failures: int) -> float:
    return 0.0


def a_model_rests_after_its_first_failure(failures: int) -> float:
    return 2.0 * failures


def an_answer_proves_nothing(model: ModelState) -> None:
    model.has_answered = False


def the_timer_is_never_set(scheduler: Scheduler, commands: object, when: Instant) -> None:
    scheduler._wake = when


def a_ticket_is_granted_and_kept_in_line(
    transitions: Transitions, model: ModelState, ticket: Ticket, reason: str
) -> None:
    GRANT(transitions, model, ticket, reason)
    transitions.state.queue.join(ticket)


def every_model_is_counted_on_the_first_card(
    state: State, model: ModelState, cards: tuple[Place, ...]
) -> Mapping[Place, int]:
    choice = model.spec.gpus
    return NEEDS_ON(state, model, choice.among[:1] if choice and cards else cards)


def a_sleeping_or_running_model_gets_other_cards(
    state: State, model: ModelState, choices: object, free: memory_fit.Free
) -> list[eviction.Option]:
    choice = model.spec.gpus
    cards = choice.among[:1] if choice else model.gpus
    return OPTIONS_FOR(state, model, {cards: NEEDS_ON(state, model, cards)}, free)


def a_restart_holds_nothing_back(transitions: Transitions) -> None:
    pass


def a_drained_model_is_stopped_during_a_restart(transitions: Transitions) -> None:
    SERVE_AND_REFUSE(transitions)
    STOP_DRAINED(transitions)


def requests_in_flight_are_forgotten(model: ModelState, now: Instant) -> tuple[()]:
    return ()


def those_who_wait_are_forgotten(state: State, now: Instant) -> tuple[()]:
    return ()


def a_draining_server_is_handed_over_as_ready(model: ModelState, now: Instant) -> None:
    return None


def launches_are_numbered_from_one_again(state: State, launch: int) -> None:
    pass


def failures_are_forgotten(state: State, now: Instant) -> tuple[()]:
    return ()


def an_outdated_server_is_kept(transitions: Transitions, model: ModelState) -> None:
    pass


def an_operator_is_forgotten(state: State) -> tuple[()]:
    return ()


def what_was_postponed_is_lost(scheduler: Scheduler, transitions: Transitions) -> None:
    scheduler._state.postponed = []
    handover_transitions.end(transitions)


def models_that_a_reload_keeps_apart_stay(transitions: Transitions) -> None:
    pass


def a_sleeping_server_gives_its_address_back(
    self: Plan, wanted: ModelState, awake: Iterable[ModelName], asleep: Iterable[ModelName]
) -> set[ModelName]:
    return EXCLUDED(self, wanted, awake, ())


STOP, REMOVE, GRANT = Transitions.stop, Transitions._remove, Transitions.grant
RECKON, DECIDE, JOIN = State.reckon_claim, Plan.decide, ModelQueue.join
PASS, SERVE, SLOTS = settle._pass, settle._serve_residents, slots.slots
STOP_DRAINED, KEPT, HOLDS = settle._stop_drained, memory_fit.kept_asleep, memory_fit.holds
NEEDS_ON, OPTIONS_FOR = placement.needs_on, eviction.options_for
SAVING, RESTORE = conversations.saving, conversations.restore
SERVE_AND_REFUSE = settle._serve_and_refuse
EXCLUDED = Plan._excluded
MANY_COMMANDS = 200

PLANTED: list[tuple[Any, str, Any, tuple[str, ...]]] = [
    (State, "with_process", unloading_memory_counts_as_free, ALL),
    (Scheduler, "_left", a_departed_client_stays_in_line, ALL),
    (settle, "_stop_drained", a_busy_model_is_stopped, ALL),
    (Transitions, "stop", an_eviction_is_never_commanded, ALL),
    (State, "of_launch", a_stale_launch_is_believed, ALL),
    (settle, "_serve_residents", a_draining_model_is_revived, ALL),
    (ModelState, "expires_at", the_ttl_forgets_leases, ("two devices",)),
    (plan, "loader_busy_with", the_loader_is_never_busy, PINNED),
    (Transitions, "give_back", a_lease_is_never_given_back, ALL),
    (Transitions, "_remove", an_unload_is_never_confirmed, ALL),
    (settle, "slots", a_slot_is_given_twice, ALL),
    (plan, "refusal", what_never_fits_is_waited_for, PINNED),
    (plan, "given_alone", a_guess_refuses, GUESSES),
    (transitions, "TRY_ALONE_AGAIN_S", 2.0, GUESSES),
    (ModelQueue, "join", who_asks_most_has_most_places, ("no patience",)),
    (State, "reckon_claim", a_claim_is_lost_when_its_model_cools_down, ALL),
    (Plan, "decide", the_first_one_is_evicted_for_the_second, GROUPS),
    (loss, "is_protected", pinned_models_are_evicted, PINNED),
    (transitions, "backoff_s", a_failing_model_is_tried_without_rest, ALL),
    (transitions, "backoff_s", a_model_rests_after_its_first_failure, ALL),
    (ModelState, "prove_itself", an_answer_proves_nothing, ALL),
    (Scheduler, "_wake_at", the_timer_is_never_set, GROUPS),
    (Transitions, "grant", a_ticket_is_granted_and_kept_in_line, ALL),
    (memory_fit, "kept_asleep", what_sleepers_keep_is_not_counted, ("beds",)),
    (memory_fit, "holds", memory_is_free_before_a_model_sleeps, ("beds",)),
    (settle, "_stop_drained", a_busy_model_is_put_to_sleep, SLEEP),
    (settle, "_serve_residents", a_sleeper_is_asked, SLEEP),
    (conversations, "_saved", what_was_saved_is_never_stopped, CONVERSATIONS),
    (settle, "_stop_drained", a_busy_model_saves, CONVERSATIONS),
    (settle, "saving", everything_is_saved_at_the_end, CONVERSATIONS),
    (conversations, "restore", requests_are_served_while_it_restores, CONVERSATIONS),
    (memory_fit, "needs_on", every_model_is_counted_on_the_first_card, CARDS),
    (plan, "options_for", a_sleeping_or_running_model_gets_other_cards, CARDS),
    (handover_transitions, "request", a_restart_holds_nothing_back, ALL),
    (settle, "_serve_and_refuse", a_drained_model_is_stopped_during_a_restart, ALL),
    (handover_transitions, "_leases", requests_in_flight_are_forgotten, ALL),
    (handover_transitions, "_waiting", those_who_wait_are_forgotten, ALL),
    (handover_transitions, "_departure", a_draining_server_is_handed_over_as_ready, ONE_AT_A_TIME),
    (handover_transitions, "_failed", failures_are_forgotten, ALL),
    (handover_transitions, "_unloads", an_operator_is_forgotten, ONE_AT_A_TIME),
    (State, "note_launch", launches_are_numbered_from_one_again, ALL),
    (handover_transitions, "_follow_catalog", an_outdated_server_is_kept, ALL),
    (Scheduler, "_handover_ended", what_was_postponed_is_lost, ALL),
    (memory_pressure, "_keep_apart", models_that_a_reload_keeps_apart_stay, CARDS),
    (Plan, "_excluded", a_sleeping_server_gives_its_address_back, ("one address",)),
]


@contextmanager
def planted(where: Any, name: str, bug: Any) -> Iterator[None]:
    """The scheduler with one bug, within the block."""
    with (
        patch.object(where, name, bug),
        patch.object(settle, "_pass", pass_with_a_fuse),
        patch("tests.support.invariants.check"),
    ):
        yield


def pass_with_a_fuse(transitions: Transitions) -> Instant:
    """A bug may keep `settle` from ending: that counts as found, and must not fill the memory."""
    if len(transitions.commands) > MANY_COMMANDS:
        raise Broken("the scheduler does not come to rest")
    return PASS(transitions)


@pytest.mark.parametrize(
    ("where", "name", "bug", "rigs"), PLANTED, ids=[getattr(bug, "__name__", name) for _, name, bug, _ in PLANTED]
)
def test_the_world_finds_a_planted_bug(where: Any, name: str, bug: Any, rigs: tuple[str, ...]) -> None:
    """The world judges by what it knows itself, without the invariants.

    A TypeError is no finding: it would also come from a planted bug with the wrong parameters.
    """
    chaos = seed(4)(type("SeededChaos", (Chaos,), {"rigs": rigs}))
    with planted(where, name, bug), pytest.raises((Broken, HotseatError)):
        run_state_machine_as_test(chaos, settings=SEARCH)
