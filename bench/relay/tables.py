"""The tables of the report: their columns, and the format of a figure. Pure; page.py makes the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.relay.figures import Figure, Figures

ABSENT = "–"


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    cell: str
    measure: str
    scale: float = 1.0
    digits: int = 0

    def text(self, figure: Figure | None) -> str:
        """Median and spread; the median alone if there was one round."""
        if figure is None:
            return ABSENT
        median, low, high = (
            f"{value * self.scale:,.{self.digits}f}" for value in (figure.median, figure.low, figure.high)
        )
        return median if figure.low == figure.high else f"{median} [{low}–{high}]"


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    about: str
    columns: tuple[Column, ...]

    def rows(self, figures: Figures, titles: Mapping[str, str]) -> list[list[str]]:
        """Head and body; proxies in the order of `titles`, without empty columns."""
        present = [column for column in self.columns if column.cell in figures.cells()]
        names = [name for name in titles if any(figures.get(name, column.cell, column.measure) for column in present)]
        body = [
            [titles[name], *(column.text(figures.get(name, column.cell, column.measure)) for column in present)]
            for name in names
        ]
        return [["", *(column.title for column in present)], *body] if body else []


TABLES = (
    Table(
        "Requests",
        "1 KB to the model server and 1 KB back, over kept-alive connections.",
        (
            Column("CPU-µs, 1 connection", "unary-1", "cpu_us"),
            Column("16 connections", "unary-16", "cpu_us"),
            Column("128 connections", "unary-128", "cpu_us"),
            Column("requests/s, 16", "unary-16", "per_s"),
            Column("p50 added µs, 1", "unary-1", "p50_added_us"),
            Column("p99 added µs, 1", "unary-1", "p99_added_us"),
        ),
    ),
    Table(
        "Large requests",
        "100 KB over 16 connections and 10 MB over two, 1 KB back.",
        (
            Column("CPU-µs, 100 KB", "upload-100KB-16", "cpu_us"),
            Column("requests/s, 100 KB", "upload-100KB-16", "per_s"),
            Column("CPU-ms, 10 MB", "upload-10MB-2", "cpu_us", 1e-3, 1),
            Column("requests/s, 10 MB", "upload-10MB-2", "per_s", digits=1),
        ),
    ),
    Table(
        "Streams",
        "Server-sent events, 50 chunks a second in every stream. "
        "A proxy that does not keep up merges chunks, which lowers its CPU time: compare the delivered rate too.",
        (
            Column("CPU-µs per chunk, 100 streams", "sse-100", "cpu_us", digits=1),
            Column("500 streams", "sse-500", "cpu_us", digits=1),
            Column("2,000 streams", "sse-2000", "cpu_us", digits=1),
            Column("chunks/s, 2,000", "sse-2000", "per_s"),
            Column("p50 added µs, 100", "sse-100", "p50_added_us"),
            Column("p99 added µs, 100", "sse-100", "p99_added_us"),
            Column("streams without a chunk, 2,000", "sse-2000", "starved"),
        ),
    ),
    Table(
        "Memory",
        "PSS of a fresh process in MB: idle, added by 1,000 streams (a chunk a second), by 1,000 idle connections.",
        (
            Column("idle", "streams-memory-1000", "base_mb", digits=1),
            Column("1,000 streams", "streams-memory-1000", "mb_per_1000", digits=1),
            Column("1,000 idle connections", "idle-memory-1000", "mb_per_1000", digits=1),
        ),
    ),
    Table(
        "A real llama-server",
        "One token from a tiny model, so that the proxy's share is as large as possible; nothing is pinned to a core.",
        (
            Column("requests/s, 8 connections", "llama-8", "per_s"),
            Column("% of bare", "llama-8", "share_of_bare", 100.0),
            Column("CPU-µs, 8", "llama-8", "cpu_us"),
            Column("requests/s, 1 connection", "llama-1", "per_s"),
            Column("p50 added µs, 1", "llama-1", "p50_added_us"),
            Column("p99 added µs, 1", "llama-1", "p99_added_us"),
        ),
    ),
)


def plain(rows: Sequence[Sequence[str]]) -> str:
    """For a terminal."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)
