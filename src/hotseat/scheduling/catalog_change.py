"""A new catalog: models that did not change keep their processes and streams, the others drain and stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.catalog import compare, must_restart
from hotseat.catalog.spec import NOTHING, Overrides
from hotseat.errors import UnknownModel
from hotseat.identifiers import ANY_GPU
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.events import CatalogChanged, FleetModelsChanged, OverridesChanged, ProfileChanged
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes, ModelName, Place
    from hotseat.scheduling.events import AboutCatalog
    from hotseat.scheduling.state import ModelState, State
    from hotseat.scheduling.transitions import Transitions


def change_catalog(transitions: Transitions, event: AboutCatalog) -> None:
    state, catalog = transitions.state, changed(transitions.state.catalog, event)
    change = compare(state.catalog, catalog)
    measured, displaced = (event.measured, event.displaced) if isinstance(event, CatalogChanged) else (NOTHING, ())
    for model in [*state.active.values()]:
        new = catalog.models.get(model.name, model.spec)
        if catalog.budgets != state.catalog.budgets or new.estimated != model.spec.estimated:
            model.given = None  # what ran or failed alone did so with other figures
            if model.phase is Phase.BACKOFF:
                transitions.forgive(model)
    if catalog.budgets != state.catalog.budgets:  # all of an old budget says nothing about more
        state.available = state.reduced()
    state.catalog = catalog
    state.reckon_limits()
    state.may_exceed_memory = state.has_other_rules = True
    for name in change.removed:
        transitions.refuse_all(name, removed(name), "removed from the configuration")
    for name in dict.fromkeys((*change.removed, *change.changed, *displaced)):
        if (replaced := state.models.get(name)) is not None:  # the server of a forgotten model may not have left yet
            replace_process(transitions, replaced)
    for name, spec in catalog.models.items():
        _take_over(state, name, spec, measured.get(name), is_changed=name in change.changed)


def changed(catalog: Catalog, event: AboutCatalog) -> Catalog:
    match event:
        case OverridesChanged():
            return catalog.with_overrides({event.model: Overrides(event.pinned, event.ttl_s)})
        case ProfileChanged():
            return catalog.with_profile(event.profile)
        case FleetModelsChanged():
            return catalog.with_fleet_models(event.fleet_models)
    new, profile = event.catalog, catalog.active_profile
    known = ((name, spec.overrides, new.models.get(name)) for name, spec in catalog.models.items())
    kept = {name: overrides for name, overrides, spec in known if spec and spec.overrides != overrides}
    return new.with_overrides(kept).with_profile(profile).with_fleet_models(catalog.fleet_models)


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


def _take_over(
    state: State, name: ModelName, spec: ModelSpec, measured: Mapping[Place, Bytes] | None, *, is_changed: bool
) -> None:
    """The process of an unchanged model stays; a missing figure means unchanged, on places that have a budget."""
    model = state.models.get(name)
    if model is None:
        state.add(spec, measured)
        return
    if must_restart(model.spec, spec):
        if measured is not None or is_changed:
            model.next_memory = measured
        return
    model.change_spec(spec)
    places = {*state.limits, ANY_GPU}
    kept = {place: size for place, size in (model.stats.memory or NOTHING).items() if place in places}
    model.stats.memory = measured or kept or None
    return


def replace_process(transitions: Transitions, model: ModelState) -> None:
    """During a handover it stays: its end replaces it, here or in the next process."""
    transitions.forgive(model)
    if not model.phase.takes_memory:
        follow_catalog(transitions.state, model)
    elif not transitions.state.is_handing_over:
        transitions.unload(model, Cause.CONFIGURATION, "its configuration changed")
