"""Long work in slices: the event loop serves other requests between them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

from fastapi.responses import StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator

    from hotseat.api.schema_base import Schema

T = TypeVar("T")

SLICE, SLICE_S = 100, 0.005
"""Log lines, requests or models, which take a few milliseconds; a slice of longer ones ends after so many seconds."""


async def slices(items: Iterable[T], size: int = SLICE) -> AsyncGenerator[list[T], None]:
    """All items, which are computed as they are taken."""
    some, end = list[T](), time.perf_counter() + SLICE_S
    for item in items:
        some.append(item)
        if len(some) >= size or time.perf_counter() >= end:
            yield some
            await asyncio.sleep(0)
            some, end = [], time.perf_counter() + SLICE_S
    if some:
        yield some
        await asyncio.sleep(0)


async def taken(items: Iterable[T], size: int = SLICE) -> list[T]:
    return [item async for some in slices(items, size) for item in some]


class Listing(StreamingResponse):
    """A response that can be long: its pieces are computed and sent in slices, as fast as its client reads them."""

    def __init__(self, pieces: Iterable[str], media_type: str = "application/json", size: int = SLICE) -> None:
        super().__init__(joined(pieces, size), media_type=media_type)


async def joined(pieces: Iterable[str], size: int = SLICE) -> AsyncGenerator[str, None]:
    async for some in slices(pieces, size):
        yield "".join(some)


def rows(items: Iterable[Schema], *, exclude_none: bool = False) -> Iterator[str]:
    """A list as JSON, in pieces."""
    separator = "["
    for item in items:
        yield separator + item.model_dump_json(exclude_none=exclude_none)
        separator = ","
    yield "[]" if separator == "[" else "]"


def page(short: Schema, **long: Iterable[str]) -> Iterator[str]:
    """An object as JSON, in pieces: `long` are its long members as JSON, which are empty in `short`."""
    separator = "{"
    for name in type(short).model_fields:
        if name in long:
            yield f'{separator}"{name}":'
            yield from long[name]
        else:
            yield separator + short.model_dump_json(include={name})[1:-1]
        separator = ","
    yield "}"
