"""The built files in the package match their sources, and the unit tests of the sources pass.

`just check` checks the types and the format of the sources.
"""

from __future__ import annotations

import shutil
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
    """A new build gives the same bytes."""
    built = node("node", "build.mjs", "--into", str(tmp_path))
    source_tree = REPOSITORY / "src/hotseat/dashboard/assets"

    assert built.returncode == 0, built.stderr
    assert contents(tmp_path) == contents(source_tree), "run `just dashboard`"
    assert contents(ASSETS) == contents(source_tree), "reinstall hotseat"


def test_packages_that_are_linked(tmp_path: Path) -> None:
    """A second checkout may link the packages of the first: its build has the same bytes, licences included."""
    copied = tmp_path / "dashboard"
    shutil.copytree(SOURCES, copied, ignore=shutil.ignore_patterns("node_modules"))
    (copied / "node_modules").symlink_to((SOURCES / "node_modules").resolve())
    built = subprocess.run(["node", "build.mjs", "--into", str(tmp_path / "built")], cwd=copied, capture_output=True)

    assert built.returncode == 0, built.stderr
    assert contents(tmp_path / "built") == contents(REPOSITORY / "src/hotseat/dashboard/assets")


def test_the_files_are_small() -> None:
    """The dashboard loads quickly on a phone with a slow connection."""
    assert sum(len(content) for content in contents(ASSETS).values()) < 200_000


def test_the_unit_tests_of_the_dashboard_pass() -> None:
    """The unit tests are written in TypeScript, next to the code."""
    tested = node("node", "build.mjs", "--test")

    assert tested.returncode == 0, tested.stdout
    assert " fail 0\n" in tested.stdout
