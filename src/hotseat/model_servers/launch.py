"""One process of one model, from its port to the last of its descendants. The supervisor keeps these by LaunchId."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from hotseat.catalog.filled_recipe import fill
from hotseat.errors import LoadFailed
from hotseat.estimates.container_run import container_run
from hotseat.identifiers import Address, Upstream
from hotseat.model_servers.api_key import key_of
from hotseat.model_servers.launch_env import environment
from hotseat.model_servers.launch_failures import End, LaunchFailures, Trouble
from hotseat.model_servers.launch_processes import LaunchProcesses
from hotseat.model_servers.load_progress import taken_in, weight_of
from hotseat.model_servers.own_download import downloads_itself
from hotseat.model_servers.port_owner import describe_process, foreign_process_on, is_loopback, owner_of
from hotseat.model_servers.ports import is_taken
from hotseat.model_servers.readiness import accepts, addresses_of
from hotseat.model_servers.readiness_wait import ReadinessWait, deadline_s
from hotseat.net.happy_eyeballs import Connector
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from hotseat.catalog.filled_recipe import FilledRecipe
    from hotseat.catalog.spec import LaunchRecipe, ModelSpec
    from hotseat.identifiers import Bytes, ModelName, Seconds
    from hotseat.model_servers.guard_client import Guard
    from hotseat.model_servers.guarded_process import GuardedProcess
    from hotseat.model_servers.output import Output
    from hotseat.model_servers.ports import PortLease, Ports
    from hotseat.model_servers.readiness_wait import Ready
    from hotseat.model_servers.server_description import ServerDescription
    from hotseat.model_servers.server_process import Child
    from hotseat.model_servers.taken_servers import TakenServer

log = logging.getLogger(__name__)

T = TypeVar("T")

NOWHERE = Address("", 0)
"""Of a server that is not ready."""


class Launch:
    def __init__(self, spec: ModelSpec, environ: Mapping[str, str], guard: Guard, ports: Ports, output: Output) -> None:
        self._spec, self._environ, self._ports = spec, environ, ports
        self._processes = LaunchProcesses(spec, environ, guard, output)
        self._failures = LaunchFailures(spec, output)
        self._child: Child | None = None
        self._lease: PortLease | None = None
        self._is_wanted = True
        self._weight: Bytes = 0
        self._address = NOWHERE
        self._tasks = Tasks()
        self.server = ""
        """The ready server's `Server` header."""
        self.description: ServerDescription | None = None
        """What was said last about the ready server."""
        self.is_adopted = False
        """An earlier hotseat process has started it."""

    @classmethod
    def adopted(
        cls,
        spec: ModelSpec,
        environ: Mapping[str, str],
        guard: Guard,
        ports: Ports,
        output: Output,
        taken: TakenServer,
        description: ServerDescription,
    ) -> Launch:
        """Of a server that was ready when it was handed over to this process."""
        launch = cls(spec, environ, guard, ports, output)
        recipe = fill(spec.recipe, description.port or 0)
        launch._lease = None if description.port is None else ports.lease_to_running(description.port)
        launch._child = launch._processes.adopt_server(taken, recipe, launch._lease)
        launch._address, launch.server, launch._weight = description.address, description.server, weight_of(recipe.argv)
        launch.is_adopted = True
        return launch

    @property
    def model(self) -> ModelName:
        return self._spec.name

    @property
    def recipe(self) -> LaunchRecipe:
        return self._spec.recipe

    def share_taken_in(self) -> float | None:
        """The share of its files that the server has read; None: unknown, also in a container."""
        is_seen = self._weight and not container_run(self._spec.recipe.argv)
        taken = taken_in(self._child.pid) if self._child and is_seen else 0
        return min(taken / self._weight, 1.0) if taken else None

    @property
    def pid(self) -> int | None:
        """None: its process has not started, or is gone."""
        return self._child.pid if self._child and not self._child.gone.done() else None

    @property
    def address(self) -> Address:
        """Of the ready server."""
        return self._address

    @property
    def port(self) -> int | None:
        """What its `${PORT}` is; None: its command has none."""
        return self._lease.port if self._lease else None

    @property
    def api_key(self) -> str:
        """What the server demands of whoever asks it; empty: nothing."""
        return key_of(self._spec.recipe.argv, environment(self._environ, self._spec.recipe.env))

    async def bring_up(self) -> Upstream:
        """Return when the server is ready; LoadFailed: it is not, and none of its processes is left."""
        try:
            return await self._bring_up()
        except (Trouble, OSError) as trouble:
            stopped = LoadFailed(f"{self._spec.name} was stopped while loading")
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

    async def end(self) -> None:
        """Ask it to end and return when it is gone; if it has not started, it never will. Safe to call twice."""
        self._is_wanted = False
        self.hide()
        if self._child:
            await self._child.end()

    def kill(self) -> None:
        """End it at once, because it is about to be stopped and does not react."""
        self._is_wanted = False
        self.hide()
        if self._child:
            self._child.was_asked_to_end = True
            self._child.kill()

    # For another hotseat process

    def describe(self, description: ServerDescription) -> None:
        """From now on another hotseat process may take the server over, unless it is being stopped."""
        self.description = description
        if self._child and self._is_wanted:
            self._child.describe(description.as_json())

    def hide(self) -> None:
        """It is not ready: no other hotseat process may take it over."""
        if self._child:
            self._child.describe(None)

    # While it runs

    async def while_wanted(
        self, doing: Callable[[], Coroutine[Any, Any, T]], done: str, within_s: Seconds | None = None
    ) -> T | None:
        """Its result; None if the server was told to stop meanwhile, or has ended. TimeoutError: it took longer."""
        assert self._child, "only what was ready can be asked for anything"
        if not self._is_wanted:  # told to stop while this waited for memory
            return None
        attempt: asyncio.Task[T] = self._tasks.start(doing(), f"{self._spec.name} is {done}")
        ends: set[asyncio.Future[Any]] = {attempt, self._child.gone}
        try:
            await asyncio.wait(ends, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._tasks.aclose()
        if self._child.gone.done() or not self._is_wanted:
            return None
        if attempt.cancelled():
            raise TimeoutError
        return attempt.result()

    async def run_hook(self, argv: tuple[str, ...]) -> GuardedProcess:
        """Start a program that puts the server to sleep or wakes it; OSError if it cannot be run."""
        assert self._child
        return await self._processes.run_hook(argv, self._child.pid, self._address.port)

    async def ended(self) -> End:
        """How a ready server ended."""
        assert self._child, "only what was ready can be watched"
        exit_status = await self._child.exited()
        return End(exit_status) if self._child.was_asked_to_end else self._failures.crash(exit_status)

    # From recipe to ready server

    async def _bring_up(self) -> Upstream:
        if not self._spec.recipe.wants_port:
            return await self._start(fill(self._spec.recipe, 0), None)
        try:
            return await self._start_on_leased_port()
        except Trouble:
            if not await self._lost_its_port():
                raise
        log.info("another process took the port, retrying with another port model=%s", self._spec.name)
        self._failures.begin_again()
        return await self._start_on_leased_port()

    async def _start_on_leased_port(self) -> Upstream:
        recipe = self._spec.recipe
        lease = self._lease = self._ports.lease(recipe.preferred_port)
        try:
            return await self._start(fill(recipe, lease.port), lease)
        finally:
            if self._child is None:
                lease.release()

    async def _lost_its_port(self) -> bool:
        """Did another process take the port before the server could? Then a second start may work."""
        if not (self._child and self._lease):
            return False
        await self._child.end()
        self._child = None
        return self._is_wanted and is_taken(self._lease.port)

    async def _start(self, recipe: FilledRecipe, lease: PortLease | None) -> Upstream:
        self._weight = weight_of(recipe.argv)
        await refuse_if_taken(recipe.address)
        self._check_wanted()
        child = self._child = await self._processes.start_server(recipe, lease)
        self._check_wanted()
        address, self.server = await self._until_ready(child, recipe)
        self._check_wanted()
        foreign = None if address.unix_path else foreign_process_on(address.host, address.port, child.pid, child.marker)
        if foreign:
            raise Trouble(f"{address} is in use by another process, {describe_process(foreign)}")
        self._address = address
        return Upstream(address, child.pid)

    async def _until_ready(self, child: Child, recipe: FilledRecipe) -> Ready:
        within_s = self._spec.health_check_timeout_s or deadline_s(self._weight)
        does_download = downloads_itself(recipe.argv, environment(self._environ, recipe.env))
        return await ReadinessWait(self.model, child, recipe, within_s, does_download=does_download).ready()

    def _check_wanted(self) -> None:
        """After every wait: a stop may have been requested."""
        if not self._is_wanted:
            raise Trouble("it was stopped")


async def refuse_if_taken(address: Address) -> None:
    """A process that answers before the start is not ours."""
    for each in addresses_of(address):
        if (each.unix_path or is_loopback(each.host)) and await accepts(each, Connector()):
            owner = None if each.unix_path else owner_of(each.host, each.port)
            raise Trouble(
                f"{each} is already in use by another process{f', {describe_process(owner)}' if owner else ''}"
            )
