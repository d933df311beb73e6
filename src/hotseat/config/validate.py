"""Validates plain values against the schema and rewrites pydantic's errors, each with its position in the file.

Invalid values are removed and the rest is validated again, so that one run shows every error.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import ValidationError

from hotseat.catalog.template import as_text
from hotseat.config.document import Provenance
from hotseat.config.model_schema import ModelForm
from hotseat.config.problems import Path, Problems, nearest, value_at
from hotseat.config.schema import Config
from hotseat.config.schema_base import Form
from hotseat.config.units import shown

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from hotseat.config.document import Document

_WANTED = {
    "string_type": "a string",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def without_foreign_keys(document: Document) -> dict[str, Any]:
    """Remove extension keys and keys that only hold anchors."""
    known = Config.known_keys()
    foreign = [key for key in document.value if key not in known and _is_foreign(key, document)]
    return {key: value for key, value in document.value.items() if key not in foreign}


def _is_foreign(key: str, document: Document) -> bool:
    return key.startswith(("x-", ".")) or key in document.anchors_only


def validate(value: dict[str, Any], document: Document, problems: Problems, *, lenient: bool) -> Config | None:
    """The configuration without its invalid parts; None if nothing usable is left."""
    trial = _Trial(_copied(value), document, problems, lenient)
    trial.leave_out_broken()
    while trial.has_hope:
        try:
            return Config.model_validate(trial.value)
        except ValidationError as error:
            trial.learn(error.errors(include_url=False))
    return None


class _Trial:
    def __init__(self, value: dict[str, Any], document: Document, problems: Problems, lenient: bool) -> None:
        self.value = value
        self.has_hope = True
        self._document = document
        self._problems = problems
        self._lenient = lenient
        self._taken_out: set[Path] = set()

    def leave_out_broken(self) -> None:
        """Remove values whose errors are already reported; macros with such values are expanded by now."""
        for path in self._document.broken:
            if path[0] != "macros" and path[2:3] != ("macros",):
                self._take_out(path)

    def learn(self, details: list[ErrorDetails]) -> None:
        # Compute all paths first: they lead through values that are about to be removed.
        for path, detail in [(self._path(detail), detail) for detail in details]:
            self._learn(path, detail)

    def _learn(self, path: Path, detail: ErrorDetails) -> None:
        if detail["type"] == "string_type" and self._read_as_text(path):
            return
        if path not in self._taken_out:
            self._report_problem(path, detail)
        self._take_out(path[:-1] if detail["type"] == "missing" else path)

    def _read_as_text(self, path: Path) -> bool:
        """Where the schema expects text, use `4.10` and `true` as written."""
        holder, here = value_at(self.value, path[:-1]), value_at(self.value, path)
        if not isinstance(here, bool | int | float):  # or already removed with its list
            return False
        holder[path[-1]] = self._document.written.get(path, as_text(here))
        return True

    def _report_problem(self, path: Path, detail: ErrorDetails) -> None:
        if detail["type"] != "extra_forbidden":
            said = _message(detail)
            self._problems.error(path, said.partition(", not ")[0] if self._may_be_secret(path) else said)
        elif self._lenient:
            self._problems.warn(path, "unknown key, ignored", _known_key_hint(path, self._document))
        else:
            self._problems.error(path, "unknown key", _known_key_hint(path, self._document))

    def _may_be_secret(self, path: Path) -> bool:
        """If so, an error does not quote the value."""
        return path[0] == "apiKeys" or path[-1] == "apiKey" or bool(Provenance(self._document).variables(path))

    def _path(self, detail: ErrorDetails) -> Path:
        """Pydantic's location of a value, without the names of union branches."""
        path: Path = ()
        here: Any = self.value
        for step in detail["loc"]:
            is_there = step in here if isinstance(here, dict) else isinstance(here, list) and isinstance(step, int)
            if is_there:
                here, path = here[step], (*path, step)
        return (*path, detail["loc"][-1]) if detail["type"] == "missing" else path

    def _take_out(self, path: Path) -> None:
        # Remove whole lists: removing one item would shift the positions of the others.
        path = next((path[:n] for n, step in enumerate(path) if isinstance(step, int)), path)
        if not path:
            self.has_hope = False
            return
        self._taken_out.add(path)
        holder = value_at(self.value, path[:-1])
        if isinstance(holder, dict):
            holder.pop(path[-1], None)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(member) for key, member in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _message(detail: ErrorDetails) -> str:
    kind, context, given = detail["type"], detail.get("ctx", {}), shown(detail["input"])
    if wanted := _WANTED.get(kind):
        return f"must be {wanted}, not {given}"
    if kind == "missing":
        return "is missing"
    if kind == "literal_error":
        return f"must be {context['expected'].replace(chr(39), '')}, not {given}"
    if kind in ("greater_than_equal", "less_than_equal", "greater_than"):
        return _bound(kind, context, given)
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    return detail["msg"].removeprefix("Value error, ")


def _bound(kind: str, context: dict[str, Any], given: str) -> str:
    if kind == "greater_than":
        return f"must be more than {context['gt']:g}, not {given}"
    if kind == "less_than_equal":
        return f"must be at most {context['le']:g}, not {given}"
    return f"must be at least {context['ge']:g}, not {given}"


def _known_key_hint(path: Path, document: Document) -> str:
    form, wrong = form_at(Config, path[:-1]), str(path[-1])
    if len(path) == 1 and wrong in ModelForm.known_keys():
        return f'"{wrong}" is a key of a model: move it to models.<name>'
    if len(path) == 3 and path[0] == "models" and wrong in Config.known_keys():
        return f'"{wrong}" is a top-level key: move it to the top level'
    if form is None:
        return ""
    return nearest(wrong, _lacking(form, value_at(document.value, path[:-1]))) or nearest(wrong, form.known_keys())


def _lacking(form: type[Form], given: Any) -> list[str]:
    """The required keys that the mapping lacks: a wrong key most likely stands for one of them."""
    required = [key for key, field in form.known_keys().items() if form.model_fields[field].is_required()]
    return [key for key in required if isinstance(given, dict) and key not in given]


def form_at(kind: Any, path: Path) -> type[Form] | None:
    """The form that describes the mapping at `path`."""
    if isinstance(kind, type) and issubclass(kind, Form):
        if not path:
            return kind
        field = kind.known_keys().get(str(path[0]))
        return form_at(kind.model_fields[field].annotation, path[1:]) if field else None
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return form_at(inner[0], path)
    if origin in (Union, types.UnionType):
        return next((form for option in inner if (form := form_at(option, path))), None)
    if origin in (dict, tuple) and path:
        return form_at(inner[1 if origin is dict else 0], path[1:])
    return None
