"""What each key means: the docstring below its field.

They are read from the source when somebody asks. pydantic's `use_attribute_docstrings` would read them at every start.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from hotseat.config.schema_base import Form

if TYPE_CHECKING:
    from collections.abc import Iterator


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
