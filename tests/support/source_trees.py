"""The sources of several versions of hotseat, and a link that says which of them is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "hotseat")
PREVIOUS, PRESENT = "0.0.1", "0.0.2"
"""The versions under which the two programs report."""


class Installation:
    """What an upgrade changes: the sources that a new process of the same command runs."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._link = folder, folder / "installed"
        self.environ = {"PYTHONPATH": str(self._link)}

    def install(self, tree: Path) -> None:
        beside = self._folder / "next"
        beside.symlink_to(tree)
        os.replace(beside, self._link)

    def previous(self) -> Path:
        """The sources of the commit before this one; of this one, if the history has no other."""
        tree = self._folder / "previous"
        tree.mkdir()
        archive = git("archive", previous_commit(), "src")
        subprocess.run(["tar", "-x", "-C", tree, "--strip-components=1"], input=archive, check=True)
        return with_version(tree, PREVIOUS)

    def present(self) -> Path:
        """The sources as they are here."""
        tree = shutil.copytree(REPOSITORY / "src", self._folder / "present")
        return with_version(tree, PRESENT)


def previous_commit() -> str:
    has_parent = subprocess.run(["git", "-C", REPOSITORY, "rev-parse", "-q", "--verify", "HEAD~1"], capture_output=True)
    return "HEAD" if has_parent.returncode else "HEAD~1"


def git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", REPOSITORY, *words], capture_output=True, check=True).stdout


def with_version(tree: Path, version: str) -> Path:
    with (tree / "hotseat/__init__.py").open("a") as file:
        file.write(f'\n__version__ = "{version}"\n')
    return tree


def edit(file: Path, old: str, new: str) -> None:
    """Replace a text that occurs once."""
    before, after = file.read_text().split(old)
    file.write_text(before + new + after)
