"""`${env.NAME}`: substituted in the text of a file, and shown again in the place of every value that was made from it.

It is substituted before YAML parses the text, so that it works everywhere, flow lists included. `Substituted.original`
maps positions back, so that errors give columns of the text as its author wrote it.

A value of the environment is hidden at its own place however short it is, and everywhere else if it is long enough to
be a secret. An absolute path that exists and the name of a program are not secrets: whoever reads a log needs to see
where `${env.HOME}/models` is.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
from bisect import bisect_right
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml
from msgspec import Struct

from hotseat.catalog.redaction import HIDDEN, without_url_passwords
from hotseat.catalog.template import as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.config.problems import Path

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


Place: TypeAlias = tuple[str | int, ...]
"""Where a value is shown: a key of a model, or a key of the whole file."""

SHORTEST_WORD = 4
"""Shorter values are hidden as whole words only: not every 1 in a command line came from the variable."""
SHORTEST_ANYWHERE = 8
"""Shorter values are hidden at their own place only."""
FREE_FORM = ("filters", "metadata")
"""Keys under which a number or a boolean may be anything, a secret included."""


class Concealed:
    """Replaces values of the environment in texts by the names of their variables."""

    def __init__(self, values: Mapping[str, str], by_place: Mapping[Place, frozenset[str]] | None = None) -> None:
        self._values = {name: value for name, value in values.items() if value and not _is_known_here(value)}
        self._by_place = by_place or {}
        self._names = {form.lower(): name for name, value in self._values.items() for form in _forms(value)}
        self._anywhere = _pattern(form for form in self._names if len(form) >= SHORTEST_ANYWHERE)
        self._patterns: dict[Place, re.Pattern[str] | None] = {}

    @staticmethod
    def place_of(path: Path) -> Place:
        return path[: 3 if path[:1] == ("models",) else 1]

    @property
    def long_values(self) -> tuple[str, ...]:
        """The values, and words of them, that are too long to occur elsewhere by chance; longest first."""
        forms = {form for value in self._values.values() for form in _forms(value) if len(form) >= SHORTEST_ANYWHERE}
        return tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def values_at(self, place: Place) -> tuple[str, ...]:
        return tuple(self._values[name] for name in sorted(self._by_place.get(place, ())) if name in self._values)

    def text(self, text: str, place: Place = ()) -> str:
        for pattern in (self._pattern_at(place), self._anywhere):
            text = pattern.sub(self._named, text) if pattern else text
        return text

    def _named(self, found: re.Match[str]) -> str:
        """The `${env.NAME}` of a match."""
        name = self._names.get(found[0].lower())  # None: re.IGNORECASE matches more than lower()
        return f"${{env.{name}}}" if name else HIDDEN

    def tree(self, value: Any, place: Place, *, is_free: bool = False) -> Any:
        """A nested value without values of the environment; mapping keys stay."""
        if isinstance(value, dict):
            return {key: self.tree(member, place, is_free=is_free) for key, member in value.items()}
        if isinstance(value, list):
            return [self.tree(item, place, is_free=is_free) for item in value]
        if isinstance(value, str):
            return self.text(without_url_passwords(value), place)
        return self.text(as_text(value), place) if is_free and as_text(value) in self.values_at(place) else value

    def _pattern_at(self, place: Place) -> re.Pattern[str] | None:
        if place not in self._patterns:
            self._patterns[place] = _pattern(form for value in self.values_at(place) for form in _forms(value))
        return self._patterns[place]


def _is_known_here(value: str) -> bool:
    """Whether the value names a file or a program of this machine, and so is not a secret."""
    return (os.path.isabs(value) and os.path.exists(value)) or shutil.which(value) is not None


def _forms(value: str) -> Iterator[str]:
    """The forms of a value in a text: as it is, escaped, and split into words as in a command line."""
    yield value
    yield escaped(value)
    words: list[str] = []
    for text in (value, escaped(value)):
        words += text.split()
        with suppress(ValueError):  # an unclosed quote
            words += shlex.split(text)
    yield from (word for word in words if len(word) >= SHORTEST_WORD and not word.startswith("-"))


def _pattern(forms: Iterable[str]) -> re.Pattern[str] | None:
    # Host names are stored in lower case, so matching ignores case.
    longest_first = sorted(set(forms), key=len, reverse=True)
    return re.compile("|".join(map(_found_by, longest_first)), re.IGNORECASE) if longest_first else None


def _found_by(form: str) -> str:
    return re.escape(form) if len(form) >= SHORTEST_WORD else rf"(?<!\w){re.escape(form)}(?!\w)"


NOTHING_CONCEALED = Concealed({})


def with_secrets(catalog: Catalog, concealed: Concealed) -> Catalog:
    """The catalog with recipes that list the environment's values: server output may contain them and is redacted."""
    secrets = concealed.long_values
    if not secrets:
        return catalog
    models = {
        name: replace(spec, recipe=replace(spec.recipe, secrets=secrets)) for name, spec in catalog.models.items()
    }
    return replace(catalog, models=MappingProxyType(models))
