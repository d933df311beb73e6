"""What may run beside what, where the configuration says it with groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.catalogs import in_groups, in_sets, model, sleeps, with_budget, with_ram
from tests.support.scheduler_driver import (
    arrives,
    asleep,
    clock,
    exited,
    grants,
    leaves,
    nothing,
    puts_to_sleep,
    ready,
    refuses,
    starts,
    stops,
    wakes_at,
)

from hotseat.catalog.groups import Group
from hotseat.errors import NeverFits
from hotseat.identifiers import ModelName
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver

    from hotseat.catalog.catalog import Catalog

SIDE = Group("side", swap=False, exclusive=False, members=(ModelName("embed"), ModelName("rerank")))
FOREVER = Group(
    "forever", swap=True, exclusive=False, persistent=True, members=(ModelName("embed"), ModelName("rerank"))
)
PAIR = Group("pair", swap=False, members=(ModelName("planner"), ModelName("coder")))


def test_members_that_do_not_swap_run_together(new_driver: NewDriver) -> None:
    """A group without swap holds all its members at once."""
    driver = new_driver(in_groups(PAIR, models=("planner", "coder")))
    driver.with_ready("planner", 1)

    driver >> arrives(2, "coder") << starts("coder")


def test_a_model_that_excludes_nobody_loads_beside(new_driver: NewDriver) -> None:
    """Loading a member of a non-exclusive group leaves everybody where they are."""
    driver = new_driver(in_groups(SIDE, models=("embed", "rerank", "qwen")))
    driver.with_ready("qwen", 1)

    driver >> arrives(2, "embed") << starts("embed")
    driver >> arrives(3, "rerank") << starts("rerank")


def test_an_exclusive_model_pushes_the_others_out(new_driver: NewDriver) -> None:
    """The rule is one-way: beside qwen embed may come, but qwen does not come beside embed."""
    driver = new_driver(in_groups(SIDE, models=("embed", "rerank", "qwen")))
    driver.with_ready("embed")

    driver >> arrives(1, "qwen") << stops("embed")
    driver >> exited("embed") << starts("qwen")


def test_a_whole_group_is_unloaded_for_another_model(new_driver: NewDriver) -> None:
    """All members that are in the way leave, and the newcomer waits for the last of them."""
    driver = new_driver(in_groups(PAIR, models=("planner", "coder", "qwen")))
    driver.with_ready("planner").with_ready("coder")
    driver >> arrives(1, "qwen") << stops("planner") << stops("coder")
    driver >> exited("planner") << nothing

    driver >> exited("coder") << starts("qwen")


def test_other_groups_cannot_stop_a_persistent_one(new_driver: NewDriver) -> None:
    """Persistent members stay when exclusive models come, and these come without waiting."""
    driver = new_driver(in_groups(FOREVER, models=("embed", "rerank", "qwen", "llama")))
    driver.with_ready("embed", 1).with_ready("qwen")
    assert driver.phase("embed") is Phase.READY

    driver >> arrives(2, "llama") << stops("qwen")
    assert driver.phase("embed") is Phase.READY


def test_a_persistent_group_swaps_within_itself(new_driver: NewDriver) -> None:
    """Persistence protects from others, not from one's own group."""
    driver = new_driver(in_groups(FOREVER, models=("embed", "rerank")))
    driver.with_ready("embed")

    driver >> arrives(1, "rerank") << stops("embed")


def test_a_pinned_member_of_the_same_group(new_driver: NewDriver) -> None:
    """What can only run in place of a pinned model is refused, and the pinned model is left alone."""
    driver = new_driver(in_groups(models=(model("qwen", pinned=True), "llama")))
    driver.with_ready("qwen")

    driver >> arrives(1, "llama") << refuses(1, NeverFits)
    assert "llama never fits: it may not run together with qwen, which is pinned" in driver.error.message
    assert driver.phase("qwen") is Phase.READY


def test_a_pinned_model_that_an_operator_stopped(new_driver: NewDriver) -> None:
    """A pinned model that is not running blocks no other."""
    driver = new_driver(in_groups(models=(model("qwen", pinned=True), "llama")))

    driver >> arrives(1, "llama") << starts("llama")


def test_two_groups_and_a_busy_member(new_driver: NewDriver) -> None:
    """The newcomer waits for the turn of the member that is in use, and the idle one stays until then."""
    driver = new_driver(in_groups(PAIR, models=("planner", "coder", "qwen")))
    driver.with_ready("planner").with_ready("coder", 1)
    driver >> arrives(2, "qwen") << wakes_at(60)
    assert driver.phase("planner") is Phase.READY

    driver.at(60) >> clock << stops("planner")
    driver >> leaves(1) << stops("coder")
    driver >> exited("coder") << nothing
    driver >> exited("planner") << starts("qwen")
    driver >> ready("qwen") << grants(2)


# What only one process can use

ADDRESS = "the address localhost:9000"


def one_address(catalog: Catalog, *names: str) -> Catalog:
    return replace(catalog, groups=replace(catalog.groups, exclusive={ADDRESS: tuple(map(ModelName, names))}))


def test_two_models_on_one_address(new_driver: NewDriver) -> None:
    """Although memory is free, the second one waits until the first has stopped; others do not care."""
    rig = with_budget(model("qwen", gib=4), model("llama", gib=4), model("gemma", gib=4))
    driver = new_driver(one_address(rig, "qwen", "llama"))
    driver.with_ready("qwen").with_ready("gemma")
    driver >> arrives(1, "llama") << stops("qwen")
    assert driver.reason == f"unloaded for llama: both use {ADDRESS}"

    driver >> exited("qwen") << starts("llama")


def test_two_models_on_one_address_in_one_set_of_the_matrix(new_driver: NewDriver) -> None:
    """A set cannot give an address to two processes."""
    rig = one_address(in_sets("qwen llama gemma", models=("qwen", "llama", "gemma")), "qwen", "llama")
    driver = new_driver(rig)
    driver.with_ready("qwen", 1).with_ready("gemma")
    driver >> arrives(2, "llama") << wakes_at(60)

    driver >> leaves(1) << stops("qwen")


def test_a_persistent_model_has_the_address(new_driver: NewDriver) -> None:
    """It leaves as for a member of its own group: otherwise the other one could never run."""
    driver = new_driver(one_address(in_groups(FOREVER, models=("embed", "rerank", "qwen")), "embed", "qwen"))
    driver.with_ready("embed")

    driver >> arrives(1, "qwen") << stops("embed")


def test_a_pinned_model_has_the_address(new_driver: NewDriver) -> None:
    """The other one is refused at once."""
    rig = with_budget(model("qwen", gib=4, pinned=True), model("llama", gib=4))
    driver = new_driver(one_address(rig, "qwen", "llama"))
    driver.with_ready("qwen")

    driver >> arrives(1, "llama") << refuses(1, NeverFits)


def test_a_model_that_could_sleep_has_the_address(new_driver: NewDriver) -> None:
    """A server that sleeps still listens, so it stops; one that sleeps already is stopped, too."""
    rig = with_ram(with_budget(model("qwen", gib=14, sleep=sleeps()), model("llama", gib=4), model("big", gib=20)), 64)
    driver = new_driver(one_address(rig, "qwen", "llama"))
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen")
    driver >> exited("qwen") << starts("llama")
    driver >> ready("llama") << grants(1)
    driver >> leaves(1) << nothing
    driver >> arrives(2, "qwen") << stops("llama")
    driver >> exited("llama") << starts("qwen")
    driver >> ready("qwen") << grants(2)
    driver >> leaves(2) << nothing
    driver >> arrives(3, "big") << puts_to_sleep("qwen")
    driver >> asleep("qwen") << starts("big")
    driver >> ready("big") << grants(3)

    driver >> arrives(4, "llama") << stops("qwen")
    driver >> exited("qwen") << starts("llama")
