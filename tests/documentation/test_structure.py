"""No module of the package imports itself, not through others either."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from tests.support.llama import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCES = REPOSITORY / "src"


def test_no_module_imports_itself_through_others() -> None:
    """Imports for type checking count too: whoever reads a module must read those as well."""
    modules = {module_of(path): path for path in (SOURCES / "hotseat").rglob("*.py")}
    graph = {name: {found for found in imports(path, modules) if found != name} for name, path in modules.items()}

    assert circle_in(graph) == []


def test_a_circle_is_found() -> None:
    """The check above would notice one."""
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}}) != []


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
