"""The progress bar of a load."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.command_line import answering
from tests.support.waiting import come_true

from hotseat.cli import load_bar
from hotseat.cli.client import Refused, Server
from hotseat.cli.load_bar import load_with_bar, progress_text

if TYPE_CHECKING:
    from tests.support.command_line import CommandLine, Typed


def model(**known: Any) -> dict[str, Any]:
    return {"phase": "loading", "phase_s": 3.0, "load_s": None, "progress": None, "why": "", **known}


@pytest.mark.parametrize(
    ("seen", "share", "said"),
    [
        (model(progress=0.25), 0.25, "reading"),
        (model(progress=0.25, load_s=12.0), 0.25, "reading, usually 12s in total"),
        (model(progress=1.0), None, "read, warming up"),
        (model(progress=1.0, load_s=12.0), 0.25, "warming up, usually 12s in total"),
        (model(load_s=12.0), 0.25, "loading, usually 12s in total"),
        (model(load_s=2.0), None, "loading, longer than the usual 2s"),
        (model(progress=1.0, load_s=2.0), None, "warming up, longer than the usual 2s"),
        (model(), None, "loading"),
        (model(phase="cold", why="qwen is in use"), None, "qwen is in use"),
    ],
)
def test_the_best_that_is_known_is_shown(seen: dict[str, Any], share: float | None, said: str) -> None:
    """Bytes read, else the usual duration, else only that it loads; before that, why it waits."""
    assert progress_text(seen) == (share, said)


async def test_a_load_is_waited_for(command_line: CommandLine) -> None:
    """The model is ready, and the server's message is the result."""
    said = await asyncio.to_thread(load_with_bar, Server(command_line.url), "q")

    assert said == "qwen is ready"
    await come_true(
        lambda: command_line.rig.dispatcher.questions.is_running(command_line.rig.dispatcher.catalog.resolve("q").name)
    )


async def test_a_load_that_fails_is_raised(command_line: CommandLine) -> None:
    """The error has the server's message."""
    with pytest.raises(Refused, match="dud exited with code 1"):
        await asyncio.to_thread(load_with_bar, Server(command_line.url), "dud")


def test_a_load_without_a_message_ends(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program may answer so."""
    looks = iter(range(3))

    def progress(_: object) -> tuple[None, str]:
        next(looks)  # fails if the bar goes on
        return None, "loading"

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(load_bar, "progress_text", progress)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    with answering(head + b'{"message": null}') as url:
        said = typed("load", "qwen", "--url", url)

    assert (said.code, said.out) == (1, "")
    assert "another kind of JSON" in said.err
