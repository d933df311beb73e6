"""What benchmarks report: tables for the terminal and for a page of docs/reference, promises, and the machine."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, TypeAlias

from tests.support.llama import SERVER, present

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Rows: TypeAlias = list[list[str]]
"""The head, then the body."""

PAGES = Path(__file__).parents[1] / "docs/reference"


@dataclass(frozen=True, slots=True)
class Verdict:
    promise: str
    allowed: str
    measured: str
    holds: bool

    def __str__(self) -> str:
        return f"{'met' if self.holds else 'MISSED'}: {self.promise}: {self.measured}, allowed {self.allowed}"


def promise_rows(verdicts: Iterable[Verdict]) -> Rows:
    body = [[each.promise, each.allowed, each.measured, "met" if each.holds else "missed"] for each in verdicts]
    return [["target", "allowed", "measured", ""], *body]


def plain(rows: Rows) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def markdown(rows: Rows) -> str:
    head, *body = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *body])


def show(tables: Mapping[str, Rows]) -> None:
    """On the terminal, those that are not empty."""
    for heading, rows in tables.items():
        if rows:
            print(f"\n{heading}\n\n{plain(rows)}")


def write(page: str, tables: Mapping[str, Rows], conditions: Iterable[str] = ()) -> None:
    """Replace the first table below each of these headings of a page, and the list below "Conditions".

    A table whose heading the page does not have is added at its end, so that nothing measured is lost.
    """
    file = PAGES / page
    text = file.read_text()
    for heading, rows in tables.items():
        if rows and not re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE):
            text += f"\n## {heading}\n\n{markdown(rows)}\n"
        elif rows:
            text = replaced(text, heading, r"\|[^\n]*\n(?:\|[^\n]*\n?)*", markdown(rows) + "\n")
    if listed := "".join(f"- {each}\n" for each in conditions):
        text = replaced(text, "Conditions", r"- [^\n]*\n(?:- [^\n]*\n?)*", listed)
    file.write_text(text)


def replaced(text: str, heading: str, pattern: str, by: str) -> str:
    """The first match below the heading and above the next one."""
    begin = re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE)
    if begin is None:
        raise SystemExit(f"the page has no heading {heading!r}")
    end = re.compile(r"^#", re.MULTILINE).search(text, begin.end())
    found = re.compile(rf"^{pattern}", re.MULTILINE).search(text, begin.end(), end.start() if end else len(text))
    if found is None:
        raise SystemExit(f"there is nothing to replace below the heading {heading!r}")
    return text[: found.start()] + by + text[found.end() :]


def machine() -> str:
    """Processor, cores, memory and kernel."""
    processor = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    name = processor[1] if processor else "unknown processor"
    return f"{name}, {os.cpu_count()} cores, {memory:.0f} GB, Linux {os.uname().release}"


def server_version() -> str:
    said = subprocess.run([present(SERVER), "--version"], capture_output=True, text=True, check=True)
    return (said.stdout + said.stderr).splitlines()[0].replace("version:", "llama-server")


def ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f}" if seconds < 0.1 else f"{seconds * 1000:,.0f}"


def spread(seconds: Sequence[float]) -> str:
    """From the tenth to the ninetieth percentile, in milliseconds."""
    deciles = quantiles(seconds, n=10, method="inclusive") if len(seconds) > 1 else seconds
    return f"{ms(deciles[0])}–{ms(deciles[-1])}"
