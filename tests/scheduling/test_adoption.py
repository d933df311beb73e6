"""Single servers that a scheduler adopts, and events that a correct handover never contains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import level, model, one_at_a_time, sleeps
from tests.support.scheduler_driver import (
    adopted,
    arrives,
    awake,
    clock,
    exited,
    grants,
    leaves,
    nothing,
    prompt,
    saves,
    shutdown,
    starts,
    stops,
    wakes,
)

from hotseat.identifiers import ClientId, LaunchId, ModelName, TicketId
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.events import HandoverCompleted, HandoverReceived
from hotseat.scheduling.handover import Eviction, Failure, HeldLease
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver

QWEN = ModelName("qwen")
LEASE = HeldLease(TicketId(7), ClientId("someone"), held_s=3.0)
READ = HeldLease(TicketId(8), ClientId("someone"), takes_slot=False)


def test_a_server_is_adopted_without_a_handover(driver: SchedulerDriver) -> None:
    """Every lease counts until it is given back, reads without a slot."""
    driver.at(10) >> adopted(model("qwen"), 5, leases=(LEASE, READ), served=2) << nothing

    assert driver.view("qwen").in_flight == 2
    driver >> leaves(8) << nothing
    driver >> leaves(7) << nothing
    assert driver.scheduler.model_stats.of(QWEN).service_s == 3.0
    driver >> arrives(9, "qwen") << grants(9)


def test_a_server_that_must_be_replaced_is_stopped_at_once(driver: SchedulerDriver) -> None:
    """No further event is needed."""
    driver >> adopted(model("qwen", version=2), 5) << stops("qwen", launch=5, cause=Cause.CONFIGURATION)


def test_a_second_server_of_a_model_is_stopped(driver: SchedulerDriver) -> None:
    """The state does not contain it, so it must not keep memory; the first one stays."""
    driver >> adopted(model("qwen"), 5) << nothing
    driver >> adopted(model("qwen"), 6) << stops("qwen", launch=6, cause=Cause.SHUTDOWN)

    assert driver.reason == "qwen has another server already"
    assert driver.view("qwen").launch == 5


def test_a_server_that_is_adopted_twice_stays(driver: SchedulerDriver) -> None:
    """A repeated event must not end it."""
    driver >> adopted(model("qwen"), 5) << nothing
    driver >> adopted(model("qwen"), 5) << nothing


def test_a_server_of_a_model_that_backs_off_ends_the_backoff(driver: SchedulerDriver) -> None:
    """It is there, whatever was said before."""
    driver.with_backoff("qwen")
    driver >> adopted(model("qwen"), 5) << nothing

    assert driver.phase("qwen") is Phase.READY


def test_a_server_that_is_adopted_during_a_shutdown_is_stopped(driver: SchedulerDriver) -> None:
    """As any other."""
    driver >> shutdown() << nothing
    driver >> HandoverReceived() << nothing
    driver >> adopted(model("qwen"), 5) << stops("qwen", cause=Cause.SHUTDOWN)
    driver >> HandoverCompleted() << nothing


def test_what_is_said_about_unknown_models_is_ignored(driver: SchedulerDriver) -> None:
    """They were removed from the configuration."""
    gone = ModelName("gone")
    driver >> HandoverReceived(4, (Failure(gone, 2),), (Eviction(gone, 1.0),)) << nothing
    driver >> HandoverCompleted() << nothing
    driver >> arrives(1, "qwen") << starts("qwen", launch=5)


def test_waking_a_sleeper_whose_past_is_unknown_teaches_nothing(new_driver: NewDriver) -> None:
    """It is not the time of a load, and how long it took to fall asleep is not known."""
    sleeper = model("qwen", sleep=sleeps())
    driver = new_driver(one_at_a_time(sleeper))
    driver >> adopted(sleeper, 5, sleep_level=level("1")) << nothing
    driver.launches["qwen"] = LaunchId(5)
    driver >> arrives(1, "qwen") << wakes("qwen")
    driver.after(3) >> awake("qwen") << grants(1)

    stats = driver.scheduler.model_stats.of(QWEN)
    assert (stats.load_s, stats.sleep_stats_by_level) == (None, {})


def test_a_server_that_was_adopted_may_have_had_long_conversations(new_driver: NewDriver) -> None:
    """The previous process has seen its prompts."""
    driver = new_driver(one_at_a_time(model("qwen", keeps_conversations=True), "llama"))
    driver >> adopted(model("qwen", keeps_conversations=True), 5, served=1) << nothing
    driver >> arrives(1, "qwen") << grants(1)
    driver >> prompt(1, computed=40) << nothing
    driver >> leaves(1) << nothing
    driver >> arrives(2, "llama") << saves("qwen")


def test_an_adopted_server_that_dies_counts_as_any_other(driver: SchedulerDriver) -> None:
    """It had answered, so that its end is no failure."""
    driver >> adopted(model("qwen"), 5, has_answered=True, leases=(LEASE,)) << nothing
    driver.launches["qwen"] = LaunchId(5)
    driver >> exited("qwen") << nothing
    driver >> leaves(7) << nothing
    driver >> clock << nothing

    assert driver.view("qwen").failures == 0
