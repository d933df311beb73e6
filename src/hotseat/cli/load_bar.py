"""Loads a model with a progress bar: what its server has read, how long it usually takes, or why it waits."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from hotseat.cli.client import in_path, message_of
from hotseat.cli.tables import duration, without_escapes

if TYPE_CHECKING:
    from hotseat.cli.client import Server

LOOK_S = 0.2


def load_with_bar(server: Server, model: str) -> str:
    """The server's message when the model is ready; raises its error otherwise. Ctrl-C stops waiting."""
    loaded: Future[str] = Future()
    # A daemon: Ctrl-C does not wait for it.
    threading.Thread(target=_load, args=(server, model, loaded), daemon=True).start()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(model), total=None)
        while not wait([loaded], LOOK_S).done:
            share, what = progress_text(server.ask("GET", f"/hotseat/models/{in_path(model)}"))
            progress.update(task, total=None if share is None else 1.0, completed=share or 0.0)
            progress.update(task, description=escape(without_escapes(f"{model}: {what}")))
    return loaded.result()


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


def _load(server: Server, model: str, loaded: Future[str]) -> None:
    try:
        loaded.set_result(message_of(server.wait("GET", f"/upstream/{in_path(model)}/load")))
    except BaseException as problem:
        loaded.set_exception(problem)
