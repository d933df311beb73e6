"""docs/reference/applications.md: the results as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clients.applications.steps import MANAGEMENT, STEPS
from clients.page import cell, heading
from clients.rig import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clients.applications.application_list import Application

COLUMNS = (*STEPS, *MANAGEMENT)
PAGE = REPOSITORY / "docs/reference/applications.md"
INTRODUCTION = """\
# Applications

<!-- Written by `just applications`; do not edit. -->

Each application was installed in this version and run without a person, without an account and in a home of its own.
It was connected to hotseat with two models, of which one runs at a time.
The models are scripted: they say and call what the question tells them to.
Its proxy settings kept it from other hosts.
"""
LEGEND = """\
✓ means that the application does what is described; a number refers to a note on what it does instead, with any server.
– means that the application has no command for it.
The tool call is a command in a shell; for aider it is an edit of a file, and for Open WebUI a call of a Python tool."""


def page(applications: Sequence[Application]) -> str:
    """The page of applications that all did as listed."""
    meanings = [f"- **{heading(step.__name__)}**: {step.__doc__}" for step in COLUMNS]
    notes: list[str] = []
    lines = table(applications, notes)
    numbered = [f"{number}. {note}" for number, note in enumerate(notes, start=1)]
    return "\n".join([INTRODUCTION, *meanings, "", LEGEND, "", *lines, "", *numbered]).rstrip() + "\n"


def table(applications: Sequence[Application], notes: list[str]) -> list[str]:
    head = ["application", "version", "connection", *(heading(step.__name__) for step in COLUMNS)]
    body = [[it.name, it.version, it.connection, *cells(it, notes)] for it in applications]
    return ["| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *body]]


def cells(application: Application, notes: list[str]) -> list[str]:
    limits, steps = application.limits, application.steps
    return [cell(limits.get(step.__name__), notes) if step in steps else "–" for step in COLUMNS]
