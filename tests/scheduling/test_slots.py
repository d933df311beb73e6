"""How many requests a ready model takes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import model, one_at_a_time, with_budget
from tests.support.scheduler_driver import (
    arrives,
    confirms,
    exited,
    grants,
    leaves,
    load,
    nothing,
    ready,
    slots_learned,
    starts,
    wakes_at,
)

from hotseat.scheduling.slots import BUSY_SLOTS

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver, SchedulerDriver


def test_a_model_with_one_slot(new_driver: NewDriver) -> None:
    """A request that finds all slots busy waits until one is given back."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1)))
    driver.with_ready("qwen", 1)
    driver.after(1) >> arrives(2, "qwen") << nothing
    assert driver.why("qwen") == "waiting for a free slot on qwen (1 of 1 busy)"

    driver >> leaves(1) << grants(2, reason="all slots of qwen were in use")


def test_a_load_that_takes_less_than_a_tick_of_the_clock(new_driver: NewDriver) -> None:
    """Its request waited for it, not for a slot."""
    driver = new_driver(one_at_a_time(model("qwen")))
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> ready("qwen") << grants(1, reason="waited for qwen to load")


def test_slots_are_given_in_order(new_driver: NewDriver) -> None:
    """No ticket is overtaken in the queue for a slot."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=2)))
    driver >> arrives(1, "qwen") << starts("qwen")
    for ticket in (2, 3, 4):
        driver >> arrives(ticket, "qwen") << nothing

    driver >> ready("qwen") << grants(1) << grants(2)
    driver >> leaves(2) << grants(3)
    driver >> leaves(1) << grants(4)


def test_reads_never_queue_behind_generations(new_driver: NewDriver) -> None:
    """A read takes no slot, waits for none, and is not in anybody's way."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1)))
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "qwen", reads=True) << grants(2)
    driver >> arrives(3, "qwen") << nothing
    driver >> arrives(4, "qwen", reads=True) << grants(4)
    driver >> leaves(2) << nothing

    driver >> leaves(1) << grants(3)


def test_an_operators_load_does_not_wait_for_a_slot(new_driver: NewDriver) -> None:
    """A busy model is ready all the same."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1)))
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "qwen") << nothing

    driver >> load(3, "qwen") << confirms(3)


def test_unknown_capacity_is_no_limit_while_nobody_else_waits(driver: SchedulerDriver) -> None:
    """A server that batches by itself gets everything there is."""
    driver.with_ready("qwen", *range(1, 101))

    assert driver.view("qwen").in_flight == 100


def test_unknown_capacity_is_capped_while_others_wait_for_its_place(driver: SchedulerDriver) -> None:
    """What is forwarded must be waited for at the end of the turn, so it is not too much."""
    driver.with_ready("qwen", *range(BUSY_SLOTS - 1))
    driver >> arrives(20, "llama") << wakes_at(50)
    driver >> arrives(21, "qwen") << grants(21)
    driver >> arrives(22, "qwen") << wakes_at(90)

    driver >> leaves(21) << grants(22) << wakes_at(50)


def test_the_cap_ends_when_nobody_waits_any_more(driver: SchedulerDriver) -> None:
    """With the claim goes the cap."""
    driver.with_ready("qwen", *range(BUSY_SLOTS))
    driver >> arrives(20, "llama") << wakes_at(50)
    driver >> arrives(21, "qwen") << wakes_at(90)
    driver >> arrives(22, "qwen") << nothing

    driver >> leaves(20) << grants(21) << grants(22)


def test_no_cap_for_a_model_that_loads_beside(new_driver: NewDriver) -> None:
    """A load that takes no memory from others slows none down."""
    driver = new_driver(with_budget(model("qwen", gib=10), model("llama", gib=10)))
    driver.with_ready("qwen", *range(BUSY_SLOTS))
    driver >> arrives(20, "llama") << starts("llama")

    driver >> arrives(21, "qwen") << grants(21)


def test_no_cap_for_a_claim_on_another_device(new_driver: NewDriver) -> None:
    """A queue for one GPU slows nothing down on the other."""
    models = model("qwen", gib=10, on=0), model("llama", gib=10, on=1), model("gemma", gib=10, on=1)
    driver = new_driver(with_budget(*models, gib={0: 12, 1: 12}))
    driver.with_ready("qwen", *range(BUSY_SLOTS)).with_ready("llama", 20)
    driver >> arrives(21, "gemma") << wakes_at(60)

    driver >> arrives(22, "qwen") << grants(22)
    assert driver.view("gemma").waiting == 1


def test_a_server_that_tells_its_slots(driver: SchedulerDriver) -> None:
    """What it would only queue itself waits here, where it can still be reordered and explained."""
    driver.with_ready("qwen", 1)
    driver >> slots_learned("qwen", 2) << nothing
    driver >> arrives(2, "qwen") << grants(2)
    driver >> arrives(3, "qwen") << nothing

    driver >> leaves(1) << grants(3)


def test_the_configuration_knows_better(new_driver: NewDriver) -> None:
    """A concurrency limit wins over what the server says."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1)))
    driver.with_ready("qwen", 1)
    driver >> slots_learned("qwen", 8) << nothing

    driver >> arrives(2, "qwen") << nothing


def test_slots_are_those_of_one_process(driver: SchedulerDriver) -> None:
    """Another process may have others, and a late answer is ignored."""
    driver.with_ready("qwen", 1)
    driver >> slots_learned("qwen", 1) << nothing
    driver >> exited("qwen") << nothing
    driver >> slots_learned("qwen", 1) << nothing
    driver >> arrives(2, "qwen") << starts("qwen")
    driver.after(10) >> ready("qwen") << grants(2)

    driver >> arrives(3, "qwen") << grants(3)
