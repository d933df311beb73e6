"""SECURITY.md names the test behind each promise; here they are looked for."""

from __future__ import annotations

import ast
import re

import pytest
from tests.support.llama import REPOSITORY

PAGE = (REPOSITORY / "SECURITY.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
FEWEST = 40


def names_in(file: str) -> set[str]:
    tree = ast.parse((REPOSITORY / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_tests_that_it_names_exist() -> None:
    """A promise whose test was renamed or taken out would be a promise without one."""
    missing = [f"{file}::{name}" for file, name in NAMED if name not in names_in(file)]

    assert missing == []
    assert len(NAMED) > FEWEST


@pytest.mark.parametrize(("head", "fewest"), [("| threat |", 20), ("| attacker | attempt |", 12)])
def test_every_threat_has_a_test(head: str, fewest: int) -> None:
    """No line of the tables says something that nothing shows."""
    table = PAGE.partition(head)[2].partition("\n\n")[0].splitlines()[2:]

    assert len(table) > fewest
    assert [line[:60] for line in table if "::test_" not in line] == []
