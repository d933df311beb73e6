"""The documentation's site: every page can be found, and the copy that it is built from has links that lead somewhere.

`just site` builds it, with broken links as errors; here are the parts that are ours.
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
    """A page that nobody can find is not written for anybody."""
    site = tomllib.loads((REPOSITORY / "zensical.toml").read_text())
    named = list(pages_in(site["project"]["nav"]))
    written = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} | set(PROJECT.values())

    assert set(named) - written == set()
    assert written - set(named) == set(), "name it in zensical.toml"
    assert len(named) == len(set(named))


def test_pages_beside_the_documentation_find_their_way(staged: Path) -> None:
    """The changelog's links lead to the pages of the site, from where it stands there."""
    assert "](../howto/dashboard.md)" in (staged / "project/changelog.md").read_text()


def test_what_is_no_page_is_named_and_not_linked(staged: Path) -> None:
    """A test's folder is shown as a path of the repository."""
    assert "the samples (`tests/config/samples/served`)" in (staged / "howto/from-llama-swap.md").read_text()


def test_code_blocks_stay_as_they_are(staged: Path) -> None:
    """What looks like a link or a table within code is code."""
    assert (staged / "howto/monday.svg").read_bytes() == (DOCS / "howto/monday.svg").read_bytes()
    assert "```sh\nhotseat serve\n```" in (staged / "tutorial/first-model.md").read_text()


def test_a_pipe_in_a_table_s_code_loses_its_backslash() -> None:
    """And nothing else does."""
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
def test_what_a_page_would_fetch_is_found(tmp_path: Path, text: str, fetched: list[str]) -> None:
    """Scripts and styles of other hosts are; links that one follows by hand are not."""
    (tmp_path / "page.html").write_text(text)

    assert foreign(tmp_path) == fetched
