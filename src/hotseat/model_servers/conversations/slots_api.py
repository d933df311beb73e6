"""The part of llama-server's API that saves and restores slots. A slot holds the processed tokens of one conversation.

No method has a time limit of its own: the caller sets one for all of them together.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from hotseat.model_servers.api_key import authorization
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Address, Bytes

JSON = b"Content-Type: application/json\r\n"
MOST_SHOWN = 200


class Refused(Exception):
    """The server answered, but not with what was asked for: a sentence about it."""


class Slot(NamedTuple):
    id: int
    is_processing: bool
    tokens: int
    task: int
    """The last request that used it; -1 if none has."""


class Build(NamedTuple):
    """What a saved slot depends on beyond the command line."""

    slots: int
    context: int
    """Tokens of one slot."""
    version: str


class Moved(NamedTuple):
    """What the server says it has written or read."""

    tokens: int
    size: Bytes


class SlotsApi:
    def __init__(self, address: Address, key: str) -> None:
        self._address, self._lines = address, authorization(key)

    async def slots(self) -> list[Slot]:
        asked = "GET /slots"
        listed = await self._ask(asked)
        try:
            return [_slot(each) for each in listed]
        except (TypeError, LookupError, AttributeError) as problem:
            raise Refused(f"{asked} does not list its slots ({problem})") from problem

    async def build(self) -> Build:
        asked = "GET /props"
        props = await self._ask(asked)
        try:
            context = props["default_generation_settings"]["n_ctx"]
            return Build(_number(props["total_slots"]), _number(context), str(props["build_info"]))
        except (TypeError, LookupError) as problem:
            raise Refused(f"{asked} does not report slots, context and build ({problem})") from problem

    async def save(self, slot: int, file: str) -> Moved:
        return await self._move(slot, "save", file, "n_saved", "n_written")

    async def restore(self, slot: int, file: str) -> Moved:
        return await self._move(slot, "restore", file, "n_restored", "n_read")

    async def erase(self, slot: int) -> None:
        """Forget the slot's tokens."""
        await self._ask(f"POST /slots/{slot}?action=erase", {})

    async def _move(self, slot: int, action: str, file: str, tokens: str, size: str) -> Moved:
        asked = f"POST /slots/{slot}?action={action}"
        moved = await self._ask(asked, {"filename": file})
        try:
            return Moved(_number(moved[tokens]), _number(moved[size]))
        except (TypeError, LookupError) as problem:
            raise Refused(f"{asked} does not say what it did ({problem})") from problem

    async def _ask(self, asked: str, body: Mapping[str, object] | None = None) -> Any:
        method, path = asked.split(" ")
        data = b"" if body is None else json.dumps(body).encode()
        lines = self._lines + (JSON if data else b"")
        answer = await fetch(self._address, path, Connector(), method=method, lines=lines, body=data)
        if not answer.is_success:
            raise Refused(f"{asked} was answered with {answer.status}{_said(answer.body)}")
        try:
            return parsed(answer.body)
        except ValueError as problem:
            raise Refused(f"{asked} was not answered with JSON ({problem})") from problem


def _slot(listed: Mapping[str, object]) -> Slot:
    tokens = listed.get("n_prompt_tokens", 0)  # missing: it has not been used
    task = listed.get("id_task", -1)
    return Slot(_number(listed["id"]), listed["is_processing"] is not False, _number(tokens), _number(task))


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{str(value)[:40]!r} is not a number")
    return value


def _said(body: bytes) -> str:
    """The server's own message, or the beginning of whatever it sent."""
    text = body.decode("utf-8", "replace").strip()
    with suppress(ValueError, TypeError, LookupError):
        text = str(parsed(text)["error"]["message"])
    return f": {text[:MOST_SHOWN]}" if text else ""
