"""The command line of the newly installed program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.handover.program import new_program

if TYPE_CHECKING:
    from pathlib import Path

MODULE = ["/venv/bin/python", "-m", "hotseat", "serve"]


def test_the_installed_script(tmp_path: Path) -> None:
    """It names the interpreter that an upgrade may have replaced."""
    script = tmp_path / "hotseat"
    script.touch(mode=0o755)

    assert new_program([str(script), "serve"], "/venv/bin/python") == [str(script), "serve"]


def test_a_script_that_cannot_be_started_again(tmp_path: Path) -> None:
    """It is gone, its path was relative, or Python was given the module: the interpreter runs the package."""
    (tmp_path / "__main__.py").touch(mode=0o755)
    for started_as in (str(tmp_path / "gone"), "./hotseat", str(tmp_path / "__main__.py")):
        assert new_program([started_as, "serve"], "/venv/bin/python") == MODULE
