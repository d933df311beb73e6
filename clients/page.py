"""docs/reference/clients.md: the matrix as a table, and what a client does instead where it lets its user down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clients.house import REPOSITORY
from clients.situations import SITUATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clients.matrix import Row

PAGE = REPOSITORY / "docs/reference/clients.md"
HEAD = """\
# Clients

<!-- Written by `just clients`; do not edit. -->

Each client, with its default settings, was put through each situation against hotseat and scripted model servers.
"""
LEGEND = "✓ means that it did; a number leads to what the client does instead, whoever serves it."


def page(rows: Sequence[Row]) -> str:
    meanings = [f"- **{heading(situation.__name__)}**: {situation.__doc__}" for situation in SITUATIONS]
    notes: list[str] = []
    lines = table(rows, notes)
    numbered = [f"{number}. {note}" for number, note in enumerate(notes, start=1)]
    return "\n".join([HEAD, *meanings, "", LEGEND, "", *lines, "", *numbered]).rstrip() + "\n"


def table(rows: Sequence[Row], notes: list[str]) -> list[str]:
    """The lines of the table; what its numbers stand for is added to the notes."""
    head = ["client", "version", *(heading(situation.__name__) for situation in SITUATIONS)]
    body = [[row.client.name, row.version, *cells(row, notes)] for row in rows]
    return ["| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *body]]


def cells(row: Row, notes: list[str]) -> list[str]:
    return [cell(row.client.limits.get(situation.__name__), notes) for situation in SITUATIONS]


def cell(limit: str | None, notes: list[str]) -> str:
    if limit is None:
        return "✓"
    if limit not in notes:
        notes.append(limit)
    return f"({notes.index(limit) + 1})"


def heading(name: str) -> str:
    return name.replace("_", " ")
