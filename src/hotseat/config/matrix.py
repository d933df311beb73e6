"""Expands the expressions of a matrix, such as `coder & (embed | rerank)`, into sets of models.

`&` means together, `|` means either, `+name` refers to another set. An expression allows a list of alternative sets.
"""

from __future__ import annotations

import re
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from hotseat.catalog.groups import Matrix
from hotseat.config.problems import nearest
from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hotseat.config.model_schema import MatrixForm
    from hotseat.config.problems import Path, Problems

MOST_SETS = 10_000
"""Alternatives multiply: `(a | b) & (c | d)` is four sets."""
DEEPEST = 50
NEVER_CHOSEN = 1_000_000_000
"""The cost of stopping a pinned model: higher than any sum of others."""

_TOKEN = re.compile(r"\s*(?:(?P<sign>[&|()])|(?P<name>\+?[\w.-]+))")
_SHORT_NAME = re.compile(r"[A-Za-z0-9.-]{1,32}")

Alternatives: TypeAlias = list[tuple[ModelName, ...]]


class MatrixMaker:
    """`names` are all models in the file, including invalid ones, so that one mistake gives one error."""

    def __init__(self, form: MatrixForm, names: Collection[str], path: Path, problems: Problems) -> None:
        self._form = form
        self._names = names
        self._path = path
        self._problems = problems
        self._known: dict[str, Alternatives] = {}
        self._open: list[str] = []

    def matrix(self, pinned: Collection[ModelName]) -> Matrix:
        self._check_vars()
        if not self._form.sets:
            self._problems.error((*self._path, "sets"), "at least one set is needed", "Write name: a & b")
        sets = dict.fromkeys(members for name in self._form.sets for members in self._alternatives(name))
        costs = {**self._costs(), **dict.fromkeys(pinned, NEVER_CHOSEN)}
        return Matrix(tuple(sets), MappingProxyType(costs))

    # Names

    def _check_vars(self) -> None:
        for short, name in self._form.vars.items():
            path = (*self._path, "vars", short)
            if not _SHORT_NAME.fullmatch(short):
                self._problems.error(path, "a short name has 1 to 32 letters, digits, dots and hyphens")
            if name not in self._names:
                self._problems.error(path, f'no model is called "{name}"', nearest(name, self._names))

    def _costs(self) -> dict[ModelName, int]:
        costs = {}
        for name, cost in self._form.evict_costs.items():
            if (model := self._model(name)) is not None:
                costs[model] = cost
            else:
                self._problems.error((*self._path, "evict_costs", name), *self._unknown(name))
        return costs

    def _model(self, name: str) -> ModelName | None:
        """The model of a short name, which takes precedence, or of a model's own name; never of an alias."""
        found = self._form.vars.get(name, name)
        return ModelName(found) if found in self._names or name in self._form.vars else None

    def _unknown(self, name: str) -> tuple[str, str]:
        return f'no model and no var is called "{name}"', nearest(name, [*self._form.vars, *self._names])

    # Sets

    def _alternatives(self, name: str) -> Alternatives:
        if name not in self._known:
            self._open.append(name)
            self._known[name] = self._read(name)
            self._open.pop()
        return self._known[name]

    def _read(self, name: str) -> Alternatives:
        try:
            return Expression(self._form.sets[name], self._leaf).alternatives()
        except ValueError as problem:
            self._problems.error((*self._path, "sets", name), *problem.args)
            return []

    def _leaf(self, name: str) -> Alternatives:
        if name.startswith("+"):
            return self._other_set(name.removeprefix("+"))
        if (model := self._model(name)) is None:
            raise ValueError(*self._unknown(name))
        return [(model,)]

    def _other_set(self, name: str) -> Alternatives:
        if name not in self._form.sets:
            raise ValueError(f'no set is called "{name}"', nearest(name, self._form.sets))
        if name in self._open:
            raise ValueError(f"the sets {' → '.join([*self._open, name])} form a cycle")
        return self._alternatives(name)


class Expression:
    """Parses one expression from left to right; `&` binds more tightly than `|`."""

    def __init__(self, text: str, leaf: Callable[[str], Alternatives]) -> None:
        self._tokens = _tokens(text)
        self._leaf = leaf
        self._depth = 0

    def alternatives(self) -> Alternatives:
        """Every set that the expression allows; ValueError says what is wrong with it."""
        found = self._either()
        if self._tokens:
            raise ValueError(f'"{self._tokens[0]}" is unexpected here', "Join names with & or |")
        return found

    def _either(self) -> Alternatives:
        found = self._together()
        while self._take("|"):
            found = _few(dict.fromkeys([*found, *self._together()]))
        return found

    def _together(self) -> Alternatives:
        found = self._single()
        while self._take("&"):
            found = _few(dict.fromkeys(_union(a, b) for a, b in product(found, self._single())))
        return found

    def _single(self) -> Alternatives:
        if self._take("("):
            return self._in_brackets()
        if not self._tokens or self._tokens[0] in ("&", "|", ")"):
            where = f'before "{self._tokens[0]}"' if self._tokens else "at the end"
            raise ValueError(f"a name is missing {where}")
        return self._leaf(self._tokens.pop(0))

    def _in_brackets(self) -> Alternatives:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} nested brackets")
        found = self._either()
        if not self._take(")"):
            raise ValueError('a ")" is missing')
        self._depth -= 1
        return found

    def _take(self, sign: str) -> bool:
        if not self._tokens or self._tokens[0] != sign:
            return False
        del self._tokens[0]
        return True


def _tokens(text: str) -> list[str]:
    tokens, end = [], 0
    while match := _TOKEN.match(text, end):
        tokens.append(match["sign"] or match["name"])
        end = match.end()
    if rest := text[end:].strip():
        raise ValueError(f'"{rest[0]}" cannot be used in an expression', "Give the model a short name under vars")
    return tokens


def _union(some: tuple[ModelName, ...], others: tuple[ModelName, ...]) -> tuple[ModelName, ...]:
    return tuple(dict.fromkeys((*some, *others)))


def _few(sets: dict[tuple[ModelName, ...], None]) -> Alternatives:
    if len(sets) > MOST_SETS:
        raise ValueError(f"the expression allows more than {MOST_SETS:,} sets")
    return list(sets)
