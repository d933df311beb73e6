"""The models and the memory of a trace as a catalog, also on a machine with other GPUs than those recorded.

There models go wherever the scheduler places them, unless the trace names their devices. On a machine with one GPU
nobody chose, so a model on that GPU may go anywhere, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from hotseat.catalog.catalog import Catalog, Policy
from hotseat.catalog.groups import ALONE, TOGETHER, Group, Groups, Matrix
from hotseat.catalog.spec import LaunchRecipe, ModelSpec, choice_of, gpus_in, written
from hotseat.identifiers import ANY_GPU, LOCAL_HOST, RAM, DeviceName, ModelName, Place
from hotseat.simulation.trace import FIRST_DEVICE, Memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotseat.identifiers import Bytes
    from hotseat.simulation.trace import Model, Trace

GIB = 1 << 30
NO_PROCESS = LaunchRecipe(argv=("simulated",), proxy="http://simulated")


def catalog_of(trace: Trace, policy: Policy | None = None) -> Catalog:
    """Memory decides which models run together; without memory, groups do."""
    budgets = budgets_of(trace)
    specs = [spec_of(model, budgets) for model in trace.models]
    groups = (
        Group(each.name, each.swap, each.exclusive, each.persistent, tuple(map(ModelName, each.members)))
        for each in trace.groups
    )
    return Catalog(
        models={spec.name: spec for spec in specs},
        groups=Groups(tuple(groups), TOGETHER if budgets or trace.matrix else ALONE, matrix_of(trace)),
        budgets=budgets,
        policy=policy or Policy(trace.scheduler.patience, trace.scheduler.max_queue, trace.scheduler.max_wait),
    )


def with_memory(catalog: Catalog, devices: Mapping[str, Bytes]) -> Catalog:
    """A copy with these device sizes. An empty name means the first device."""
    first = next(iter(catalog.budgets), place(FIRST_DEVICE))
    changed = {place(device) if device else first: bytes_ for device, bytes_ in devices.items()}
    groups, budgets = replace(catalog.groups, default=TOGETHER), {**catalog.budgets, **changed}
    models = {name: with_cards(spec, gpus_in(budgets)) for name, spec in catalog.models.items()}
    return replace(catalog, models=models, budgets=budgets, groups=groups)


def with_gpus(trace: Trace, sizes: Sequence[float]) -> Trace:
    """The trace on a machine with GPUs of these sizes in GiB; other memory stays."""
    others = {device: gib for device, gib in _devices(trace).items() if device == RAM}
    models = tuple(_placed(model, _recorded_gpus(trace)) for model in trace.models)
    return replace(trace, models=models, memory=Memory({**_gpus(sizes), **others}))


def misplaced(trace: Trace, sizes: Sequence[float]) -> Iterator[str]:
    """What the trace says about devices that a machine with GPUs of these sizes does not have."""
    on_it = with_gpus(trace, sizes)
    has = [*_devices(on_it), ANY_GPU.device]
    for model in on_it.models:
        if lacking := [device for device in _named(model) if device not in has]:
            yield f"the trace puts {model.name} on {', '.join(lacking)}"
        if isinstance(model.gpus, int) and model.gpus > len(sizes):
            yield f"the trace gives {model.name} {model.gpus} GPUs"


def matrix_of(trace: Trace) -> Matrix | None:
    if trace.matrix is None:
        return None
    sets = tuple(tuple(map(ModelName, each)) for each in trace.matrix.sets)
    return Matrix(sets, {ModelName(name): cost for name, cost in trace.matrix.evict_costs.items()})


def with_cards(spec: ModelSpec, cards: tuple[Place, ...]) -> ModelSpec:
    """A model that may get any card may also get new ones."""
    if spec.gpus is None or isinstance(said := written(spec.gpus), list):
        return spec
    return replace(spec, gpus=choice_of(said, cards))


def budgets_of(trace: Trace) -> Mapping[Place, Bytes]:
    devices = trace.memory.devices if trace.memory else {}
    return {place(device): in_bytes(gib) for device, gib in devices.items()}


def spec_of(model: Model, budgets: Mapping[Place, Bytes]) -> ModelSpec:
    return ModelSpec(
        ModelName(model.name),
        NO_PROCESS,
        ttl_s=model.ttl,
        concurrency_limit=model.slots,
        urgency=model.urgency,
        pinned=model.pinned,
        memory=memory_of(model, budgets),
        gpus=choice_of(model.gpus, gpus_in(budgets)) if model.gpus else None,
        keeps_conversations=model.keeps_conversations,
    )


def memory_of(model: Model, budgets: Mapping[Place, Bytes]) -> Mapping[Place, Bytes] | None:
    if model.size is None:
        return None
    if isinstance(model.size, dict):
        return {place(device): in_bytes(gib) for device, gib in model.size.items()}
    first = ANY_GPU if model.gpus else next(iter(budgets), place(FIRST_DEVICE))
    return {first: in_bytes(model.size)}


def place(device: str) -> Place:
    return Place(LOCAL_HOST, DeviceName(device))


def in_bytes(gib: float) -> Bytes:
    return round(gib * GIB)


def _placed(model: Model, recorded: Sequence[str]) -> Model:
    if model.gpus:
        return model
    if not isinstance(model.size, dict):
        return msgspec.structs.replace(model, gpus="auto")
    if len(recorded) > 1 or recorded[0] not in model.size:
        return model
    size = {str(ANY_GPU.device) if device == recorded[0] else device: gib for device, gib in model.size.items()}
    return msgspec.structs.replace(model, size=size, gpus="auto")


def _named(model: Model) -> list[str]:
    sizes = list(model.size) if isinstance(model.size, dict) else []
    return [*sizes, *(model.gpus if isinstance(model.gpus, tuple) else ())]


def _devices(trace: Trace) -> dict[str, float]:
    return trace.memory.devices if trace.memory else {}


def _recorded_gpus(trace: Trace) -> list[str]:
    return [device for device in _devices(trace) if device != RAM] or [*_gpus([0.0])]


def _gpus(sizes: Sequence[float]) -> dict[str, float]:
    return {f"gpu{number}": gib for number, gib in enumerate(sizes)}
