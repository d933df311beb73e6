"""Loads and unloads for which no client waits: llama.cpp's router answers as soon as they have begun."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hotseat.errors import HotseatError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from hotseat.tasks import Tasks

log = logging.getLogger(__name__)


async def begin(work: Awaitable[None], name: str, tasks: Tasks) -> None:
    """Return once the scheduler has judged it, raise if it was refused at once; a later failure is logged."""
    task: asyncio.Task[HotseatError | None] = tasks.start(_outcome(work), name)
    await asyncio.sleep(0)
    if not task.done():
        task.add_done_callback(_log_failure)
    elif (error := task.result()) is not None:
        raise error


async def _outcome(work: Awaitable[None]) -> HotseatError | None:
    try:
        await work
    except HotseatError as error:
        return error
    return None


def _log_failure(task: asyncio.Task[HotseatError | None]) -> None:
    if not task.cancelled() and task.exception() is None and (error := task.result()) is not None:
        log.warning("failed in the background action=%r error=%r", task.get_name(), error.message)
