"""`scheduler.maxWait`: shorter turns where they are needed, and the truth where they do not help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, one_at_a_time, with_budget
from tests.support.scheduler_driver import arrives, clock, nothing, wakes_at

from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver


@pytest.mark.parametrize(("max_wait_s", "turn_s"), [(1000, 40), (61, 40), (41, 20), (31, 10), (5, 0)])
def test_turns_are_shortened_to_keep_it(new_driver: NewDriver, max_wait_s: float, turn_s: float) -> None:
    """Of the time it leaves, loads and stops take their part first."""
    driver = new_driver(one_at_a_time("qwen", "llama", max_wait_s=max_wait_s))
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << (wakes_at(pytest.approx(10 + turn_s, abs=2)) if turn_s else nothing)  # type: ignore[arg-type]

    assert driver.phase("qwen") is (Phase.READY if turn_s else Phase.DRAINING)


def test_everybody_who_waits_is_in_the_rotation(new_driver: NewDriver) -> None:
    """Of two residents and two claims, each has its part of the time."""
    models = [model(name, gib=12) for name in "abcd"]
    driver = new_driver(with_budget(*models, max_wait_s=70))
    driver.with_ready("a", 1).with_ready("b", 2)
    driver >> arrives(3, "c") << wakes_at(pytest.approx(20 + 40, abs=25))  # type: ignore[arg-type]
    driver >> arrives(4, "d")
    driver._unasserted.clear()

    assert driver.view("c").phase is driver.view("d").phase is Phase.COLD


def test_a_stretch_ends_in_time(new_driver: NewDriver) -> None:
    """Older requests may go first, but not beyond the promised time."""
    driver = new_driver(one_at_a_time(model("qwen", concurrency_limit=1), "llama", max_wait_s=65))
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "qwen", "someone else") << nothing
    driver.at(11) >> arrives(3, "llama") << wakes_at(11 + 65 - 2 * (10 + 1))

    driver.at(54) >> clock << nothing
    assert driver.phase("qwen") is Phase.DRAINING


def test_what_cannot_be_kept_is_said(new_driver: NewDriver) -> None:
    """Only about models whose load times are known, and that cannot be side by side."""
    driver = new_driver(one_at_a_time("qwen", "llama", "gemma", max_wait_s=15))
    assert driver.scheduler.warnings() == []
    driver.with_ready("qwen")
    assert driver.scheduler.warnings() == []
    driver.scheduler.model_stats.adopt({"llama": {"load_s": 10.0}})

    assert driver.scheduler.warnings() == [
        "maxWait 15s cannot be met while these 2 models are in use (loading all of them takes 20s): qwen, llama"
    ]


def test_models_that_fit_together_do_not_compete(new_driver: NewDriver) -> None:
    """No model waits for a load that is not needed."""
    driver = new_driver(with_budget(model("a", gib=10), model("b", gib=10), max_wait_s=15))
    driver.with_ready("a").with_ready("b")

    assert driver.scheduler.warnings() == []


def test_without_max_wait_nothing_is_promised(new_driver: NewDriver) -> None:
    driver = new_driver(one_at_a_time("qwen", "llama"))
    driver.with_ready("qwen")

    assert driver.scheduler.warnings() == []
