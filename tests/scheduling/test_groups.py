"""What may run beside what, where the configuration says it with groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import in_groups, model
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
    wakes_at,
)

from hotseat.catalog.groups import Group
from hotseat.errors import NeverFits
from hotseat.identifiers import ModelName
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver

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
