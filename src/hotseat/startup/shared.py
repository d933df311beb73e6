"""What the steps of a startup share. It exists before the first part is opened."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.activity.usage import Accounts
from hotseat.activity.usage_store import USAGE_FILE, UsageStore
from hotseat.config.reload import ActiveConfig
from hotseat.daemon.shutdown import ShutdownSequence
from hotseat.relay.access.host_requests import HostVerifier
from hotseat.relay.access.policy import Policy
from hotseat.startup.fleet import FleetHandle
from hotseat.state.state_file import state_directory
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from hotseat.startup.preparation import Prepared


class Shared(Struct, frozen=True):
    start: Prepared
    active: ActiveConfig
    tasks: Tasks
    shutdown: ShutdownSequence
    accounts: Accounts
    host_verifier: HostVerifier
    fleet: FleetHandle
    feeds_end: asyncio.Event
    """Set when another process has taken over: clients of endless feeds must connect to it."""

    def policy(self) -> Policy:
        """Usage of keys, created keys and proofs of other hosts survive a reload."""
        return Policy(self.active.settings, self.accounts, self.host_verifier)


def shared_by_all(start: Prepared) -> Shared:
    active, verifier = ActiveConfig(start.loaded, start.created_keys), HostVerifier(start.loaded.settings.fleet)
    accounts = Accounts(UsageStore(state_directory(os.environ) / USAGE_FILE).used_today)
    return Shared(start, active, Tasks(), ShutdownSequence(), accounts, verifier, FleetHandle(), asyncio.Event())
