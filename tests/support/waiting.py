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


def eventually(fact: Callable[[], T], within: float = PATIENCE_S) -> T:
    """The first truthy value of `fact`; fails after `within` seconds."""
    until = time.monotonic() + within
    while not (value := fact()):
        if time.monotonic() > until:
            raise AssertionError(f"not true within {within} s, last seen: {value!r}")
        time.sleep(0.01)
    return value


async def come_true(fact: Callable[[], T | None], within: float = PATIENCE_S) -> T:
    """The first truthy value of `fact`; fails after `within` seconds."""

    async def value() -> T | None:
        return fact()

    return await come_true_async(value, within)


async def come_true_async(fact: Callable[[], Awaitable[T | None]], within: float = PATIENCE_S) -> T:
    """The first truthy value of a coroutine function; fails after `within` seconds."""
    async with asyncio.timeout(within):
        while not (value := await fact()):
            await asyncio.sleep(0.002)
    return value
