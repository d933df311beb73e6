"""What the steps of a startup share. It exists before the first part is opened, and this host joins a fleet later."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hotseat.activity.usage import Accounts
from hotseat.activity.usage_store import USAGE_FILE, UsageStore
from hotseat.config.reload import ActiveConfig
from hotseat.daemon.shutdown import ShutdownSequence
from hotseat.relay.access.host_requests import HostVerifier
from hotseat.relay.access.policy import Policy
from hotseat.state.fleet_state import FLEET, FleetState
from hotseat.state.state_file import StateFile, state_directory
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.fleet.admin import FleetAdmin
    from hotseat.fleet.node import FleetNode
    from hotseat.fleet.view import FleetView
    from hotseat.settings import Fleet
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


class FleetHandle:
    """Access to the fleet for parts that are opened before this host joins it."""

    def __init__(self) -> None:
        self.node: FleetNode | None = None
        """None: this host is not in a fleet, or has not joined yet."""
        self.joining: asyncio.Task[Any] | None = None
        """A later attempt to join, if the first one has failed."""
        self._membership = AsyncExitStack()
        self._state: FleetState | None = None
        self.handed: Mapping[str, Any] = {}
        """What the process that this one replaces has told of its state."""

    async def join(
        self, stack: AsyncExitStack, settings: Fleet, dispatcher: Dispatcher, is_leaving: Callable[[], bool]
    ) -> FleetNode:
        from hotseat.fleet.node import joined  # only a host in a fleet needs it

        file = StateFile(state_directory(os.environ) / FLEET)
        state = self._state = FleetState(file, f"{settings.prefix}/{settings.name}", self.handed)
        self.node = await self._membership.enter_async_context(joined(settings, dispatcher, is_leaving, state))
        stack.push_async_callback(self.leave)
        return self.node

    def to_hand_over(self) -> Mapping[str, Any]:
        """With the token the new process gets the name at once, also if there is no state directory to find it in."""
        return self.handed if self._state is None else self._state.facts()

    async def fall_silent(self) -> None:
        """Another process of this host takes its name: the other hosts shall see it all the time."""
        if self.joining is not None:
            self.joining.cancel()
            await asyncio.wait([self.joining])
        if self.node is not None:
            await self.node.fall_silent()

    async def remove_record(self) -> None:
        """The new process may have another name, or be in no fleet."""
        if self.node is not None:
            await self.node.fall_silent()  # again: it may have joined since
            await self.node.remove_record()

    async def leave(self) -> None:
        """Safe to call twice, and if this host is in no fleet."""
        await self._membership.aclose()

    def admin(self) -> FleetAdmin | None:
        return None if self.node is None else self.node.fleet_admin

    def view(self) -> FleetView | None:
        return None if self.node is None else self.node.fleet_admin.view()

    def notify(self) -> None:
        """Tell the other hosts, if there are any, that the state of this one has changed."""
        if self.node is not None:
            self.node.notify()
