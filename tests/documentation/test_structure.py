"""The source tree: which parts it has, and that no module imports itself, not through others either."""

from __future__ import annotations

import ast
import re
import tomllib
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


def test_the_map_shows_the_parts_and_their_layers() -> None:
    """The page that describes the architecture lists every folder and file beside it, in the layer that is enforced."""
    page = (REPOSITORY / "docs/design/how-it-works.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (`[^|]+`) \|", page, re.MULTILINE)
    described = {(int(layer), name) for layer, names in rows for name in re.findall(r"`(\w+)(?:/|\.py)`", names)}
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    enforced = {
        (number, module.removeprefix("hotseat."))
        for number, layer in enumerate(layers, 1)
        for module in layer.split(" | ")
    }
    parts = {
        path.stem for path in (SOURCES / "hotseat").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }

    assert described == enforced
    assert {name for _, name in described} == parts - {"__init__", "__main__"}


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
