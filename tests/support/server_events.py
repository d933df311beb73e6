"""Reads server-sent events."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def next_event(lines: AsyncIterator[str]) -> dict[str, str]:
    """The fields of the next server-sent event, comments included under an empty name."""
    fields: dict[str, str] = {}
    async for line in lines:
        if not line:
            return fields
        name, _, value = line.partition(":")
        fields[name] = value.strip()
    raise AssertionError(f"the feed ended after {fields}")
