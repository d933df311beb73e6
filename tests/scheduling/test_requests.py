"""Arriving, waiting, being served, leaving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import model, one_at_a_time
from tests.support.playbook import (
    arrives,
    confirms,
    grants,
    leaves,
    load,
    nothing,
    ready,
    refuses,
    starts,
    wakes_at,
)

from hotseat.errors import Busy, UnknownModel
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.playbook import Playbook, Stage


def test_the_first_request_starts_its_model(yard: Playbook) -> None:
    """A request for a cold model starts it and is granted when it is ready."""
    yard >> arrives(1, "qwen") << starts("qwen")

    yard.after(10) >> ready("qwen") << grants(1, "qwen")


def test_a_start_says_who_waits(yard: Playbook) -> None:
    """The reason of a start is the requests it is for."""
    yard >> arrives(1, "qwen") << starts("qwen")

    assert yard.reason == "started for 1 request"


def test_a_request_for_a_ready_model(yard: Playbook) -> None:
    """A request that finds its model ready does not wait."""
    yard.with_ready("qwen", 1)

    yard >> arrives(2, "qwen") << grants(2, "qwen")


def test_requests_for_a_loading_model_share_the_load(yard: Playbook) -> None:
    """One load serves all requests that wait for it, in order of arrival."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> arrives(2, "qwen") << nothing
    yard >> arrives(3, "qwen") << nothing

    yard >> ready("qwen") << grants(1) << grants(2) << grants(3)


def test_a_departed_client_does_not_cause_a_load(yard: Playbook) -> None:
    """No model is loaded for a client that has disconnected."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> arrives(2, "llama") << nothing
    yard >> leaves(2) << nothing

    yard >> ready("qwen") << grants(1) << nothing


def test_a_client_who_hangs_up_while_its_model_loads(yard: Playbook) -> None:
    """A load that no other model needs memory from is finished: the next request finds the model ready."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> leaves(1) << nothing
    yard >> ready("qwen") << nothing

    yard >> arrives(2, "qwen") << grants(2)


def test_leaving_twice(yard: Playbook) -> None:
    """A ticket that is gone can leave again without harm."""
    yard.with_ready("qwen", 1)
    yard >> leaves(1) << nothing

    yard >> leaves(1) << nothing
    assert yard.view("qwen").in_flight == 0


def test_a_full_queue_refuses_with_a_time_to_come_back(stage: Stage) -> None:
    """A refusal of a full queue says how long a load takes here."""
    yard = stage(one_at_a_time("qwen", "llama", max_queue=1))
    yard >> arrives(1, "qwen") << starts("qwen")

    yard >> arrives(2, "qwen") << refuses(2, Busy)
    assert yard.error.retry_after == 20
    assert "1 request is already waiting (scheduler.maxQueue)" in yard.error.message


def test_a_full_queue_of_one_model_is_nothing_to_those_who_want_another(stage: Stage) -> None:
    """A model's own limit keeps a rush on it from filling the common queue."""
    yard = stage(one_at_a_time(model("qwen", max_queue=1), "llama", max_queue=3))
    yard >> arrives(1, "qwen") << starts("qwen")

    yard >> arrives(2, "qwen") << refuses(2, Busy)
    assert yard.error.message == (
        "the queue for qwen is full: 1 request is already waiting for this model (maxQueue). Try again later."
    )
    assert yard.error.retry_after == 20
    yard >> arrives(3, "llama") << nothing
    assert yard.view("llama").waiting == 1


def test_one_client_cannot_fill_the_line(stage: Stage) -> None:
    """It has three quarters of it; other clients and other models still find places."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1), "llama", max_queue=16))
    yard.with_ready("qwen", 1)
    for ticket in range(2, 14):
        yard >> arrives(ticket, "qwen", "flood") << nothing

    yard >> arrives(14, "qwen", "flood") << refuses(14, Busy)
    assert "12 requests from this client are already waiting (scheduler.maxQueue)" in yard.error.message
    yard >> arrives(15, "qwen", "flood", reads=True) << grants(15)
    yard >> arrives(16, "qwen", "person") << nothing
    yard >> leaves(2) << nothing
    yard >> arrives(17, "qwen", "flood") << nothing
    yard >> arrives(18, "qwen", "flood") << refuses(18, Busy)


def test_one_client_cannot_fill_the_line_of_a_model(stage: Stage) -> None:
    """Where the model has a bound of its own."""
    yard = stage(one_at_a_time(model("qwen", max_queue=8)))
    yard >> arrives(1, "qwen", "flood") << starts("qwen")
    for ticket in range(2, 7):
        yard >> arrives(ticket, "qwen", "flood") << nothing

    yard >> arrives(7, "qwen", "flood") << refuses(7, Busy)
    assert "6 requests from this client are already waiting for this model (maxQueue)" in yard.error.message
    yard >> arrives(8, "qwen", "person") << nothing


def test_a_place_in_a_full_queue_becomes_free(stage: Stage) -> None:
    """One free place is enough to be accepted."""
    yard = stage(one_at_a_time("qwen", max_queue=1))
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> leaves(1) << nothing

    yard >> arrives(2, "qwen") << nothing
    assert yard.view("qwen").waiting == 1


def test_a_full_queue_is_nothing_to_those_who_need_not_wait(stage: Stage) -> None:
    """A ready model with a free slot serves however many wait for others."""
    yard = stage(one_at_a_time("qwen", "llama", max_queue=1))
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)

    yard >> arrives(3, "qwen") << grants(3)
    yard >> load(4, "qwen") << confirms(4)


def test_a_full_queue_counts_for_busy_slots(stage: Stage) -> None:
    """A request that would have to wait for a slot is refused when the queue is full."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1), max_queue=1))
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "qwen") << nothing

    yard >> arrives(3, "qwen") << refuses(3, Busy)


def test_an_explicit_load(yard: Playbook) -> None:
    """An operator's load is confirmed when the model is ready, and holds no lease on it."""
    yard >> load(1, "qwen") << starts("qwen")
    yard >> ready("qwen") << confirms(1, "qwen")

    assert yard.phase("qwen") is Phase.READY
    assert yard.view("qwen").in_flight == 0


def test_an_explicit_load_of_a_ready_model(yard: Playbook) -> None:
    """Loading what is loaded is confirmed at once."""
    yard.with_ready("qwen", 1)

    yard >> load(2, "qwen") << confirms(2)


def test_a_request_for_a_model_that_was_never_configured(yard: Playbook) -> None:
    """A name that a reload has just taken away is refused, not tripped over."""
    yard >> arrives(1, "gone") << refuses(1, UnknownModel)

    yard >> load(2, "gone") << refuses(2, UnknownModel)
