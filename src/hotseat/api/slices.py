"""Long work in slices: the event loop serves other requests between them."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from fastapi.responses import StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator

    from hotseat.api.schema_base import Schema

T = TypeVar("T")

SLICE = 100
"""Log lines, requests or models, which take a few milliseconds."""


async def slices(items: Iterable[T], size: int = SLICE) -> AsyncGenerator[list[T], None]:
    """All items, which are computed as they are taken."""
    rest = iter(items)
    while some := [*islice(rest, size)]:
        yield some
        await asyncio.sleep(0)


async def taken(items: Iterable[T], size: int = SLICE) -> list[T]:
    return [item async for some in slices(items, size) for item in some]


class Listing(StreamingResponse):
    """A response that can be long: its pieces are computed and sent in slices, as fast as its client reads them."""

    def __init__(self, pieces: Iterable[str], media_type: str = "application/json", size: int = SLICE) -> None:
        super().__init__(_joined(pieces, size), media_type=media_type)


async def _joined(pieces: Iterable[str], size: int) -> AsyncGenerator[str, None]:
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
