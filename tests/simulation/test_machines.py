"""A trace on a machine with other GPUs: which models may go where."""

from __future__ import annotations

from hotseat.scheduling.scheduler import Scheduler
from hotseat.simulation.machines import machine_figures, misplaced, with_gpus
from hotseat.simulation.scenario import catalog_of
from hotseat.simulation.simulator import Turns, play
from hotseat.simulation.trace import Job, Memory, Model, Open, Pool, Trace

ONE_GPU = Memory({"gpu0": 24.0, "ram": 64.0})
TWO_GPUS = Memory({"gpu0": 24.0, "gpu1": 24.0})


def placed(model: Model, memory: Memory | None) -> Model:
    return with_gpus(Trace((model,), (), memory), [24.0, 48.0]).models[0]


def test_the_gpus_are_replaced_and_ram_stays() -> None:
    """Devices are numbered in the order of the sizes."""
    changed = with_gpus(Trace((Model("qwen", 1.0),), (), ONE_GPU), [24.0, 48.0])

    assert changed.memory == Memory({"gpu0": 24.0, "gpu1": 48.0, "ram": 64.0})


def test_a_model_with_one_size_goes_anywhere() -> None:
    """It says how large it is, not where it runs."""
    assert placed(Model("qwen", 1.0, size=20.0), TWO_GPUS) == Model("qwen", 1.0, size=20.0, gpus="auto")


def test_a_model_on_the_only_gpu_goes_anywhere() -> None:
    """A recording names its device, but nobody chose it; what it needs of RAM stays there."""
    recorded = Model("qwen", 1.0, size={"gpu0": 20.0, "ram": 2.0})

    assert placed(recorded, ONE_GPU) == Model("qwen", 1.0, size={"gpus": 20.0, "ram": 2.0}, gpus="auto")


def test_a_device_that_was_chosen_is_kept() -> None:
    """One of several, RAM, or as `gpus` says."""
    chosen = [
        (Model("second", 1.0, size={"gpu1": 20.0}), TWO_GPUS),
        (Model("on-cpu", 1.0, size={"ram": 20.0}), ONE_GPU),
        (Model("listed", 1.0, size={"gpus": 20.0}, gpus=("gpu0",)), ONE_GPU),
        (Model("pair", 1.0, size=20.0, gpus=2), TWO_GPUS),
    ]

    assert [placed(model, memory) for model, memory in chosen] == [model for model, _ in chosen]


def test_a_model_of_unknown_size_goes_anywhere() -> None:
    """Also if the recorded machine had no budgets."""
    assert placed(Model("qwen", 1.0), None) == Model("qwen", 1.0, gpus="auto")


def test_memory_that_a_machine_keeps_is_not_missing() -> None:
    """RAM is no GPU, and the size on `gpus` is not on a device of this name."""
    models = (Model("on-cpu", 1.0, size={"ram": 20.0}), Model("qwen", 1.0, size={"gpu0": 20.0}))

    assert [*misplaced(Trace(models, (), ONE_GPU), [24.0])] == []


def test_a_device_or_a_number_of_gpus_that_a_machine_does_not_have() -> None:
    """Each model that cannot be placed is named."""
    models = (Model("second", 1.0, size={"gpu1": 20.0}), Model("pair", 1.0, size=20.0, gpus=2))

    assert [*misplaced(Trace(models, (), TWO_GPUS), [24.0])] == [
        "the trace puts second on gpu1",
        "the trace gives pair 2 GPUs",
    ]


def test_the_figures_of_a_machine_leave_batches_out() -> None:
    """Except for the time that they take."""
    clients = (Open("person", 0.0, "qwen", 1.0), Pool("batch", 1, (Job("qwen", 2.0), Job("qwen", 2.0))))
    trace = Trace((Model("qwen", 1.0, slots=4, size=20.0),), clients, ONE_GPU)
    found = machine_figures(play(trace, Turns(Scheduler(catalog_of(trace)))))

    assert (found.loads, found.unserved, found.longest_wait_s, found.batches_s) == (1, 0, 1.0, 5.0)
