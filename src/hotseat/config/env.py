"""`${env.NAME}` is replaced in the text itself, before YAML sees it, so that it works everywhere, flow lists included.

Columns of later complaints still refer to the text as its author wrote it: `Substituted.original` leads back.
"""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ENV = re.compile(r"\$\{env\.([A-Za-z_][A-Za-z0-9_]*)\}")
_LINE_BREAK = re.compile("[\n\r\0\x85\u2028\u2029]")  # what YAML takes for one, and NUL
_COMMENT_LINE = re.compile(r"^[ \t]*#.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Replacement:
    """One occurrence: what stood at `was`, in the old text, stands at `start` to `end` in the new one."""

    name: str
    was: tuple[int, int]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Problem:
    name: str
    index: int
    """Where in the original text."""
    message: str
    hint: str


@dataclass(frozen=True)
class Substituted:
    text: str
    replacements: tuple[Replacement, ...] = ()
    problems: tuple[Problem, ...] = ()

    def original(self, index: int) -> int:
        """The place in the author's text of a place in ours."""
        before = bisect_right(self.replacements, index, key=lambda r: r.start)
        if not before:
            return index
        last = self.replacements[before - 1]
        return last.was[0] if index < last.end else index - last.end + last.was[1]

    def holder_of(self, index: int) -> str:
        """The variable whose value stands at a place of our text; empty where the author's own words do."""
        before = bisect_right(self.replacements, index, key=lambda r: r.start)
        last = self.replacements[before - 1] if before else None
        return last.name if last and index <= last.end else ""

    def names_within(self, start: int, end: int) -> frozenset[str]:
        """The variables whose values stand between two places of our text."""
        return frozenset(r.name for r in self.replacements if start <= r.start < end)


def substitute(text: str, environ: Mapping[str, str]) -> Substituted:
    """Fill every `${env.NAME}` that is not in a comment; what cannot be filled becomes a problem."""
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
    """A value as it stands in the text."""
    # The usual place is a double-quoted string; a command line undoes the same escapes when it is split.
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _occurrences(text: str) -> Iterator[re.Match[str]]:
    """The occurrences that are part of a value: those in YAML comments and comment lines of commands are not."""
    if not _ENV.search(text):
        return
    values, notes = _scalars(text), [line.span() for line in _COMMENT_LINE.finditer(text)]
    for found in _ENV.finditer(text):
        if _covered(found.start(), values) and not _covered(found.start(), notes):
            yield found


def _scalars(text: str) -> list[tuple[int, int]]:
    """Where the scalars of a YAML text are, up to its first syntax error (which the parser will report)."""
    # Words of the same length stand in for the occurrences: their braces would be YAML in flow lists.
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
