"""Every waiting request has one reason, an estimate and, if possible, a latest time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import level, model, one_at_a_time, sleeps, with_budget
from tests.support.scheduler_driver import (
    arrives,
    clock,
    exited,
    grants,
    leaves,
    nothing,
    ready,
    refuses,
    starts,
    stops,
    unload,
    wakes_at,
)

from hotseat.errors import Busy
from hotseat.identifiers import ModelName
from hotseat.scheduling.queue import LOOKED_AT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.scheduler_driver import NewDriver, SchedulerDriver

    from hotseat.scheduling.view import TicketView


def first(driver: SchedulerDriver, name: str) -> TicketView:
    return next(ticket for ticket in driver.scheduler.view(driver.now).queue if ticket.model == name)


def known(driver: SchedulerDriver, *names: str) -> SchedulerDriver:
    """Models that were loaded in ten seconds and have answered within five, in an earlier run."""
    figures = {name: {"load_s": 10.0, "stop_s": 1.0, "drain_s": 5.0} for name in names}
    driver.scheduler.model_stats.adopt(figures)
    return driver


def first_load(driver: SchedulerDriver) -> str:
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen")
    driver.at(12) >> exited("qwen") << starts("llama")
    driver.at(15) >> arrives(2, "llama") << nothing
    return "llama"


def behind_a_load(driver: SchedulerDriver) -> str:
    first_load(driver)
    driver >> arrives(3, "gemma") << nothing
    return "gemma"


def stopping(driver: SchedulerDriver) -> str:
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen")
    return "llama"


def draining(driver: SchedulerDriver) -> str:
    protected(driver)
    driver.at(200) >> clock << nothing
    return "llama"


def protected(driver: SchedulerDriver) -> str:
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    return "llama"


def third_in_queue(driver: SchedulerDriver) -> str:
    protected(driver)
    driver >> arrives(3, "gemma") << nothing
    return "gemma"


def left_too_early(driver: SchedulerDriver) -> str:
    """The model that leaves is wanted again."""
    stopping(driver)
    driver.scheduler.model_stats.of(ModelName("qwen")).load_s = None
    driver >> arrives(4, "qwen", "another") << nothing
    return "qwen"


WAITS: dict[Callable[[SchedulerDriver], str], tuple[str, str]] = {
    first_load: ("loading llama: 3 s so far, its usual time is not known yet", "usually about 10 s"),
    behind_a_load: ("waiting for llama to finish loading (its usual time is not known yet)", "(7 s left)"),
    stopping: ("stopping qwen, then loading llama", "(about 10 s)"),
    draining: ("draining qwen (1 request running for 190 s; ticket 1 of qwen has run for 190 s", "(about 10 s)"),
    protected: ("qwen is protected for at most 40.0 s more (1 request running)", "(1 request running, swap cost 20 s)"),
    third_in_queue: ("2nd in queue, behind llama (waiting for 0 s)", "2nd in queue"),
    left_too_early: ("stopping qwen (unloaded", "(about 10 s)"),
}
"""By what a request waits for: what is said of models that were never loaded, and what is added once they were."""


@pytest.mark.parametrize("situation", WAITS)
def test_a_time_that_is_not_known_is_not_shown(
    driver: SchedulerDriver, situation: Callable[[SchedulerDriver], str]
) -> None:
    """No sentence and no figure contains a guess: neither of a load that was never seen, nor of one that follows it."""
    name = situation(driver)
    said, ticket = driver.why(name), first(driver, name)

    assert said.startswith(WAITS[situation][0])
    assert not re.search(r"about \d|\d s left|swap cost|usually", said)
    assert (ticket.expected_in_s, ticket.not_later_than) == (None, None)


@pytest.mark.parametrize("situation", WAITS)
def test_a_time_that_was_measured_is_shown(
    driver: SchedulerDriver, situation: Callable[[SchedulerDriver], str]
) -> None:
    """The same situations with models that were loaded before; only a drain that takes too long has no end."""
    name = situation(known(driver, "qwen", "llama", "gemma"))
    known(driver, "qwen")

    assert WAITS[situation][1] in driver.why(name)
    assert (first(driver, name).expected_in_s is None) is (situation is draining)


@pytest.mark.parametrize("situation", [stopping, protected, third_in_queue, left_too_early, behind_a_load])
def test_a_load_time_without_a_stop_time(driver: SchedulerDriver, situation: Callable[[SchedulerDriver], str]) -> None:
    """The sentence has the time of the load; no figure tells when the request is served."""
    known(driver, "qwen", "llama", "gemma")
    for name in ("qwen", "llama", "gemma"):
        driver.scheduler.model_stats.of(ModelName(name)).stop_s = None
    name = situation(driver)
    driver.scheduler.model_stats.of(ModelName("qwen")).load_s = 10.0
    driver.scheduler.model_stats.of(ModelName("qwen")).drain_s = 5.0
    ticket = first(driver, name)

    assert WAITS[situation][1] in ticket.why
    assert (ticket.expected_in_s, ticket.not_later_than) == (None, None)


@pytest.mark.parametrize("situation", [stopping, protected, third_in_queue])
def test_a_stop_time_without_a_load_time(driver: SchedulerDriver, situation: Callable[[SchedulerDriver], str]) -> None:
    """The time of a stop is in no sentence by itself, so there is none."""
    known(driver, "qwen", "llama", "gemma")
    for name in ("llama", "gemma"):
        driver.scheduler.model_stats.of(ModelName(name)).load_s = None
    name = situation(driver)
    ticket = first(driver, name)

    assert ticket.why.startswith(WAITS[situation][0].removesuffix(")"))
    assert not re.search(r"about \d|\d s left|swap cost|usually", ticket.why)
    assert (ticket.expected_in_s, ticket.not_later_than) == (None, None)


def test_the_stop_of_a_model_that_is_loading_was_never_measured(driver: SchedulerDriver) -> None:
    """Its load needs no stop any more and has a time; the claim behind it needs its stop and has none."""
    known(driver, "qwen", "llama", "gemma")
    driver.scheduler.model_stats.of(ModelName("llama")).stop_s = None
    behind_a_load(driver)

    assert first(driver, "llama").expected_in_s == 7
    assert driver.why("gemma") == "waiting for llama to finish loading (7 s left)"
    assert first(driver, "gemma").expected_in_s is None


def test_the_model_ahead_in_the_queue_was_never_stopped(driver: SchedulerDriver) -> None:
    """It will have to stop, too."""
    known(driver, "qwen", "llama", "gemma")
    driver.scheduler.model_stats.of(ModelName("llama")).stop_s = None
    third_in_queue(driver)

    assert first(driver, "llama").expected_in_s is not None
    assert first(driver, "gemma").expected_in_s is None


def test_a_pinned_model_is_never_stopped(new_driver: NewDriver) -> None:
    """That its stop was never measured hides no time."""
    driver = new_driver(with_budget(model("pin", gib=4, pinned=True), model("a", gib=20), model("b", gib=20)))
    known(driver, "a", "b").with_ready("pin").with_ready("a")
    driver >> arrives(1, "b") << stops("a")
    driver >> exited("a") << starts("b")
    driver >> arrives(2, "a") << nothing

    assert driver.why("a").startswith("waiting for b to finish loading")
    assert first(driver, "a").expected_in_s == 10 + 1 + 10


def test_a_model_that_sleeps_instead_of_stopping(new_driver: NewDriver) -> None:
    """Falling asleep was measured, and nobody needs the time of a stop."""
    driver = new_driver(one_at_a_time(model("qwen", sleep=sleeps(level("1"))), "llama"))
    driver.with_ready("qwen").with_sleep_stats("qwen", "llama", sleep_s=3)
    known(driver, "qwen", "llama")
    driver.scheduler.model_stats.of(ModelName("qwen")).stop_s = None
    driver >> arrives(1, "qwen") << grants(1)
    driver >> arrives(2, "llama") << wakes_at(250)

    assert first(driver, "llama").expected_in_s == (250 - 226) + 5 + 3 + 10


def test_a_load_that_takes_longer_than_usual(driver: SchedulerDriver) -> None:
    """It says so, and neither it nor those behind it are told that a second is left."""
    behind_a_load(known(driver, "qwen", "llama", "gemma"))
    driver.at(30) >> clock << nothing

    assert driver.why("llama") == "loading llama: 18 s so far, longer than the usual 10 s"
    assert driver.why("gemma") == "waiting for llama to finish loading (longer than the usual 10 s)"
    assert [ticket.expected_in_s for ticket in driver.scheduler.view(30).queue] == [None, None, None]


def test_a_turn(driver: SchedulerDriver) -> None:
    """The rest of the turn, what a stop takes, and the load."""
    known(driver, "qwen", "llama").with_ready("qwen", 1)
    driver.at(13) >> arrives(2, "llama") << wakes_at(53)

    assert first(driver, "llama").expected_in_s == 40 + (5 - 3) + 1 + 10


def test_a_load(driver: SchedulerDriver) -> None:
    """What is left of the time that its loads take."""
    first_load(known(driver, "llama"))

    assert first(driver, "llama").why == "loading llama: 3 s so far, usually about 10 s"
    assert first(driver, "llama").expected_in_s == 7


def test_a_drain(driver: SchedulerDriver) -> None:
    """Which model has to leave, what it still does, and what follows."""
    known(driver, "llama").with_ready("qwen", 1)
    driver.at(20) >> leaves(1) << nothing
    driver >> arrives(2, "qwen") << grants(2)
    driver >> arrives(3, "llama", "another") << wakes_at(100)
    driver.at(100) >> clock << nothing
    driver >> arrives(4, "qwen") << nothing

    running = "1 request running for 80 s; ticket 2 of qwen has run for 80 s, no maxRequestDuration limits it"
    assert first(driver, "llama").why == f"draining qwen ({running}), then loading llama (about 10 s)"
    assert first(driver, "qwen").why.startswith(
        f"draining qwen ({running}) (unloaded for llama: models run one at a time without `devices`)"
    )


def test_a_stop(driver: SchedulerDriver) -> None:
    """A stop takes as long as stops took before."""
    stopping(known(driver, "qwen", "llama"))

    assert first(driver, "llama").why == "stopping qwen, then loading llama (about 10 s)"
    assert first(driver, "llama").expected_in_s == 11


def test_older_requests_of_the_resident(new_driver: NewDriver) -> None:
    """They were first, for two turns at most."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1), "llama"))
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "qwen") << nothing
    driver.at(11) >> arrives(3, "llama") << wakes_at(91)
    assert first(driver, "llama").why == "qwen first serves 1 older request, for at most 80.0 s"

    driver.at(91) >> clock << nothing
    assert first(driver, "llama").why.startswith("draining qwen")


def test_a_load_that_is_nearly_done(driver: SchedulerDriver) -> None:
    """No request waits for it, but stopping it would take as long as the rest."""
    known(driver, "llama").with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen")
    driver >> exited("qwen") << starts("llama")
    driver.at(19.5) >> leaves(1) << nothing
    driver >> arrives(2, "gemma") << nothing
    assert first(driver, "gemma").why == "waiting for llama to finish loading (0 s left)"

    driver.at(20) >> ready("llama") << stops("llama")


def test_a_load_that_nobody_needs_gives_way(driver: SchedulerDriver) -> None:
    """Its only client left early, and an older claim than its next one waits."""
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen")
    driver >> exited("qwen") << starts("llama")
    driver.at(12) >> leaves(1) << nothing

    driver >> arrives(2, "gemma") << stops("llama")


def test_a_long_rotation(new_driver: NewDriver) -> None:
    """Also those behind the last one that is looked at know their number."""
    names = [f"m{number:02}" for number in range(LOOKED_AT + 3)]
    driver = new_driver(one_at_a_time(*names))
    driver.with_ready("m00", 1)
    driver >> arrives(100, "m01") << wakes_at(50)
    for number, name in enumerate(names[2:], start=2):
        driver.at(10 + number) >> arrives(100 + number, name) << nothing
    last = driver.why(names[-1])

    assert last == f"{len(names) - 1}th in queue, behind {names[-2]} (waiting for 1 s)"
    assert first(driver, names[-1]).not_later_than is None


def test_what_can_be_promised(driver: SchedulerDriver) -> None:
    """Swaps and two turns of each contender, as long as nothing takes longer than it did."""
    known(driver, "qwen", "llama").with_ready("qwen", 1)
    driver.at(15) >> leaves(1) << nothing
    driver >> arrives(2, "qwen") << grants(2)
    driver >> arrives(3, "llama", "another") << wakes_at(75)
    driver >> arrives(4, "llama", "another") << nothing
    head, behind = (ticket for ticket in driver.scheduler.view(driver.now).queue)

    assert head.not_later_than == 15 + 10 + (10 + 1 + 5) + 2 * 2 * (10 + 10)
    assert behind.not_later_than is None


def test_nothing_is_promised_before_anything_is_known(driver: SchedulerDriver) -> None:
    """How long a drain takes is not known of a model that never answered."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)

    assert first(driver, "llama").not_later_than is None


def test_between_a_fact_and_its_decision(driver: SchedulerDriver) -> None:
    """A look before the timer event still gets a true sentence."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)

    assert driver.scheduler.view_of(first(driver, "llama").model, 200).why.startswith("draining qwen")


def test_a_full_queue_says_when_to_come_back(new_driver: NewDriver) -> None:
    """As long as one more would wait, between a second and a minute."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1), "llama", max_queue=1))
    driver.with_ready("qwen", 1)
    driver.at(20) >> leaves(1) << nothing
    driver >> arrives(2, "qwen") << grants(2)
    driver >> arrives(3, "qwen") << nothing
    driver >> arrives(4, "qwen") << refuses(4, Busy)
    assert driver.error.retry_after == pytest.approx(20)

    driver >> arrives(5, "llama") << refuses(5, Busy)
    assert driver.error.retry_after == 10


def test_a_scheduler_with_slow_answers(new_driver: NewDriver) -> None:
    """Retry-After is never more than a minute."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1), max_queue=1))
    driver.with_ready("qwen", 1)
    driver.at(500) >> leaves(1) << nothing
    driver >> arrives(2, "qwen") << grants(2)
    driver >> arrives(3, "qwen") << nothing

    driver >> arrives(4, "qwen") << refuses(4, Busy)
    assert driver.error.retry_after == 60


def test_pinned_neighbours_are_no_reason(new_driver: NewDriver) -> None:
    """A model that can never leave is not a reason to wait."""
    driver = new_driver(with_budget(model("pin", gib=4, pinned=True), model("a", gib=20), model("b", gib=20)))
    driver.with_ready("pin").with_ready("a", 1)
    driver >> arrives(2, "b") << wakes_at(60)

    assert driver.why("b").startswith("a is protected for at most 40.0 s more")


def test_one_endless_request_keeps_a_model_from_leaving(driver: SchedulerDriver) -> None:
    """After a minute those that wait are told which request it is, and what would limit it."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    driver.at(50) >> clock << nothing
    driver.at(69)
    assert driver.why("llama") == "draining qwen (1 request running for 59 s), then loading llama"

    driver.at(93)
    long = "ticket 1 of qwen has run for 83 s, no maxRequestDuration limits it"
    assert driver.why("llama") == f"draining qwen (1 request running for 83 s; {long}), then loading llama"
    assert driver.why("qwen").startswith(f"draining 1 request; {long}, then stopping")


def test_a_limited_request_keeps_a_slot_for_long(new_driver: NewDriver) -> None:
    """The limit is named where there is one, and those that wait for a slot are told, too."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1, max_request_s=600.0)))
    driver.with_ready("qwen", 1)
    driver.at(20) >> arrives(2, "qwen") << nothing

    driver.at(130)
    long = "ticket 1 of qwen has run for 120 s, maxRequestDuration ends it after 600 s"
    assert driver.why("qwen") == f"waiting for a free slot on qwen (1 of 1 busy; {long})"


def test_an_endless_request_of_a_model_that_an_operator_stops(driver: SchedulerDriver) -> None:
    """It is about to be cut, so that no limit is missing."""
    driver.with_ready("qwen", 1)
    driver.at(100) >> unload(2, "qwen") << wakes_at(110)

    assert driver.why("qwen") == "draining 1 request, then stopping: stopped by an operator"
