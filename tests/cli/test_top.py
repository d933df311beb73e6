"""`hotseat top` without a terminal: prints once."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console

from hotseat.cli.client import Server
from hotseat.cli.top import drawn, model_rows

if TYPE_CHECKING:
    from tests.support.command_line import CommandLine

ALIVE = {
    "model": "qwen",
    "phase": "ready",
    "adopted": False,
    "pid": 7001,
    "port": 40001,
    "in_flight": 0,
    "waiting": 0,
    "footprint": None,
    "gpus": [],
    "ttl_left_s": None,
    "phase_s": 3.0,
    "why": "it is used",
}


async def test_a_pipe_gets_one_picture(command_line: CommandLine) -> None:
    """The output has the active models, and why."""
    await command_line.type("load", "qwen")
    said = await command_line.type("top")

    head, row, *_ = said.out.splitlines()
    assert head.split()[-1] == "WHY"
    assert row.split()[:3] == ["qwen", "ready", "7001"]


def test_how_quickly_a_model_speaks_is_shown() -> None:
    """The rate is that of the last answer, if it reported tokens."""
    models = [{**ALIVE, "tokens_per_s": rate} for rate in (41.26, None)]

    assert [row[-2] for row in model_rows({"models": models})] == ["41.3", ""]


def test_a_narrow_terminal_gets_one_line_for_each_model() -> None:
    """Memory and reason are shortened; figures are not."""
    footprint = {"reserved": {"gpu0": 8 << 30}, "source": "measured", "estimated": None, "measured": {"gpu0": 8 << 30}}
    model = {**ALIVE, "footprint": footprint, "tokens_per_s": 41.26, "why": "loaded for a request " * 10}
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(drawn(Server("http://here"), {"models": [model], "waiting": []}))
    _, _, head, row, *more = console.export_text().splitlines()

    assert "TTL LEFT" in head
    assert row.split()[:4] == ["qwen", "ready", "7001", "40001"]
    assert "41.3" in row
    assert row.endswith("…")
    assert not more


def test_who_waits_is_drawn_with_the_reason() -> None:
    """Escape sequences in a client's name do not reach the terminal."""
    ticket = {"ticket": 7, "model": "qwen", "client": "\x1b[31mme", "waited_s": 3.0, "why": "it is loading"}
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(drawn(Server("http://here"), {"models": [], "waiting": [ticket]}))

    shown = console.export_text()
    assert "0 of 0 models running, 1 requests waiting" in shown
    assert ["7", "qwen", "me", "3s", "it", "is", "loading"] in [line.split() for line in shown.splitlines()]
