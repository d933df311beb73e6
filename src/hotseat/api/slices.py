"""Long work in slices: the event loop serves other requests between them."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

T = TypeVar("T")

SLICE = 100
"""Log lines or requests, which take about a millisecond."""


async def slices(items: Iterable[T], size: int = SLICE) -> AsyncGenerator[list[T], None]:
    """All items, which are computed as they are taken."""
    rest = iter(items)
    while some := [*islice(rest, size)]:
        yield some
        await asyncio.sleep(0)


async def taken(items: Iterable[T], size: int = SLICE) -> list[T]:
    return [item async for some in slices(items, size) for item in some]
