"""What the steps of a startup share. It exists before the first part is opened."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.activity.usage import Accounts
from hotseat.config.active import ActiveConfig
from hotseat.daemon.shutdown import ShutdownSequence
from hotseat.relay.access.host_requests import HostVerifier
from hotseat.relay.access.policy import Policy
from hotseat.startup.fleet import FleetHandle
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from hotseat.settings import Settings
    from hotseat.startup.preparation import Prepared


@dataclass(frozen=True, slots=True)
class Shared:
    start: Prepared
    active: ActiveConfig
    tasks: Tasks
    shutdown: ShutdownSequence
    accounts: Accounts
    host_verifier: HostVerifier
    fleet: FleetHandle
    feeds_end: asyncio.Event
    """Set when another process has taken over: clients of endless feeds must connect to it."""

    def policy(self, settings: Settings) -> Policy:
        """Usage of keys and proofs of other hosts survive a reload."""
        return Policy(settings, self.accounts, self.host_verifier)


def shared_by_all(start: Prepared) -> Shared:
    verifier = HostVerifier(start.loaded.settings.fleet)
    return Shared(
        start, ActiveConfig(start.loaded), Tasks(), ShutdownSequence(), Accounts(), verifier, FleetHandle(),
        asyncio.Event(),
    )  # fmt: skip
