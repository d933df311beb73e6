"""`hotseat logs`: times, sources and levels as text, as JSON, and in colours on a terminal."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.support.management import WRITTEN_AT
from tests.support.waiting import come_true

from hotseat.cli.client import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.command_line import CommandLine


@pytest.fixture(autouse=True)
def _in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


async def test_all_sources_are_shown_in_the_order_of_time(command_line: CommandLine) -> None:
    """In the time of this machine, with hotseat's own lines among those of the models."""
    logs = command_line.rig.logs
    logs.write_own("info", "starting model server model=qwen")
    logs.write("qwen", "loading")
    logs.write_own("warning", "model server failed to start model=qwen")
    said = await command_line.type("logs")

    assert said.out.splitlines() == [
        "2026-11-16T13:00:00.000+01:00 hotseat | INFO starting model server model=qwen",
        "2026-11-16T13:00:01.000+01:00 qwen | loading",
        "2026-11-16T13:00:02.000+01:00 hotseat | WARNING model server failed to start model=qwen",
    ]


async def test_logs_of_one_model_are_its_servers_lines(command_line: CommandLine) -> None:
    """hotseat's own lines are left out."""
    command_line.rig.logs.write_own("info", "starting model server model=qwen")
    command_line.rig.logs.write("qwen", "loading")
    said = await command_line.type("logs", "qwen")

    assert said.out == "2026-11-16T13:00:01.000+01:00 qwen | loading\n"


async def test_a_model_that_has_printed_nothing(command_line: CommandLine) -> None:
    """An empty log is not mistaken for a command that did nothing, and programs that read it see none."""
    said = await command_line.type("logs", "qwen")

    assert (said.code, said.out) == (0, "")
    assert said.err == "qwen has printed nothing so far; `hotseat why qwen` shows its state\n"


async def test_json_is_what_the_server_sent(command_line: CommandLine) -> None:
    """One object per line."""
    command_line.rig.logs.write_own("error", "it broke")
    said = await command_line.type("logs", "--json")

    assert json.loads(said.out) == {"at": WRITTEN_AT, "model": None, "level": "error", "text": "it broke"}


async def test_logs_cannot_steer_the_terminal(command_line: CommandLine) -> None:
    """Control sequences of a model server's output do not reach the terminal."""
    command_line.rig.logs.write("qwen", "\x1b[31mred\x1b[0m \x1b]0;title\x07plain\x07\ttab")
    said = await command_line.type("logs", "qwen", "-n", "5")

    assert said.out.endswith(" qwen | red plain\ttab\n")
    assert "\x1b" not in said.out


async def test_a_server_that_sends_no_log_lines(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence says so."""
    monkeypatch.setattr(Server, "text", lambda *_, **__: '{"at": "now"}\n')
    said = await command_line.type("logs")

    assert (said.code, said.out) == (1, "")
    assert "the server sent something that is not a log line; is it a hotseat server?" in said.err


async def test_levels_have_colours_on_a_terminal(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors are red and warnings yellow beside their word, unless NO_COLOR is set."""
    logs = command_line.rig.logs
    for level in ("error", "warning", "info"):
        logs.write_own(level, "this")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = (await command_line.type("logs")).out.splitlines()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = (await command_line.type("logs")).out

    assert [line.partition("|\x1b[0m ")[2] for line in coloured] == [
        "\x1b[31mERROR this\x1b[0m",
        "\x1b[33mWARNING this\x1b[0m",
        "INFO this",
    ]
    assert "\x1b" not in plain


async def test_followed_logs_go_on_until_the_server_ends(command_line: CommandLine) -> None:
    """New lines are printed as they arrive; the end of the server ends the command."""
    logs = command_line.rig.logs
    logs.write("qwen", "old")
    async with asyncio.TaskGroup() as group:
        following = group.create_task(command_line.type("logs", "qwen", "--follow"))
        await come_true(lambda: logs.readers("qwen"))
        logs.write("qwen", "new")
        logs.end("qwen")

    assert [line.partition(" | ")[2] for line in following.result().out.splitlines()] == ["old", "new"]
