"""Waiting for a fact with a deadline, the only way in which tests wait; standard library only."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

PATIENCE_S = 60.0
"""It costs nothing where the fact comes true, and a busy machine takes long to start a program."""
LONGEST_PAUSE_S = 0.1
"""Looking more often would take the processor from what is waited for; what lasts shorter must be held by the test."""


def eventually(fact: Callable[[], T], within: float = PATIENCE_S) -> T:
    """The first truthy value of `fact`; fails after `within` seconds."""
    began = time.monotonic()
    while not (value := fact()):
        waited = time.monotonic() - began
        if waited > within:
            raise AssertionError(f"not true within {within} s, last seen: {value!r}")
        time.sleep(pause_s(waited))
    return value


async def come_true(fact: Callable[[], T | None], within: float = PATIENCE_S) -> T:
    """The first truthy value of `fact`; fails after `within` seconds."""

    async def value() -> T | None:
        return fact()

    return await come_true_async(value, within)


async def come_true_async(fact: Callable[[], Awaitable[T | None]], within: float = PATIENCE_S) -> T:
    """The first truthy value of a coroutine function; fails after `within` seconds."""
    began = time.monotonic()
    async with asyncio.timeout(within):
        while not (value := await fact()):
            await asyncio.sleep(pause_s(time.monotonic() - began))
    return value


def pause_s(waited: float) -> float:
    """Until the next look: a tenth of the time so far, so that a fact is seen soon after it comes true."""
    return min(max(waited / 10, 0.002), LONGEST_PAUSE_S)
