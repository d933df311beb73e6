"""The relay, and what depends on it: the check of hanging servers, and the reload, which is applied to all parts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.catalog.catalog import compare
from hotseat.config.reload import Reloader
from hotseat.handover.predecessor import Streams
from hotseat.model_servers.liveness import Liveness
from hotseat.net.listeners import tls_context
from hotseat.relay.server import Relay
from hotseat.scheduling.events import CatalogChanged
from hotseat.scheduling.lifecycle import Phase
from hotseat.startup.created_keys import open_created_keys
from hotseat.startup.models import grace_of, with_figures
from hotseat.startup.preparation import load
from hotseat.state.audit_file import AUDIT, AuditFile
from hotseat.state.state_file import state_directory
from hotseat.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.catalog.catalog import Catalog, CatalogChange
    from hotseat.config.load import Loaded
    from hotseat.identifiers import Address, ModelName
    from hotseat.scheduling.view import InUse
    from hotseat.startup.created_keys import CreatedKeys
    from hotseat.startup.models import ModelParts
    from hotseat.startup.monitoring import Monitoring
    from hotseat.startup.shared import Shared
    from hotseat.telemetry.metrics import Metrics


class RelayParts(Struct, frozen=True):
    relay: Relay
    streams: Streams
    liveness: Liveness
    reloader: Reloader
    created_keys: CreatedKeys


def make_relay(
    shared: Shared, models: ModelParts, monitoring: Monitoring, management: Address, most_connections: int | None
) -> RelayParts:
    """The relay does not listen yet."""
    audit_file = AuditFile(state_directory(os.environ) / AUDIT)
    relay = Relay(
        models.dispatcher, shared.policy(), management, monitoring.activity, monitoring.usage,
        most_connections=most_connections, audit_file=audit_file,
    )  # fmt: skip
    relay.context.tracer = monitoring.tracer
    streams = Streams(relay.connections.last_pieces, lambda: models_in_progress(relay))
    liveness = Liveness(lambda: servers_in_use(models), streams.last_pieces, models.dispatcher.tell)
    target = ConfigApplier(shared, models, monitoring.metrics, relay)
    reloader = Reloader(shared.active, shared.start.model_folders, target)
    return RelayParts(relay, streams, liveness, reloader, open_created_keys(shared, relay))


def servers_in_use(models: ModelParts) -> Iterable[InUse]:
    """After a handover the new process judges them: this one learns nothing of their end."""
    return () if models.supervisor.guard.is_handed_over else models.scheduler.in_use()


def models_in_progress(relay: Relay) -> Iterable[ModelName]:
    return [request.model for request in relay.connections.in_progress()]


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
