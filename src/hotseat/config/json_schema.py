"""The published schema: JSON Schema 2020-12, with a title and a description for every key.

The descriptions are the docstrings below the fields. They are read from the source when somebody asks. pydantic's
`use_attribute_docstrings` would read them at every start.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hotseat.config.schema import Config
from hotseat.config.schema_base import Form

if TYPE_CHECKING:
    from collections.abc import Iterator

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema with which an editor completes and checks a configuration file."""
    schema = Config.model_json_schema()
    forms = {form.__name__: form for form in subclasses(Form)}
    for name, shape in {Config.__name__: schema, **schema["$defs"]}.items():
        if name in forms:
            name_keys(shape.get("properties", {}), forms[name])
    schema["anyOf"] = [{"required": schema.pop("required")}, {"required": ["modelsDir"]}]
    extensions = {r"^(x-|\.)": {"description": "For your own use; hotseat ignores it."}}
    return {"$schema": DIALECT, **schema, "title": "hotseat configuration", "patternProperties": extensions}


def name_keys(properties: dict[str, Any], form: type[Form]) -> None:
    texts = descriptions(form)
    for key, field in form.known_keys().items():
        if field in texts:
            properties[key].setdefault("description", texts[field])
        properties[key]["title"] = key


def subclasses(form: type[Form]) -> Iterator[type[Form]]:
    for each in form.__subclasses__():
        yield each
        yield from subclasses(each)


def descriptions(form: type[Form]) -> dict[str, str]:
    """The docstring of each field that has one, inherited fields included."""
    forms = [each for each in reversed(form.__mro__) if issubclass(each, Form)]
    return {name: text for each in forms for name, text in documented_fields(each)}


def documented_fields(form: type[Form]) -> Iterator[tuple[str, str]]:
    for field, following in pairwise(class_bodies(form.__module__)[form.__name__]):
        match field, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)


@cache
def class_bodies(module: str) -> dict[str, list[ast.stmt]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}
