"""Puts a server to sleep and wakes it, step by step: requests to the server, and programs."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, NamedTuple, Protocol, assert_never

from hotseat.catalog.sleeping import Ask, Run
from hotseat.model_servers.api_key import authorization
from hotseat.model_servers.readiness import Readiness, pause
from hotseat.model_servers.self_reports import body_of
from hotseat.model_servers.server_process import describe
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.catalog.sleeping import SleepLevel, Step
    from hotseat.identifiers import Address
    from hotseat.model_servers.guarded_process import GuardedProcess

MOST_SHOWN = 200


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
