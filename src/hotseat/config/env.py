"""Substitutes `${env.NAME}` in the text before YAML parses it, so that it works everywhere, flow lists included.

`Substituted.original` maps positions back, so that errors give columns of the text as its author wrote it.
"""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_right
from typing import TYPE_CHECKING

import yaml
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ENV = re.compile(r"\$\{env\.([A-Za-z_][A-Za-z0-9_]*)\}")
_LINE_BREAK = re.compile("[\n\r\0\x85\u2028\u2029]")  # what YAML treats as a line break, and NUL
_COMMENT_LINE = re.compile(r"^[ \t]*#.*$", re.MULTILINE)


class Replacement(Struct, frozen=True):
    """One occurrence: `was` is its position in the original text, `start` to `end` its position in the new one."""

    name: str
    was: tuple[int, int]
    start: int
    end: int


class Problem(Struct, frozen=True):
    name: str
    index: int
    """Position in the original text."""
    message: str
    hint: str


class Substituted(Struct, frozen=True):
    text: str
    replacements: tuple[Replacement, ...] = ()
    problems: tuple[Problem, ...] = ()

    def original(self, index: int) -> int:
        """The position in the original text that corresponds to a position in the substituted text."""
        before = bisect_right(self.replacements, index, key=lambda r: r.start)
        if not before:
            return index
        last = self.replacements[before - 1]
        return last.was[0] if index < last.end else index - last.end + last.was[1]

    def holder_of(self, index: int) -> str:
        """The variable whose value is at this position of the substituted text; empty if the author wrote it."""
        before = bisect_right(self.replacements, index, key=lambda r: r.start)
        last = self.replacements[before - 1] if before else None
        return last.name if last and index <= last.end else ""

    def names_within(self, start: int, end: int) -> frozenset[str]:
        """The variables whose values are between two positions of the substituted text."""
        return frozenset(r.name for r in self.replacements if start <= r.start < end)


def substitute(text: str, environ: Mapping[str, str]) -> Substituted:
    """Substitute every `${env.NAME}` outside comments; each one that cannot be substituted becomes a problem."""
    parts: list[str] = []
    replacements: list[Replacement] = []
    problems: list[Problem] = []
    done = length = 0
    for found in _occurrences(text):
        name = found[1]
        value = environ.get(name)
        if problem := _problem(name, value):
            problems.append(Problem(name, found.start(), *problem))
        value = name if problem else escaped(value or "")
        parts += (text[done : found.start()], value)
        length += found.start() - done + len(value)
        done = found.end()
        replacements.append(Replacement(name, found.span(), length - len(value), length))
    return Substituted("".join((*parts, text[done:])), tuple(replacements), tuple(problems))


def _problem(name: str, value: str | None) -> tuple[str, str] | None:
    if value is None:
        return f"environment variable {name} is not set", f"Set {name} before starting hotseat"
    if _LINE_BREAK.search(value):
        return f"environment variable {name} contains a line break or a NUL", "It must be a single line"
    return None


def escaped(value: str) -> str:
    # The usual place is a double-quoted string; splitting a command line undoes the same escapes.
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _occurrences(text: str) -> Iterator[re.Match[str]]:
    """The occurrences within values: YAML comments and comment lines of commands do not count."""
    if not _ENV.search(text):
        return
    values, notes = _scalars(text), [line.span() for line in _COMMENT_LINE.finditer(text)]
    for found in _ENV.finditer(text):
        if _covered(found.start(), values) and not _covered(found.start(), notes):
            yield found


def _scalars(text: str) -> list[tuple[int, int]]:
    """The positions of the scalars of a YAML text, up to its first syntax error, which the parser will report."""
    # Words of the same length replace the occurrences, because their braces would be YAML syntax in flow lists.
    masked = _ENV.sub(lambda found: "x" * len(found[0]), text)
    spans: list[tuple[int, int]] = []
    with contextlib.suppress(yaml.YAMLError):
        spans.extend(
            (token.start_mark.index, token.end_mark.index)
            for token in yaml.scan(masked, yaml.SafeLoader)
            if isinstance(token, yaml.ScalarToken)
        )
    return spans


def _covered(index: int, spans: list[tuple[int, int]]) -> bool:
    before = bisect_right(spans, index, key=lambda span: span[0])
    return before > 0 and index < spans[before - 1][1]
