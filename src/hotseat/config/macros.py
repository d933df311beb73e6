"""Expands `${name}` in plain values: global macros everywhere, a model's own macros within the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from hotseat.catalog.template import (
    GPUS,
    MODEL_ID,
    PID,
    PORT,
    RESERVED,
    MacroValue,
    expand,
    holes,
    sealed,
    unsealed,
    without_comments,
)
from hotseat.config.model_schema import ModelForm
from hotseat.config.problems import Path, Problems, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_NAME = 63
MAX_LENGTH = 100_000
"""Of a macro's text; macros that use each other twice grow exponentially."""


class Definition(Struct, frozen=True):
    value: Any
    path: Path


Definitions: TypeAlias = dict[str, Definition]

TEMPLATE = "modelsDir"
"""Has the keys of a model but is not one."""
COMMANDS = ("cmd", "cmdStop")
_KNOWN_AT_LAUNCH = ("cmd", "cmdStop", "proxy", "env", "checkEndpoint")
_KNOWS_GPUS = ("cmd", "cmdStop", "env")


def expand_all(value: dict[str, Any], problems: Problems) -> dict[str, Any]:
    """Expand every macro; `${PORT}`, `${GPUS}`, `${PID}` and a command's `${MODEL_ID}` stay until launch."""
    shared = _definitions(value.get("macros"), ("macros",))
    expanded = _expand_global(value, shared, problems)
    models = value.get("models")
    if isinstance(models, dict):
        expanded["models"] = {
            name: _expand_model(("models", name), name, model, shared, problems) for name, model in models.items()
        }
    if TEMPLATE in value:
        expanded[TEMPLATE] = _expand_model((TEMPLATE,), "${MODEL_ID}", value[TEMPLATE], shared, problems)
    return expanded


def _definitions(macros: Any, path: Path) -> Definitions:
    if not isinstance(macros, dict):
        return {}
    return {name: Definition(value, (*path, name)) for name, value in macros.items()}


def _expand_global(value: dict[str, Any], shared: Definitions, problems: Problems) -> dict[str, Any]:
    filler = _Filler(resolve(shared, problems), frozenset(), problems)
    kept = ("macros", "models", TEMPLATE)
    return {key: part if key in kept else filler.fill(part, (key,)) for key, part in value.items()}


def _expand_model(path: Path, name: str, model: Any, shared: Definitions, problems: Problems) -> Any:
    if not isinstance(model, dict):
        return model
    # Resolved together: a global macro that uses an overridden one gets the model's value.
    macros = resolve({**shared, **_definitions(model.get("macros"), (*path, "macros"))}, problems)
    return {key: _expand_key((*path, key), name, part, macros, problems) for key, part in model.items()}


def _expand_key(path: Path, name: str, part: Any, macros: dict[str, MacroValue], problems: Problems) -> Any:
    key = str(path[-1])
    if key == "macros" or (path[0] == "models" and key not in ModelForm.known_keys()):
        return part  # the value of an unknown key is not used, so only the key is reported
    if key in COMMANDS:
        # Substituted after the command is split into words, so that a name with spaces stays one word.
        text = without_comments(part) if isinstance(part, str) else part
        return _Filler(macros, _launch_time(key) | {MODEL_ID}, problems).fill(text, path)
    if key == "sleep":
        return _Filler({**macros, MODEL_ID: sealed(name)}, _launch_time(key), problems).fill(part, path)
    return _opened(_Filler({**macros, MODEL_ID: name}, _launch_time(key), problems).fill(part, path))


def _opened(value: Any) -> Any:
    """Outside commands nothing is split into words, so a file name can be substituted at once."""
    if isinstance(value, dict):
        return {_opened(key): _opened(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_opened(item) for item in value]
    return unsealed(value) if isinstance(value, str) else value


def _launch_time(key: str) -> frozenset[str]:
    """Macros that stay in a key's value until a process is started or stopped."""
    if key not in (*_KNOWN_AT_LAUNCH, "sleep"):
        return frozenset()
    more = [PID] if key in ("cmdStop", "sleep") else []
    return frozenset((PORT, *more, *([GPUS] if key in _KNOWS_GPUS else [])))


def resolve(definitions: Definitions, problems: Problems) -> dict[str, MacroValue]:
    """The value of each macro; a macro may use those declared before it."""
    resolved: dict[str, MacroValue] = {}
    for name, definition in definitions.items():
        usable = _check(name, definition, definitions, resolved, problems)
        value = expand(definition.value, resolved) if isinstance(definition.value, str) else definition.value
        if isinstance(value, str) and len(value) > MAX_LENGTH:
            problems.error(definition.path, f"the macro expands to more than {MAX_LENGTH:,} characters")
            usable = False
        if name not in RESERVED:
            resolved[name] = value if usable else ""
    return resolved


def _check(
    name: str, definition: Definition, definitions: Definitions, resolved: Mapping[str, Any], problems: Problems
) -> bool:
    """Report a definition that cannot be used."""
    problem = _name_problem(name) or _value_problem(definition.value)
    if problem:
        problems.error(definition.path, problem)
        return False
    for used in holes(definition.value) if isinstance(definition.value, str) else ():
        _check_use(name, used, definition, definitions, resolved, problems)
    return True


def _name_problem(name: str) -> str:
    if name in RESERVED:
        return f"{name} is reserved; choose another name"
    if len(name) > MAX_NAME or holes("${" + name + "}") != (name,) or "." in name:
        return f"a macro's name has at most {MAX_NAME} letters, digits, _ and -"
    return ""


def _value_problem(value: Any) -> str:
    return "" if isinstance(value, str | int | float) else "a macro must be a string, a number or a boolean"


def _check_use(
    name: str,
    used: str,
    definition: Definition,
    definitions: Definitions,
    resolved: Mapping[str, Any],
    problems: Problems,
) -> None:
    if used == name:
        problems.error(definition.path, "the macro refers to itself")
    elif used in definitions and used not in resolved:
        line = problems.spot(definitions[used].path).line
        problems.error(definition.path, f"${{{used}}} is declared later, in line {line}", "Move it before this line")
    elif used not in resolved and used not in (*RESERVED, GPUS):
        problems.error(definition.path, f"unknown macro ${{{used}}}", _macro_hint(used, [*resolved, *RESERVED, GPUS]))


def _macro_hint(name: str, known: Iterable[str]) -> str:
    # A name with a dot, as in ${env.NAME}, cannot be that of a macro.
    return nearest(name, known) or ("" if "." in name else "Define it under macros")


class _Filler:
    """Substitutes one set of macros in nested values. `open_names` stay as they are."""

    def __init__(self, macros: Mapping[str, MacroValue], open_names: frozenset[str], problems: Problems) -> None:
        self._macros = macros
        self._open = open_names
        self._problems = problems

    def fill(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {self._key(key, path): self.fill(member, (*path, key)) for key, member in value.items()}
        if isinstance(value, list):
            return [self.fill(item, (*path, position)) for position, item in enumerate(value)]
        return self._text(value, path) if isinstance(value, str) else value

    def _key(self, key: str, path: Path) -> str:
        """Keys stay as they are, except those that become names of the model."""
        if path[2:] != ("filters", "setParamsByID"):
            return key
        filled = str(self._text(key, (*path, key)))
        self._problems.spots.setdefault((*path, filled), self._problems.spot((*path, key)))
        return filled

    def _text(self, text: str, path: Path) -> MacroValue:
        value = expand(text, self._macros)
        for name in holes(value) if isinstance(value, str) else ():
            if name not in self._open:
                self._report_problem(name, path)
        return value

    def _report_problem(self, name: str, path: Path) -> None:
        if name not in (*RESERVED, GPUS):
            self._problems.error(path, f"unknown macro ${{{name}}}", _macro_hint(name, [*self._macros, *self._open]))
        elif path[0] not in ("models", TEMPLATE):
            self._problems.error(path, f"${{{name}}} can only be used inside a model")
        elif name == PID:
            self._problems.error(path, "${PID} can only be used in cmdStop and sleep")
        elif name == GPUS:
            self._problems.error(path, "${GPUS} can only be used in cmd, cmdStop and env")
        else:
            self._problems.warn(path, "${PORT} is not expanded here: the port is only known at launch")
