"""Unused models are unloaded by their ttl."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, one_at_a_time, with_budget
from tests.support.playbook import (
    arrives,
    clock,
    confirms,
    exited,
    grants,
    leaves,
    load,
    nothing,
    ready,
    starts,
    stops,
    upstream_of,
    wakes_at,
)

from hotseat.scheduling.commands import Cause
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.playbook import Playbook, Stage


@pytest.fixture
def tidy(stage: Stage) -> Playbook:
    """One model that is unloaded after thirty unused seconds."""
    return stage(one_at_a_time(model("qwen", ttl_s=30), "llama"))


def test_an_unused_model_is_unloaded(tidy: Playbook) -> None:
    """The ttl counts from the end of the last request."""
    tidy.with_ready("qwen", 1)
    tidy.at(20) >> leaves(1) << wakes_at(50)

    tidy.at(50) >> clock << stops("qwen", cause=Cause.TTL)
    assert tidy.reason == "idle for its ttl of 30 s"


def test_use_begins_the_ttl_anew(tidy: Playbook) -> None:
    """A request in between postpones the end."""
    tidy.with_ready("qwen", 1)
    tidy.at(20) >> leaves(1) << wakes_at(50)
    tidy.at(40) >> arrives(2, "qwen") << grants(2)
    tidy.at(45) >> leaves(2) << nothing

    tidy.at(50) >> clock << wakes_at(75)
    tidy.at(75) >> clock << stops("qwen")


def test_a_model_in_use_has_no_ttl(tidy: Playbook) -> None:
    """The longest answer is not cut short by a ttl."""
    tidy.with_ready("qwen", 1)

    tidy.at(10_000) >> clock << nothing
    assert tidy.phase("qwen") is Phase.READY


def test_only_servers_with_requests_are_in_use(tidy: Playbook) -> None:
    """With their address and their health check, for whoever looks after them."""
    tidy.with_ready("qwen", 1)
    [used] = tidy.scheduler.in_use()
    tidy.at(20) >> leaves(1) << wakes_at(50)

    assert (used.model, used.upstream) == ("qwen", upstream_of("qwen"))
    assert tidy.scheduler.in_use() == []


def test_one_of_two_requests_leaves(tidy: Playbook) -> None:
    """A model is unused when the last of its requests has left."""
    tidy.with_ready("qwen", 1, 2)

    tidy.at(20) >> leaves(1) << nothing
    tidy.at(21) >> leaves(2) << wakes_at(51)


def test_the_client_left_while_it_loaded(tidy: Playbook) -> None:
    """A fresh model stays for its ttl even if no request uses it."""
    tidy >> arrives(1, "qwen") << starts("qwen")
    tidy >> leaves(1) << nothing

    tidy.at(10) >> ready("qwen") << wakes_at(40)


def test_an_operators_load_stays_for_the_ttl(tidy: Playbook) -> None:
    """A model loaded ahead of its use waits for it as long as its ttl."""
    tidy >> load(1, "qwen") << starts("qwen")

    tidy.at(10) >> ready("qwen") << confirms(1) << wakes_at(40)
    assert tidy.view("qwen").expires_at == 40


def test_a_request_at_the_very_moment(tidy: Playbook) -> None:
    """A request granted at the instant the ttl ends keeps its model."""
    tidy.with_ready("qwen", 1)
    tidy.at(20) >> leaves(1) << wakes_at(50)
    tidy.at(50) >> arrives(2, "qwen") << grants(2)

    tidy >> clock << nothing
    assert tidy.phase("qwen") is Phase.READY


def test_a_request_just_after_the_end(tidy: Playbook) -> None:
    """A request that arrives while the model stops waits for a fresh start."""
    tidy.with_ready("qwen", 1)
    tidy.at(20) >> leaves(1) << wakes_at(50)
    tidy.at(50) >> clock << stops("qwen")
    tidy >> arrives(2, "qwen") << nothing

    tidy >> exited("qwen") << starts("qwen")


def test_a_pinned_model_has_no_ttl(stage: Stage) -> None:
    """Pinned models stay, used or not."""
    yard = stage(one_at_a_time(model("qwen", ttl_s=30, pinned=True)))
    yard.with_ready("qwen", 1)

    yard >> leaves(1) << nothing
    yard.at(500) >> clock << nothing
    assert yard.view("qwen").expires_at is None


def test_the_nearest_end_wakes_first(stage: Stage) -> None:
    """One timer serves every ttl."""
    yard = stage(with_budget(model("qwen", gib=8, ttl_s=60), model("llama", gib=8, ttl_s=30)))
    yard.with_ready("qwen", 1).with_ready("llama", 2)

    yard.at(30) >> leaves(1) << wakes_at(90)
    yard.at(31) >> leaves(2) << wakes_at(61)
    yard.at(61) >> clock << stops("llama") << wakes_at(90)


def test_idle_while_somebody_waits_elsewhere(stage: Stage) -> None:
    """A ttl ends on time also while others are being loaded."""
    yard = stage(with_budget(model("qwen", gib=8, ttl_s=30), model("llama", gib=8)))
    yard.with_ready("qwen", 1)
    yard >> arrives(2, "llama") << starts("llama")
    yard.at(20) >> leaves(1) << wakes_at(50)

    yard.at(50) >> clock << stops("qwen")
