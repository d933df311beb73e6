"""What can be seen from outside, and the one sentence for why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.scheduler_driver import (
    arrives,
    clock,
    exited,
    failed,
    grants,
    leaves,
    load,
    nothing,
    ready,
    refuses,
    starts,
    stops,
    upstream_of,
    wakes_at,
)

from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import SchedulerDriver


def test_a_model_nobody_asked_for(driver: SchedulerDriver) -> None:
    """A cold model says that it was not requested yet."""
    seen = driver.view("qwen")

    assert (seen.phase, seen.why, seen.load_s) == (Phase.COLD, "not requested yet", None)
    assert not seen.is_running


def test_a_loading_model(driver: SchedulerDriver) -> None:
    """A request that waits for a load shows its progress."""
    driver >> arrives(1, "qwen") << starts("qwen")

    driver.at(5)
    assert driver.why("qwen") == "loading qwen: 5 s so far, its usual time is not known yet"
    assert driver.view("qwen").waiting == 1


def test_a_ready_model(driver: SchedulerDriver) -> None:
    """A running model shows where it listens, what it is used for and how long its load took."""
    driver.with_ready("qwen", 1, 2)
    seen = driver.view("qwen")

    assert (seen.in_flight, seen.waiting, seen.load_s) == (2, 0, 10)
    assert seen.upstream == upstream_of("qwen")
    assert seen.is_running
    assert seen.since == 10


def test_a_view_has_what_is_not_cold(driver: SchedulerDriver) -> None:
    """It has every model that is loaded, leaves or is waited for, as in the view of all."""
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen")
    whole, part = driver.scheduler.view_of_all(driver.now), driver.scheduler.view(driver.now)

    assert [model.name for model in part.models] == ["qwen", "llama"]
    assert part.models == whole.models[:2]
    assert part.queue == whole.queue


def test_a_cold_model_that_failed_is_in_the_view(driver: SchedulerDriver) -> None:
    """Other hosts of a fleet must know of it; once it has completed a response, it is like any other."""
    driver >> load(1, "qwen") << starts("qwen")
    driver >> failed("qwen") << refuses(1)
    assert [model.name for model in driver.scheduler.view(driver.now).models] == ["qwen"]
    driver >> arrives(2, "qwen") << starts("qwen")
    driver >> ready("qwen") << grants(2)
    driver >> leaves(2) << nothing
    driver >> exited("qwen") << nothing

    assert driver.scheduler.view(driver.now).models == ()


def test_a_stopping_model(driver: SchedulerDriver) -> None:
    """A model that takes its time to stop says for how long already."""
    driver.with_ready("qwen")
    driver >> arrives(1, "llama") << stops("qwen")

    driver.after(3)
    assert driver.why("qwen") == "stopping for 3.0 s: unloaded for llama: models run one at a time without `devices`"
    assert driver.view("qwen").upstream is None


def test_a_draining_model(driver: SchedulerDriver) -> None:
    """A draining model runs until it is told to stop, and says what it waits for."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    driver.at(50) >> clock << nothing

    assert (
        driver.why("qwen")
        == "draining 1 request, then stopping: unloaded for llama: models run one at a time without `devices`"
    )
    assert driver.view("qwen").is_running
    driver >> leaves(1) << stops("qwen")
    assert not driver.view("qwen").is_running


def test_a_model_that_failed(driver: SchedulerDriver) -> None:
    """After a failure the reason can be read until something else happens."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> failed("qwen") << refuses(1)

    assert driver.why("qwen") == "qwen exited with code 1"
    assert driver.view("qwen").last_error == "qwen exited with code 1"


def test_the_line_oldest_first(driver: SchedulerDriver) -> None:
    """The queue shows every waiting request, in order, each with a reason."""
    driver.with_ready("qwen", 1)
    driver.at(11) >> arrives(2, "llama", "ann") << wakes_at(51)
    driver.at(12) >> arrives(3, "gemma", "bob") << nothing
    driver.at(13) >> arrives(4, "llama", "cas") << nothing
    line = driver.scheduler.view(driver.now).queue

    assert [(seen.ticket, seen.client, seen.since) for seen in line] == [(2, "ann", 11), (3, "bob", 12), (4, "cas", 13)]
    keeps = "qwen is protected for at most 38.0 s more (1 request running)"
    assert line[0].why == keeps


def test_what_runs(driver: SchedulerDriver) -> None:
    """Running is ready or draining, as the HTTP contract means it."""
    driver.with_ready("qwen", 1)
    assert [seen.name for seen in driver.scheduler.view(10).running()] == ["qwen"]

    driver >> exited("qwen") << nothing
    assert driver.scheduler.view(10).running() == ()


def test_after_a_swap_nobody_is_forgotten(driver: SchedulerDriver) -> None:
    """What is shown after a swap is what is."""
    driver.with_ready("qwen", 1)
    driver >> leaves(1) << nothing
    driver >> arrives(2, "llama") << stops("qwen")
    driver >> exited("qwen") << starts("llama")
    driver >> ready("llama") << grants(2)
    view = driver.scheduler.view_of_all(driver.now)

    assert [(seen.phase, seen.in_flight) for seen in view.models] == [
        (Phase.COLD, 0),
        (Phase.READY, 1),
        (Phase.COLD, 0),
    ]
    assert view.queue == ()
