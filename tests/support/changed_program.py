"""The `hotseat` command with a change that a module of the tests makes before it begins.

It is a script, so that a restart starts the same one again.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.support.llama import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

PROGRAM = """#!{interpreter}
import runpy, sys
sys.path[:0] = {places}
runpy.run_module("{module}", None, "__main__")
"""


def changed_program(folder: Path, change: ModuleType) -> list[str]:
    """The command line of the program that runs `change`, which it writes into the folder."""
    places = [str(REPOSITORY / "src"), str(REPOSITORY)]
    program = folder / "hotseat"
    program.write_text(PROGRAM.format(interpreter=sys.executable, places=places, module=change.__name__))
    program.chmod(0o755)
    return [str(program)]
