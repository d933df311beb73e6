"""The errors of the command line, by exit code, and a question whose refusal is one. Usage errors (2) are typer's."""

from __future__ import annotations

import sys
from typing import ClassVar

from hotseat.cli.tables import without_escapes, without_escapes_but_lines

MISREAD = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What reading an answer leads to that has another form than hotseat's answers."""


class Problem(Exception):
    """One sentence for standard error, with the next step."""

    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        """Without terminal escapes: it may quote a server, a client or a file."""
        return without_escapes_but_lines(super().__str__())


class BadConfig(Problem):
    exit_code = 3


class Unreachable(Problem):
    exit_code = 4


class NothingListens(Unreachable):
    """The connection was refused: no server runs at this address."""


def confirm(question: str, refused: str) -> None:
    """Return after a yes; Problem `refused` after anything else, or if nobody can be asked."""
    if not sys.stdin.isatty():
        raise Problem(f"there is no terminal to ask at, so {refused}; --yes answers yes")
    if input(without_escapes(f"{question} [y/N] ")).strip().lower() not in ("y", "yes"):
        raise Problem(refused)
