"""Loads a model with a progress bar: what its server has read, how long it usually takes, or why it waits."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from hotseat.cli.client import in_path
from hotseat.cli.problems import Problem
from hotseat.cli.tables import duration, without_escapes

if TYPE_CHECKING:
    from hotseat.cli.client import Server

LOOK_S = 0.2


def load_with_bar(server: Server, model: str) -> str:
    """The server's message when the model is ready; raises its error otherwise. Ctrl-C stops waiting."""
    loading = _Loading(server, model)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(model), total=None)
        while (said := loading.outcome(within=LOOK_S)) is None:
            share, what = progress_text(server.ask("GET", f"/hotseat/models/{in_path(model)}"))
            progress.update(task, total=None if share is None else 1.0, completed=share or 0.0)
            progress.update(task, description=escape(without_escapes(f"{model}: {what}")))
    return said


def progress_text(model: dict[str, Any]) -> tuple[float | None, str]:
    """Progress from 0 to 1, or None if unknown, and what the model is doing."""
    if model["phase"] != "loading":
        return None, model["why"] or model["phase"]
    usual, share, so_far = model["load_s"], model["progress"], model["phase_s"]
    usually, is_late = "", bool(usual) and so_far > usual
    if usual:
        usually = f", longer than the usual {duration(usual)}" if is_late else f", usually {duration(usual)} in total"
    if share is not None and share < 1:
        return share, f"reading{usually}"
    if usual:
        return None if is_late else so_far / usual, f"{'warming up' if share else 'loading'}{usually}"
    return None, "read, warming up" if share else "loading"


class _Loading:
    """Sends the load request in a daemon thread, so that Ctrl-C does not wait for it."""

    def __init__(self, server: Server, model: str) -> None:
        self._outcome: queue.Queue[str | Problem] = queue.Queue()
        threading.Thread(target=self._load, args=(server, model), daemon=True).start()

    def _load(self, server: Server, model: str) -> None:
        try:
            self._outcome.put(server.wait("GET", f"/upstream/{in_path(model)}/load")["message"])
        except Problem as problem:
            self._outcome.put(problem)

    def outcome(self, within: float) -> str | None:
        """None while the model is still loading."""
        try:
            outcome = self._outcome.get(timeout=within)
        except queue.Empty:
            return None
        if isinstance(outcome, Problem):
            raise outcome
        return outcome
