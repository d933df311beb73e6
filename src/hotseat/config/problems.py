"""Errors, warnings and notes about a configuration, each with its position and a suggested fix."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hotseat.errors import HotseatError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the top of the document to a value."""


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    """Nothing is wrong; shown on request."""


class Spot(Struct, frozen=True, order=True):
    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class ConfigProblem(Struct, frozen=True):
    severity: Severity
    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.severity.value}: {self.text}"

    @property
    def text(self) -> str:
        """The message without its position."""
        said = f"{self.path}: {self.message}" if self.path else self.message
        return f"{said}. {self.hint}" if self.hint else said


class ConfigError(HotseatError):
    """Every error in the configuration, for the operator to fix."""

    code = "invalid_configuration"
    retry_helps = False

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class Hides(Protocol):
    """Removes secrets from texts."""

    def text(self, text: str, place: Path = ()) -> str:
        """The text without secrets."""

    def place_of(self, path: Path) -> Path: ...


class Problems:
    """Collects problems, resolves paths to positions and redacts what a message must not repeat."""

    def __init__(self, file: str, spots: dict[Path, Spot] | None = None) -> None:
        self.spots: dict[Path, Spot] = spots if spots is not None else {}
        self._file = file
        self._problems: list[tuple[Path, ConfigProblem]] = []
        self._hides: list[Hides] = []

    def error(self, path: Path, message: str, hint: str = "") -> None:
        self.write(Severity.ERROR, self.spot(path), path, message, hint)

    def warn(self, path: Path, message: str, hint: str = "") -> None:
        self.write(Severity.WARNING, self.spot(path), path, message, hint)

    def note(self, path: Path, message: str, hint: str = "") -> None:
        self.write(Severity.NOTE, self.spot(path), path, message, hint)

    def write(self, severity: Severity, spot: Spot, path: Path, message: str, hint: str = "") -> None:
        problem = ConfigProblem(severity, spot.file, spot.line, spot.column, dotted(path), message, hint)
        if (path, problem) not in self._problems:
            self._problems.append((path, problem))

    def hide_with(self, hides: Hides) -> None:
        """Redact all problems with `hides`, including those recorded before."""
        self._hides.append(hides)

    def spot(self, path: Path) -> Spot:
        """The position of the path, or of its nearest parent that has one."""
        while path and path not in self.spots:
            path = path[:-1]
        return self.spots.get(path, Spot(self._file, 1, 1))

    @property
    def has_errors(self) -> bool:
        return any(problem.severity is Severity.ERROR for _, problem in self._problems)

    def ordered(self) -> tuple[ConfigProblem, ...]:
        """Sorted by position."""
        shown = (self.shown(problem, path) for path, problem in self._problems)
        return tuple(sorted(shown, key=lambda c: (c.file, c.line, c.column, c.path, c.message)))

    def shown(self, problem: ConfigProblem, path: Path) -> ConfigProblem:
        """The problem with secrets redacted."""
        for hides in self._hides:
            place = hides.place_of(path)
            said, hint = hides.text(problem.message, place), hides.text(problem.hint, place)
            problem = replace(problem, path=hides.text(problem.path), message=said, hint=hint)
        return problem

    def raise_errors(self) -> None:
        if self.has_errors:
            raise ConfigError(self.ordered())


def dotted(path: Path) -> str:
    """`models.qwen.aliases[0]`; keys that are not plain words are in brackets."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("-", "_").isidentifier():
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def value_at(value: Any, path: Path) -> Any:
    """The value at `path`; None if there is none."""
    for step in path:
        if isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def nearest(wrong: str, known: Iterable[str]) -> str:
    """`Did you mean "ttl"?`, or an empty string."""
    return did_you_mean(wrong, known).strip()
