"""How many requests a ready model takes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import model, one_at_a_time, with_budget
from tests.support.playbook import (
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

from hotseat.scheduling.turns import BUSY_SLOTS

if TYPE_CHECKING:
    from tests.support.playbook import Playbook, Stage


def test_a_model_with_one_slot(stage: Stage) -> None:
    """A request that finds all slots busy waits until one is given back."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1)))
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "qwen") << nothing
    assert yard.why("qwen") == "waiting for a free slot on qwen (1 of 1 busy)"

    yard >> leaves(1) << grants(2, reason="all slots of qwen were in use")


def test_slots_are_given_in_order(stage: Stage) -> None:
    """No ticket is overtaken in the queue for a slot."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=2)))
    yard >> arrives(1, "qwen") << starts("qwen")
    for ticket in (2, 3, 4):
        yard >> arrives(ticket, "qwen") << nothing

    yard >> ready("qwen") << grants(1) << grants(2)
    yard >> leaves(2) << grants(3)
    yard >> leaves(1) << grants(4)


def test_reads_never_queue_behind_generations(stage: Stage) -> None:
    """A read takes no slot, waits for none, and is not in anybody's way."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1)))
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "qwen", reads=True) << grants(2)
    yard >> arrives(3, "qwen") << nothing
    yard >> arrives(4, "qwen", reads=True) << grants(4)
    yard >> leaves(2) << nothing

    yard >> leaves(1) << grants(3)


def test_an_operators_load_does_not_wait_for_a_slot(stage: Stage) -> None:
    """A busy model is ready all the same."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1)))
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "qwen") << nothing

    yard >> load(3, "qwen") << confirms(3)


def test_unknown_capacity_is_no_limit_while_nobody_else_waits(yard: Playbook) -> None:
    """A server that batches by itself gets everything there is."""
    yard.with_ready("qwen", *range(1, 101))

    assert yard.view("qwen").in_flight == 100


def test_unknown_capacity_is_capped_while_others_wait_for_its_place(yard: Playbook) -> None:
    """What is forwarded must be waited for at the end of the turn, so it is not too much."""
    yard.with_ready("qwen", *range(BUSY_SLOTS - 1))
    yard >> arrives(20, "llama") << wakes_at(50)
    yard >> arrives(21, "qwen") << grants(21)
    yard >> arrives(22, "qwen") << nothing

    yard >> leaves(21) << grants(22)


def test_the_cap_ends_when_nobody_waits_any_more(yard: Playbook) -> None:
    """With the claim goes the cap."""
    yard.with_ready("qwen", *range(BUSY_SLOTS))
    yard >> arrives(20, "llama") << wakes_at(50)
    yard >> arrives(21, "qwen") << nothing
    yard >> arrives(22, "qwen") << nothing

    yard >> leaves(20) << grants(21) << grants(22)


def test_no_cap_for_a_model_that_loads_beside(stage: Stage) -> None:
    """A load that takes no memory from others slows none down."""
    yard = stage(with_budget(model("qwen", gib=10), model("llama", gib=10)))
    yard.with_ready("qwen", *range(BUSY_SLOTS))
    yard >> arrives(20, "llama") << starts("llama")

    yard >> arrives(21, "qwen") << grants(21)


def test_no_cap_for_a_claim_on_another_device(stage: Stage) -> None:
    """A queue for one GPU slows nothing down on the other."""
    models = model("qwen", gib=10, on=0), model("llama", gib=10, on=1), model("gemma", gib=10, on=1)
    yard = stage(with_budget(*models, gib={0: 12, 1: 12}))
    yard.with_ready("qwen", *range(BUSY_SLOTS)).with_ready("llama", 20)
    yard >> arrives(21, "gemma") << wakes_at(60)

    yard >> arrives(22, "qwen") << grants(22)
    assert yard.view("gemma").waiting == 1


def test_a_server_that_tells_its_slots(yard: Playbook) -> None:
    """What it would only queue itself waits here, where it can still be reordered and explained."""
    yard.with_ready("qwen", 1)
    yard >> slots_learned("qwen", 2) << nothing
    yard >> arrives(2, "qwen") << grants(2)
    yard >> arrives(3, "qwen") << nothing

    yard >> leaves(1) << grants(3)


def test_the_configuration_knows_better(stage: Stage) -> None:
    """A concurrency limit wins over what the server says."""
    yard = stage(one_at_a_time(model("qwen", concurrency_limit=1)))
    yard.with_ready("qwen", 1)
    yard >> slots_learned("qwen", 8) << nothing

    yard >> arrives(2, "qwen") << nothing


def test_slots_are_those_of_one_process(yard: Playbook) -> None:
    """Another process may have others, and a late answer is ignored."""
    yard.with_ready("qwen", 1)
    yard >> slots_learned("qwen", 1) << nothing
    yard >> exited("qwen") << nothing
    yard >> slots_learned("qwen", 1) << nothing
    yard >> arrives(2, "qwen") << starts("qwen")
    yard.after(10) >> ready("qwen") << grants(2)

    yard >> arrives(3, "qwen") << grants(3)
