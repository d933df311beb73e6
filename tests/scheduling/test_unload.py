"""An operator wants a model gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.playbook import (
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
    from tests.support.playbook import Playbook


def test_an_idle_model_is_stopped_at_once(yard: Playbook) -> None:
    """The operator is notified when the process is gone, not when it was told to stop."""
    yard.with_ready("qwen")
    yard >> unload(1, "qwen") << stops("qwen", cause=Cause.OPERATOR)
    assert yard.reason == "stopped by an operator"

    yard >> exited("qwen") << confirms(1, "qwen")
    assert yard.phase("qwen") is Phase.COLD


def test_requests_in_flight_have_time_to_finish(yard: Playbook) -> None:
    """A request that ends within drainTimeout is not cut."""
    yard.with_ready("qwen", 1)
    yard >> unload(2, "qwen") << wakes_at(20)

    yard.at(15) >> leaves(1) << stops("qwen")
    yard >> exited("qwen") << confirms(2)


def test_the_time_to_finish_is_over(yard: Playbook) -> None:
    """After drainTimeout a lease is cut, once, and the model stops when it is given back."""
    yard.with_ready("qwen", 1, 2)
    yard >> unload(3, "qwen") << wakes_at(20)
    yard.at(20) >> clock << cuts(1) << cuts(2)
    assert yard.reason == "qwen is being stopped and its drain timeout has expired"
    yard >> leaves(1) << nothing

    yard >> leaves(2) << stops("qwen")


def test_force_cuts_at_once(yard: Playbook) -> None:
    """A forced unload does not wait for requests."""
    yard.with_ready("qwen", 1)
    yard >> unload(2, "qwen", force=True) << cuts(1)

    yard >> leaves(1) << stops("qwen")


def test_force_after_a_patient_unload(yard: Playbook) -> None:
    """The shorter of two times to finish holds, and both operators are notified of the end."""
    yard.with_ready("qwen", 1)
    yard >> unload(2, "qwen") << wakes_at(20)
    yard.at(12) >> unload(3, "qwen", force=True) << cuts(1)
    yard >> leaves(1) << stops("qwen")

    yard >> exited("qwen") << confirms(2) << confirms(3)


def test_a_second_patient_unload_does_not_postpone_the_first(yard: Playbook) -> None:
    """Asking again does not lengthen the time to finish."""
    yard.with_ready("qwen", 1)
    yard >> unload(2, "qwen") << wakes_at(20)
    yard.at(15) >> unload(3, "qwen") << nothing

    yard.at(20) >> clock << cuts(1)


def test_unloading_what_drains_for_a_swap(yard: Playbook) -> None:
    """A swap drains without a limit; an operator's unload sets one."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)
    yard.at(50) >> clock << nothing
    yard >> unload(3, "qwen") << wakes_at(60)

    yard.at(60) >> clock << cuts(1)
    yard >> leaves(1) << stops("qwen")
    yard >> exited("qwen") << confirms(3) << starts("llama")


def test_unloading_what_is_loading(yard: Playbook) -> None:
    """The load is stopped, waiting requests are refused, and nothing loads it again by itself."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> load(2, "qwen") << nothing

    yard >> unload(3, "qwen") << refuses(1, Unloaded) << refuses(2, Unloaded) << stops("qwen")
    yard >> failed("qwen") << confirms(3)
    assert yard.view("qwen").failures == 0


def test_unloading_what_is_unloading(yard: Playbook) -> None:
    """Both operators are notified of the one end."""
    yard.with_ready("qwen")
    yard >> unload(1, "qwen") << stops("qwen")
    yard >> unload(2, "qwen") << nothing

    yard >> exited("qwen") << confirms(1) << confirms(2)


def test_unloading_what_is_cold(yard: Playbook) -> None:
    """There is nothing to stop, and the operator gets an error."""
    yard >> unload(1, "qwen") << refuses(1, NotRunning)

    assert yard.error.message == "qwen is not running"


def test_unloading_a_model_in_backoff(yard: Playbook) -> None:
    """A model that failed is not running."""
    yard.with_backoff("qwen")

    yard >> unload(2, "qwen") << refuses(2, NotRunning)


def test_unloading_what_nobody_knows(yard: Playbook) -> None:
    """A model that a reload took away is not running."""
    yard >> unload(1, "gone") << refuses(1, NotRunning)


def test_it_crashes_before_it_is_stopped(yard: Playbook) -> None:
    """Gone is gone: the operator is content with a crash, too."""
    yard.with_ready("qwen", 1)
    yard >> unload(2, "qwen") << wakes_at(20)

    yard >> exited("qwen") << confirms(2)
    yard >> leaves(1) << nothing


def test_the_operator_does_not_wait_for_the_end(yard: Playbook) -> None:
    """An unload is carried out even if no operator waits for it any more."""
    yard.with_ready("qwen", 1)
    yard >> unload(2, "qwen") << wakes_at(20)
    yard >> leaves(2) << nothing

    yard >> leaves(1) << stops("qwen")


def test_a_request_while_it_drains_for_an_operator(yard: Playbook) -> None:
    """A new request gets a fresh start, after the operator was notified that the model is gone."""
    yard.with_ready("qwen")
    yard >> unload(1, "qwen") << stops("qwen")
    yard >> arrives(2, "qwen") << nothing

    yard >> exited("qwen") << confirms(1) << starts("qwen")
