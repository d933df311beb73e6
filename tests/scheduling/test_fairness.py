"""Each client has a bounded number of places in the queue of a model: a flood delays itself, not others."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tests.support.catalogs import model, one_at_a_time
from tests.support.playbook import arrives, grants, leaves, nothing

from hotseat.scheduling.queue import PLACES

if TYPE_CHECKING:
    from tests.support.playbook import Playbook, Stage


def one_slot(stage: Stage) -> Playbook:
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1), max_queue=1000))
    return yard.with_ready("qwen", 1)


def flooded(stage: Stage) -> Playbook:
    """600 requests of one client, numbers 100 to 699."""
    yard = one_slot(stage)
    for ticket in range(100, 700):
        yard >> arrives(ticket, "qwen", "flood") << nothing
    return yard


def test_a_flood_delays_others_by_its_places_only(stage: Stage) -> None:
    """A later request waits for eight requests, not for 600."""
    yard = flooded(stage)
    yard >> arrives(1000, "qwen", "person") << nothing
    served = [1, *range(100, 100 + PLACES), 1000, 100 + PLACES]

    for done, following in pairwise(served):
        yard >> leaves(done) << grants(following)


def test_few_requests_are_served_as_they_came(stage: Stage) -> None:
    """Within a client's places it is first come, first served."""
    yard = one_slot(stage)
    for ticket, client in enumerate("aaabbc", start=2):
        yard >> arrives(ticket, "qwen", client) << nothing

    for done in range(1, 7):
        yard >> leaves(done) << grants(done + 1)


def test_the_line_is_shown_as_it_will_be_served(stage: Stage) -> None:
    """Each shows how many are ahead, which is not always how many came before."""
    yard = flooded(stage)
    yard.at(14) >> leaves(1) << grants(100)
    yard >> arrives(1000, "qwen", "person") << nothing
    shown = {int(ticket.ticket): ticket for ticket in yard.scheduler.view(yard.now).queue}

    assert shown[101].why == "waiting for a free slot on qwen (1 of 1 busy)"
    assert shown[1000].why == f"waiting for a free slot on qwen (1 of 1 busy); {PLACES} requests ahead"
    assert shown[699].why.endswith("599 requests ahead")
    assert shown[101].expected_in_s == 4
    assert shown[1000].expected_in_s == 4 * (PLACES + 1)


def test_giving_up_in_the_line_and_behind_it(stage: Stage) -> None:
    """A free place goes to the client's next request; leaving from behind the queue frees none."""
    yard = flooded(stage)
    yard >> leaves(100) << nothing
    yard >> leaves(100 + PLACES + 1) << nothing
    for ticket in range(400, 700):
        yard >> leaves(ticket) << nothing

    yard >> leaves(1) << grants(101)
    assert yard.view("qwen").waiting == 600 - 2 - 300 - 1


def test_a_client_that_gives_up_leaves_no_trace(stage: Stage) -> None:
    """Its places are gone with its last ticket."""
    yard = one_slot(stage)
    yard >> arrives(2, "qwen", "a") << nothing
    yard >> arrives(3, "qwen", "b") << nothing
    yard >> leaves(2) << nothing

    yard >> leaves(1) << grants(3)
