"""Applies a reloaded configuration to the running parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.catalog import compare
from hotseat.net.listeners import tls_context
from hotseat.scheduling.events import CatalogChanged
from hotseat.scheduling.lifecycle import Phase
from hotseat.startup.models import grace_of, with_figures
from hotseat.startup.preparation import load
from hotseat.telemetry import logs

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog, CatalogChange
    from hotseat.config.load import Loaded
    from hotseat.identifiers import ModelName
    from hotseat.relay.server import Relay
    from hotseat.startup.models import ModelParts
    from hotseat.startup.shared import Shared
    from hotseat.telemetry.metrics import Metrics


class ConfigApplier:
    """The target of a reload."""

    def __init__(self, shared: Shared, models: ModelParts, metrics: Metrics, relay: Relay) -> None:
        self._start = shared.start
        self._models = models
        self._metrics = metrics
        self._relay = relay
        self._policy = shared.policy

    def load(self) -> Loaded:
        return self.fill(load(self._start.options, self._start.model_folders))

    def fill(self, loaded: Loaded) -> Loaded:
        return with_figures(loaded, self._models.memory)

    def in_use(self) -> frozenset[ModelName]:
        models = self._models.dispatcher.views.current().models
        return frozenset(model.name for model in models if model.phase is not Phase.COLD)

    def renew_certificate(self) -> None:
        """New connections use the current files; open ones keep their certificate."""
        context, files = self._start.tls, self._start.loaded.settings.tls
        if context is not None and files is not None:
            tls_context(files)  # a broken pair must not replace a working one
            context.load_cert_chain(*files)

    def apply(self, loaded: Loaded) -> None:
        logs.set_up(loaded.settings.logging, self._start.writer, self._start.recent_lines)
        self._models.supervisor.environment.withheld = loaded.withheld_env
        self._models.supervisor.conversations.trim()
        self._models.supervisor.guard.keep_for(grace_of(loaded.settings))
        self._relay.change_policy(self._policy())

    def change_catalog(self, loaded: Loaded) -> CatalogChange:
        """With what was set for models that are new in it: their folder may have been mounted."""
        now, catalog = self._models.dispatcher.catalog, self._models.overrides.applied_to(loaded.catalog)
        self._models.supervisor.conversations.forget(without_successor(now, catalog))
        self._models.supervisor.limit_stops(catalog)
        displaced = self._models.supervisor.displaced(catalog.fixed_ports)
        self._models.dispatcher.tell(CatalogChanged(catalog, loaded.measured, displaced))
        return compare(now, catalog)

    def reloaded(self, *, success: bool) -> None:
        self._metrics.reloaded(success=success)


def without_successor(old: Catalog, new: Catalog) -> frozenset[ModelName]:
    """The models whose saved conversations no server can use any more: they are gone, or have another command."""
    recipes = {name: spec.recipe for name, spec in new.models.items()}
    return frozenset(name for name, spec in old.models.items() if recipes.get(name) != spec.recipe)
