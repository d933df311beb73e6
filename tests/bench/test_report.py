"""A benchmark replaces the tables of its page and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench import report

if TYPE_CHECKING:
    from pathlib import Path

PAGE = """# Title

| old |
| --- |

## Loads

About.

| workload | loads |
| --- | ---: |
| a | 1 |

After.

## Conditions

- yesterday
- a machine
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(report, "PAGES", tmp_path)
    file = tmp_path / "page.md"
    file.write_text(PAGE)
    return file


def test_a_table_is_replaced_below_its_heading(page: Path) -> None:
    """The text around it stays, and so does what was not measured."""
    report.write("page.md", {"Loads": [["workload", "loads"], ["a", "2"], ["b", "3"]], "Title": []}, ["today"])

    assert page.read_text() == PAGE.replace("| --- | ---: |\n| a | 1 |", "| --- | --- |\n| a | 2 |\n| b | 3 |").replace(
        "- yesterday\n- a machine", "- today"
    )


def test_a_table_without_a_heading_is_added(page: Path) -> None:
    """A long run must not be lost because nobody has written about it yet."""
    report.write("page.md", {"Waits": [["wait"], ["1 s"]]})

    assert page.read_text() == PAGE + "\n## Waits\n\n| wait |\n| --- |\n| 1 s |\n"


def test_a_heading_without_a_table_is_an_error(page: Path) -> None:
    """Nothing is written then."""
    with pytest.raises(SystemExit, match="nothing to replace below the heading 'Conditions'"):
        report.write("page.md", {"Loads": [["new"]], "Conditions": [["new"]]})

    assert page.read_text() == PAGE
