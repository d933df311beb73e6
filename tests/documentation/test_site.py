"""The documentation website: every page is in the navigation, and the staged copy has working links.

`just site` builds it and treats broken links as errors; these tests cover scripts/make_site.py.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from scripts.make_site import DOCS, PROJECT, REPOSITORY, foreign, stage, with_bare_pipes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "docs"
    stage(folder)
    return folder


def pages_in(nav: list[dict[str, Any]]) -> Iterator[str]:
    for entry in nav:
        for target in entry.values():
            yield from [target] if isinstance(target, str) else pages_in(target)


def test_every_page_is_in_the_navigation_once() -> None:
    """No page is missing, and none is listed twice."""
    site = tomllib.loads((REPOSITORY / "zensical.toml").read_text())
    named = list(pages_in(site["project"]["nav"]))
    written = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} | set(PROJECT.values())

    assert set(named) - written == set()
    assert written - set(named) == set(), "name it in zensical.toml"
    assert len(named) == len(set(named))


def test_links_of_top_level_pages_are_adjusted(staged: Path) -> None:
    """The changelog's links point to the pages of the site, relative to its new place."""
    assert "](../howto/dashboard.md)" in (staged / "project/changelog.md").read_text()


def test_links_to_files_outside_the_documentation_become_paths(staged: Path) -> None:
    """A link to a folder of tests becomes its path in the repository."""
    assert "the samples (`tests/config/samples/served`)" in (staged / "howto/from-llama-swap.md").read_text()


def test_code_blocks_are_not_changed(staged: Path) -> None:
    """Text in code blocks that looks like a link or a table stays as it is."""
    assert (staged / "howto/monday.svg").read_bytes() == (DOCS / "howto/monday.svg").read_bytes()
    assert "```sh\nhotseat serve\n```" in (staged / "tutorial/first-model.md").read_text()


def test_an_escaped_pipe_in_code_in_a_table_is_unescaped() -> None:
    """Pipes elsewhere stay as they are."""
    row = r"| `a\|b` | c \| d |"

    assert with_bare_pipes(row) == r"| `a|b` | c \| d |"
    assert with_bare_pipes(r"no row: `a\|b`") == r"no row: `a\|b`"


@pytest.mark.parametrize(
    ("text", "fetched"),
    [
        ('<script src="https://cdn.example/x.js"></script>', ["page.html: https://cdn.example/x.js"]),
        ('<link rel="stylesheet" href="https://fonts.example/css">', ["page.html: https://fonts.example/css"]),
        ('<a href="https://example.org">a link</a><script src="assets/x.js"></script>', []),
    ],
)
def test_resources_of_other_hosts_are_found(tmp_path: Path, text: str, fetched: list[str]) -> None:
    """Scripts and styles of other hosts are found; ordinary links are not."""
    (tmp_path / "page.html").write_text(text)

    assert foreign(tmp_path) == fetched
