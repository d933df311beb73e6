"""Small catalogs for tests of the scheduler, in one line each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotseat.catalog.catalog import Catalog, Policy
from hotseat.catalog.groups import TOGETHER, Group, Groups, Matrix
from hotseat.catalog.sleeping import Ask, Sleep, SleepLevel
from hotseat.catalog.spec import GpuChoice, LaunchRecipe, ModelSpec
from hotseat.identifiers import ANY_GPU, HOST_MEMORY, LOCAL_HOST, DeviceName, ModelName, Place

if TYPE_CHECKING:
    from collections.abc import Mapping

GIB = 1 << 30


def gpu(number: int) -> Place:
    return Place(LOCAL_HOST, DeviceName(f"gpu{number}"))


def ram(gib: float) -> dict[Place, int]:
    return {HOST_MEMORY: int(gib * GIB)}


def sleeps(*levels: SleepLevel, ttl_s: float | None = None) -> Sleep:
    """One level that keeps all memory in RAM, unless others are named."""
    return Sleep(levels or (level("1"),), ttl_s)


def level(name: str, **known: Any) -> SleepLevel:
    return SleepLevel(name, (Ask("POST", f"/sleep?level={name}"),), (Ask("POST", "/wake_up"),), **known)


def model(name: str, version: int = 1, gib: float | None = None, on: int = 0, **known: Any) -> ModelSpec:
    """A spec that takes `gib` on GPU number `on`; another `version` needs another process."""
    recipe = LaunchRecipe(("serve", name, f"v{version}"), "http://localhost:${PORT}")
    memory = None if gib is None else {gpu(on): int(gib * GIB)}
    return ModelSpec(ModelName(name), recipe, memory=memory, **known)


def on_any(name: str, gib: float | None, *cards: int, count: int | None = None, **known: Any) -> ModelSpec:
    """A spec whose cards are chosen among these at its start."""
    choice = GpuChoice(count, tuple(map(gpu, cards)))
    memory = None if gib is None else {ANY_GPU: int(gib * GIB)}
    return replace(model(name, **known), gpus=choice, memory=memory)


def as_spec(each: str | ModelSpec) -> ModelSpec:
    return model(each) if isinstance(each, str) else each


def one_at_a_time(*models: str | ModelSpec, **policy: Any) -> Catalog:
    return in_groups(models=models, **policy)


def in_groups(*groups: Group, models: tuple[str | ModelSpec, ...], **policy: Any) -> Catalog:
    return Catalog({spec.name: spec for spec in map(as_spec, models)}, Groups(groups), policy=Policy(**policy))


def in_sets(*sets: str, models: tuple[str | ModelSpec, ...], **evict_costs: int) -> Catalog:
    """A matrix of sets, each written as names separated by spaces."""
    members = tuple(tuple(map(ModelName, each.split())) for each in sets)
    matrix = Matrix(members, {ModelName(name): cost for name, cost in evict_costs.items()})
    return Catalog({spec.name: spec for spec in map(as_spec, models)}, Groups(default=TOGETHER, matrix=matrix))


def with_budget(*models: ModelSpec, gib: float | Mapping[int, float] = 24, **policy: Any) -> Catalog:
    """Memory alone decides: `gib` on GPU 0, or per GPU."""
    budgets = gib if not isinstance(gib, (int, float)) else {0: gib}
    return Catalog(
        {spec.name: spec for spec in models},
        Groups(default=TOGETHER),
        {gpu(number): int(size * GIB) for number, size in budgets.items()},
        Policy(**policy),
    )


def with_ram(catalog: Catalog, gib: float) -> Catalog:
    """The same catalog with a budget for host memory."""
    return replace(catalog, budgets={**catalog.budgets, **ram(gib)})


def without(catalog: Catalog, *names: str) -> Catalog:
    return replace(catalog, models={name: spec for name, spec in catalog.models.items() if name not in names})


def with_model(catalog: Catalog, spec: ModelSpec) -> Catalog:
    """The catalog with this model added, or in place of the one with the same name."""
    return replace(catalog, models={**catalog.models, spec.name: spec})
