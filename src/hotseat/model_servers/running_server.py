"""A server that was ready, until the last of its processes is gone: what is asked of it meanwhile, and how it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from hotseat.catalog.spec import fill
from hotseat.identifiers import Upstream
from hotseat.model_servers.api_key import key_of
from hotseat.model_servers.launch_env import environment
from hotseat.model_servers.launch_failures import End, LaunchFailures
from hotseat.model_servers.launch_processes import LaunchProcesses
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Seconds
    from hotseat.model_servers.adoption import ServerDescription, TakenServer
    from hotseat.model_servers.guard_client import Guard
    from hotseat.model_servers.guarded_process import GuardedProcess
    from hotseat.model_servers.output import Output
    from hotseat.model_servers.ports import Ports
    from hotseat.model_servers.server_process import Child

T = TypeVar("T")


class RunningServer:
    def __init__(
        self,
        spec: ModelSpec,
        environ: Mapping[str, str],
        processes: LaunchProcesses,
        failures: LaunchFailures,
        child: Child,
        upstream: Upstream,
        header: str,
        *,
        is_adopted: bool = False,
    ) -> None:
        """`header` is its `Server` header. An earlier hotseat process has started it if it `is_adopted`."""
        self.model, self.recipe, self._environ = spec.name, spec.recipe, environ
        self._processes, self._failures, self._child = processes, failures, child
        self.upstream, self.header, self.is_adopted = upstream, header, is_adopted
        self.description: ServerDescription | None = None
        """What was said last about it, or is said when it is no longer hidden."""
        self._is_hidden = False
        self._tasks = Tasks()

    @property
    def pid(self) -> int | None:
        """None: its process is gone."""
        return None if self._child.gone.done() else self._child.pid

    @property
    def port(self) -> int | None:
        return self._child.port

    @property
    def api_key(self) -> str:
        """What the server demands of whoever asks it; empty: nothing."""
        return key_of(self.recipe.argv, environment(self._environ, self.recipe.env))

    async def while_wanted(
        self, doing: Callable[[], Coroutine[Any, Any, T]], done: str, within_s: Seconds | None = None
    ) -> T | None:
        """Its result; None if the server was told to stop meanwhile, or has ended. TimeoutError: it took longer."""
        if self._child.was_asked_to_end:  # while this waited for memory
            return None
        attempt: asyncio.Task[T] = self._tasks.start(doing(), f"{self.model} is {done}")
        ends: set[asyncio.Future[Any]] = {attempt, self._child.gone}
        try:
            await asyncio.wait(ends, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._tasks.aclose()
        if self._child.gone.done() or self._child.was_asked_to_end:
            return None
        if attempt.cancelled():
            raise TimeoutError
        return attempt.result()

    async def run_hook(self, argv: tuple[str, ...]) -> GuardedProcess:
        """Start a program that puts the server to sleep or wakes it; OSError if it cannot be run."""
        return await self._processes.run_hook(argv, self._child.pid, self.upstream.address.port)

    # For another hotseat process

    def describe(self, description: ServerDescription) -> None:
        """From now on another hotseat process may take the server over, unless it is being stopped."""
        self._is_hidden = False
        self.correct(description)

    def correct(self, description: ServerDescription) -> None:
        """Say it instead of what was said before; a hidden server stays hidden."""
        self.description = description
        if not (self._is_hidden or self._child.was_asked_to_end):
            self._child.describe(description.as_json())

    def hide(self) -> None:
        """It is not ready: no other hotseat process may take it over."""
        self._is_hidden = True
        self._child.describe(None)

    # Its end

    def limit_stop(self, unload_timeout_s: Seconds) -> None:
        self._child.limit_stop(unload_timeout_s)

    async def end(self, unload_timeout_s: Seconds | None = None) -> None:
        """Ask it to end and return when it is gone. Safe to call twice."""
        self.hide()
        await self._child.end(unload_timeout_s)

    def kill(self) -> None:
        """End it at once, because it is about to be stopped and does not react."""
        self.hide()
        self._child.was_asked_to_end = True
        self._child.kill()

    async def ended(self) -> End:
        """How it ended."""
        exit_status = await self._child.exited()
        return End(exit_status) if self._child.was_asked_to_end else self._failures.crash(exit_status)


def adopt(
    spec: ModelSpec,
    environ: Mapping[str, str],
    guard: Guard,
    ports: Ports,
    output: Output,
    taken: TakenServer,
    description: ServerDescription,
) -> RunningServer:
    """A server that was ready when it was handed over to this process."""
    processes, failures = LaunchProcesses(spec, environ, guard, output), LaunchFailures(spec, output)
    lease = None if description.port is None else ports.lease_to_running(description.port)
    child = processes.adopt_server(taken, fill(spec.recipe, description.port or 0), lease)
    upstream = Upstream(description.address, description.pid, description.listener, description.api_key)
    return RunningServer(spec, environ, processes, failures, child, upstream, description.server, is_adopted=True)
