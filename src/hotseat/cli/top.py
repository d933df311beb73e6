"""`hotseat top`: models and queue, redrawn at every event and once a second; q quits."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from hotseat.cli.problems import Problem
from hotseat.cli.queries import ALIVE, alive_row, is_alive
from hotseat.cli.tables import NOTHING, duration, table, without_escapes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from hotseat.cli.client import Server

EVERY_S = 1.0
QUIT = b"qQ\x04"
"""Also Ctrl-D, which a terminal in this mode passes through."""
MODELS = (*ALIVE, "TOKENS/S", "WHY")
LINE = ("REQUEST", "MODEL", "CLIENT", "WAITED", "WHY")
LONG = ("MEMORY", "WHY")
"""Columns that are shortened where the terminal is narrow."""


def top(server: Server) -> None:
    """Redraw on a terminal; elsewhere print once."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        return watch(server)
    seen = snapshot(server)
    print(table(MODELS, model_rows(seen)))
    if seen["waiting"]:
        print("\n" + table(LINE, line_rows(seen)))
    return None


def snapshot(server: Server) -> dict[str, Any]:
    models = server.ask("GET", "/hotseat/models")["models"]
    return {"models": models, **server.ask("GET", "/hotseat/queue")}


def model_rows(seen: dict[str, Any]) -> list[tuple[str, ...]]:
    return [(*alive_row(model), rate_of(model), model["why"]) for model in seen["models"] if is_alive(model)]


def rate_of(model: dict[str, Any]) -> str:
    """Tokens per second of the last answer; empty if it did not report tokens."""
    rate = model["tokens_per_s"]
    return "" if rate is None else f"{rate:.1f}"


def line_rows(seen: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (str(ticket["ticket"]), ticket["model"], ticket["client"], duration(ticket["waited_s"]), ticket["why"])
        for ticket in seen["waiting"]
    ]


# Live


def watch(server: Server) -> None:
    from rich.live import Live

    seen = snapshot(server)
    with (
        suppress(KeyboardInterrupt),
        keys_at_once(),
        Wakeup(server) as bell,
        Live(drawn(server, seen), screen=True, auto_refresh=False) as live,
    ):
        live.refresh()
        while bell.wait(EVERY_S):
            live.update(drawn(server, snapshot(server)), refresh=True)


def drawn(server: Server, seen: dict[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    alive = sum(is_alive(model) for model in seen["models"])
    models, waiting = len(seen["models"]), len(seen["waiting"])
    head = f"{server.url}  {alive} of {models} models running, {waiting} requests waiting  (q quits)"
    parts: list[RenderableType] = [Text(head, style="bold"), Text(), _grid(MODELS, model_rows(seen))]
    if seen["waiting"]:
        parts += [Text(), _grid(LINE, line_rows(seen))]
    return Group(*parts)


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for name in head:
        grid.add_column(name, no_wrap=name not in LONG)
    for row in rows:
        cells = (without_escapes(cell) or NOTHING for cell in row)
        grid.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in cells))
    return grid


@contextmanager
def keys_at_once() -> Iterator[None]:
    """Deliver keys as they are pressed, without echo; restores the terminal at the end."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


class Wakeup:
    """Wakes `wait` when the server reports an event."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._woken, self._waker = os.pipe()

    def __enter__(self) -> Wakeup:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._woken)

    def _listen(self) -> None:
        try:
            for _ in self._server.follow("/hotseat/events"):
                os.write(self._waker, b".")
        except (Problem, OSError):  # the server is gone, or the display was closed
            return

    def wait(self, seconds: float) -> bool:
        """Return after an event or so many seconds; False if the user pressed a quit key."""
        ready, _, _ = select.select([sys.stdin, self._woken], [], [], seconds)
        if self._woken in ready:
            os.read(self._woken, 4096)
        return not (sys.stdin in ready and any(key in QUIT for key in os.read(sys.stdin.fileno(), 64)))
