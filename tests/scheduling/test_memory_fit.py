"""What may run beside what, where memory decides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import GIB, gpu, model, one_at_a_time, with_budget
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
from hotseat.identifiers import ModelName
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_fit import in_gib
from hotseat.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver

    from hotseat.catalog.spec import ModelSpec


def wide(gib: int) -> ModelSpec:
    """A model that is split over two devices."""
    return replace(model("wide"), memory={gpu(0): gib * GIB, gpu(1): gib * GIB})


def test_models_that_fit_run_together(new_driver: NewDriver) -> None:
    """Free memory is used at once, down to the last byte."""
    driver = new_driver(with_budget(model("qwen", gib=14), model("llama", gib=10), gib=24))
    driver.with_ready("qwen", 1)

    driver >> arrives(2, "llama") << starts("llama")


def test_several_models_may_load_at_once(new_driver: NewDriver) -> None:
    """What fits does not wait for a load under way."""
    driver = new_driver(with_budget(model("qwen", gib=10), model("llama", gib=10)))

    driver >> arrives(1, "qwen") << starts("qwen")
    driver >> arrives(2, "llama") << starts("llama")


def test_a_model_that_can_never_fit(new_driver: NewDriver) -> None:
    """It is refused with the figures, and nothing is evicted for it."""
    driver = new_driver(with_budget(model("huge", gib=41), model("qwen", gib=8), gib=24))
    driver.with_ready("qwen")

    driver >> arrives(1, "huge") << refuses(1, NeverFits)
    assert driver.error.message == (
        "huge never fits: it needs 41 GiB, but the budget of gpu0 is 24 GiB."
        " Raise the budget, unpin a model or choose a smaller quantisation."
    )
    assert driver.phase("qwen") is Phase.READY


def test_a_model_that_does_not_fit_beside_a_pinned_one(new_driver: NewDriver) -> None:
    """What pinned models hold is not to be had, and the figures say so."""
    driver = new_driver(with_budget(model("big", gib=20), model("embed", gib=6, pinned=True), model("qwen", gib=8)))
    driver.with_ready("embed").with_ready("qwen")

    driver >> arrives(1, "big") << refuses(1, NeverFits)
    assert (
        "needs 20 GiB, but the budget of gpu0 is 24 GiB, of which 6 GiB is reserved by pinned models"
        in driver.error.message
    )
    assert driver.phase("qwen") is Phase.READY


def test_a_model_of_unknown_size_beside_a_pinned_one(new_driver: NewDriver) -> None:
    """No quantisation would help: the refusal says which key does."""
    driver = new_driver(with_budget(model("new"), model("embed", gib=6, pinned=True)))
    driver.with_ready("embed")

    driver >> arrives(1, "new") << refuses(1, NeverFits)
    assert driver.error.message == (
        "new never fits: its memory is unknown, so it takes all of gpu0, of which 6 GiB is reserved by pinned models."
        " Declare `memory` for new."
    )


def test_a_pinned_model_is_not_a_victim(new_driver: NewDriver) -> None:
    """The one that is not pinned leaves, although it was used more recently."""
    driver = new_driver(with_budget(model("embed", gib=8, pinned=True), model("qwen", gib=8), model("llama", gib=12)))
    driver.with_ready("embed").with_ready("qwen")

    driver >> arrives(1, "llama") << stops("qwen")
    assert driver.phase("embed") is Phase.READY


def test_a_device_without_a_budget(new_driver: NewDriver) -> None:
    """A model for a device that the configuration does not know never fits."""
    driver = new_driver(with_budget(model("qwen", gib=8, on=3)))

    driver >> arrives(1, "qwen") << refuses(1, NeverFits)
    assert "needs 8 GiB, but the budget of gpu3 is 0 GiB" in driver.error.message


def test_the_longest_unused_leaves_first(new_driver: NewDriver) -> None:
    """Of two idle models that would do, the one used last stays."""
    driver = new_driver(with_budget(*(model(name, gib=8) for name in ("a", "b", "c", "d"))))
    driver.with_ready("a", 1).with_ready("b", 2).with_ready("c", 3)
    driver.at(31) >> leaves(2) << nothing
    driver.at(32) >> leaves(1) << nothing
    driver.at(33) >> leaves(3) << nothing

    driver >> arrives(4, "d") << stops("b")


def test_an_idle_model_leaves_before_a_busy_one(new_driver: NewDriver) -> None:
    """A model in use stays where an idle one is enough, even if its turn is over."""
    driver = new_driver(with_budget(*(model(name, gib=10) for name in ("a", "b", "c"))))
    driver.with_ready("a", 1).with_ready("b", 2)
    driver >> arrives(3, "c") << wakes_at(60)
    driver.at(59) >> leaves(2) << stops("b")

    assert driver.phase("a") is Phase.READY


def test_whoever_does_not_help_is_let_off(new_driver: NewDriver) -> None:
    """A model is not stopped if the other victims free enough memory without it."""
    driver = new_driver(with_budget(model("small", gib=2), model("large", gib=20), model("wanted", gib=21)))
    driver.with_ready("small").with_ready("large")

    driver >> arrives(1, "wanted") << stops("large")
    assert driver.phase("small") is Phase.READY


def test_a_set_of_victims_is_complete_before_the_first_is_stopped(new_driver: NewDriver) -> None:
    """An idle model is not stopped while the other one that must also go still has its turn."""
    driver = new_driver(with_budget(model("a", gib=12), model("b", gib=12), model("wanted", gib=20)))
    driver.with_ready("a").with_ready("b", 1)

    driver >> arrives(2, "wanted") << wakes_at(60)
    assert driver.phase("a") is Phase.READY
    driver.at(60) >> clock << stops("a")
    driver >> leaves(1) << stops("b")


def test_a_model_without_a_figure_takes_a_whole_device(new_driver: NewDriver) -> None:
    """Unknown memory is all of the first device."""
    driver = new_driver(with_budget(model("mystery"), model("tiny", gib=0.5)))
    driver.with_ready("tiny")

    driver >> arrives(1, "mystery") << stops("tiny")
    driver >> exited("tiny") << starts("mystery")


def test_two_devices_do_not_mix(new_driver: NewDriver) -> None:
    """A claim evicts on its own device only."""
    models = model("a0", gib=10, on=0), model("a1", gib=10, on=1), model("b1", gib=10, on=1)
    driver = new_driver(with_budget(*models, gib={0: 12, 1: 12}))
    driver.with_ready("a0").with_ready("a1")

    driver >> arrives(1, "b1") << stops("a1")
    assert driver.phase("a0") is Phase.READY


def test_a_model_across_two_devices(new_driver: NewDriver) -> None:
    """A model that needs both devices waits until both have enough memory."""
    driver = new_driver(with_budget(model("a", gib=10, on=0), model("b", gib=10, on=1), wide(10), gib={0: 12, 1: 12}))
    driver.with_ready("a").with_ready("b")
    driver >> arrives(1, "wide") << stops("a") << stops("b")
    driver >> exited("b") << nothing

    driver >> exited("a") << starts("wide")


def test_the_figures_are_those_of_the_device_that_is_short(new_driver: NewDriver) -> None:
    """A model that needs two devices is refused because of the one that is too small."""
    driver = new_driver(with_budget(wide(10), gib={0: 12, 1: 8}))

    driver >> arrives(1, "wide") << refuses(1, NeverFits)
    assert "needs 10 GiB, but the budget of gpu1 is 8 GiB" in driver.error.message


def test_no_eviction_before_the_loader_is_free(new_driver: NewDriver) -> None:
    """Memory is not freed while another load that requests wait for is in progress."""
    driver = new_driver(with_budget(model("a", gib=8), model("b", gib=8), model("c", gib=12)))
    driver.with_ready("a")
    driver >> arrives(1, "b") << starts("b")
    driver >> arrives(2, "c") << nothing
    assert driver.why("c") == "waiting for b to finish loading (its usual time is not known yet)"

    driver >> ready("b") << grants(1) << stops("a")


def test_a_long_drain_does_not_keep_a_small_model_waiting(new_driver: NewDriver) -> None:
    """A model that fits beside all running models and all promised memory is started at once."""
    driver = new_driver(with_budget(model("a", gib=20), model("b", gib=20), model("tiny", gib=2)))
    driver.with_ready("a", 1)
    driver >> arrives(2, "b") << wakes_at(50)
    driver.at(50) >> clock << nothing

    driver >> arrives(3, "tiny") << starts("tiny")


@pytest.mark.parametrize(("size", "text"), [(24 * GIB, "24 GiB"), (GIB // 2, "0.5 GiB"), (41_500_000_000, "38.6 GiB")])
def test_sizes_are_shown_in_gib(size: int, text: str) -> None:
    """Three digits are enough for a person."""
    assert in_gib(size) == text


def test_without_budgets_nothing_is_counted() -> None:
    """Where groups decide, a memory figure is just a note."""
    scheduler = Scheduler(one_at_a_time(model("qwen", gib=400)))

    assert scheduler.needs(ModelName("qwen")) == {}
