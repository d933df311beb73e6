"""The documentation is true: links lead somewhere, and generated pages are fresh. test_pages.py follows the rest."""

from __future__ import annotations

import re
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest
from scripts.make_docs import DOCS, pages
from tests.support.hotseat import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

REPOSITORY = DOCS.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED_FILE = re.compile(r"`([\w./-]+\.(?:py|sh))`")
NAMED_TEST = re.compile(r"`(tests/[\w/]+(?:\.py)?)`")
DEPENDENCY = re.compile(r"[A-Za-z0-9-]+")


def all_pages() -> list[Path]:
    return [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md"), *(REPOSITORY / "tests").rglob("*.md")]


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page leads to a file of the repository."""
    targets = [target.partition("#")[0] for target in LINK.findall(page.read_text()) if "://" not in target]

    assert [target for target in targets if target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_tests_that_are_named_exist(page: Path) -> None:
    """Where a page names a test as its witness, there is one."""
    named = NAMED_TEST.findall(page.read_text())

    assert [path for path in named if not (REPOSITORY / path).exists()] == []


@pytest.mark.parametrize(
    "page", [REPOSITORY / "CONTRIBUTING.md", *(DOCS / "design").glob("*.md")], ids=lambda page: page.name
)
def test_files_that_are_named_exist(page: Path, source_files: str) -> None:
    """A file may be named by the end of its path, where the text says in which folder it is."""
    named = NAMED_FILE.findall(page.read_text())

    assert [path for path in named if f"/{path}\n" not in source_files] == []


@pytest.fixture(scope="module")
def source_files() -> str:
    """One path per line."""
    folders = ("src", "tests", "bench", "scripts", "clients")
    found = [path for name in folders for end in ("py", "sh") for path in (REPOSITORY / name).rglob(f"*.{end}")]
    return "".join(f"{path}\n" for path in found)


def test_generated_pages_are_fresh() -> None:
    """A page that is made from the code says what the code says today."""
    stale = [name for name, text in pages().items() if (DOCS / name).read_text() != text]

    assert stale == [], "run `just docs`"


def test_every_dependency_is_argued_for() -> None:
    """The decisions page names each package that hotseat or its tests stand on."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    groups = [entry for group in project["dependency-groups"].values() for entry in group if isinstance(entry, str)]
    extras = [entry for extra in project["project"]["optional-dependencies"].values() for entry in extra]
    names = {DEPENDENCY.match(entry)[0] for entry in [*project["project"]["dependencies"], *extras, *groups]}  # type: ignore[index]  # every entry begins with a name
    argued = set(re.findall(r"[a-z0-9-]+", (DOCS / "design/decisions.md").read_text()))

    assert names - argued == set()


def test_every_warning_has_a_paragraph() -> None:
    """Each warning and error that hotseat can log is explained in the how-to."""
    explained = (DOCS / "howto/log-messages.md").read_text()
    sources = "\n".join(path.read_text() for path in sorted((REPOSITORY / "src").rglob("*.py")))
    logged = re.findall(r'log\.(?:warning|error|exception|critical)\(\s*"([^"%=]+?)[ :,]*(?: \w+=|%|")', sources)

    assert logged
    assert [sentence for sentence in logged if f"`{sentence}" not in explained] == []


def test_the_command_is_the_installed_one() -> None:
    """The program under test lies beside the interpreter that runs the tests."""
    assert PROGRAM.exists(), f"install hotseat into the environment of {sys.executable}: `just setup`"
