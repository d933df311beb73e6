"""Puts a running server to sleep and wakes it, unless it is told to stop meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from hotseat.catalog.redaction import without
from hotseat.model_servers.launch_failures import Trouble
from hotseat.model_servers.sleep_hooks import Sleeper, StepFailed, awake, fall_asleep
from hotseat.scheduling.events import SleepFailed, UpstreamAsleep, UpstreamAwake, WakeFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.model_servers.running_server import RunningServer
    from hotseat.scheduling.commands import PutToSleep, WakeUp


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
