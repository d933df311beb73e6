"""Every command of the README, a tutorial or a how-to is run, or the source says why it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scripts.make_docs import DOCS
from tests.support.page_runner import SHELL, Reader, blocks_of, can_be_followed, matches, session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

README = DOCS.parent / "README.md"
PAGES = [README, DOCS / "index.md", *sorted((DOCS / "tutorial").glob("*.md")), *sorted((DOCS / "howto").glob("*.md"))]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.leave()


@pytest.mark.llama
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if can_be_followed(page.read_text())], ids=lambda page: page.stem
)
def test_the_commands_of_a_page_work(reader: Reader, page: Path) -> None:
    """With real model servers, every command succeeds and prints what the page shows."""
    reader.follow(page.read_text())


@pytest.mark.parametrize("page", [page for page in PAGES if "```" in page.read_text()], ids=lambda page: page.stem)
def test_blocks_that_are_not_run_have_a_reason(page: Path) -> None:
    """The reason has at least three words, and all commands are in blocks of a known kind."""
    blocks = blocks_of(page.read_text())
    reasons = [block.about for block in blocks if block.mark == "not run"]

    assert [reason for reason in reasons if len(reason.split()) < 3] == []
    assert [block.text for block in blocks if block.kind in ("bash", "shell")] == [], f"write {SHELL}"


def test_a_console_block_is_split_into_commands_and_outputs() -> None:
    """A command may span several lines; the lines after it are its output."""
    shown = "$ echo \\\n  one\none\n$ true\n"

    assert list(session(shown)) == [("echo \\\n  one\n", "one\n"), ("true\n", "")]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("qwen  ready  …\n", "qwen    ready   2.1 s\n", True),
        ("first\n…\nlast\n", "first\nsecond\nthird\nlast\n", True),
        ("first\nlast\n", "first\nsecond\nlast\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_shown_and_printed_output_are_compared(shown: str, printed: str, same: bool) -> None:
    """Words and lines must match, column widths need not, and … matches anything."""
    assert matches(shown, printed) is same
