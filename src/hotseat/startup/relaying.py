"""The relay, and what depends on it: the check of hanging servers and the reload."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.config.reload import Reloader
from hotseat.handover.predecessor import Streams
from hotseat.model_servers.liveness import Liveness
from hotseat.relay.server import Relay
from hotseat.startup.created_keys import open_created_keys
from hotseat.startup.reloading import ConfigApplier
from hotseat.state.audit_file import AUDIT, AuditFile
from hotseat.state.state_file import state_directory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.identifiers import Address, ModelName
    from hotseat.scheduling.view import InUse
    from hotseat.startup.created_keys import CreatedKeys
    from hotseat.startup.models import ModelParts
    from hotseat.startup.monitoring import Monitoring
    from hotseat.startup.shared import Shared


def servers_in_use(models: ModelParts) -> Iterable[InUse]:
    """After a handover the new process judges them: this one learns nothing of their end."""
    return () if models.supervisor.guard.is_handed_over else models.scheduler.in_use()


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


def models_in_progress(relay: Relay) -> Iterable[ModelName]:
    return [request.model for request in relay.connections.in_progress()]
