"""Builds a catalog from the models and the memory of a trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hotseat.catalog.cards import choice_of, gpus_in, written
from hotseat.catalog.catalog import Catalog, Policy
from hotseat.catalog.groups import ALONE, TOGETHER, Group, Groups
from hotseat.catalog.matrix import Matrix
from hotseat.catalog.spec import LaunchRecipe, ModelSpec
from hotseat.identifiers import ANY_GPU, LOCAL_HOST, DeviceName, ModelName, Place
from hotseat.simulation.trace import FIRST_DEVICE

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def matrix_of(trace: Trace) -> Matrix | None:
    if trace.matrix is None:
        return None
    sets = tuple(tuple(map(ModelName, each)) for each in trace.matrix.sets)
    return Matrix(sets, {ModelName(name): cost for name, cost in trace.matrix.evict_costs.items()})


def with_memory(catalog: Catalog, devices: Mapping[str, Bytes]) -> Catalog:
    """A copy with these device sizes. An empty name means the first device."""
    first = next(iter(catalog.budgets), place(FIRST_DEVICE))
    changed = {place(device) if device else first: bytes_ for device, bytes_ in devices.items()}
    groups, budgets = replace(catalog.groups, default=TOGETHER), {**catalog.budgets, **changed}
    models = {name: with_cards(spec, gpus_in(budgets)) for name, spec in catalog.models.items()}
    return replace(catalog, models=models, budgets=budgets, groups=groups)


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
