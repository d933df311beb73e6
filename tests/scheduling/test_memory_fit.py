"""What may run beside what, where memory decides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import GIB, gpu, model, one_at_a_time, with_budget
from tests.support.playbook import (
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
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_fit import in_gib, needs

if TYPE_CHECKING:
    from tests.support.playbook import Stage

    from hotseat.catalog.spec import ModelSpec


def wide(gib: int) -> ModelSpec:
    """A model that is split over two devices."""
    return replace(model("wide"), memory={gpu(0): gib * GIB, gpu(1): gib * GIB})


def test_models_that_fit_run_together(stage: Stage) -> None:
    """Free memory is used at once, down to the last byte."""
    yard = stage(with_budget(model("qwen", gib=14), model("llama", gib=10), gib=24))
    yard.with_ready("qwen", 1)

    yard >> arrives(2, "llama") << starts("llama")


def test_several_models_may_load_at_once(stage: Stage) -> None:
    """What fits does not wait for a load under way."""
    yard = stage(with_budget(model("qwen", gib=10), model("llama", gib=10)))

    yard >> arrives(1, "qwen") << starts("qwen")
    yard >> arrives(2, "llama") << starts("llama")


def test_a_model_that_can_never_fit(stage: Stage) -> None:
    """It is refused with the figures, and nothing is evicted for it."""
    yard = stage(with_budget(model("huge", gib=41), model("qwen", gib=8), gib=24))
    yard.with_ready("qwen")

    yard >> arrives(1, "huge") << refuses(1, NeverFits)
    assert yard.error.message == (
        "huge never fits: it needs 41 GiB, but the budget of gpu0 is 24 GiB."
        " Raise the budget, unpin a model or choose a smaller quantisation."
    )
    assert yard.phase("qwen") is Phase.READY


def test_a_model_that_does_not_fit_beside_a_pinned_one(stage: Stage) -> None:
    """What pinned models hold is not to be had, and the figures say so."""
    yard = stage(with_budget(model("big", gib=20), model("embed", gib=6, pinned=True), model("qwen", gib=8)))
    yard.with_ready("embed").with_ready("qwen")

    yard >> arrives(1, "big") << refuses(1, NeverFits)
    assert (
        "needs 20 GiB, but the budget of gpu0 is 24 GiB, of which 6 GiB is reserved by pinned models"
        in yard.error.message
    )
    assert yard.phase("qwen") is Phase.READY


def test_a_pinned_model_is_not_a_victim(stage: Stage) -> None:
    """The one that is not pinned leaves, although it was used more recently."""
    yard = stage(with_budget(model("embed", gib=8, pinned=True), model("qwen", gib=8), model("llama", gib=12)))
    yard.with_ready("embed").with_ready("qwen")

    yard >> arrives(1, "llama") << stops("qwen")
    assert yard.phase("embed") is Phase.READY


def test_a_device_without_a_budget(stage: Stage) -> None:
    """A model for a device that the configuration does not know never fits."""
    yard = stage(with_budget(model("qwen", gib=8, on=3)))

    yard >> arrives(1, "qwen") << refuses(1, NeverFits)
    assert "needs 8 GiB, but the budget of gpu3 is 0 GiB" in yard.error.message


def test_the_longest_unused_leaves_first(stage: Stage) -> None:
    """Of two idle models that would do, the one used last stays."""
    yard = stage(with_budget(*(model(name, gib=8) for name in ("a", "b", "c", "d"))))
    yard.with_ready("a", 1).with_ready("b", 2).with_ready("c", 3)
    yard.at(31) >> leaves(2) << nothing
    yard.at(32) >> leaves(1) << nothing
    yard.at(33) >> leaves(3) << nothing

    yard >> arrives(4, "d") << stops("b")


def test_an_idle_model_leaves_before_a_busy_one(stage: Stage) -> None:
    """A model in use stays where an idle one is enough, even if its turn is over."""
    yard = stage(with_budget(*(model(name, gib=10) for name in ("a", "b", "c"))))
    yard.with_ready("a", 1).with_ready("b", 2)
    yard >> arrives(3, "c") << wakes_at(60)
    yard.at(59) >> leaves(2) << stops("b")

    assert yard.phase("a") is Phase.READY


def test_whoever_does_not_help_is_let_off(stage: Stage) -> None:
    """A model is not stopped if the other victims free enough memory without it."""
    yard = stage(with_budget(model("small", gib=2), model("large", gib=20), model("wanted", gib=21)))
    yard.with_ready("small").with_ready("large")

    yard >> arrives(1, "wanted") << stops("large")
    assert yard.phase("small") is Phase.READY


def test_a_set_of_victims_is_complete_before_the_first_is_stopped(stage: Stage) -> None:
    """An idle model is not stopped while the other one that must also go still has its turn."""
    yard = stage(with_budget(model("a", gib=12), model("b", gib=12), model("wanted", gib=20)))
    yard.with_ready("a").with_ready("b", 1)

    yard >> arrives(2, "wanted") << wakes_at(60)
    assert yard.phase("a") is Phase.READY
    yard.at(60) >> clock << stops("a")
    yard >> leaves(1) << stops("b")


def test_a_model_without_a_figure_takes_a_whole_device(stage: Stage) -> None:
    """Unknown memory is all of the first device."""
    yard = stage(with_budget(model("mystery"), model("tiny", gib=0.5)))
    yard.with_ready("tiny")

    yard >> arrives(1, "mystery") << stops("tiny")
    yard >> exited("tiny") << starts("mystery")


def test_two_devices_do_not_mix(stage: Stage) -> None:
    """A claim evicts on its own device only."""
    models = model("a0", gib=10, on=0), model("a1", gib=10, on=1), model("b1", gib=10, on=1)
    yard = stage(with_budget(*models, gib={0: 12, 1: 12}))
    yard.with_ready("a0").with_ready("a1")

    yard >> arrives(1, "b1") << stops("a1")
    assert yard.phase("a0") is Phase.READY


def test_a_model_across_two_devices(stage: Stage) -> None:
    """A model that needs both devices waits until both have enough memory."""
    yard = stage(with_budget(model("a", gib=10, on=0), model("b", gib=10, on=1), wide(10), gib={0: 12, 1: 12}))
    yard.with_ready("a").with_ready("b")
    yard >> arrives(1, "wide") << stops("a") << stops("b")
    yard >> exited("b") << nothing

    yard >> exited("a") << starts("wide")


def test_the_figures_are_those_of_the_device_that_is_short(stage: Stage) -> None:
    """A model that needs two devices is refused because of the one that is too small."""
    yard = stage(with_budget(wide(10), gib={0: 12, 1: 8}))

    yard >> arrives(1, "wide") << refuses(1, NeverFits)
    assert "needs 10 GiB, but the budget of gpu1 is 8 GiB" in yard.error.message


def test_no_eviction_before_the_loader_is_free(stage: Stage) -> None:
    """Memory is not freed while another load that requests wait for is in progress."""
    yard = stage(with_budget(model("a", gib=8), model("b", gib=8), model("c", gib=12)))
    yard.with_ready("a")
    yard >> arrives(1, "b") << starts("b")
    yard >> arrives(2, "c") << nothing
    assert yard.why("c") == "waiting for b to finish loading (10 s left)"

    yard >> ready("b") << grants(1) << stops("a")


def test_a_long_drain_does_not_keep_a_small_model_waiting(stage: Stage) -> None:
    """A model that fits beside all running models and all promised memory is started at once."""
    yard = stage(with_budget(model("a", gib=20), model("b", gib=20), model("tiny", gib=2)))
    yard.with_ready("a", 1)
    yard >> arrives(2, "b") << wakes_at(50)
    yard.at(50) >> clock << nothing

    yard >> arrives(3, "tiny") << starts("tiny")


@pytest.mark.parametrize(("size", "text"), [(24 * GIB, "24 GiB"), (GIB // 2, "0.5 GiB"), (41_500_000_000, "38.6 GiB")])
def test_sizes_are_shown_in_gib(size: int, text: str) -> None:
    """Three digits are enough for a person."""
    assert in_gib(size) == text


def test_without_budgets_nothing_is_counted() -> None:
    """Where groups decide, a memory figure is just a note."""
    catalog = one_at_a_time(model("qwen", gib=400))

    assert needs(catalog.resolve("qwen"), catalog) == {}
