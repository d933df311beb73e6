"""docs/reference/clients.md: the results as a table, and what each client does where it fails its user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clients.rig import REPOSITORY, SPEED
from clients.situations import SITUATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clients.matrix import Row

PAGE = REPOSITORY / "docs/reference/clients.md"
HEAD = f"""\
# Clients

<!-- Written by `just clients`; do not edit. -->

Each client was tested with its default settings in each situation, against hotseat and scripted model servers.
Situations that last minutes run {SPEED} times as fast: the load, the client's limit and hotseat's comments.
"""
LEGEND = """\
✓ means that the client behaves as described; a number refers to a note on what it does instead, with any server.
The limit is how long the client waits for the next byte by default.
How long clients and agents ask for a model that cannot start is in [retries](retries.md)."""


def page(rows: Sequence[Row]) -> str:
    meanings = [f"- **{heading(situation.__name__)}**: {situation.__doc__}" for situation in SITUATIONS]
    notes: list[str] = []
    lines = table(rows, notes)
    numbered = [f"{number}. {note}" for number, note in enumerate(notes, start=1)]
    return "\n".join([HEAD, *meanings, "", LEGEND, "", *lines, "", *numbered]).rstrip() + "\n"


def table(rows: Sequence[Row], notes: list[str]) -> list[str]:
    """The lines of the table; adds the texts of its numbers to the notes."""
    head = ["client", "version", "limit", *(heading(situation.__name__) for situation in SITUATIONS)]
    body = [[row.client.name, row.version, limit(row), *cells(row, notes)] for row in rows]
    return ["| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *body]]


def limit(row: Row) -> str:
    return "none" if row.limit_s is None else f"{row.limit_s:g} s"


def cells(row: Row, notes: list[str]) -> list[str]:
    return [cell(row.client.limits.get(situation.__name__), notes) for situation in SITUATIONS]


def cell(note: str | None, notes: list[str]) -> str:
    if note is None:
        return "✓"
    if note not in notes:
        notes.append(note)
    return f"({notes.index(note) + 1})"


def heading(name: str) -> str:
    return name.replace("_", " ")
