"""Every waiting request has one reason, an estimate and, if possible, a latest time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, one_at_a_time, with_budget
from tests.support.playbook import (
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
    wakes_at,
)

from hotseat.errors import Busy
from hotseat.scheduling.turns import LOOKED_AT

if TYPE_CHECKING:
    from tests.support.playbook import Playbook, Stage

    from hotseat.scheduling.view import TicketView


def first(yard: Playbook, name: str) -> TicketView:
    return next(ticket for ticket in yard.scheduler.view(yard.now).queue if ticket.model == name)


def test_a_turn(yard: Playbook) -> None:
    """The rest of the turn, what a stop takes, and the load."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)

    assert first(yard, "llama").expected_in_s == 40 + 1 + 10


def test_a_load(yard: Playbook) -> None:
    """What is left of what it usually takes."""
    yard.with_ready("qwen")
    yard >> arrives(1, "llama") << stops("qwen")
    yard.at(12) >> exited("qwen") << starts("llama")
    yard.at(15) >> arrives(2, "llama") << nothing

    assert first(yard, "llama").why == "loading llama: 3 of about 10 s"
    assert first(yard, "llama").expected_in_s == 7


def test_a_drain(yard: Playbook) -> None:
    """Which model has to leave, what it still does, and what follows."""
    yard.with_ready("qwen", 1)
    yard.at(20) >> leaves(1) << nothing
    yard >> arrives(2, "qwen") << grants(2)
    yard >> arrives(3, "llama", "another") << wakes_at(60)
    yard.at(60) >> clock << wakes_at(100)
    yard.at(100) >> clock << nothing
    yard >> arrives(4, "qwen") << nothing

    assert first(yard, "llama").why == "draining qwen (1 request running for 80 s), then loading llama (about 10 s)"
    assert first(yard, "qwen").why.startswith(
        "draining qwen (1 request running for 80 s) (unloaded to free memory for llama), then"
    )


def test_a_stop(yard: Playbook) -> None:
    """A stop takes as long as stops took before."""
    yard.with_ready("qwen")
    yard >> arrives(1, "llama") << stops("qwen")

    assert first(yard, "llama").why == "stopping qwen, then loading llama (about 10 s)"
    assert first(yard, "llama").expected_in_s == 11


def test_older_requests_of_the_resident(stage: Stage) -> None:
    """They were first, for one more turn at most."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1), "llama"))
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "qwen") << nothing
    yard.at(11) >> arrives(3, "llama") << wakes_at(51)
    yard.at(51) >> clock << wakes_at(91)
    assert first(yard, "llama").why == "qwen first serves 1 older request, for at most 40.0 s"

    yard.at(91) >> clock << nothing
    assert first(yard, "llama").why.startswith("draining qwen")


def test_a_load_that_is_nearly_done(yard: Playbook) -> None:
    """No request waits for it, but stopping it would take as long as the rest."""
    yard.with_ready("qwen")
    yard >> arrives(1, "llama") << stops("qwen")
    yard >> exited("qwen") << starts("llama")
    yard.at(19.5) >> leaves(1) << nothing
    yard >> arrives(2, "gemma") << nothing
    assert first(yard, "gemma").why == "waiting for llama to finish loading (0 s left)"

    yard.at(20) >> ready("llama") << stops("llama")


def test_a_load_that_nobody_needs_gives_way(yard: Playbook) -> None:
    """Its only client left early, and an older claim than its next one waits."""
    yard.with_ready("qwen")
    yard >> arrives(1, "llama") << stops("qwen")
    yard >> exited("qwen") << starts("llama")
    yard.at(12) >> leaves(1) << nothing

    yard >> arrives(2, "gemma") << stops("llama")


def test_a_long_rotation(stage: Stage) -> None:
    """Also those behind the last one that is looked at know their number."""
    names = [f"m{number:02}" for number in range(LOOKED_AT + 3)]
    yard = stage(one_at_a_time(*names))
    yard.with_ready("m00", 1)
    yard >> arrives(100, "m01") << wakes_at(50)
    for number, name in enumerate(names[2:], start=2):
        yard.at(10 + number) >> arrives(100 + number, name) << nothing
    last = yard.why(names[-1])

    assert last == f"{len(names) - 1}th in queue, behind {names[-2]} (waiting for 1 s)"
    assert first(yard, names[-1]).not_later_than is None


def test_what_can_be_promised(yard: Playbook) -> None:
    """Swaps and two turns of each contender, as long as nothing takes longer than it did."""
    yard.with_ready("qwen", 1)
    yard.at(15) >> leaves(1) << nothing
    yard >> arrives(2, "qwen") << grants(2)
    yard >> arrives(3, "llama", "another") << wakes_at(55)
    yard >> arrives(4, "llama", "another") << nothing
    head, behind = (ticket for ticket in yard.scheduler.view(yard.now).queue)

    assert head.not_later_than == 15 + 10 + (10 + 1 + 5) + 2 * 2 * (10 + 10)
    assert behind.not_later_than is None


def test_nothing_is_promised_before_anything_is_known(yard: Playbook) -> None:
    """How long a drain takes is not known of a model that never answered."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)

    assert first(yard, "llama").not_later_than is None


def test_between_a_fact_and_its_decision(yard: Playbook) -> None:
    """A look before the timer event still gets a true sentence."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)

    assert yard.scheduler.view(200).model(first(yard, "llama").model).why.startswith("draining qwen")


def test_a_full_queue_says_when_to_come_back(stage: Stage) -> None:
    """As long as one more would wait, between a second and a minute."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1), "llama", max_queue=1))
    yard.with_ready("qwen", 1)
    yard.at(20) >> leaves(1) << nothing
    yard >> arrives(2, "qwen") << grants(2)
    yard >> arrives(3, "qwen") << nothing
    yard >> arrives(4, "qwen") << refuses(4, Busy)
    assert yard.error.retry_after == pytest.approx(20)

    yard >> arrives(5, "llama") << refuses(5, Busy)
    assert yard.error.retry_after == 10


def test_a_scheduler_with_slow_answers(stage: Stage) -> None:
    """Retry-After is never more than a minute."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1), max_queue=1))
    yard.with_ready("qwen", 1)
    yard.at(500) >> leaves(1) << nothing
    yard >> arrives(2, "qwen") << grants(2)
    yard >> arrives(3, "qwen") << nothing

    yard >> arrives(4, "qwen") << refuses(4, Busy)
    assert yard.error.retry_after == 60


def test_pinned_neighbours_are_no_reason(stage: Stage) -> None:
    """A model that can never leave is not a reason to wait."""
    yard = stage(with_budget(model("pin", gib=4, pinned=True), model("a", gib=20), model("b", gib=20)))
    yard.with_ready("pin").with_ready("a", 1)
    yard >> arrives(2, "b") << wakes_at(60)

    assert yard.why("b").startswith("a is protected for at most 40.0 s more")
