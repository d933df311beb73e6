"""Arriving, waiting, being served, leaving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import model, one_at_a_time
from tests.support.scheduler_driver import (
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
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver


def test_the_first_request_starts_its_model(driver: SchedulerDriver) -> None:
    """A request for a cold model starts it and is granted when it is ready."""
    driver >> arrives(1, "qwen") << starts("qwen")

    driver.after(10) >> ready("qwen") << grants(1, "qwen")


def test_a_start_says_who_waits(driver: SchedulerDriver) -> None:
    """The reason of a start is the requests it is for."""
    driver >> arrives(1, "qwen") << starts("qwen")

    assert driver.reason == "started for 1 request"


def test_a_request_for_a_ready_model(driver: SchedulerDriver) -> None:
    """A request that finds its model ready does not wait."""
    driver.with_ready("qwen", 1)

    driver >> arrives(2, "qwen") << grants(2, "qwen")


def test_requests_for_a_loading_model_share_the_load(driver: SchedulerDriver) -> None:
    """One load serves all requests that wait for it, in order of arrival."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> arrives(2, "qwen") << nothing
    driver >> arrives(3, "qwen") << nothing

    driver >> ready("qwen") << grants(1) << grants(2) << grants(3)


def test_a_departed_client_does_not_cause_a_load(driver: SchedulerDriver) -> None:
    """No model is loaded for a client that has disconnected."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> arrives(2, "llama") << nothing
    driver >> leaves(2) << nothing

    driver >> ready("qwen") << grants(1) << nothing


def test_a_client_who_hangs_up_while_its_model_loads(driver: SchedulerDriver) -> None:
    """A load that no other model needs memory from is finished: the next request finds the model ready."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> leaves(1) << nothing
    driver >> ready("qwen") << nothing

    driver >> arrives(2, "qwen") << grants(2)


def test_leaving_twice(driver: SchedulerDriver) -> None:
    """A ticket that is gone can leave again without harm."""
    driver.with_ready("qwen", 1)
    driver >> leaves(1) << nothing

    driver >> leaves(1) << nothing
    assert driver.view("qwen").in_flight == 0


def test_a_full_queue_refuses_with_a_time_to_come_back(new_driver: NewDriver) -> None:
    """A refusal of a full queue says how long a load takes here."""
    driver = new_driver(one_at_a_time("qwen", "llama", max_queue=1))
    driver >> arrives(1, "qwen") << starts("qwen")

    driver >> arrives(2, "qwen") << refuses(2, Busy)
    assert driver.error.retry_after == 20
    assert "1 request is already waiting (scheduler.maxQueue)" in driver.error.message


def test_one_client_cannot_fill_the_line(new_driver: NewDriver) -> None:
    """It has three quarters of it; other clients and other models still find places."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1), "llama", max_queue=16))
    driver.with_ready("qwen", 1)
    for ticket in range(2, 14):
        driver >> arrives(ticket, "qwen", "flood") << nothing

    driver >> arrives(14, "qwen", "flood") << refuses(14, Busy)
    assert "12 requests from this client are already waiting (scheduler.maxQueue)" in driver.error.message
    driver >> arrives(15, "qwen", "flood", reads=True) << grants(15)
    driver >> arrives(16, "qwen", "person") << nothing
    driver >> leaves(2) << nothing
    driver >> arrives(17, "qwen", "flood") << nothing
    driver >> arrives(18, "qwen", "flood") << refuses(18, Busy)


def test_clients_that_fill_the_line_do_not_keep_operators_out(new_driver: NewDriver) -> None:
    """A load waits in a full queue, too; there may be as many loads as one client may have requests."""
    driver = new_driver(one_at_a_time("qwen", max_queue=4))
    driver >> arrives(1, "qwen", "ann") << starts("qwen")
    for ticket, client in ((2, "ben"), (3, "cem"), (4, "dan")):
        driver >> arrives(ticket, "qwen", client) << nothing
    driver >> arrives(5, "qwen", "eve") << refuses(5, Busy)

    for ticket in (6, 7, 8):
        driver >> load(ticket, "qwen") << nothing
    driver >> load(9, "qwen") << refuses(9, Busy)
    driver >> arrives(10, "qwen", "eve") << refuses(10, Busy)


def test_a_place_in_a_full_queue_becomes_free(new_driver: NewDriver) -> None:
    """One free place is enough to be accepted."""
    driver = new_driver(one_at_a_time("qwen", max_queue=1))
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> leaves(1) << nothing

    driver >> arrives(2, "qwen") << nothing
    assert driver.view("qwen").waiting == 1


def test_a_full_queue_is_nothing_to_those_who_need_not_wait(new_driver: NewDriver) -> None:
    """A ready model with a free slot serves however many wait for others."""
    driver = new_driver(one_at_a_time("qwen", "llama", max_queue=1))
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)

    driver >> arrives(3, "qwen") << grants(3)
    driver >> load(4, "qwen") << confirms(4)


def test_a_full_queue_counts_for_busy_slots(new_driver: NewDriver) -> None:
    """A request that would have to wait for a slot is refused when the queue is full."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1), max_queue=1))
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "qwen") << nothing

    driver >> arrives(3, "qwen") << refuses(3, Busy)


def test_an_explicit_load(driver: SchedulerDriver) -> None:
    """An operator's load is confirmed when the model is ready, and holds no lease on it."""
    driver >> load(1, "qwen") << starts("qwen")
    driver >> ready("qwen") << confirms(1, "qwen")

    assert driver.phase("qwen") is Phase.READY
    assert driver.view("qwen").in_flight == 0


def test_an_explicit_load_of_a_ready_model(driver: SchedulerDriver) -> None:
    """Loading what is loaded is confirmed at once."""
    driver.with_ready("qwen", 1)

    driver >> load(2, "qwen") << confirms(2)


def test_a_request_for_a_model_that_was_never_configured(driver: SchedulerDriver) -> None:
    """A name that a reload has just taken away is refused, not tripped over."""
    driver >> arrives(1, "gone") << refuses(1, UnknownModel)

    driver >> load(2, "gone") << refuses(2, UnknownModel)
