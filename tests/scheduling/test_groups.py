"""What may run beside what, where the configuration says it with groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import in_groups, model
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

from hotseat.catalog.groups import Group
from hotseat.errors import NeverFits
from hotseat.identifiers import ModelName
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.playbook import Stage

SIDE = Group("side", swap=False, exclusive=False, members=(ModelName("embed"), ModelName("rerank")))
FOREVER = Group(
    "forever", swap=True, exclusive=False, persistent=True, members=(ModelName("embed"), ModelName("rerank"))
)
PAIR = Group("pair", swap=False, members=(ModelName("planner"), ModelName("coder")))


def test_members_that_do_not_swap_run_together(stage: Stage) -> None:
    """A group without swap holds all its members at once."""
    yard = stage(in_groups(PAIR, models=("planner", "coder")))
    yard.with_ready("planner", 1)

    yard >> arrives(2, "coder") << starts("coder")


def test_a_model_that_excludes_nobody_loads_beside(stage: Stage) -> None:
    """Loading a member of a non-exclusive group leaves everybody where they are."""
    yard = stage(in_groups(SIDE, models=("embed", "rerank", "qwen")))
    yard.with_ready("qwen", 1)

    yard >> arrives(2, "embed") << starts("embed")
    yard >> arrives(3, "rerank") << starts("rerank")


def test_an_exclusive_model_pushes_the_others_out(stage: Stage) -> None:
    """The rule is one-way: beside qwen embed may come, but qwen does not come beside embed."""
    yard = stage(in_groups(SIDE, models=("embed", "rerank", "qwen")))
    yard.with_ready("embed")

    yard >> arrives(1, "qwen") << stops("embed")
    yard >> exited("embed") << starts("qwen")


def test_a_whole_group_makes_room(stage: Stage) -> None:
    """All members that are in the way leave, and the newcomer waits for the last of them."""
    yard = stage(in_groups(PAIR, models=("planner", "coder", "qwen")))
    yard.with_ready("planner").with_ready("coder")
    yard >> arrives(1, "qwen") << stops("planner") << stops("coder")
    yard >> exited("planner") << nothing

    yard >> exited("coder") << starts("qwen")


def test_other_groups_cannot_stop_a_persistent_one(stage: Stage) -> None:
    """Persistent members stay when exclusive models come, and these come without waiting."""
    yard = stage(in_groups(FOREVER, models=("embed", "rerank", "qwen", "llama")))
    yard.with_ready("embed", 1).with_ready("qwen")
    assert yard.phase("embed") is Phase.READY

    yard >> arrives(2, "llama") << stops("qwen")
    assert yard.phase("embed") is Phase.READY


def test_a_persistent_group_swaps_within_itself(stage: Stage) -> None:
    """Persistence protects from others, not from one's own group."""
    yard = stage(in_groups(FOREVER, models=("embed", "rerank")))
    yard.with_ready("embed")

    yard >> arrives(1, "rerank") << stops("embed")


def test_a_pinned_member_of_the_same_group(stage: Stage) -> None:
    """What can only run in place of a pinned model is refused, and the pinned model is left alone."""
    yard = stage(in_groups(models=(model("qwen", pinned=True), "llama")))
    yard.with_ready("qwen")

    yard >> arrives(1, "llama") << refuses(1, NeverFits)
    assert "llama never fits: it may not run together with qwen, which is pinned" in yard.error.message
    assert yard.phase("qwen") is Phase.READY


def test_a_pinned_model_that_an_operator_stopped(stage: Stage) -> None:
    """A pinned model that is not running blocks no other."""
    yard = stage(in_groups(models=(model("qwen", pinned=True), "llama")))

    yard >> arrives(1, "llama") << starts("llama")


def test_two_groups_and_a_busy_member(stage: Stage) -> None:
    """The newcomer waits for the turn of the member that is in use, and the idle one stays until then."""
    yard = stage(in_groups(PAIR, models=("planner", "coder", "qwen")))
    yard.with_ready("planner").with_ready("coder", 1)
    yard >> arrives(2, "qwen") << wakes_at(60)
    assert yard.phase("planner") is Phase.READY

    yard.at(60) >> clock << stops("planner")
    yard >> leaves(1) << stops("coder")
    yard >> exited("coder") << nothing
    yard >> exited("planner") << starts("qwen")
    yard >> ready("qwen") << grants(2)
