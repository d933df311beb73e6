"""Each client has a bounded number of places in the queue of a model: a flood delays itself, not others."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tests.support.catalogs import model, one_at_a_time
from tests.support.scheduler_driver import arrives, grants, leaves, nothing

from hotseat.scheduling.queue import PLACES

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver


def one_slot(new_driver: NewDriver) -> SchedulerDriver:
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1), max_queue=1000))
    return driver.with_ready("qwen", 1)


def flooded(new_driver: NewDriver) -> SchedulerDriver:
    """600 requests of one client, numbers 100 to 699."""
    driver = one_slot(new_driver)
    for ticket in range(100, 700):
        driver >> arrives(ticket, "qwen", "flood") << nothing
    return driver


def test_a_flood_delays_others_by_its_places_only(new_driver: NewDriver) -> None:
    """A later request waits for eight requests, not for 600."""
    driver = flooded(new_driver)
    driver >> arrives(1000, "qwen", "person") << nothing
    served = [1, *range(100, 100 + PLACES), 1000, 100 + PLACES]

    for done, following in pairwise(served):
        driver >> leaves(done) << grants(following)


def test_few_requests_are_served_as_they_came(new_driver: NewDriver) -> None:
    """Within a client's places it is first come, first served."""
    driver = one_slot(new_driver)
    for ticket, client in enumerate("aaabbc", start=2):
        driver >> arrives(ticket, "qwen", client) << nothing

    for done in range(1, 7):
        driver >> leaves(done) << grants(done + 1)


def test_the_line_is_shown_as_it_will_be_served(new_driver: NewDriver) -> None:
    """Each shows how many are ahead, which is not always how many came before."""
    driver = flooded(new_driver)
    driver.at(14) >> leaves(1) << grants(100)
    driver >> arrives(1000, "qwen", "person") << nothing
    shown = {int(ticket.ticket): ticket for ticket in driver.scheduler.view(driver.now).queue}

    assert shown[101].why == "waiting for a free slot on qwen (1 of 1 busy)"
    assert shown[1000].why == f"waiting for a free slot on qwen (1 of 1 busy); {PLACES} requests ahead"
    assert shown[699].why.endswith("599 requests ahead")
    assert shown[101].expected_in_s == 4
    assert shown[1000].expected_in_s == 4 * (PLACES + 1)


def test_giving_up_in_the_line_and_behind_it(new_driver: NewDriver) -> None:
    """A free place goes to the client's next request; leaving from behind the queue frees none."""
    driver = flooded(new_driver)
    driver >> leaves(100) << nothing
    driver >> leaves(100 + PLACES + 1) << nothing
    for ticket in range(400, 700):
        driver >> leaves(ticket) << nothing

    driver >> leaves(1) << grants(101)
    assert driver.view("qwen").waiting == 600 - 2 - 300 - 1


def test_a_client_that_gives_up_leaves_no_trace(new_driver: NewDriver) -> None:
    """Its places are gone with its last ticket."""
    driver = one_slot(new_driver)
    driver >> arrives(2, "qwen", "a") << nothing
    driver >> arrives(3, "qwen", "b") << nothing
    driver >> leaves(2) << nothing

    driver >> leaves(1) << grants(3)
