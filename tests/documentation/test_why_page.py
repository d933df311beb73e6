"""The figures of "Why hotseat" are those of the pages that the benchmarks write."""

from __future__ import annotations

import re

import pytest
from scripts.make_docs import DOCS

PAGE = (DOCS / "why.md").read_text()
SOURCE = re.compile(r"\]\((reference/[\w-]+\.md)(?:#([\w-]+))?\)")
FIGURE = re.compile(r"\d[\d,.]*\d%?|\d")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and SOURCE.search(line)]
SENTENCES = [line for line in PAGE.splitlines() if not line.startswith("|") and SOURCE.search(line)]


def section(page: str, anchor: str) -> str:
    """What stands below a heading; the whole page if none is named."""
    parts = re.split(r"^#+ ", (DOCS / page).read_text(), flags=re.MULTILINE)
    named = [part for part in parts if slug(part.partition("\n")[0]) == anchor]
    return named[0] if anchor else "\n".join(parts)


def slug(heading: str) -> str:
    return re.sub(r"[^\w]+", "-", heading.lower()).strip("-")


def figures(text: str) -> set[str]:
    return set(FIGURE.findall(text))


@pytest.mark.parametrize("row", ROWS)
def test_a_figure_is_that_of_its_source(row: str) -> None:
    """A benchmark that writes its page anew changes figures, and this page must follow."""
    _, label, *cells, source, _ = row.split("|")
    found = SOURCE.search(source)
    assert found

    assert figures(" ".join(cells)) - figures(section(found[1], found[2] or "")) == set(), label


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_percentage_in_a_sentence_is_that_of_its_source(sentence: str) -> None:
    """So are seconds until an answer."""
    measured = set(re.findall(r"\d+\.\d+%?", sentence))
    stated = "".join(section(page, anchor) for page, anchor in SOURCE.findall(sentence))

    assert measured
    assert measured - figures(stated) == set()


@pytest.mark.parametrize("page", ["why.md", "comparison.md", "../README.md"])
def test_what_was_never_tried_is_said(page: str) -> None:
    """Nobody should find out after the installation."""
    said = (DOCS / page).read_text()

    assert [each for each in ("real GPU", "macOS", "Windows") if each not in said] == []
