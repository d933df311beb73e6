"""The catalog of a trace, and a trace on a machine with other GPUs: which models may go where."""

from __future__ import annotations

from hotseat.catalog.catalog import Policy
from hotseat.catalog.groups import TOGETHER
from hotseat.catalog.spec import GpuChoice
from hotseat.identifiers import ANY_GPU, ModelName
from hotseat.scheduling.scheduler import Scheduler as Turntaker
from hotseat.simulation.results import machine_figures
from hotseat.simulation.scenario import GIB, catalog_of, misplaced, place, with_gpus, with_memory
from hotseat.simulation.simulator import Turns, play
from hotseat.simulation.trace import Group, Job, Matrix, Memory, Model, Open, Pool, Scheduler, Trace

A, B = ModelName("A"), ModelName("B")
MODELS = (
    Model("A", 1.0, slots=2, size=20.0, ttl=60.0, urgency=4.0, pinned=True),
    Model("B", 1.0, size={"gpu1": 2.5}),
)


def test_a_model_is_what_its_line_says() -> None:
    """Every word about it reaches the scheduler."""
    spec = catalog_of(Trace(MODELS, (), Memory({"gpu0": 24.0, "gpu1": 8.0}))).models[A]

    assert (spec.concurrency_limit, spec.ttl_s, spec.urgency, spec.pinned) == (2, 60.0, 4.0, True)
    assert spec.memory == {place("gpu0"): 20 * GIB}


def test_memory_decides_who_runs_together() -> None:
    """With it models run side by side; without it one at a time, unless a group says otherwise."""
    two_devices = catalog_of(Trace(MODELS, (), Memory({"gpu0": 24.0, "gpu1": 8.0})))
    alone = catalog_of(Trace(MODELS, ()))
    group = Group("g", ("A", "B"), swap=False)
    grouped = catalog_of(Trace(MODELS, (), groups=(group,)))

    assert [each.groups.must_leave(A, B) for each in (two_devices, alone, grouped)] == [False, True, False]


def test_the_scheduler_line_is_the_policy() -> None:
    """A recording is replayed with its recorded patience and limits."""
    assert catalog_of(Trace(MODELS, (), scheduler=Scheduler(4.0, 10, 90.0))).policy == Policy(4.0, 10, 90.0)


def test_a_matrix_decides_who_runs_together() -> None:
    """As in the configuration, with or without memory."""
    models = tuple(Model(name, 1.0) for name in "ABC")
    groups = catalog_of(Trace(models, (), matrix=Matrix((("A", "B"),)))).groups

    assert [groups.must_leave(A, B), groups.must_leave(A, ModelName("C"))] == [False, True]
    assert groups.default is TOGETHER


def test_another_memory() -> None:
    """Only what was changed changes; without a name it is the first device."""
    before = catalog_of(Trace(MODELS, (), Memory({"gpu0": 24.0, "gpu1": 8.0})))
    after = with_memory(before, {"": 48 * GIB})

    assert after.budgets == {place("gpu0"): 48 * GIB, place("gpu1"): 8 * GIB}
    assert (after.policy, after.models) == (before.policy, before.models)


def test_memory_can_be_given_to_a_trace_without() -> None:
    """From then on memory decides which models run together."""
    after = with_memory(catalog_of(Trace(MODELS[:1], ())), {"": 48 * GIB})

    assert after.budgets == {place("gpu0"): 48 * GIB}
    assert after.models[A].memory == {place("gpu0"): 20 * GIB}
    assert not after.groups.must_leave(A, B)


def test_a_model_that_may_get_any_card_may_get_a_new_one() -> None:
    """What if there were another GPU? Models with a list keep it."""
    models = (
        Model("A", 1.0, size=20.0, gpus="auto"),
        Model("B", 1.0, size={"gpus": 20.0, "ram": 1.0}, gpus=1),
        Model("C", 1.0, size=20.0, gpus=("gpu0",)),
    )
    before = catalog_of(Trace(models, (), Memory({"gpu0": 24.0, "gpu1": 8.0, "ram": 64.0})))
    after = with_memory(before, {"gpu2": 48 * GIB})
    two, three = (place("gpu0"), place("gpu1")), (place("gpu0"), place("gpu1"), place("gpu2"))

    assert [spec.gpus for spec in before.models.values()] == [
        GpuChoice(None, two), GpuChoice(1, two), GpuChoice(1, two[:1])
    ]  # fmt: skip
    assert [spec.gpus and spec.gpus.among for spec in after.models.values()] == [three, three, two[:1]]
    assert [spec.memory for spec in before.models.values()] == [
        {ANY_GPU: 20 * GIB},
        {ANY_GPU: 20 * GIB, place("ram"): GIB},
        {ANY_GPU: 20 * GIB},
    ]


def test_a_model_of_unknown_size_stays_unknown() -> None:
    """The scheduler then takes it for as large as a device."""
    assert catalog_of(Trace((Model("A", 1.0),), (), Memory({"gpu0": 24.0}))).models[A].memory is None


def test_conversations_are_kept_as_recorded() -> None:
    """By the models that kept theirs."""
    models = (Model("A", 1.0, compute_rate=900.0), Model("B", 1.0, keeps_conversations=True))

    assert [spec.keeps_conversations for spec in catalog_of(Trace(models, ())).models.values()] == [False, True]


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
    found = machine_figures(play(trace, Turns(Turntaker(catalog_of(trace)))))

    assert (found.loads, found.unserved, found.longest_wait_s, found.batches_s) == (1, 0, 1.0, 5.0)
