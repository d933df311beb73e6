"""The relay, and what depends on it: the check of hanging servers and the reload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.config.reload import Reloader
from hotseat.model_servers.liveness import Liveness
from hotseat.relay.server import Relay
from hotseat.startup.reloading import ConfigApplier

if TYPE_CHECKING:
    from hotseat.identifiers import Address
    from hotseat.startup.models import ModelParts
    from hotseat.startup.monitoring import Monitoring
    from hotseat.startup.shared import Shared


@dataclass(frozen=True, slots=True)
class RelayParts:
    relay: Relay
    liveness: Liveness
    reloader: Reloader


def make_relay(
    shared: Shared, models: ModelParts, monitoring: Monitoring, management: Address, most_connections: int | None
) -> RelayParts:
    """The relay does not listen yet."""
    policy = shared.policy(shared.active.settings)
    relay = Relay(models.dispatcher, policy, management, monitoring.activity, most_connections=most_connections)
    liveness = Liveness(models.scheduler.in_use, relay.connections.last_pieces, models.dispatcher.tell)
    target = ConfigApplier(shared, models, monitoring.metrics, relay)
    return RelayParts(relay, liveness, Reloader(shared.active, shared.start.model_folders, target))
