"""Asks a yes-or-no question at a terminal."""

from __future__ import annotations

import sys

from hotseat.cli.problems import Problem
from hotseat.cli.tables import without_escapes


def confirm(question: str, refused: str) -> None:
    """Return after a yes; Problem `refused` after anything else, or if nobody can be asked."""
    if not sys.stdin.isatty():
        raise Problem(f"there is no terminal to ask at, so {refused}; --yes answers yes")
    if input(without_escapes(f"{question} [y/N] ")).strip().lower() not in ("y", "yes"):
        raise Problem(refused)
