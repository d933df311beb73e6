"""Conversations that are saved before a model is stopped, and restored before it serves again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import level, model, one_at_a_time, sleeps
from tests.support.scheduler_driver import (
    arrives,
    changed,
    clock,
    confirms,
    cuts,
    exited,
    grants,
    leaves,
    load,
    nothing,
    prompt,
    puts_to_sleep,
    ready,
    restored,
    restores,
    saved,
    saves,
    shutdown,
    starts,
    stops,
    unload,
    unresponsive,
    wakes_at,
)

from hotseat.identifiers import ModelName, TicketId
from hotseat.scheduling.commands import Allowance, Cause
from hotseat.scheduling.conversation_state import (
    DIED,
    MOST_OWN,
    NOT_REUSED,
    USUAL_TOKEN_SIZE,
    USUAL_TRANSFER_RATE,
    ConversationStats,
    Restored,
)
from hotseat.scheduling.conversations import LEAST_S, LEAST_TOKENS, MOST_S, transfer_s
from hotseat.scheduling.events import ConversationsSaved, PromptProcessed, Transfer, YieldRequested
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.model_stats import StatsOfModels

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver

    from hotseat.scheduling.events import Event

QWEN = ModelName("qwen")
LOAD_S = 10.0


@pytest.fixture
def rig(new_driver: NewDriver) -> SchedulerDriver:
    """One model at a time; qwen keeps conversations, is ready, and has answered a prompt of 2,000 tokens in 4 s."""
    driver = new_driver(one_at_a_time(model("qwen", keeps_conversations=True), "llama")).with_ready("qwen", 1)
    driver >> prompt(1, computed=2000, took_s=4.0) << nothing
    driver >> leaves(1) << nothing
    return driver


def there_and_back(rig: SchedulerDriver, *tokens: int, ticket: int = 10) -> SchedulerDriver:
    """qwen is swapped out and is wanted again; its server has just become ready."""
    rig.after(1) >> load(ticket, "llama") << saves("qwen")
    rig.after(0.1) >> saved("qwen", *tokens) << stops("qwen")
    rig.after(0.1) >> exited("qwen") << starts("llama")
    rig.after(LOAD_S) >> ready("llama") << confirms(ticket)
    rig.after(1000) >> arrives(ticket + 1, "qwen") << stops("llama")
    rig >> exited("llama") << starts("qwen")
    return rig.after(LOAD_S)


# Saving


def test_conversations_are_saved_before_the_server_is_stopped(rig: SchedulerDriver) -> None:
    """Other models wait for the memory until the process is gone, as always."""
    rig.after(1) >> arrives(2, "llama") << saves("qwen")

    assert rig.phase("qwen") is Phase.UNLOADING
    assert (
        rig.why("qwen")
        == "saving conversations for 0.0 s: unloaded for llama: models run one at a time without `devices`"
    )
    rig.after(0.1) >> saved("qwen", 2000) << stops("qwen", cause=Cause.EVICTION)
    rig.after(0.1) >> exited("qwen") << starts("llama")
    assert rig.view("qwen").conversations is not None
    assert rig.scheduler.model_stats.of(QWEN).stop_s == pytest.approx(0.1)


def test_a_request_that_comes_during_the_save_waits_for_a_fresh_start(rig: SchedulerDriver) -> None:
    """A server that is about to be stopped gets no request."""
    rig.after(1) >> arrives(2, "llama") << saves("qwen")
    rig >> arrives(3, "qwen") << nothing
    rig >> saved("qwen", 2000) << stops("qwen")
    rig >> exited("qwen") << starts("llama")


def test_whoever_waits_waits_a_quarter_of_a_second_or_a_tenth_of_the_load(rig: SchedulerDriver) -> None:
    """Whichever is longer."""
    rig.scheduler.model_stats.loaded(ModelName("llama"), 40.0)
    rig.after(1) >> arrives(2, "llama") << saves("qwen")
    slow = rig.allowance.within_s
    rig >> saved("qwen") << stops("qwen")

    assert slow == pytest.approx(4.0)


def test_a_quick_load_allows_a_quarter_of_a_second(rig: SchedulerDriver) -> None:
    """Also if a tenth of the load is less."""
    rig.scheduler.model_stats.loaded(ModelName("llama"), 0.5)
    rig.after(1) >> arrives(2, "llama") << saves("qwen")

    assert rig.allowance.within_s == LEAST_S
    rig >> saved("qwen") << stops("qwen")


def test_a_long_conversation_before_anything_was_measured(rig: SchedulerDriver) -> None:
    """It is expected to fit into the shortest time, or it would never be measured how long it takes."""
    rig >> load(10, "llama") << saves("qwen")

    assert 30_000 * rig.allowance.token_s <= LEAST_S


def test_an_unload_that_nobody_waits_for_may_take_longer(rig: SchedulerDriver) -> None:
    """All conversations of any use are saved then."""
    rig.after(1) >> unload(2, "qwen") << saves("qwen")

    assert rig.allowance == Allowance(MOST_S, LEAST_TOKENS, USUAL_TOKEN_SIZE / USUAL_TRANSFER_RATE)
    rig >> saved("qwen", 2000) << stops("qwen", cause=Cause.OPERATOR)
    rig >> exited("qwen") << confirms(2)


def test_a_ttl_that_ends_saves_too(new_driver: NewDriver) -> None:
    """The next turn of a conversation may come after any pause."""
    driver = new_driver(one_at_a_time(model("qwen", keeps_conversations=True, ttl_s=30))).with_ready("qwen", 1)
    driver >> leaves(1) << wakes_at(40)
    driver.at(40) >> clock << saves("qwen")
    driver >> saved("qwen", 100) << stops("qwen", cause=Cause.TTL)


def test_a_server_without_requests_has_nothing_to_save(new_driver: NewDriver) -> None:
    """A swap with nothing worth saving costs no step more."""
    driver = new_driver(one_at_a_time(model("qwen", keeps_conversations=True), "llama")).with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen")


def test_a_server_that_had_only_short_prompts_is_not_asked(new_driver: NewDriver) -> None:
    """The answer counts, too: the next prompt of the conversation includes it."""
    driver = new_driver(one_at_a_time(model("qwen", keeps_conversations=True), "llama")).with_ready("qwen", 1)
    driver >> prompt(1, computed=40) << nothing
    driver >> leaves(1) << nothing
    driver >> arrives(2, "llama") << stops("qwen")
    driver >> exited("qwen") << starts("llama")
    driver >> ready("llama") << grants(2)
    driver >> leaves(2) << nothing
    driver.after(100) >> arrives(3, "qwen") << stops("llama")
    driver >> exited("llama") << starts("qwen")
    driver >> ready("qwen") << grants(3)
    driver >> PromptProcessed(TicketId(3), 40, 0, 0.0, generated=500) << nothing
    driver >> leaves(3) << nothing
    driver.after(100) >> unload(4, "qwen") << saves("qwen")


def short_ones(new_driver: NewDriver, *, is_reported: bool, is_answered: bool) -> SchedulerDriver:
    """qwen had a short prompt, then a request that may not be reported, then a short prompt again."""
    driver = new_driver(one_at_a_time(model("qwen", keeps_conversations=True), "llama")).with_ready("qwen", 1)
    driver >> prompt(1, computed=40) << nothing
    driver >> leaves(1) << nothing
    driver >> arrives(2, "qwen") << grants(2)
    if is_reported:
        driver.scheduler.pass_over_prompt(TicketId(2))
    driver >> leaves(2, is_answered=is_answered) << nothing
    driver >> arrives(3, "qwen") << grants(3)
    driver >> prompt(3, computed=30) << nothing
    driver >> leaves(3) << nothing
    return driver


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_request_without_a_report_may_be_a_long_conversation(new_driver: NewDriver, is_answered: bool) -> None:
    """Also if its client has hung up: its prompt may have been computed."""
    driver = short_ones(new_driver, is_reported=False, is_answered=is_answered)
    driver >> arrives(4, "llama") << saves("qwen")
    driver >> saved("qwen") << stops("qwen")


def test_a_short_prompt_that_is_no_event_was_still_reported(new_driver: NewDriver) -> None:
    """Its server had only short conversations, and is not asked."""
    driver = short_ones(new_driver, is_reported=True, is_answered=True)
    driver >> arrives(4, "llama") << stops("qwen")


def test_a_request_without_a_report_counts_while_others_wait(new_driver: NewDriver) -> None:
    """A lease that ends while a claim exists takes another path."""
    driver = new_driver(one_at_a_time(model("qwen", keeps_conversations=True), "llama")).with_ready("qwen", 1)
    driver >> prompt(1, computed=40) << nothing
    driver >> leaves(1) << nothing
    driver >> arrives(2, "qwen") << grants(2)
    driver >> unload(3, "qwen") << wakes_at(20)
    driver >> leaves(2) << saves("qwen")


def test_a_prompt_that_is_passed_over_without_a_lease_changes_nothing(rig: SchedulerDriver) -> None:
    """Its client has left, or its model keeps no conversations."""
    rig.scheduler.pass_over_prompt(TicketId(77))
    rig.after(1) >> arrives(2, "llama") << saves("qwen")
    rig >> saved("qwen") << stops("qwen")
    rig >> exited("qwen") << starts("llama")
    rig >> ready("llama") << grants(2)
    rig.scheduler.pass_over_prompt(TicketId(2))
    rig >> leaves(2) << nothing


def test_a_save_that_was_too_slow_teaches_the_rate(rig: SchedulerDriver) -> None:
    """What could not be written in time is not tried again."""
    rig.after(1) >> arrives(2, "llama") << saves("qwen")
    slow = Transfer(2000, 0, 0.25)
    rig >> ConversationsSaved(QWEN, rig.launches["qwen"], (), "too slow", slow) << stops("qwen")
    stats = rig.scheduler.model_stats.of(QWEN).conversations

    assert 2000 * transfer_s(stats, stats.slow_save_rate) > 0.25


def test_one_slow_save_does_not_end_saving_for_good(rig: SchedulerDriver) -> None:
    """It counts less with each stop."""
    rig.after(1) >> arrives(2, "llama") << saves("qwen")
    slow = Transfer(400, 0, 0.25)
    rig >> ConversationsSaved(QWEN, rig.launches["qwen"], (), "too slow", slow) << stops("qwen")
    for ticket in (10, 20):
        swapped_back(rig, ticket) >> arrives(2, "llama") << stops("qwen")

    swapped_back(rig, 30) >> arrives(2, "llama") << saves("qwen")


def test_stops_without_a_save_change_no_measured_rate(rig: SchedulerDriver) -> None:
    """A server whose prompts were short has nothing to save."""
    stats = rig.scheduler.model_stats.of(QWEN).conversations
    stats.save_rate = 150e6
    rig.after(1) >> arrives(2, "llama") << saves("qwen")
    rig >> saved("qwen") << stops("qwen")
    swapped_back(rig, 10, computed=20) >> arrives(2, "llama") << stops("qwen")
    rig >> exited("qwen") << starts("llama")

    assert stats.save_rate == 150e6


def swapped_back(rig: SchedulerDriver, ticket: int, computed: int = 2000) -> SchedulerDriver:
    """llama has served request 2; then qwen has served this one."""
    rig >> exited("qwen") << starts("llama")
    rig >> ready("llama") << grants(2)
    rig >> leaves(2) << nothing
    rig.after(100) >> arrives(ticket, "qwen") << stops("llama")
    rig >> exited("llama") << starts("qwen")
    rig >> ready("qwen") << grants(ticket)
    rig >> prompt(ticket, computed=computed, took_s=4.0) << nothing
    rig >> leaves(ticket) << nothing
    return rig.after(100)


def test_what_is_computed_faster_than_it_is_read_is_not_saved(rig: SchedulerDriver) -> None:
    """The decision compares measured rates."""
    stats = rig.scheduler.model_stats.of(QWEN).conversations
    stats.restore_rate, stats.token_size = 1e6, 4e6
    rig.after(1) >> arrives(2, "llama") << stops("qwen")


def test_a_slow_disk_delays_only_whom_it_helps(rig: SchedulerDriver) -> None:
    """Saving costs more than it saves if somebody waits, and is worth it if nobody does."""
    stats = rig.scheduler.model_stats.of(QWEN).conversations
    stats.save_rate, stats.restore_rate, stats.token_size = 1e6, 1e9, 4e3
    rig.after(1) >> unload(2, "qwen") << saves("qwen")
    rig >> saved("qwen") << stops("qwen")
    rig >> exited("qwen") << confirms(2)
    rig >> arrives(3, "qwen") << starts("qwen")
    rig >> ready("qwen") << grants(3)
    rig >> leaves(3) << nothing
    stats.save_rate, stats.token_size = 1e6, 4e3
    rig.after(100) >> arrives(4, "llama") << stops("qwen")


@pytest.mark.parametrize("fact", [shutdown(), changed(one_at_a_time(model("qwen", 2, keeps_conversations=True)))])
def test_a_server_that_ends_for_good_saves_nothing(rig: SchedulerDriver, fact: Event) -> None:
    """Saved conversations are removed when hotseat ends, and belong to one configuration of the model."""
    rig >> fact << stops("qwen")


@pytest.mark.parametrize("fact", [shutdown(), changed(one_at_a_time("llama"))])
def test_a_server_that_drains_and_then_ends_for_good_saves_nothing(new_driver: NewDriver, fact: Event) -> None:
    """What was decided last counts, not why it began to drain."""
    models = one_at_a_time(model("qwen", keeps_conversations=True), "llama")
    driver = new_driver(models).with_ready("qwen", 1)
    driver >> unload(2, "qwen") << wakes_at(20)
    driver >> fact << nothing
    driver >> leaves(1) << stops("qwen")


def test_an_unresponsive_server_is_not_asked_to_save(new_driver: NewDriver) -> None:
    """It would not answer."""
    driver = new_driver(one_at_a_time(model("qwen", keeps_conversations=True))).with_ready("qwen", 1)
    driver >> unresponsive("qwen") << cuts(1)
    driver >> leaves(1) << stops("qwen", cause=Cause.UNRESPONSIVE)


def test_a_server_that_dies_during_the_save(rig: SchedulerDriver) -> None:
    """It was about to go anyway: no failure, and its end says nothing about how long a stop takes."""
    rig.after(1) >> arrives(2, "llama") << saves("qwen")
    rig.after(3) >> exited("qwen") << starts("llama")

    assert rig.view("qwen").failures == 0
    assert rig.scheduler.model_stats.of(QWEN).stop_s is None


def test_an_operator_does_not_wait_for_the_save(rig: SchedulerDriver) -> None:
    """A second unload, or a shutdown, stops the server at once; the late answer changes nothing."""
    rig.after(1) >> unload(2, "qwen") << saves("qwen")
    rig >> unload(3, "qwen") << stops("qwen")
    rig >> saved("qwen", 2000) << nothing
    rig >> exited("qwen") << confirms(2) << confirms(3)


def test_a_model_that_can_sleep_keeps_its_conversations_asleep(new_driver: NewDriver) -> None:
    """Sleeping is tried first; it is compared with a restart that includes the save."""
    sleeper = model("qwen", keeps_conversations=True, sleep=sleeps(level("1")))
    driver = new_driver(one_at_a_time(sleeper, "llama")).with_ready("qwen", 1)
    driver >> leaves(1) << nothing
    driver.after(1) >> arrives(2, "llama") << puts_to_sleep("qwen")


def test_saving_counts_when_sleep_is_compared_with_a_restart(new_driver: NewDriver) -> None:
    """Sleeping and waking take 3 s, a stop and a start 2 s: with 2 s for conversations sleeping is cheaper."""
    sleeper = model("qwen", keeps_conversations=True, sleep=sleeps(level("1")))
    driver = new_driver(one_at_a_time(sleeper, "llama"))
    stats = driver.scheduler.model_stats.of(QWEN)
    stats.load_s, stats.stop_s = 1.0, 1.0
    for _ in range(2):
        stats.sleep_stats("1").woke(1.5, 1.5)
    state = driver.scheduler._state
    without = state.sleep_levels(state.models[QWEN])
    stats.conversations.save_s = 2.0

    assert not without
    assert [each.name for each in state.sleep_levels(state.models[QWEN])] == ["1"]
    assert state.stop_s(QWEN) == 3.0


def test_a_model_that_falls_asleep_saves_nothing(new_driver: NewDriver) -> None:
    """The time until its memory is free is that of falling asleep."""
    sleeper = model("qwen", keeps_conversations=True, sleep=sleeps(level("1")))
    driver = new_driver(one_at_a_time(sleeper, "llama")).with_ready("qwen").with_sleep_stats("qwen", "llama", sleep_s=2)
    driver.scheduler.model_stats.of(QWEN).conversations.save_s = 5.0
    driver >> arrives(1, "llama") << puts_to_sleep("qwen")

    assert driver.scheduler._state.stop_s(QWEN) == 2.0


# Restoring


def test_saved_conversations_are_restored_before_the_first_request(rig: SchedulerDriver) -> None:
    """The request that waits may be the next turn of one of them."""
    there_and_back(rig, 2000) >> ready("qwen") << restores("qwen")

    assert rig.phase("qwen") is Phase.LOADING
    rig.after(0.1) >> restored("qwen", 2000) << grants(11)
    assert rig.phase("qwen") is Phase.READY


def test_a_model_that_restores_for_nobody(rig: SchedulerDriver) -> None:
    """The client may leave; `why` still says what happens."""
    there_and_back(rig, 2000) >> ready("qwen") << restores("qwen")
    rig >> leaves(11) << nothing

    why = "restoring conversations, loading for 10.0 s, usually about 10.0 s: started for 1 request"
    assert rig.why("qwen") == why
    rig >> restored("qwen", 2000) << nothing


def test_nothing_saved_is_nothing_to_restore(rig: SchedulerDriver) -> None:
    """The model is ready when its server is."""
    there_and_back(rig) >> ready("qwen") << grants(11)


def test_a_reused_conversation_is_counted_with_the_time_it_saved(rig: SchedulerDriver) -> None:
    """What the server reports about the next prompt counts: 2,000 tokens at 500 tokens per second are 4 s."""
    there_and_back(rig, 2000) >> ready("qwen") << restores("qwen")
    rig >> restored("qwen", 2000) << grants(11)
    waited_for = rig.scheduler.wants_prompt(TicketId(11), 10)
    rig >> prompt(11, computed=10, cached=1990, took_s=0.1) << nothing
    view = rig.view("qwen").conversations

    assert waited_for
    assert not rig.scheduler.wants_prompt(TicketId(11), 10)
    assert view is not None
    assert (view.saved, view.restored, view.reused, view.problem) == (1, 1, 1, "")
    assert view.gained_s == pytest.approx(1990 / 500)


def test_a_prompt_without_a_lease_says_nothing(rig: SchedulerDriver) -> None:
    """Its server may be gone; models that keep no conversations are not asked either."""
    rig >> prompt(77, computed=100, took_s=100.0) << nothing
    rig.after(1) >> arrives(2, "qwen") << grants(2)

    assert rig.scheduler.model_stats.of(QWEN).conversations.compute_rate == 500.0
    assert not rig.scheduler.wants_prompt(TicketId(77), 1000)
    assert rig.scheduler.wants_prompt(TicketId(2), 1000)
    assert not rig.scheduler.wants_prompt(TicketId(2), 10)


def test_restored_conversations_that_are_never_reused_are_given_up(rig: SchedulerDriver) -> None:
    """Some models restore without an error and reuse nothing: three starts without any reuse are enough."""
    for ticket in (10, 20, 30):
        there_and_back(rig, 2000, ticket=ticket) >> ready("qwen") << restores("qwen")
        rig >> restored("qwen", 2000) << grants(ticket + 1)
        rig >> prompt(ticket + 1, computed=2100, took_s=4.2) << nothing
        rig >> leaves(ticket + 1) << nothing
        rig >> arrives(ticket + 2, "qwen") << grants(ticket + 2)
        rig >> prompt(ticket + 2, computed=50, cached=2090, took_s=0.1) << nothing  # of the prompt before
        rig >> leaves(ticket + 2) << nothing
    rig.after(1) >> unload(40, "qwen") << saves("qwen")
    rig >> saved("qwen", 2000) << stops("qwen")
    rig >> exited("qwen") << confirms(40)
    rig >> arrives(41, "qwen") << starts("qwen")
    rig >> ready("qwen") << grants(41)

    assert rig.why("qwen").endswith(NOT_REUSED)
    assert rig.view("qwen").conversations.reused == 0  # type: ignore[union-attr]
    rig >> leaves(41) << nothing
    rig >> load(42, "qwen") << confirms(42)
    assert rig.view("qwen").conversations.problem == ""  # type: ignore[union-attr]


def test_one_new_conversation_after_a_restore_proves_nothing(rig: SchedulerDriver) -> None:
    """A restore that was reused clears the count."""
    for ticket, cached in ((10, 0), (20, 2000), (30, 0)):
        there_and_back(rig, 2000, ticket=ticket) >> ready("qwen") << restores("qwen")
        rig >> restored("qwen", 2000) << grants(ticket + 1)
        rig >> prompt(ticket + 1, computed=100, cached=cached, took_s=0.2) << nothing
        rig >> leaves(ticket + 1) << nothing

    assert rig.view("qwen").conversations.problem == ""  # type: ignore[union-attr]


def test_new_short_conversations_prove_nothing(rig: SchedulerDriver) -> None:
    """They could not have continued what was restored."""
    for ticket in (10, 20, 30, 40):
        there_and_back(rig, 2000, ticket=ticket) >> ready("qwen") << restores("qwen")
        rig >> restored("qwen", 2000) << grants(ticket + 1)
        rig >> prompt(ticket + 1, computed=70, took_s=0.1) << nothing
        rig >> leaves(ticket + 1) << nothing

    assert rig.view("qwen").conversations.problem == ""  # type: ignore[union-attr]


def test_another_program_does_not_wait_long(rig: SchedulerDriver) -> None:
    """A yield is no claim, but somebody waits."""
    rig.after(1) >> YieldRequested("a game") << saves("qwen")

    assert rig.allowance.within_s == LEAST_S
    rig >> saved("qwen", 2000) << stops("qwen", cause=Cause.YIELD)


def test_a_server_that_dies_while_it_restores(rig: SchedulerDriver) -> None:
    """It is started again at once, and nothing is restored into the next one."""
    there_and_back(rig, 2000) >> ready("qwen") << restores("qwen")
    rig >> exited("qwen") << starts("qwen")

    assert rig.view("qwen").conversations.problem == DIED  # type: ignore[union-attr]
    rig.after(LOAD_S) >> ready("qwen") << grants(11)


def test_an_operator_unloads_a_model_that_restores(rig: SchedulerDriver) -> None:
    """It is stopped like any load; the late answer changes nothing."""
    there_and_back(rig, 2000) >> ready("qwen") << restores("qwen")
    rig >> leaves(11) << nothing
    rig >> unload(12, "qwen") << stops("qwen")
    rig >> restored("qwen", 2000) << nothing
    rig >> exited("qwen") << confirms(12)


def test_conversations_that_return_seldom_are_worth_less() -> None:
    """The share of restored conversations that were continued counts, but not for ever."""
    seldom = ConversationStats(chances=98)

    assert ConversationStats().probability_of_return == 0.5
    assert seldom.probability_of_return == pytest.approx(0.01)
    for _ in range(60):
        seldom.has_stopped()
    assert seldom.probability_of_return > 0.4


def test_a_slow_save_is_forgotten_when_its_rate_is_that_of_other_saves() -> None:
    """From then on measured rates count alone."""
    stats = ConversationStats(save_rate=150e6, slow_save_rate=140e6)
    stats.has_stopped()

    assert stats.slow_save_rate == 0.0


def test_figures_are_kept_across_restarts() -> None:
    """Invalid ones are ignored."""
    stats = StatsOfModels()
    stats.loaded(QWEN, 5.0)
    stats.of(QWEN).conversations.computed(1000, 2.0)
    known, later = stats.export(), StatsOfModels()
    known["qwen"]["conversations"]["save_rate"] = float("nan")
    later.adopt(known)

    assert later.of(QWEN).conversations.compute_rate == 500.0
    assert later.of(QWEN).conversations.save_rate == 0.0


def test_a_server_that_answers_many_prompts_after_a_restore() -> None:
    """Only its last conversations are remembered; the prompts that continue them prove nothing about a restored one."""
    restored = Restored([2000])
    for number in range(10 * MOST_OWN):
        restored.note(0, 100_000 + 1000 * number, 10)
    newest = 100_000 + 1000 * (10 * MOST_OWN - 1)

    assert len(restored.own) == len(restored.latest) == MOST_OWN
    assert restored.note(newest, newest + 50, 10) == 0
    assert restored.note(newest + 50, newest + 99, 10) == 0
    assert len(restored.own) == len(restored.latest) == MOST_OWN
    assert restored.note(105_000, 105_010, 10) == 2000
    assert restored.unproven == []
