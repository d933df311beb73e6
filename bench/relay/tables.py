"""The tables of the report: their columns, the format of a figure, and the conditions of a run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.relay.figures import BARE, Figures, Sample, Verdict, spread, verdicts
from bench.relay.measure import Work
from bench.relay.proxies import PROXIES
from bench.relay.pythons import hotseat, python_version, version_in
from bench.report import Rows, machine, server_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.relay.figures import Figure
    from bench.relay.processes import Share

TITLES = {BARE: "bare model server", **{proxy.name: proxy.title for proxy in PROXIES.values()}}


@dataclass(frozen=True, slots=True)
class Record:
    date: str
    machine: str
    versions: dict[str, str]
    rounds: int
    seconds: float
    samples: list[Sample]
    stolen: float | None = None
    """The share of the machine's time that the hypervisor gave to others meanwhile."""
    used_by_others: float | None = None
    """The share that other programs on the machine used."""

    def cells(self) -> list[str]:
        return list(dict.fromkeys(sample.cell for sample in self.samples))


def recorded(samples: list[Sample], names: Iterable[str], rounds: int, share: Share) -> Record:
    date = time.strftime("%Y-%m-%d")
    shares = share.stolen(), share.used_by_others()
    took_part = versions(names, has_llama=any(sample.cell.startswith(Work.LLAMA.value) for sample in samples))
    return Record(date, machine(), took_part, rounds, share.seconds(), samples, *shares)


def versions(names: Iterable[str], *, has_llama: bool) -> dict[str, str]:
    """Of everything that took part."""
    found = {name: PROXIES[name].version() for name in names}
    found |= {
        "CPython": python_version(),
        **{name: version_in(hotseat(), name) for name in ("uvloop", "httptools", "msgspec")},
    }
    if has_llama:
        found["llama-server"] = server_version().removeprefix("llama-server ")
    return found


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
    columns: tuple[Column, ...]

    def rows(self, figures: Figures, titles: Mapping[str, str]) -> Rows:
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
        (
            Column("CPU-µs, 100 KB", "upload-100KB-16", "cpu_us"),
            Column("requests/s, 100 KB", "upload-100KB-16", "per_s"),
            Column("CPU-ms, 10 MB", "upload-10MB-2", "cpu_us", 1e-3, 1),
            Column("requests/s, 10 MB", "upload-10MB-2", "per_s", digits=1),
        ),
    ),
    Table(
        "Streams",
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
        (
            Column("idle", "streams-memory-1000", "base_mb", digits=1),
            Column("1,000 streams", "streams-memory-1000", "mb_per_1000", digits=1),
            Column("1,000 idle connections", "idle-memory-1000", "mb_per_1000", digits=1),
        ),
    ),
    Table(
        "A real llama-server",
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


def report_tables(record: Record) -> dict[str, Rows]:
    """By their headings on the page."""
    figures = Figures(record.samples)
    promises = promise_rows(verdicts(figures, record.cells()))
    return {**{table.title: table.rows(figures, TITLES) for table in TABLES}, "Targets": promises}


def promise_rows(found: Sequence[Verdict]) -> Rows:
    head = ["figure of hotseat", "target", "measured", ""]
    return [head, *(promise_row(verdict) for verdict in found)]


def promise_row(verdict: Verdict) -> list[str]:
    bound = verdict.bound
    promise = f"{bound.side.value} {bound.limit:g}{' × ' + TITLES[bound.of] if bound.of else ''}"
    measured = "–" if verdict.measured is None else spread(verdict.measured)
    return [bound.what, promise, measured, verdict.outcome.value]


def conditions(record: Record) -> list[str]:
    versions = ", ".join(f"{name} {number}" for name, number in record.versions.items())
    rounds = f"{record.rounds} round{'s' if record.rounds > 1 else ''}, {record.seconds / 60:.0f} min"
    stolen = "" if record.stolen is None else f"; {100 * record.stolen:.0f} % of its time went to other machines"
    used = "" if record.used_by_others is None else f", {100 * record.used_by_others:.0f} % to other programs"
    return [f"{record.date}, {rounds}", f"{record.machine}{stolen}{used}", versions]
