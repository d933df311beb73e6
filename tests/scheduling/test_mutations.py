"""A net is only as good as what it catches: each planted bug must be found by the world of test_world.py."""

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
from hotseat.scheduling import memory_fit, plan, settle, transitions, turns
from hotseat.scheduling import queue as line_of
from hotseat.scheduling.lifecycle import Phase as ModelPhase
from hotseat.scheduling.plan import Plan
from hotseat.scheduling.queue import ModelQueue
from hotseat.scheduling.scheduler import Scheduler
from hotseat.scheduling.state import LONG_AGO, ModelState, State
from hotseat.scheduling.transitions import Transitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.identifiers import Instant, Place, TicketId
    from hotseat.scheduling.claims import Claim
    from hotseat.scheduling.events import RequestLeft, UpstreamExited
    from hotseat.scheduling.plan import ClaimDecision
    from hotseat.scheduling.queue import Ticket

pytestmark = pytest.mark.uncounted

SEARCH = settings(
    max_examples=2000,
    stateful_step_count=40,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@seed(4)
class SeededChaos(Chaos):
    """With this seed every planted bug is found within 150 examples; with others, one of them took a minute."""


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


def a_stale_launch_is_believed(scheduler: Scheduler, event: UpstreamExited) -> ModelState | None:
    model = scheduler._state.models.get(event.model)
    return model if model and model.launch else None


def a_draining_model_is_revived(transitions: Transitions) -> None:
    for model in transitions.state.in_phase(ModelPhase.DRAINING):
        if transitions.state.queue.count(model.name):
            model.phase = ModelPhase.READY
    SERVE(transitions)


def the_ttl_forgets_leases(model: ModelState) -> Instant | None:
    if model.phase is not ModelPhase.READY or model.spec.ttl_s is None:
        return None
    return model.idle_since + model.spec.ttl_s


def the_loader_is_never_busy(state: State) -> None:
    return None


def a_lease_is_never_given_back(transitions: Transitions, ticket: TicketId, is_answered: bool) -> ModelState | None:
    return transitions.state.leases.get(ticket)


def an_unload_is_never_confirmed(transitions: Transitions, model: ModelState) -> None:
    model.unload_tickets.clear()
    REMOVE(transitions, model)


def a_slot_is_given_twice(state: State, model: ModelState) -> float:
    return SLOTS(state, model) + 1


def what_never_fits_is_waited_for(plan: Plan, wanted: object) -> None:
    return None


def who_asks_most_has_most_places(line: ModelQueue, ticket: Ticket) -> None:
    with patch.object(line_of, "PLACES", 1000):
        JOIN(line, ticket)


def a_claim_is_lost_when_its_model_cools_down(state: State, model: ModelState) -> None:
    if model.evicted_at <= LONG_AGO:
        RECKON(state, model)


def the_first_one_is_evicted_for_the_second(plan: Plan, claim: Claim) -> ClaimDecision:
    plan._loader = None
    return ABOUT(plan, claim)


def what_sleepers_keep_is_not_counted(state: object, model: object, level: object) -> dict[Place, int]:
    return {}


def memory_is_free_before_a_model_sleeps(state: State, model: ModelState) -> Mapping[Place, int]:
    if model.is_falling_asleep and model.sleep_level:
        return KEPT(state, model, model.sleep_level)
    return TAKES(state, model)


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


STOP, REMOVE, GRANT = Transitions.stop, Transitions._remove, Transitions.grant
RECKON, ABOUT, JOIN = State.reckon_claim, Plan.about, ModelQueue.join
PASS, SERVE, SLOTS = settle._pass, settle._serve_residents, turns.slots
STOP_DRAINED, KEPT, TAKES = settle._stop_drained, memory_fit.kept_asleep, memory_fit.takes
ABOUT_SLEEP = Scheduler._about_sleep
MANY_COMMANDS = 200

PLANTED: list[tuple[Any, str, Any]] = [
    (State, "with_process", unloading_memory_counts_as_free),
    (Scheduler, "_left", a_departed_client_stays_in_line),
    (settle, "_stop_drained", a_busy_model_is_stopped),
    (Transitions, "stop", an_eviction_is_never_commanded),
    (Scheduler, "_of_launch", a_stale_launch_is_believed),
    (settle, "_serve_residents", a_draining_model_is_revived),
    (ModelState, "expires_at", the_ttl_forgets_leases),
    (plan, "loader_busy_with", the_loader_is_never_busy),
    (Transitions, "give_back", a_lease_is_never_given_back),
    (Transitions, "_remove", an_unload_is_never_confirmed),
    (settle, "slots", a_slot_is_given_twice),
    (Plan, "_never_fits", what_never_fits_is_waited_for),
    (ModelQueue, "join", who_asks_most_has_most_places),
    (State, "reckon_claim", a_claim_is_lost_when_its_model_cools_down),
    (Plan, "about", the_first_one_is_evicted_for_the_second),
    (turns, "is_protected", pinned_models_are_evicted),
    (transitions, "backoff_s", a_failing_model_is_tried_without_rest),
    (transitions, "backoff_s", a_model_rests_after_its_first_failure),
    (ModelState, "prove_itself", an_answer_proves_nothing),
    (Scheduler, "_wake_at", the_timer_is_never_set),
    (Transitions, "grant", a_ticket_is_granted_and_kept_in_line),
    (memory_fit, "kept_asleep", what_sleepers_keep_is_not_counted),
    (memory_fit, "takes", memory_is_free_before_a_model_sleeps),
    (settle, "_stop_drained", a_busy_model_is_put_to_sleep),
    (settle, "_serve_residents", a_sleeper_is_asked),
]


@contextmanager
def planted(where: Any, name: str, bug: Any) -> Iterator[None]:
    """The scheduler with one bug, within the block."""
    with (
        patch.object(where, name, bug),
        patch.object(settle, "_pass", pass_with_a_fuse),
        patch("hotseat.scheduling.invariants.check"),
    ):
        yield


def pass_with_a_fuse(transitions: Transitions) -> Instant:
    """A bug may keep `settle` from ending: that counts as found, and must not fill the memory."""
    if len(transitions.commands) > MANY_COMMANDS:
        raise Broken("the scheduler does not come to rest")
    return PASS(transitions)


@pytest.mark.parametrize(("where", "name", "bug"), PLANTED, ids=[bug.__name__ for _, _, bug in PLANTED])
def test_the_world_finds_a_planted_bug(where: Any, name: str, bug: Any) -> None:
    """The world judges by what it knows itself: it finds the bug without looking into the books."""
    with planted(where, name, bug), pytest.raises((Broken, HotseatError)):
        run_state_machine_as_test(SeededChaos, settings=SEARCH)
