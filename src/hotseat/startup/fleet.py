"""This host's membership in a fleet, if the configuration names one."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from hotseat.state.fleet_state import FLEET, FleetState
from hotseat.state.learned_store import state_directory
from hotseat.state.state_file import StateFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.fleet.admin import FleetAdmin
    from hotseat.fleet.node import FleetNode
    from hotseat.fleet.view import FleetView
    from hotseat.settings import Fleet


class FleetHandle:
    """Access to the fleet for parts that are opened before this host joins it."""

    def __init__(self) -> None:
        self.node: FleetNode | None = None
        """None: this host is not in a fleet, or has not joined yet."""
        self._membership = AsyncExitStack()

    async def join(
        self, stack: AsyncExitStack, settings: Fleet, dispatcher: Dispatcher, is_leaving: Callable[[], bool]
    ) -> FleetNode:
        from hotseat.fleet.node import joined  # only a host in a fleet needs it

        state = FleetState(StateFile(state_directory(os.environ) / FLEET), f"{settings.prefix}/{settings.name}")
        self.node = await self._membership.enter_async_context(joined(settings, dispatcher, is_leaving, state))
        stack.push_async_callback(self.leave)
        return self.node

    async def fall_silent(self) -> None:
        """Another process of this host takes its name: the other hosts shall see it all the time."""
        if self.node is not None:
            await self.node.fall_silent()

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
