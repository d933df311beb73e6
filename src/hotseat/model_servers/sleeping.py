"""Puts a running server to sleep and wakes it, unless it is told to stop meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from hotseat.catalog.redaction import without
from hotseat.model_servers.launch import Trouble
from hotseat.model_servers.sleep_hooks import Sleeper, StepFailed, awake, fall_asleep

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.model_servers.launch import Launch


async def suspend(launch: Launch, level: SleepLevel) -> bool:
    """Return when it sleeps; False if it was told to stop meanwhile, or has ended. Trouble: it does not sleep."""
    return await _is_done(launch, level, fall_asleep, "fallen asleep")


async def resume(launch: Launch, level: SleepLevel) -> bool:
    """Return when it is ready; False if it was told to stop meanwhile, or has ended. Trouble: it is not."""
    return await _is_done(launch, level, awake, "woken")


async def _is_done(
    launch: Launch, level: SleepLevel, doing: Callable[[SleepLevel, Sleeper], Coroutine[Any, Any, None]], done: str
) -> bool:
    server = Sleeper(launch.address, launch.api_key, launch.run_hook, launch.recipe.check_endpoint)
    try:
        outcome = await launch.while_wanted(lambda: _outcome_of(doing(level, server)), done, level.timeout_s)
    except TimeoutError as late:
        raise Trouble(f"it had not {done} after {level.timeout_s:g} seconds") from late
    if isinstance(outcome, Exception):
        raise Trouble(without(str(outcome), launch.recipe.secrets)) from outcome
    return outcome is not None


async def _outcome_of(doing: Coroutine[Any, Any, None]) -> Exception | Literal[True]:
    """True: it succeeded."""
    try:
        await doing
    except (StepFailed, OSError, ValueError) as problem:
        return problem
    return True
