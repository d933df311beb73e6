"""Pages are followed to the letter: every command of a tutorial or how-to is run, or says in the source why not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from scripts.make_docs import DOCS
from tests.support.page_blocks import SHELL, blocks_of, can_be_followed, matches, session
from tests.support.page_runner import Reader
from tests.support.terminal_session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

README = DOCS.parent / "README.md"
PAGES = [README, DOCS / "index.md", *sorted((DOCS / "tutorial").glob("*.md")), *sorted((DOCS / "howto").glob("*.md"))]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.leave()


LONG = ("fleet-in-production", "team", "three-hosts")
"""Pages that take more than ten seconds. tests/journeys does what they do, with other words."""


def depth_of(page: Path) -> Sequence[pytest.MarkDecorator]:
    return [pytest.mark.deep] if page.stem in LONG else []


@pytest.mark.llama
@pytest.mark.timeout(360)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=depth_of(page)) for page in PAGES if can_be_followed(page.read_text())],
)
def test_a_page_can_be_followed(reader: Reader, page: Path) -> None:
    """Block by block, with real model servers, it does what it says, and prints what it shows."""
    reader.follow(page.read_text())


@pytest.mark.parametrize("page", [page for page in PAGES if "```" in page.read_text()], ids=lambda page: page.stem)
def test_what_is_not_run_says_why(page: Path) -> None:
    """A reason has words, and commands are in blocks that are known to be commands."""
    blocks = blocks_of(page.read_text())
    reasons = [block.about for block in blocks if block.mark == "not run"]

    assert [reason for reason in reasons if len(reason.split()) < 3] == []
    assert [block.text for block in blocks if block.kind in ("bash", "shell")] == [], f"write {SHELL}"


def test_a_file_of_another_page() -> None:
    """A page can name it instead of repeating it; the reader copies it as it is there."""
    [copied] = blocks_of("<!-- copied: accounts.conf from howto/fleet.md -->\n")

    assert (copied.mark, copied.about) == ("file", "accounts.conf")
    assert "permissions" in copied.text


def test_a_terminal_between_two_commands(tmp_path: Path) -> None:
    """It keeps what was exported, the folder, and programs in the background, for which no command waits."""
    terminal = Session(tmp_path, os.environ)
    terminal.run("mkdir fleet; cd fleet; export HOST=one; UNKNOWN=two; tail -f /dev/null &")
    try:
        printed = terminal.run("echo $HOST $UNKNOWN; pwd").stdout

        assert printed == f"one\n{tmp_path}/fleet\n"
        assert len(terminal.processes()) == 1
    finally:
        terminal.end_all()


def test_a_session_is_commands_and_what_they_print() -> None:
    """A command may go on over lines; what follows it is its output."""
    shown = "$ echo \\\n  one\none\n$ true\n"

    assert list(session(shown)) == [("echo \\\n  one\n", "one\n"), ("true\n", "")]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("qwen  ready  …\n", "qwen    ready   2.1 s\n", True),
        ("first\n…\nlast\n", "first\nsecond\nthird\nlast\n", True),
        ("first\nlast\n", "first\nsecond\nlast\n", False),
        ("a.c\n", "abc\n", False),
        ("one …\n…\n" * 30 + "end\n", "one yes\n" * 60 + "no\n", False),
        ("… … … … … … … x\n", "yes " * 2000 + "\n", False),
    ],
)
def test_shown_output_is_compared(shown: str, printed: str, same: bool) -> None:
    """Words and lines count, widths do not, and … is whatever there is."""
    assert matches(shown, printed) is same
