"""What may run beside what, where the configuration says it with a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import in_sets, model
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

from hotseat.errors import NeverFits
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.playbook import Stage

PAIRS = ("coder embed", "coder rerank", "embed rerank")


def test_models_of_one_set_run_together(stage: Stage) -> None:
    """A set allows what it names, and every part of it."""
    yard = stage(in_sets(*PAIRS, models=("coder", "embed", "rerank")))
    yard.with_ready("coder", 1)

    yard >> arrives(2, "embed") << starts("embed")


def test_a_third_model_takes_the_place_of_the_cheaper_one(stage: Stage) -> None:
    """Two by two they go together, all three do not: the dear one stays."""
    yard = stage(in_sets(*PAIRS, models=("coder", "embed", "rerank"), coder=5))
    yard.with_ready("coder").with_ready("embed")

    yard >> arrives(1, "rerank") << stops("embed")
    yard >> exited("embed") << starts("rerank")
    yard >> ready("rerank") << grants(1)
    assert yard.phase("coder") is Phase.READY


def test_a_busy_model_that_has_to_go_finishes_its_turn(stage: Stage) -> None:
    """The set is chosen by its price; models outside of it keep their turns as always."""
    yard = stage(in_sets(*PAIRS, models=("coder", "embed", "rerank"), coder=5))
    yard.with_ready("coder").with_ready("embed", 1)
    yard >> arrives(2, "rerank") << wakes_at(60)
    assert yard.phase("coder") is Phase.READY

    yard.at(60) >> clock << nothing
    yard >> leaves(1) << stops("embed")


def test_a_model_in_no_set_runs_alone(stage: Stage) -> None:
    """Everybody leaves for it."""
    yard = stage(in_sets(*PAIRS, models=("coder", "embed", "rerank", "giant")))
    yard.with_ready("coder").with_ready("embed")
    yard >> arrives(1, "giant") << stops("coder") << stops("embed")
    yard >> exited("coder") << nothing

    yard >> exited("embed") << starts("giant")


def test_what_needs_the_place_of_pinned_models_is_refused(stage: Stage) -> None:
    """Two pinned models leave no place for a third, though each alone would."""
    pinned = (model("coder", pinned=True), model("embed", pinned=True), "rerank")
    yard = stage(in_sets(*PAIRS, models=pinned))
    yard.with_ready("coder").with_ready("embed")

    yard >> arrives(1, "rerank") << refuses(1, NeverFits)
    assert "may not run together with" in yard.error.message
