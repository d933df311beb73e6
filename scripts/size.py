"""Prints how large the project is, and beside it how large it was in another revision.

Not counted: `__init__.py`, and in code lines blank lines, comments and docstrings. A function begins at its `def`.
Records are classes that mainly have fields, by what they are made with.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
from collections import Counter
from functools import cache
from io import BytesIO
from pathlib import Path, PurePath
from statistics import median, quantiles
from tarfile import open as open_archive
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Tree = Mapping[str, str]
    """Texts by path."""

PARTS = {"src": {".py"}, "tests": {".py"}, "bench": {".py"}, "dashboard": {".ts", ".tsx", ".css", ".mjs"}}
"""Which files of a folder are code."""
PAGES = {".md"}
TECHNOLOGIES = {"Struct": "msgspec", "NamedTuple": "NamedTuple", "BaseModel": "pydantic", "TypedDict": "TypedDict"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="just size", description=__doc__)
    parser.add_argument("--against", metavar="REVISION", help="compare with it")
    against: str | None = parser.parse_args().against
    now, before = figures(working_tree()), figures(revision(against)) if against else {}
    print(f"{'':36}{against or '':>12.12}{'now':>10}")
    for name in {**before, **now}:
        print(f"{name:36}{shown(before.get(name)):>12}{shown(now.get(name)):>10}")


def shown(figure: float | None) -> str:
    return "" if figure is None else f"{figure:,.0f}"


def working_tree() -> Tree:
    paths = run_git("ls-files", "--cached", "--others", "--exclude-standard").decode().splitlines()
    return {path: Path(path).read_text() for path in paths if is_counted(path) and Path(path).exists()}


def revision(name: str) -> Tree:
    with open_archive(fileobj=BytesIO(run_git("archive", name))) as archive:
        files = {each.name: archive.extractfile(each) for each in archive if is_counted(each.name)}
        return {path: file.read().decode() for path, file in files.items() if file}


def run_git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], check=True, stdout=subprocess.PIPE).stdout


def is_counted(path: str) -> bool:
    return PurePath(path).suffix in PARTS.get(PurePath(path).parts[0], PAGES)


def figures(tree: Tree) -> dict[str, float]:
    found: dict[str, float] = {}
    for part, kinds in PARTS.items():
        paths = [PurePath(path) for path in tree if path.startswith(f"{part}/")]
        code = [tree[str(path)] for path in paths if path.suffix in kinds and path.name != "__init__.py"]
        found |= {f"{part}: {name}": figure for name, figure in figures_of(code, is_python=".py" in kinds).items()}
    package = [PurePath(path) for path in tree if path.startswith("src/hotseat/") and path.endswith(".py")]
    found["src: folders of the package"] = len({path.parts[2] for path in package if len(path.parts) > 3})
    found["src: folders in all"] = len({path.parent for path in package})
    records = records_in(text for path, text in tree.items() if path.startswith("src/"))
    found |= {f"src: records, {technology}": number for technology, number in records.most_common()}
    pages = {path: len(text.split()) for path, text in tree.items() if PurePath(path).suffix in PAGES}
    found["words of docs/"] = sum(words for path, words in pages.items() if path.startswith("docs/"))
    found["words of pages at the top"] = sum(words for path, words in pages.items() if "/" not in path)
    return found


def figures_of(texts: Sequence[str], *, is_python: bool) -> dict[str, float]:
    lines = [len(text.splitlines()) for text in texts]
    found: dict[str, float] = {"files": len(lines), "lines": sum(lines)}
    functions = [length for text in texts for length in function_lengths(text)] if is_python else []
    if is_python:
        found["code lines"] = sum(map(code_lines, texts))
    for name, lengths in (("file", lines), ("function", functions)):
        if len(lengths) > 1:
            found |= {
                f"lines per {name}, median": median(lengths),
                f"lines per {name}, p90": quantiles(lengths, n=10)[-1],
            }
    return found


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def code_lines(text: str) -> int:
    docstrings = {
        line
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for n, line in lines if n not in docstrings and line.strip() and not line.lstrip().startswith("#"))


def function_lengths(text: str) -> list[int]:
    functions = [node for node in ast.walk(parsed(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [(node.end_lineno or node.lineno) - node.lineno + 1 for node in functions]


def records_in(texts: Iterable[str]) -> Counter[str]:
    """Classes by technology, also those that inherit it from a class of ours."""
    classes = [node for text in texts for node in ast.walk(parsed(text)) if isinstance(node, ast.ClassDef)]
    bases = {node.name: [ast.unparse(base).rpartition(".")[2] for base in node.bases] for node in classes}
    return Counter(technology for node in classes if (technology := technology_of(node, bases)))


def technology_of(node: ast.ClassDef, bases: Mapping[str, list[str]]) -> str:
    if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return "dataclass"
    to_visit, visited = [*bases[node.name]], set[str]()
    while to_visit:
        base = to_visit.pop()
        if base in TECHNOLOGIES:
            return TECHNOLOGIES[base]
        if base not in visited:
            visited.add(base)
            to_visit += bases.get(base, ())
    return ""


if __name__ == "__main__":
    main()
