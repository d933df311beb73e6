"""A server that was ready, until the last of its processes is gone: what is asked of it meanwhile, and how it ends.

It can be put to sleep and woken, step by step: by requests to the server, and programs.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, assert_never

from hotseat.catalog.redaction import without
from hotseat.catalog.sleeping import Ask, Run
from hotseat.catalog.spec import fill
from hotseat.identifiers import Upstream
from hotseat.model_servers.api_key import authorization, key_of
from hotseat.model_servers.guarded_process import describe
from hotseat.model_servers.launch_failures import End, LaunchFailures, Trouble
from hotseat.model_servers.launch_processes import LaunchProcesses, environment
from hotseat.model_servers.readiness import Readiness, pause
from hotseat.model_servers.self_reports import body_of
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch
from hotseat.net.json_text import parsed
from hotseat.scheduling.events import SleepFailed, UpstreamAsleep, UpstreamAwake, WakeFailed
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from hotseat.catalog.sleeping import SleepLevel, Step
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Address, Seconds
    from hotseat.model_servers.adoption import ServerDescription, TakenServer
    from hotseat.model_servers.guard_client import Guard
    from hotseat.model_servers.guarded_process import Child, GuardedProcess
    from hotseat.model_servers.output import Output
    from hotseat.model_servers.ports import Ports
    from hotseat.scheduling.commands import PutToSleep, WakeUp

T = TypeVar("T")
MOST_SHOWN = 200


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


async def put_to_sleep(server: RunningServer, command: PutToSleep) -> UpstreamAsleep | SleepFailed | None:
    """Return when the server sleeps or has failed to; None if it was told to stop meanwhile, or has ended."""
    try:
        is_done = await _changed(server, command.level, fall_asleep, "fallen asleep", command.level.name)
    except Trouble as trouble:
        return SleepFailed(command.model, command.launch, str(trouble))
    return UpstreamAsleep(command.model, command.launch) if is_done else None


async def wake_up(server: RunningServer, command: WakeUp) -> UpstreamAwake | WakeFailed | None:
    """Return when the server is ready or has failed to wake; None if it was told to stop meanwhile, or has ended."""
    try:
        is_done = await _changed(server, command.level, awake, "woken", None)
    except Trouble as trouble:
        return WakeFailed(command.model, command.launch, str(trouble))
    return UpstreamAwake(command.model, command.launch) if is_done else None


async def _changed(
    server: RunningServer,
    level: SleepLevel,
    doing: Callable[[SleepLevel, Sleeper], Coroutine[Any, Any, None]],
    done: str,
    sleep: str | None,
) -> bool:
    """Between ready and asleep no other hotseat process may take the server over."""
    server.hide()
    sleeper = Sleeper(server.upstream.address, server.api_key, server.run_hook, server.recipe.check_endpoint)
    try:
        outcome = await server.while_wanted(lambda: _outcome_of(doing(level, sleeper)), done, level.timeout_s)
    except TimeoutError as late:
        raise Trouble(f"it had not {done} after {level.timeout_s:g} seconds") from late
    if isinstance(outcome, Exception):
        raise Trouble(without(str(outcome), server.recipe.secrets)) from outcome
    if outcome and server.description:
        server.describe(replace(server.description, sleep=sleep))
    return outcome is not None


async def _outcome_of(doing: Coroutine[Any, Any, None]) -> Exception | Literal[True]:
    """True: it succeeded."""
    try:
        await doing
    except (StepFailed, OSError, ValueError) as problem:
        return problem
    return True


class StepFailed(Exception):
    """What happened instead, as a sentence about the server."""


class Runs(Protocol):
    async def __call__(self, argv: tuple[str, ...]) -> GuardedProcess:
        """Start a program, placeholders replaced; OSError if it cannot be run."""


class Sleeper(NamedTuple):
    """A server that can sleep."""

    address: Address
    key: str
    """Its own API key; empty if it demands none."""
    run: Runs
    check_endpoint: str | None
    """Asked until it is ready again."""


async def fall_asleep(level: SleepLevel, server: Sleeper) -> None:
    """Return when it sleeps; StepFailed or OSError at the first failure. The caller sets the limit."""
    await _perform(level.suspend, server)
    if level.check:
        await _until_sleeping(server, level.check, wanted=True)


async def awake(level: SleepLevel, server: Sleeper) -> None:
    """Return when it is ready; StepFailed or OSError at the first failure. The caller sets the limit."""
    await _perform(level.resume, server)
    if level.check:
        await _until_sleeping(server, level.check, wanted=False)
    await Readiness(server.address, server.check_endpoint, lines=authorization(server.key)).reached()


async def _perform(steps: Sequence[Step], server: Sleeper) -> None:
    for step in steps:
        match step:
            case Ask():
                await _ask(step, server)
            case Run():
                await _run(step, server.run)
            case _:
                assert_never(step)


async def _ask(step: Ask, server: Sleeper) -> None:
    body = step.body.encode()
    lines = authorization(server.key) + (b"Content-Type: application/json\r\n" if body else b"")
    answer = await fetch(
        server.address, step.path, Connector(), method=step.method, lines=lines, body=body, most=MOST_SHOWN
    )
    if not answer.is_success:
        said = answer.body.decode("utf-8", "replace").strip()
        raise StepFailed(f"{step} was answered with {answer.status}{f': {said}' if said else ''}")


async def _run(step: Run, run: Runs) -> None:
    process = await run(step.argv)
    try:
        status = await asyncio.shield(process.gone)
    finally:
        process.signal(signal.SIGKILL)
    if status:
        raise StepFailed(f"{step} {describe(status)}")


async def _until_sleeping(server: Sleeper, path: str, *, wanted: bool) -> None:
    """Return when the server reports that it sleeps, or that it does not, as wanted."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        if await _is_sleeping(server, path) is wanted:
            return
        await asyncio.sleep(pause(loop.time() - began))


async def _is_sleeping(server: Sleeper, path: str) -> bool:
    """What the server reports; StepFailed if it does not."""
    try:
        reported = parsed(await body_of(server.address, path, key=server.key))["is_sleeping"]
    except (ValueError, TypeError, LookupError) as problem:
        raise StepFailed(f"GET {path} does not report the sleep state ({problem})") from problem
    return bool(reported)
