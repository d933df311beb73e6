"""What can be seen from outside, and the one sentence for why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.playbook import (
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
    from tests.support.playbook import Playbook


def test_a_model_nobody_asked_for(yard: Playbook) -> None:
    """A cold model says that it was not requested yet."""
    seen = yard.view("qwen")

    assert (seen.phase, seen.why, seen.load_s) == (Phase.COLD, "not requested yet", None)
    assert not seen.is_running


def test_a_loading_model(yard: Playbook) -> None:
    """A request that waits for a load shows its progress."""
    yard >> arrives(1, "qwen") << starts("qwen")

    yard.at(5)
    assert yard.why("qwen") == "loading qwen: 5 of about 20 s"
    assert yard.view("qwen").waiting == 1


def test_a_ready_model(yard: Playbook) -> None:
    """A running model shows where it listens, what it is used for and how long its load took."""
    yard.with_ready("qwen", 1, 2)
    seen = yard.view("qwen")

    assert (seen.in_flight, seen.waiting, seen.load_s) == (2, 0, 10)
    assert seen.upstream == upstream_of("qwen")
    assert seen.is_running
    assert seen.since == 10


def test_a_view_without_what_is_cold(yard: Playbook) -> None:
    """It has every model that is loaded, leaves or is waited for, as in the whole view."""
    yard.with_ready("qwen")
    yard >> arrives(1, "llama") << stops("qwen")
    whole, part = yard.scheduler.view(yard.now), yard.scheduler.view_without_cold(yard.now)

    assert [model.name for model in part.models] == ["qwen", "llama"]
    assert part.models == whole.models[:2]
    assert part.queue == whole.queue


def test_a_cold_model_that_failed_is_in_the_view_without_what_is_cold(yard: Playbook) -> None:
    """Other hosts of a fleet must know of it; once it has completed a response, it is like any other."""
    yard >> load(1, "qwen") << starts("qwen")
    yard >> failed("qwen") << refuses(1)
    assert [model.name for model in yard.scheduler.view_without_cold(yard.now).models] == ["qwen"]
    yard >> arrives(2, "qwen") << starts("qwen")
    yard >> ready("qwen") << grants(2)
    yard >> leaves(2) << nothing
    yard >> exited("qwen") << nothing

    assert yard.scheduler.view_without_cold(yard.now).models == ()


def test_a_stopping_model(yard: Playbook) -> None:
    """A model that takes its time to stop says for how long already."""
    yard.with_ready("qwen")
    yard >> arrives(1, "llama") << stops("qwen")

    yard.after(3)
    assert yard.why("qwen") == "stopping for 3.0 s: unloaded to free memory for llama"
    assert yard.view("qwen").upstream is None


def test_a_draining_model(yard: Playbook) -> None:
    """A draining model is not running any more, and says what it waits for."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)
    yard.at(50) >> clock << nothing

    assert yard.why("qwen") == "draining 1 request, then stopping: unloaded to free memory for llama"
    assert not yard.view("qwen").is_running


def test_a_model_that_failed(yard: Playbook) -> None:
    """After a failure the reason can be read until something else happens."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> failed("qwen") << refuses(1)

    assert yard.why("qwen") == "qwen exited with code 1"
    assert yard.view("qwen").last_error == "qwen exited with code 1"


def test_the_line_oldest_first(yard: Playbook) -> None:
    """The queue shows every waiting request, in order, each with a reason."""
    yard.with_ready("qwen", 1)
    yard.at(11) >> arrives(2, "llama", "ann") << wakes_at(51)
    yard.at(12) >> arrives(3, "gemma", "bob") << nothing
    yard.at(13) >> arrives(4, "llama", "cas") << nothing
    line = yard.scheduler.view(yard.now).queue

    assert [(seen.ticket, seen.client, seen.since) for seen in line] == [(2, "ann", 11), (3, "bob", 12), (4, "cas", 13)]
    keeps = "qwen is protected for at most 38.0 s more (1 request running, swap cost 20 s)"
    assert line[0].why == keeps


def test_what_runs(yard: Playbook) -> None:
    """Running is ready, as the HTTP contract means it."""
    yard.with_ready("qwen", 1)
    assert [seen.name for seen in yard.scheduler.view(10).running()] == ["qwen"]

    yard >> exited("qwen") << nothing
    assert yard.scheduler.view(10).running() == ()


def test_after_a_swap_nobody_is_forgotten(yard: Playbook) -> None:
    """What is shown after a swap is what is."""
    yard.with_ready("qwen", 1)
    yard >> leaves(1) << nothing
    yard >> arrives(2, "llama") << stops("qwen")
    yard >> exited("qwen") << starts("llama")
    yard >> ready("llama") << grants(2)
    view = yard.scheduler.view(yard.now)

    assert [(seen.phase, seen.in_flight) for seen in view.models] == [
        (Phase.COLD, 0),
        (Phase.READY, 1),
        (Phase.COLD, 0),
    ]
    assert view.queue == ()
