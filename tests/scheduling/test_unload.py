"""An operator wants a model gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.scheduler_driver import (
    arrives,
    clock,
    confirms,
    cuts,
    exited,
    failed,
    leaves,
    load,
    nothing,
    refuses,
    starts,
    stops,
    unload,
    wakes_at,
)

from hotseat.errors import NotRunning, Unloaded
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import SchedulerDriver


def test_an_idle_model_is_stopped_at_once(driver: SchedulerDriver) -> None:
    """The operator is notified when the process is gone, not when it was told to stop."""
    driver.with_ready("qwen")
    driver >> unload(1, "qwen") << stops("qwen", cause=Cause.OPERATOR)
    assert driver.reason == "stopped by an operator"

    driver >> exited("qwen") << confirms(1, "qwen")
    assert driver.phase("qwen") is Phase.COLD


def test_requests_in_flight_have_time_to_finish(driver: SchedulerDriver) -> None:
    """A request that ends within drainTimeout is not cut."""
    driver.with_ready("qwen", 1)
    driver >> unload(2, "qwen") << wakes_at(20)

    driver.at(15) >> leaves(1) << stops("qwen")
    driver >> exited("qwen") << confirms(2)


def test_the_time_to_finish_is_over(driver: SchedulerDriver) -> None:
    """After drainTimeout a lease is cut, once, and the model stops when it is given back."""
    driver.with_ready("qwen", 1, 2)
    driver >> unload(3, "qwen") << wakes_at(20)
    driver.at(20) >> clock << cuts(1) << cuts(2)
    assert driver.reason == "qwen is being stopped and its drain timeout has expired"
    driver >> leaves(1) << nothing

    driver >> leaves(2) << stops("qwen")


def test_force_cuts_at_once(driver: SchedulerDriver) -> None:
    """A forced unload does not wait for requests."""
    driver.with_ready("qwen", 1)
    driver >> unload(2, "qwen", force=True) << cuts(1)

    driver >> leaves(1) << stops("qwen")


def test_force_after_a_patient_unload(driver: SchedulerDriver) -> None:
    """The shorter of two times to finish holds, and both operators are notified of the end."""
    driver.with_ready("qwen", 1)
    driver >> unload(2, "qwen") << wakes_at(20)
    driver.at(12) >> unload(3, "qwen", force=True) << cuts(1)
    driver >> leaves(1) << stops("qwen")

    driver >> exited("qwen") << confirms(2) << confirms(3)


def test_a_second_patient_unload_does_not_postpone_the_first(driver: SchedulerDriver) -> None:
    """Asking again does not lengthen the time to finish."""
    driver.with_ready("qwen", 1)
    driver >> unload(2, "qwen") << wakes_at(20)
    driver.at(15) >> unload(3, "qwen") << nothing

    driver.at(20) >> clock << cuts(1)


def test_unloading_what_drains_for_a_swap(driver: SchedulerDriver) -> None:
    """A swap drains without a limit; an operator's unload sets one."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    driver.at(50) >> clock << nothing
    driver >> unload(3, "qwen") << wakes_at(60)

    driver.at(60) >> clock << cuts(1)
    driver >> leaves(1) << stops("qwen")
    driver >> exited("qwen") << confirms(3) << starts("llama")


def test_unloading_what_is_loading(driver: SchedulerDriver) -> None:
    """The load is stopped, waiting requests are refused, and nothing loads it again by itself."""
    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> load(2, "qwen") << nothing

    driver >> unload(3, "qwen") << refuses(1, Unloaded) << refuses(2, Unloaded) << stops("qwen")
    driver >> failed("qwen") << confirms(3)
    assert driver.view("qwen").failures == 0


def test_unloading_what_is_unloading(driver: SchedulerDriver) -> None:
    """Both operators are notified of the one end."""
    driver.with_ready("qwen")
    driver >> unload(1, "qwen") << stops("qwen")
    driver >> unload(2, "qwen") << nothing

    driver >> exited("qwen") << confirms(1) << confirms(2)


def test_unloading_what_is_cold(driver: SchedulerDriver) -> None:
    """There is nothing to stop, and the operator gets an error."""
    driver >> unload(1, "qwen") << refuses(1, NotRunning)

    assert driver.error.message == "qwen is not running"


def test_unloading_what_only_waits(driver: SchedulerDriver) -> None:
    """Its queue is refused, as while it loads, and the operator is told that nothing of it is left."""
    driver.with_ready("llama", 1)
    driver >> arrives(2, "qwen") << wakes_at(50)

    driver >> unload(3, "qwen") << refuses(2, Unloaded) << confirms(3, "qwen")
    assert driver.reason == "its queue was refused"
    driver.at(100) >> leaves(1) << nothing


def test_unloading_what_is_waited_for_while_it_leaves(driver: SchedulerDriver) -> None:
    """Requests that wait to load it again are refused; the one in flight may finish."""
    driver.with_ready("qwen", 1)
    driver >> arrives(2, "llama") << wakes_at(50)
    driver.at(50) >> clock << nothing
    driver >> arrives(3, "qwen") << nothing
    assert driver.phase("qwen") is Phase.DRAINING

    driver >> unload(4, "qwen") << refuses(3, Unloaded) << wakes_at(60)
    driver >> leaves(1) << stops("qwen")
    driver >> exited("qwen") << confirms(4) << starts("llama")


def test_unloading_a_model_in_backoff(driver: SchedulerDriver) -> None:
    """A model that failed is not running."""
    driver.with_backoff("qwen")

    driver >> unload(2, "qwen") << refuses(2, NotRunning)


def test_unloading_what_nobody_knows(driver: SchedulerDriver) -> None:
    """A model that a reload took away is not running."""
    driver >> unload(1, "gone") << refuses(1, NotRunning)


def test_it_crashes_before_it_is_stopped(driver: SchedulerDriver) -> None:
    """Gone is gone: the operator is content with a crash, too."""
    driver.with_ready("qwen", 1)
    driver >> unload(2, "qwen") << wakes_at(20)

    driver >> exited("qwen") << confirms(2)
    driver >> leaves(1) << nothing


def test_the_operator_does_not_wait_for_the_end(driver: SchedulerDriver) -> None:
    """An unload is carried out even if no operator waits for it any more."""
    driver.with_ready("qwen", 1)
    driver >> unload(2, "qwen") << wakes_at(20)
    driver >> leaves(2) << nothing

    driver >> leaves(1) << stops("qwen")


def test_a_request_while_it_drains_for_an_operator(driver: SchedulerDriver) -> None:
    """A new request gets a fresh start, after the operator was notified that the model is gone."""
    driver.with_ready("qwen")
    driver >> unload(1, "qwen") << stops("qwen")
    driver >> arrives(2, "qwen") << nothing

    driver >> exited("qwen") << confirms(1) << starts("qwen")
