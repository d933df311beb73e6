"""The files in the package are the ones that the sources give, and the sources are well."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.support.browser import REPOSITORY

from hotseat.dashboard import ASSETS

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = REPOSITORY / "dashboard"


def node(*words: str) -> subprocess.CompletedProcess[str]:
    assert (SOURCES / "node_modules").exists(), "the packages are missing: run `just dashboard-packages`"
    return subprocess.run(words, cwd=SOURCES, capture_output=True, text=True)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_committed_files_are_current(tmp_path: Path) -> None:
    """Building gives, byte by byte, what is in the package."""
    built = node("node", "build.mjs", "--into", str(tmp_path))
    source_tree = REPOSITORY / "src/hotseat/dashboard/assets"

    assert built.returncode == 0, built.stderr
    assert contents(tmp_path) == contents(source_tree), "run `just dashboard`"
    assert contents(ASSETS) == contents(source_tree), "install hotseat anew"


def test_the_files_are_small() -> None:
    """A dashboard on a phone, over a slow line, is there in a moment."""
    assert sum(len(content) for content in contents(ASSETS).values()) < 200_000


def test_the_sources_are_typed_formatted_and_linted() -> None:
    """TypeScript in its strictest mode and the linter have nothing to say."""
    checked = node("npm", "run", "--silent", "check")

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_logic_of_the_dashboard() -> None:
    """What is computed in the browser is tested where it is written."""
    tested = node("node", "build.mjs", "--test")

    assert tested.returncode == 0, tested.stdout
    assert "# fail 0" in tested.stdout
