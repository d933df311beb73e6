"""A system that lacks what only Linux has, such as macOS, as far as Linux can imitate it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.support import lesser_system
from tests.support.hotseat import Hotseat
from tests.support.stubs import stub

if TYPE_CHECKING:
    from pathlib import Path


def test_a_model_is_served_without_what_only_linux_has(tmp_path: Path) -> None:
    """hotseat starts, loads a model, answers for it, and leaves nothing behind when it stops."""
    program = (sys.executable, "-P", lesser_system.__file__)  # beside it is a file named hotseat.py
    with Hotseat({"models": {"qwen": stub("qwen")}}, tmp_path, program=program) as rig:
        answer, metrics = rig.chat("qwen"), rig.call("GET", "/metrics")
        code = rig.terminate()
        left = rig.processes()

    assert (answer.status, metrics.status) == (200, 200)
    assert (code, left) == (0, [])
