"""Servers that send something through a process that was replaced are alive for the one that judges them."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from hotseat.handover.channel import Channel
from hotseat.handover.streams import STREAMS, Streams
from hotseat.identifiers import ModelName
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")


class Process:
    """What a process has received of its own model servers."""

    def __init__(self) -> None:
        self.pieces: dict[ModelName, list[object]] = {}
        self.streams = Streams(lambda model: [*self.pieces.get(model, [])], lambda: [*self.pieces])


@asynccontextmanager
async def replaced(old: Process) -> AsyncIterator[Channel]:
    """The channel of the new process, to which the old one reports."""
    ours, theirs = map(Channel, socket.socketpair())
    tasks = Tasks()
    tasks.start(old.streams.report(ours, every_s=0.002), "report")
    yield theirs
    await tasks.aclose()
    ours.close()
    theirs.close()


async def test_each_new_piece_is_reported() -> None:
    """A server that sends nothing more is not mentioned again."""
    old, new = Process(), Process()
    old.pieces = {QWEN: [object()], LLAMA: []}
    async with replaced(old) as channel:
        first = await channel.receive()
        old.pieces[LLAMA] = [object()]
        second = await channel.receive()

    assert [(each.kind, each.facts) for each in (first, second)] == [
        (STREAMS, {"model": QWEN}),
        (STREAMS, {"model": LLAMA}),
    ]
    new.streams.note(QWEN)
    before = new.streams.last_pieces(QWEN)
    assert before == new.streams.last_pieces(QWEN)
    new.streams.note(QWEN)
    assert before != new.streams.last_pieces(QWEN)
    assert new.streams.last_pieces(LLAMA) == []


async def test_reports_pass_through_a_process_in_between() -> None:
    """It was replaced, too, and has no stream of the model itself."""
    between = Process()
    async with replaced(between) as channel:
        between.streams.note(QWEN)
        passed_on = await channel.receive()

    assert passed_on.facts == {"model": QWEN}
