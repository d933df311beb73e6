"""A progress bar for downloads on a terminal; elsewhere only messages."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.cli.tables import without_escapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotseat.identifiers import Bytes


@dataclass(frozen=True, slots=True)
class DownloadBar:
    update: Callable[[Bytes], None]
    """Takes the number of bytes that are there."""
    say: Callable[[str], None]


def say(text: str) -> None:
    print(without_escapes(text), file=sys.stderr, flush=True)


@contextmanager
def download_bar(title: str, size: Bytes) -> Iterator[DownloadBar]:
    if not sys.stderr.isatty():
        yield DownloadBar(lambda _: None, say)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(without_escapes(title)), total=size)
        yield DownloadBar(
            lambda there: progress.update(task, completed=there),
            lambda text: progress.console.print(escape(without_escapes(text)), highlight=False),
        )
