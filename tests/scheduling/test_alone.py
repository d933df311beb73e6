"""A figure that nobody declared is a guess: a model for which it is too large is tried alone before it is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.catalogs import GIB, gpu, level, model, on_any, ram, sleeps, with_budget, with_model, with_ram
from tests.support.scheduler_driver import (
    SchedulerDriver,
    arrives,
    asleep,
    changed,
    clock,
    exited,
    failed,
    grants,
    leaves,
    left_by_others,
    load,
    measured,
    nothing,
    puts_to_sleep,
    ready,
    refuses,
    starts,
    starts_on,
    stops,
    wakes,
    wakes_at,
)

from hotseat.catalog.groups import TOGETHER, Group, Groups
from hotseat.errors import LoadFailed, NeverFits, NoMemory
from hotseat.identifiers import ANY_GPU, ModelName
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.transitions import TRY_ALONE_AGAIN_S

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver

    from hotseat.catalog.spec import ModelSpec

BIG = ModelName("big")


def guessed(name: str, gib: float, on: int = 0, **known: Any) -> ModelSpec:
    return model(name, estimated={gpu(on): int(gib * GIB)}, **known)


def failed_alone(driver: SchedulerDriver, ticket: int = 1) -> SchedulerDriver:
    """`big` is tried alone on an empty device, and its start fails."""
    driver >> arrives(ticket, "big") << starts("big")
    driver >> failed("big") << refuses(ticket, LoadFailed) << wakes_at(driver.now + TRY_ALONE_AGAIN_S)
    return driver


def reserved(driver: SchedulerDriver, number: int = 0) -> float:
    return driver.scheduler.view(driver.now).devices[number].reserved / GIB


# The try


def test_a_model_that_is_estimated_too_large_is_tried_alone(new_driver: NewDriver) -> None:
    """Everything that may leave its device leaves, and it counts as all of it."""
    driver = new_driver(with_budget(guessed("big", 21), model("qwen", gib=4), model("tiny", gib=2), gib=12))
    driver.with_ready("qwen").with_ready("tiny")

    driver >> arrives(1, "big") << stops("qwen") << stops("tiny")
    driver >> exited("qwen") << nothing
    driver >> exited("tiny") << starts("big")
    assert driver.reason == (
        "started for 1 request, alone because it needs 21 GiB (estimated), more than the 12 GiB left on gpu0"
    )
    assert reserved(driver) == 12
    driver >> ready("big") << grants(1)
    driver >> arrives(2, "tiny") << wakes_at(40)
    assert driver.phase("tiny") is Phase.COLD


def test_a_model_that_was_once_measured_above_the_budget_is_tried_alone(new_driver: NewDriver) -> None:
    """A success does not make it unloadable, and once it runs alone its figure does not unload it."""
    driver = new_driver(with_budget(guessed("big", 4), gib=24))
    driver.with_ready("big", 1)
    driver >> measured("big", 30) << wakes_at(11)
    driver >> leaves(1) << nothing
    driver.at(11) >> clock << stops("big", cause=Cause.EXCEEDS_MEMORY)
    driver >> exited("big") << nothing

    driver >> arrives(2, "big") << starts("big")
    driver >> ready("big") << grants(2)
    driver >> leaves(2) << nothing
    driver.after(5) >> measured("big", 31) << nothing
    driver.after(5) >> clock << nothing
    assert driver.phase("big") is Phase.READY
    assert reserved(driver) == 24


def test_what_earlier_runs_measured_above_the_budget_is_tried_alone(new_driver: NewDriver) -> None:
    """A stored figure is as old as it is."""
    driver = SchedulerDriver(with_budget(guessed("big", 4)), {BIG: {gpu(0): 30 * GIB}})

    driver >> arrives(1, "big") << starts("big")


def test_a_model_that_runs_alone_counts_as_measured_once_it_was_used(new_driver: NewDriver) -> None:
    """What it does not take is there for others."""
    driver = new_driver(with_budget(guessed("big", 21), model("tiny", gib=2), gib=12))
    driver.with_ready("big", 1)
    driver >> measured("big", 9) << nothing

    driver >> arrives(2, "tiny") << starts("tiny")


def test_pinned_and_persistent_models_stay_beside_a_model_that_is_tried_alone(new_driver: NewDriver) -> None:
    """It takes what they leave, and no more is counted while it runs."""
    catalog = with_budget(
        guessed("big", 20), model("pinned", gib=5, pinned=True), model("kept", gib=3), model("qwen", gib=8)
    )
    group = Group("for good", swap=False, exclusive=False, persistent=True, members=(ModelName("kept"),))
    driver = new_driver(replace(catalog, groups=Groups((group,), TOGETHER)))
    driver.with_ready("pinned").with_ready("kept").with_ready("qwen")

    driver >> arrives(1, "big") << stops("qwen")
    driver >> exited("qwen") << starts("big")
    assert reserved(driver) == 24
    driver >> ready("big") << grants(1)
    driver >> measured("big", 22) << nothing
    assert reserved(driver) == 24


def test_no_memory_is_left_beside_pinned_models(new_driver: NewDriver) -> None:
    """There is nothing to try it with."""
    driver = new_driver(with_budget(guessed("big", 20), model("pinned", gib=24, pinned=True)))
    driver.with_ready("pinned")

    driver >> arrives(1, "big") << refuses(1, NeverFits)
    assert "of which 24 GiB is reserved by pinned models" in driver.error.message


@pytest.mark.parametrize("big", [guessed("big", 20), model("big", gib=20)])
@pytest.mark.parametrize("guess", [24, 30])
def test_the_estimate_of_a_pinned_model_leaves_nothing(new_driver: NewDriver, big: ModelSpec, guess: float) -> None:
    """It may be wrong, so it refuses for now only, and the error says what to do; a measurement ends that."""
    driver = new_driver(with_budget(big, replace(guessed("pinned", guess), pinned=True)))
    driver.with_ready("pinned", 1)

    driver >> arrives(2, "big") << refuses(2, NoMemory)
    assert driver.error.message.endswith(
        "is 24 GiB, of which 24 GiB is reserved by pinned models, not all of it declared."
        " Try again later, declare `memory` for these, or unpin one."
    )
    driver >> measured("pinned", 3) << nothing
    driver >> arrives(3, "big") << starts("big")


def test_a_declared_figure_refuses_for_good(new_driver: NewDriver) -> None:
    """Whatever the estimate says, and nothing is evicted for it."""
    driver = new_driver(with_budget(replace(guessed("big", 4), memory={gpu(0): 30 * GIB}), model("qwen", gib=4)))
    driver.with_ready("qwen")

    driver >> arrives(1, "big") << refuses(1, NeverFits)
    driver.after(10 * TRY_ALONE_AGAIN_S) >> arrives(2, "big") << refuses(2, NeverFits)


def test_other_devices_are_left_alone(new_driver: NewDriver) -> None:
    """Only the device that is too small for the guess is emptied."""
    catalog = with_budget(
        replace(guessed("big", 21), estimated={gpu(0): 21 * GIB, **ram(2)}), model("qwen", gib=4), gib=12
    )
    driver = new_driver(with_ram(with_model(catalog, replace(model("cpu"), memory=ram(10))), 16))
    driver.with_ready("qwen").with_ready("cpu")

    driver >> arrives(1, "big") << stops("qwen")
    driver >> exited("qwen") << starts("big")
    assert [reserved(driver, 0), reserved(driver, 1)] == [12, 12]


def test_other_programs_leave_too_little_elsewhere(new_driver: NewDriver) -> None:
    """A guess that fits its budget, but not beside other programs, is refused for now and not tried."""
    catalog = with_budget(replace(guessed("big", 21), estimated={gpu(0): 21 * GIB, gpu(1): 8 * GIB}), gib={0: 12, 1: 9})
    driver = new_driver(catalog)
    driver >> left_by_others(4, on=1) << nothing

    driver >> arrives(1, "big") << refuses(1, NoMemory)


def test_other_programs_leave_nothing(new_driver: NewDriver) -> None:
    """Nobody knows that it never fits."""
    driver = new_driver(with_budget(guessed("big", 30)))
    driver >> left_by_others(0) << nothing

    driver >> arrives(1, "big") << refuses(1, NoMemory)


def test_a_model_that_is_tried_alone_takes_what_other_programs_leave(new_driver: NewDriver) -> None:
    """It leaves when they take more, like any other."""
    driver = new_driver(with_budget(guessed("big", 30)))
    driver >> left_by_others(20) << nothing
    driver >> arrives(1, "big") << starts("big")
    assert reserved(driver) == 20
    driver >> ready("big") << grants(1)
    driver >> leaves(1) << nothing

    driver >> left_by_others(10) << stops("big", cause=Cause.EXCEEDS_MEMORY)


def test_a_model_is_tried_alone_on_one_of_several_cards(new_driver: NewDriver) -> None:
    """On the one that costs least to empty, without those that pinned models fill."""
    big = replace(on_any("big", None, 0, 1, 2, count=1), estimated={ANY_GPU: 30 * GIB})
    pinned, busy = model("pinned", gib=24, on=0, pinned=True), model("busy", gib=4, on=1)
    driver = new_driver(with_budget(big, pinned, busy, gib={0: 24, 1: 24, 2: 24}))
    driver.with_ready("pinned").with_ready("busy", 1)

    driver >> arrives(2, "big") << starts_on("big", 2)
    assert reserved(driver, 2) == 24


def test_a_model_is_tried_alone_on_all_of_its_cards(new_driver: NewDriver) -> None:
    """Where it may get as many as it needs."""
    big = replace(on_any("big", None, 0, 1), estimated={ANY_GPU: 60 * GIB})
    driver = new_driver(with_budget(big, gib={0: 24, 1: 24}))

    driver >> arrives(1, "big") << starts_on("big", 0, 1)
    assert [reserved(driver, 0), reserved(driver, 1)] == [24, 24]


def test_a_model_that_ran_alone_sleeps_and_wakes(new_driver: NewDriver) -> None:
    """It wakes alone too, with what pinned models leave then."""
    levels = sleeps(level("1", memory={}))
    driver = new_driver(with_budget(guessed("big", 30, sleep=levels), model("pinned", gib=6, pinned=True)))
    driver.with_ready("big")
    driver >> arrives(1, "pinned") << puts_to_sleep("big")
    driver >> asleep("big") << starts("pinned")
    driver >> ready("pinned") << grants(1)

    driver >> arrives(2, "big") << wakes("big")
    assert reserved(driver) == 24


def test_a_sleeping_model_starts_elsewhere_rather_than_alone(new_driver: NewDriver) -> None:
    """If its figure fits on other cards."""
    levels = sleeps(level("1", memory={}))
    big = replace(on_any("big", None, 0, 1, count=1, sleep=levels), estimated={ANY_GPU: 20 * GIB})
    driver = new_driver(with_budget(big, model("pinned", gib=6, pinned=True), gib={0: 24, 1: 24}))
    driver.with_ready("big")
    driver >> arrives(1, "pinned") << puts_to_sleep("big")
    driver >> asleep("big") << starts("pinned")
    driver >> ready("pinned") << grants(1)

    driver >> arrives(2, "big") << stops("big")
    driver >> exited("big") << starts_on("big", 1)


def test_a_restart_keeps_a_model_that_runs_alone(new_driver: NewDriver) -> None:
    """The next process counts it as this one did."""
    driver = new_driver(with_budget(guessed("big", 30)))
    driver.with_ready("big", 1)
    after = driver.handed_over()
    after << nothing

    assert reserved(after) == 24
    after >> leaves(1) << nothing
    assert after.phase("big") is Phase.READY


# The refusal


def test_a_failed_start_alone_is_remembered(new_driver: NewDriver) -> None:
    """The refusal has the figure, the way out and the server's reason, and evicts nobody."""
    driver = new_driver(with_budget(guessed("big", 21), model("qwen", gib=8), gib=12))
    failed_alone(driver).after(10).with_ready("qwen")

    driver >> arrives(3, "big") << refuses(3, LoadFailed)
    assert driver.error.message == (
        "big is not ready: it failed once and is backing off, next try in 580 s (`hotseat load big` tries now)."
        " Last failure: started for 1 request, alone because it needs 21 GiB (estimated), more than the 12 GiB"
        " left on gpu0; declare `memory` for big. It failed: big exited with code 1"
    )
    assert driver.error.retry_after is None  # clients would wait, and nothing says that it helps
    assert driver.phase("qwen") is Phase.READY


def test_a_refusal_by_a_guess_expires(new_driver: NewDriver) -> None:
    """Then it is tried again, and a second failure is remembered as long."""
    driver = new_driver(with_budget(guessed("big", 21), gib=12))
    failed_alone(driver)
    driver.at(599) >> arrives(2, "big") << refuses(2, LoadFailed)

    failed_alone(driver.at(600), 3)
    driver.at(1199) >> arrives(4, "big") << refuses(4, LoadFailed)


def test_a_refusal_by_a_guess_outlives_a_restart(new_driver: NewDriver) -> None:
    """So that a restart evicts nobody for what fails."""
    driver = new_driver(with_budget(guessed("big", 21), gib=12))
    after = failed_alone(driver).handed_over()
    after << wakes_at(600)

    after >> arrives(2, "big") << refuses(2, LoadFailed)
    assert "declare `memory` for big" in after.error.message


def test_an_operator_tries_again_at_once(new_driver: NewDriver) -> None:
    """An explicit load clears every failure."""
    driver = new_driver(with_budget(guessed("big", 21), gib=12))
    failed_alone(driver)

    driver >> load(2, "big") << starts("big")


OTHERS = pytest.mark.parametrize(
    ("spec", "budget"),
    [(guessed("big", 21), 13), (guessed("big", 18), 12), (guessed("big", 21, version=2), 12)],
    ids=["budget", "estimate", "command"],
)


@OTHERS
def test_what_changed_is_tried_again(new_driver: NewDriver, spec: ModelSpec, budget: float) -> None:
    """A refusal holds for what was tried."""
    driver = new_driver(with_budget(guessed("big", 21), gib=12))
    failed_alone(driver)
    driver >> changed(with_budget(guessed("big", 21, title="Big"), gib=12)) << nothing
    driver >> arrives(2, "big") << refuses(2, LoadFailed)
    driver >> changed(with_budget(spec, gib=budget)) << nothing

    driver >> arrives(3, "big") << starts("big")


@OTHERS
def test_what_a_restart_changed_is_tried_again(new_driver: NewDriver, spec: ModelSpec, budget: float) -> None:
    """As after a reload."""
    driver = new_driver(with_budget(guessed("big", 21), gib=12))
    after = failed_alone(driver).handed_over(with_budget(spec, gib=budget)) << nothing

    after >> arrives(3, "big") << starts("big")


def test_a_failure_beside_others_refuses_nothing(new_driver: NewDriver) -> None:
    """A model whose guess fits fails as any other does."""
    driver = new_driver(with_budget(guessed("big", 21)))
    driver >> arrives(1, "big") << starts("big")
    driver >> failed("big") << refuses(1, LoadFailed)

    driver >> arrives(2, "big") << starts("big")


def test_a_server_that_dies_after_its_start_alone_refuses_nothing(new_driver: NewDriver) -> None:
    """Its memory did suffice to start."""
    driver = new_driver(with_budget(guessed("big", 30)))
    driver.with_ready("big", 1)
    driver >> exited("big") << nothing

    driver >> arrives(2, "big") << starts("big")


def test_a_budget_that_is_raised_counts_the_whole_figure(new_driver: NewDriver) -> None:
    """What it was given under the old budget says nothing about what it takes."""
    driver = new_driver(with_budget(guessed("big", 21), gib=12))
    driver.with_ready("big")
    driver >> changed(with_budget(guessed("big", 21), gib=24)) << nothing

    assert reserved(driver) == 21


@pytest.mark.parametrize(("estimated", "budget"), [(21, 24), (11, 12)], ids=["budget", "estimate"])
def test_a_figure_that_a_restart_changed_counts_whole(new_driver: NewDriver, estimated: float, budget: float) -> None:
    """As after a reload."""
    driver = new_driver(with_budget(guessed("big", 21), gib=12)).with_ready("big", 1)
    after = driver.handed_over(with_budget(guessed("big", estimated), gib=budget)) << nothing

    assert reserved(after) == estimated
