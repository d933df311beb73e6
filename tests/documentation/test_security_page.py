"""The tests that SECURITY.md names exist."""

from __future__ import annotations

import ast
import re

from tests.support.llama import REPOSITORY

PAGE = (REPOSITORY / "SECURITY.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
FEWEST = 40


def names_in(file: str) -> set[str]:
    tree = ast.parse((REPOSITORY / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_named_tests_exist() -> None:
    """A renamed or removed test is noticed."""
    missing = [f"{file}::{name}" for file, name in NAMED if name not in names_in(file)]

    assert missing == []
    assert len(NAMED) > FEWEST


def test_every_threat_has_a_test() -> None:
    """Every row of the table names at least one test."""
    table = PAGE.partition("| threat |")[2].partition("\n\n")[0].splitlines()[2:]

    assert len(table) > 20
    assert [line[:60] for line in table if "::test_" not in line] == []
