"""A new catalog: models that did not change keep their processes and streams, the others drain and stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.catalog import compare, must_restart
from hotseat.catalog.spec import NOTHING
from hotseat.errors import UnknownModel
from hotseat.identifiers import ANY_GPU
from hotseat.scheduling.commands import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes, ModelName, Place
    from hotseat.scheduling.events import CatalogChanged
    from hotseat.scheduling.state import ModelState, State
    from hotseat.scheduling.transitions import Transitions


def change_catalog(transitions: Transitions, event: CatalogChanged) -> None:
    state, change = transitions.state, compare(transitions.state.catalog, event.catalog)
    state.catalog = event.catalog
    state.reckon_limits()
    state.may_exceed_memory = True
    for name in change.removed:
        transitions.refuse_all(name, removed(name), "removed from the configuration")
    for name in (*change.removed, *change.changed):
        replace_process(transitions, state.models[name])
    for name, spec in event.catalog.models.items():
        _take_over(state, name, spec, event.measured.get(name))


def removed(name: ModelName) -> UnknownModel:
    return UnknownModel(f'model "{name}" was removed from the configuration')


def follow_catalog(state: State, model: ModelState) -> None:
    """A model without a process takes its spec from the catalog, or is dropped."""
    spec = state.catalog.models.get(model.name)
    if spec is None:
        return state.forget(model.name)
    if must_restart(model.spec, spec):
        model.stats.memory = model.next_memory
    model.spec, model.next_memory = spec, None
    return None


def _take_over(state: State, name: ModelName, spec: ModelSpec, measured: Mapping[Place, Bytes] | None) -> None:
    """The process of a model that did not change stays; so does its figure, on places that have a budget."""
    model = state.models.get(name)
    if model is None:
        state.add(spec, measured)
        return
    if must_restart(model.spec, spec):
        model.next_memory = measured
        return
    model.change_spec(spec)
    places = {*state.limits, ANY_GPU}
    kept = {place: size for place, size in (model.stats.memory or NOTHING).items() if place in places}
    model.stats.memory = measured or kept or None
    return


def replace_process(transitions: Transitions, model: ModelState) -> None:
    transitions.forgive(model)
    if model.phase.takes_memory:
        transitions.unload(model, Cause.CONFIGURATION, "its configuration changed")
    else:
        follow_catalog(transitions.state, model)
