"""Long work in slices: the event loop serves other requests between them."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

T = TypeVar("T")

SLICE = 100
"""Log lines, which take about a millisecond."""


async def slices(items: Iterable[T]) -> AsyncGenerator[list[T], None]:
    """All items, which are computed as they are taken."""
    rest = iter(items)
    while some := [*islice(rest, SLICE)]:
        yield some
        await asyncio.sleep(0)


async def taken(items: Iterable[T]) -> list[T]:
    return [item async for some in slices(items) for item in some]
