"""A model is pinned or gets another ttl while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import model, one_at_a_time
from tests.support.scheduler_driver import arrives, clock, nothing, refuses, stops, wakes_at

from hotseat.errors import NeverFits
from hotseat.identifiers import ModelName
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.events import OverridesChanged

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver

QWEN = ModelName("qwen")
RIG = one_at_a_time(model("qwen", ttl_s=60), "llama")


def test_a_model_is_pinned_while_it_runs(new_driver: NewDriver) -> None:
    """It stays, and what can only run in its place is refused; when the pin is taken back, it can be evicted."""
    driver = new_driver(RIG)
    driver.with_ready("qwen")
    driver >> OverridesChanged(QWEN, pinned=True) << nothing
    driver >> arrives(1, "llama") << refuses(1, NeverFits)
    driver >> OverridesChanged(QWEN) << wakes_at(70)

    driver >> arrives(2, "llama") << stops("qwen", cause=Cause.EVICTION)


def test_a_running_model_gets_another_ttl(new_driver: NewDriver) -> None:
    """It counts from the time at which the model became idle."""
    driver = new_driver(RIG)
    driver.with_ready("qwen")
    driver >> OverridesChanged(QWEN, ttl_s=5) << wakes_at(15)

    driver.at(15) >> clock << stops("qwen", cause=Cause.TTL)


def test_a_running_model_loses_its_ttl(new_driver: NewDriver) -> None:
    """It stays loaded when the configured ttl is over."""
    driver = new_driver(RIG)
    driver.with_ready("qwen")
    driver >> OverridesChanged(QWEN, ttl_s=0) << nothing

    driver.at(1000) >> clock << nothing
