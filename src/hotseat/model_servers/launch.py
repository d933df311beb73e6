"""One start of one model: from its port to a server that is ready, or to the last of its descendants."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hotseat.catalog.spec import fill
from hotseat.errors import LoadFailed
from hotseat.identifiers import Upstream
from hotseat.model_servers.api_key import authorization
from hotseat.model_servers.launch_failures import LaunchFailures, Trouble
from hotseat.model_servers.launch_processes import LaunchProcesses, environment
from hotseat.model_servers.load_progress import LoadProgress
from hotseat.model_servers.ports import describe_process, is_taken, listener_of, owner_of
from hotseat.model_servers.readiness import ReadinessWait, accepts, addresses_of, deadline_s, downloads_itself
from hotseat.model_servers.running_server import RunningServer
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.listeners import is_here
from hotseat.threads import look_at_disk, start_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.spec import FilledRecipe, ModelSpec
    from hotseat.identifiers import Address, Bytes, Seconds
    from hotseat.model_servers.guard_client import Guard
    from hotseat.model_servers.guarded_process import Child
    from hotseat.model_servers.output import Output
    from hotseat.model_servers.ports import PortLease, Ports
    from hotseat.model_servers.readiness import Ready

log = logging.getLogger(__name__)


class Launch:
    def __init__(
        self, spec: ModelSpec, environ: Mapping[str, str], guard: Guard, ports: Ports, output: Output, key: str = ""
    ) -> None:
        """`key` was made for this server, and is in its environment."""
        self._spec, self._environ, self._ports, self._key, self.model = spec, environ, ports, key, spec.name
        self._processes = LaunchProcesses(spec, environ, guard, output)
        self._failures = LaunchFailures(spec, output)
        self._child: Child | None = None
        self._progress: LoadProgress | None = None
        self._is_wanted = True

    @property
    def pid(self) -> int | None:
        """None: its process has not started, or is gone."""
        return self._child.pid if self._child and not self._child.gone.done() else None

    @property
    def port(self) -> int | None:
        return self._child.port if self._child else None

    def share_taken_in(self) -> float | None:
        return self._progress.share if self._progress else None

    async def bring_up(self) -> RunningServer:
        """Return when the server is ready; LoadFailed: it is not, and none of its processes is left."""
        try:
            return await self._bring_up()
        except (Trouble, OSError) as trouble:
            stopped = LoadFailed(f"{self.model} was stopped while loading")
            error = self._failures.failed_start(trouble) if self._is_wanted else stopped
            await self.end()
            raise error from trouble
        except Exception:  # a bug: it must not leave an unknown process
            await self.end()
            raise
        except asyncio.CancelledError:
            if self._child:
                self._child.kill()
            raise

    def limit_stop(self, unload_timeout_s: Seconds) -> None:
        if self._child:
            self._child.limit_stop(unload_timeout_s)

    async def end(self, unload_timeout_s: Seconds | None = None) -> None:
        """Ask it to end and return when it is gone; if it has not started, it never will. Safe to call twice."""
        self._is_wanted = False
        if self._child:
            await self._child.end(unload_timeout_s)

    async def _bring_up(self) -> RunningServer:
        if not self._spec.recipe.wants_port:
            return await self._start(fill(self._spec.recipe, 0), None)
        try:
            return await self._start_on_leased_port()
        except Trouble:
            if not await self._lost_its_port():
                raise
        log.info("another process took the port, retrying with another port model=%s", self.model)
        self._failures.begin_again()
        return await self._start_on_leased_port()

    async def _start_on_leased_port(self) -> RunningServer:
        recipe = self._spec.recipe
        lease = self._ports.lease(recipe.preferred_port)
        try:
            return await self._start(fill(recipe, lease.port), lease)
        finally:
            if self._child is None:
                lease.release()

    async def _lost_its_port(self) -> bool:
        """Did another process take the port before the server could? Then a second start may work."""
        child = self._child
        if child is None or child.port is None:
            return False
        await child.end()
        self._child = None
        return self._is_wanted and is_taken(child.port)

    async def _start(self, recipe: FilledRecipe, lease: PortLease | None) -> RunningServer:
        await refuse_if_taken(recipe.address)
        # Before the start: whatever fails must leave no process.
        order = await look_at_disk(self.model, lambda: self._processes.order(recipe))
        progress = self._progress = await look_at_disk(self.model, lambda: LoadProgress(recipe.argv))
        self._check_wanted()
        child = self._child = await self._processes.start_server(order, recipe, lease)
        self._check_wanted()
        start_thread("look at a loading server", progress.follow, child.pid)
        try:
            address, header = await self._until_ready(child, recipe, progress.weight)
        finally:
            progress.has_ended.set()
        self._check_wanted()
        listener, is_ours = await asyncio.to_thread(listener_of, address, child.pid, child.marker)
        self._check_wanted()
        if listener and not is_ours:
            raise Trouble(f"{address} is in use by another process, {describe_process(listener)}")
        upstream = Upstream(address, child.pid, listener, self._key)
        return RunningServer(self._spec, self._environ, self._processes, self._failures, child, upstream, header)

    async def _until_ready(self, child: Child, recipe: FilledRecipe, weight: Bytes) -> Ready:
        within_s = self._spec.health_check_timeout_s or deadline_s(weight)
        does_download = downloads_itself(recipe.argv, environment(self._environ, recipe.env))
        lines = authorization(self._key)
        return await ReadinessWait(self.model, child, recipe, within_s, lines, does_download=does_download).ready()

    def _check_wanted(self) -> None:
        """After every wait: a stop may have been requested."""
        if not self._is_wanted:
            raise Trouble("it was stopped")


async def refuse_if_taken(address: Address) -> None:
    """A process that answers before the start is not ours."""
    for each in addresses_of(address):
        is_local = bool(each.unix_path) or await asyncio.to_thread(is_here, each.host)
        if is_local and await accepts(each, Connector()):
            owner = None if each.unix_path else await asyncio.to_thread(owner_of, each.host, each.port)
            raise Trouble(
                f"{each} is already in use by another process{f', {describe_process(owner)}' if owner else ''}"
            )
