"""The errors of the command line, by exit code. Usage errors (2) come from typer."""

from __future__ import annotations

from typing import ClassVar

from hotseat.cli.tables import without_escapes_but_lines

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
