"""What may be asked of the scheduler: each answer is about the state as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.catalogs import GIB, gpu, model, with_budget
from tests.support.scheduler_driver import arrives, left_by_others, nothing, starts

from hotseat.catalog.spec import Footprint, Source
from hotseat.identifiers import ModelName
from hotseat.scheduling.events import CatalogChanged
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from tests.support.scheduler_driver import NewDriver

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")


def test_memory_of_devices_and_models(new_driver: NewDriver) -> None:
    """What other programs leave lowers the limit; a model that nobody knows has no footprint."""
    driver = new_driver(with_budget(model("qwen", gib=10)))
    driver >> left_by_others(20) << nothing

    assert driver.scheduler.available == driver.scheduler.limits == {gpu(0): 20 * GIB}
    assert driver.scheduler.footprint(QWEN) == Footprint({gpu(0): 10 * GIB}, Source.DECLARED)
    assert driver.scheduler.footprint(LLAMA) is None


def test_a_model_that_fits_beside_all_others(new_driver: NewDriver) -> None:
    """Not if it is loaded already, if it does not fit, or if a request waits."""
    driver = new_driver(with_budget(model("qwen", gib=10), model("llama", gib=10), model("big", gib=20)))
    driver.with_ready("qwen")
    assert driver.scheduler.may_load_beside_all(LLAMA)
    assert not driver.scheduler.may_load_beside_all(QWEN)
    assert not driver.scheduler.may_load_beside_all(ModelName("big"))

    driver >> arrives(1, "llama") << starts("llama")
    assert not driver.scheduler.may_load_beside_all(LLAMA)


def test_one_model_of_a_view(new_driver: NewDriver) -> None:
    """By its name; the models that run are ready."""
    driver = new_driver(with_budget(model("qwen", gib=10), model("llama", gib=10)))
    driver.with_ready("qwen")
    everything = driver.scheduler.view_of_all(driver.now)

    assert everything.model(LLAMA).phase is Phase.COLD
    assert [each.name for each in everything.running()] == [QWEN]


def test_all_models_in_turn(new_driver: NewDriver) -> None:
    """In the order of the configuration, as in the view if they are there; without one that is removed meanwhile."""
    models = [model("qwen", gib=10), model("llama", gib=10), model("gemma", gib=10)]
    driver = new_driver(with_budget(*models))
    driver.with_ready("llama")
    view = driver.scheduler.view(driver.now)
    in_turn = driver.scheduler.view_of_each(view)
    seen = [next(in_turn), next(in_turn)]
    driver >> CatalogChanged(with_budget(*models[:2]))

    assert [(each.name, each.phase) for each in seen] == [(QWEN, Phase.COLD), (LLAMA, Phase.READY)]
    assert seen[1] is view.model(LLAMA)
    assert [*in_turn] == []


def test_the_phase_of_a_model_that_was_removed(new_driver: NewDriver) -> None:
    """It is cold, as it was before it was removed."""
    driver = new_driver(with_budget(model("qwen", gib=10)))

    assert driver.scheduler.phase_of(QWEN) is Phase.COLD
    assert driver.scheduler.phase_of(LLAMA) is Phase.COLD
