"""From a trace to what the scheduler knows: a catalog with the trace's models and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.catalog import Catalog, Policy
from hotseat.catalog.groups import TOGETHER, Groups
from hotseat.catalog.spec import LaunchRecipe, ModelSpec
from hotseat.terms import LOCAL_HOST, DeviceName, ModelName, Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.simulation.trace import Model, Trace
    from hotseat.terms import Bytes

GIB = 1 << 30

NO_PROCESS = LaunchRecipe(argv=("simulated",), proxy="http://simulated")


def catalog_of(trace: Trace, policy: Policy | None = None) -> Catalog:
    """What the trace says may run. Memory decides who runs beside whom; without it, one model runs at a time."""
    budgets = budgets_of(trace)
    specs = [spec_of(model, budgets) for model in trace.models]
    return Catalog(
        models={spec.name: spec for spec in specs},
        groups=Groups(default=TOGETHER) if budgets else Groups(),
        budgets=budgets,
        policy=policy or Policy(),
    )


def budgets_of(trace: Trace) -> Mapping[Place, Bytes]:
    devices = trace.memory.devices if trace.memory else {}
    return {place(device): in_bytes(gib) for device, gib in devices.items()}


def spec_of(model: Model, budgets: Mapping[Place, Bytes]) -> ModelSpec:
    memory = memory_of(model, budgets) if budgets else None
    return ModelSpec(ModelName(model.name), NO_PROCESS, concurrency_limit=model.slots, memory=memory)


def memory_of(model: Model, budgets: Mapping[Place, Bytes]) -> Mapping[Place, Bytes] | None:
    if model.size is None:
        return None
    if isinstance(model.size, dict):
        return {place(device): in_bytes(gib) for device, gib in model.size.items()}
    return {next(iter(budgets)): in_bytes(model.size)}


def place(device: str) -> Place:
    return Place(LOCAL_HOST, DeviceName(device))


def in_bytes(gib: float) -> Bytes:
    return round(gib * GIB)
