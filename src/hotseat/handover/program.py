"""The command line of the program as it is installed now, with the arguments of the running process."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def new_program(argv: Sequence[str], executable: str = sys.executable) -> list[str]:
    """The script that was started, since an upgrade may have replaced its interpreter; else the same interpreter."""
    script, *arguments = argv
    if os.path.isabs(script) and os.access(script, os.X_OK) and not script.endswith(".py"):
        return [script, *arguments]
    return [executable, "-m", "hotseat", *arguments]
