"""What may run beside what, where the configuration says it with a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import in_sets, model
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

from hotseat.errors import NeverFits
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver

PAIRS = ("coder embed", "coder rerank", "embed rerank")


def test_models_of_one_set_run_together(new_driver: NewDriver) -> None:
    """A set allows what it names, and every part of it."""
    driver = new_driver(in_sets(*PAIRS, models=("coder", "embed", "rerank")))
    driver.with_ready("coder", 1)

    driver >> arrives(2, "embed") << starts("embed")


def test_a_third_model_takes_the_place_of_the_cheaper_one(new_driver: NewDriver) -> None:
    """Two by two they go together, all three do not: the dear one stays."""
    driver = new_driver(in_sets(*PAIRS, models=("coder", "embed", "rerank"), coder=5))
    driver.with_ready("coder").with_ready("embed")

    driver >> arrives(1, "rerank") << stops("embed")
    driver >> exited("embed") << starts("rerank")
    driver >> ready("rerank") << grants(1)
    assert driver.phase("coder") is Phase.READY


def test_a_busy_model_that_has_to_go_finishes_its_turn(new_driver: NewDriver) -> None:
    """The set is chosen by its price; models outside of it keep their turns as always."""
    driver = new_driver(in_sets(*PAIRS, models=("coder", "embed", "rerank"), coder=5))
    driver.with_ready("coder").with_ready("embed", 1)
    driver >> arrives(2, "rerank") << wakes_at(60)
    assert driver.phase("coder") is Phase.READY

    driver.at(60) >> clock << nothing
    driver >> leaves(1) << stops("embed")


def test_a_model_in_no_set_runs_alone(new_driver: NewDriver) -> None:
    """Everybody leaves for it."""
    driver = new_driver(in_sets(*PAIRS, models=("coder", "embed", "rerank", "giant")))
    driver.with_ready("coder").with_ready("embed")
    driver >> arrives(1, "giant") << stops("coder") << stops("embed")
    driver >> exited("coder") << nothing

    driver >> exited("embed") << starts("giant")


def test_what_needs_the_place_of_pinned_models_is_refused(new_driver: NewDriver) -> None:
    """Two pinned models leave no place for a third, though each alone would."""
    pinned = (model("coder", pinned=True), model("embed", pinned=True), "rerank")
    driver = new_driver(in_sets(*PAIRS, models=pinned))
    driver.with_ready("coder").with_ready("embed")

    driver >> arrives(1, "rerank") << refuses(1, NeverFits)
    assert "may not run together with" in driver.error.message
