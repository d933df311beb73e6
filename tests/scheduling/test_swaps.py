"""One model is evicted for another: what is stopped when, and for which claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import model, with_budget
from tests.support.playbook import (
    arrives,
    clock,
    confirms,
    exited,
    failed,
    grants,
    leaves,
    load,
    nothing,
    ready,
    starts,
    stops,
    wakes_at,
)

from hotseat.scheduling.commands import Cause
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.playbook import Playbook, Stage


def test_an_idle_model_leaves_at_once(yard: Playbook) -> None:
    """No request waits for the sake of an unused model."""
    yard.with_ready("qwen")
    yard >> arrives(1, "llama") << stops("qwen")
    yard >> exited("qwen") << starts("llama")

    yard >> ready("llama") << grants(1)


def test_a_whole_swap(yard: Playbook) -> None:
    """A model in use keeps its turn, finishes its requests and stops; only then its memory is free."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)
    yard.at(50) >> clock << nothing
    assert yard.phase("qwen") is Phase.DRAINING
    yard >> arrives(3, "qwen") << nothing
    yard.at(52) >> leaves(1) << stops("qwen")
    yard.at(53) >> exited("qwen") << starts("llama")

    yard.at(63) >> ready("llama") << grants(2) << wakes_at(103)


def test_a_swap_says_why(yard: Playbook) -> None:
    """The reason of a stop names the model that needs the memory."""
    yard.with_ready("qwen")
    yard >> arrives(1, "llama") << stops("qwen", cause=Cause.EVICTION)

    assert yard.reason == "unloaded to free memory for llama"


def test_room_is_free_when_the_process_is_gone(yard: Playbook) -> None:
    """Telling a server to stop gives no memory back: its exit does."""
    yard.with_ready("qwen")
    yard >> arrives(1, "llama") << stops("qwen")

    yard >> arrives(2, "gemma") << nothing
    yard.after(500) >> clock << nothing
    yard >> exited("qwen") << starts("llama")


def test_a_request_for_a_stopping_model_waits_for_a_fresh_start(yard: Playbook) -> None:
    """A model that was told to stop is not revived: it is started again when it is gone."""
    yard.with_ready("qwen")
    yard >> arrives(1, "llama") << stops("qwen", launch=1)
    yard >> leaves(1) << nothing
    yard >> arrives(2, "qwen") << nothing

    yard >> exited("qwen") << starts("qwen", launch=2)


def test_the_one_who_asked_for_a_swap_leaves_before_the_drain_ends(yard: Playbook) -> None:
    """A drain that has begun is finished, and nothing is loaded for a client that is gone."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)
    yard.at(50) >> clock << nothing
    yard >> leaves(2) << nothing

    yard >> leaves(1) << stops("qwen")
    yard >> exited("qwen") << nothing


def test_an_abandoned_load_is_aborted_for_who_waits(yard: Playbook) -> None:
    """A load that no request waits for is abandoned for one that requests wait for."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> arrives(2, "llama") << nothing

    yard >> leaves(1) << stops("qwen", cause=Cause.EVICTION)
    assert yard.reason == "unloaded to free memory for llama; no request was waiting for it any more"
    yard >> failed("qwen") << starts("llama")


def test_a_load_that_somebody_waits_for_is_finished(yard: Playbook) -> None:
    """A model is not stopped before it served the requests that waited for it."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> arrives(2, "llama") << nothing
    assert yard.why("llama") == "waiting for qwen to finish loading (20 s left)"
    yard.after(500) >> clock << nothing

    yard >> ready("qwen") << grants(1) << wakes_at(500 + 2 * (500 + 500))
    assert yard.phase("qwen") is Phase.READY


def test_a_server_becomes_ready_after_its_stop_began(yard: Playbook) -> None:
    """Readiness that comes too late changes nothing: the server is on its way out."""
    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> arrives(2, "llama") << nothing
    yard >> leaves(1) << stops("qwen")
    yard >> ready("qwen") << nothing
    assert yard.phase("qwen") is Phase.UNLOADING

    yard >> exited("qwen") << starts("llama")


def test_a_fact_about_an_earlier_process(yard: Playbook) -> None:
    """An event about a process that is gone does not affect its successor."""
    yard.with_ready("qwen")
    yard >> arrives(1, "llama") << stops("qwen", launch=1)
    yard >> exited("qwen") << starts("llama")
    yard >> ready("llama") << grants(1)
    yard >> leaves(1) << nothing
    yard >> arrives(2, "qwen") << stops("llama")
    yard >> exited("llama") << starts("qwen", launch=3)

    yard >> exited("qwen", launch=1) << nothing
    yard >> failed("qwen", launch=1) << nothing
    yard >> ready("qwen", launch=1) << nothing
    yard >> ready("qwen") << grants(2)


def test_a_fact_about_a_model_nobody_knows(yard: Playbook) -> None:
    """A late word about a model that was removed is of no interest."""
    yard >> exited("gone", launch=1) << nothing


def test_the_oldest_claim_goes_first(yard: Playbook) -> None:
    """Of requests for different models, the oldest is served first."""
    yard.with_ready("qwen", 1)
    yard.at(11) >> arrives(2, "llama") << wakes_at(51)
    yard.at(12) >> arrives(3, "gemma") << nothing
    yard.at(13) >> leaves(1) << stops("qwen")
    yard >> exited("qwen") << starts("llama")

    assert yard.why("gemma") == "waiting for llama to finish loading (10 s left)"


def test_two_who_wait_do_not_take_the_same_victim(stage: Stage) -> None:
    """What was cleared for the older claim is not given to a younger one, even if that would fit sooner."""
    big, small = model("big", gib=20), model("small", gib=4)
    yard = stage(with_budget(model("qwen", gib=12), model("llama", gib=10), big, small))
    yard.with_ready("qwen").with_ready("llama")
    yard >> arrives(1, "big") << stops("qwen") << stops("llama")
    yard >> exited("qwen") << nothing
    yard >> arrives(2, "small") << starts("small")
    yard >> arrives(3, "qwen") << nothing

    yard >> exited("llama") << starts("big")


def test_a_younger_claim_outlasts_an_older_ones_drain(stage: Stage) -> None:
    """A model with promised memory but without a process is not a victim."""
    yard = stage(with_budget(model("qwen", gib=20), model("llama", gib=20), model("gemma", gib=20)))
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)
    yard.at(50) >> clock << nothing
    yard.at(51) >> arrives(3, "gemma") << nothing

    yard.at(500) >> arrives(4, "gemma") << nothing
    yard >> leaves(1) << stops("qwen")
    yard >> exited("qwen") << starts("llama")


def test_why_those_wait_whose_room_is_being_cleared(yard: Playbook) -> None:
    """From the start of the drain, waiting requests show it as their reason."""
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << wakes_at(50)
    keeps = "qwen is protected for at most 40.0 s more (1 request running, swap cost 20 s)"
    assert yard.why("llama") == keeps

    yard.at(50) >> clock << nothing
    assert yard.why("llama") == "draining qwen (1 request running for 40 s), then loading llama (about 10 s)"


def test_why_a_younger_claim_waits(yard: Playbook) -> None:
    """The reason names the older claim that the memory is promised to."""
    yard.with_ready("qwen")
    yard >> arrives(1, "llama") << stops("qwen")
    yard >> arrives(2, "gemma") << nothing

    assert yard.why("gemma") == "2nd in queue, behind llama (waiting for 0 s)"


def test_a_loaded_model_that_only_an_operator_wanted_leaves_at_once(yard: Playbook) -> None:
    """An operator's load is not a use: waiting requests come first."""
    yard >> load(1, "qwen") << starts("qwen")
    yard >> arrives(2, "llama") << nothing

    yard >> ready("qwen") << confirms(1) << stops("qwen")
