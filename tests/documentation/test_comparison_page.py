"""The comparison says where each statement about another program comes from."""

from __future__ import annotations

import re

from scripts.make_docs import DOCS

COMPARED, SOURCES = (DOCS / "comparison.md").read_text().split("## Sources")
FIRST_OTHER = 2
"""The first column is the question, and the second is hotseat."""
NUMBER = re.compile(r"\[(\d+)\]\(#sources\)")


def rows(text: str) -> list[list[str]]:
    """Without the heads of the tables, whose first cell is empty."""
    found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return [row for row in found if row[0]]


def test_each_statement_about_another_program_has_a_source() -> None:
    """It is a number of the list of sources, or the statement was measured; a dash states nothing."""
    stated = [cell for row in rows(COMPARED) for cell in row[FIRST_OTHER:] if cell != "–"]

    assert stated
    assert [cell for cell in stated if not NUMBER.search(cell) and "(*measured*)" not in cell] == []


def test_the_numbers_are_those_of_the_list() -> None:
    """No number is missing in the list of sources, and none is listed for nothing."""
    assert set(NUMBER.findall(COMPARED)) == {number for number, *_ in rows(SOURCES)}


def test_each_source_says_when_it_was_read() -> None:
    """These programs change quickly."""
    assert [row for row in rows(SOURCES) if not re.search("August|November", row[-1])] == []
