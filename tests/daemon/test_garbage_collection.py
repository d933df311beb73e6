"""When Python's garbage collector runs."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COUNT = """
import gc, sys
import hotseat.cli
runs = []
gc.callbacks.append(lambda phase, info: runs.append(phase))
sys.argv = ["hotseat", *sys.argv[1:]]
gc.collect()
runs.clear()
try:
    hotseat.cli.main()
except SystemExit as ended:
    print(ended.code, len(runs))
"""
END_OF_START = """
import gc
from hotseat.daemon.garbage_collection import collect_nothing_during_start, ignore_what_exists
collect_nothing_during_start()
ignore_what_exists()
print(gc.isenabled(), gc.get_freeze_count() > 1000)
"""


def printed(program: str, arguments: Sequence[str] = ()) -> str:
    argv = [sys.executable, "-c", program, *arguments]
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=200, check=True).stdout


def test_a_start_whose_configuration_does_not_exist(tmp_path: Path) -> None:
    """Nothing is collected while the program is imported."""
    assert printed(COUNT, ("serve", "--config", str(tmp_path / "missing.yaml"))) == "3 0\n"


def test_the_end_of_a_start() -> None:
    """From then on garbage is collected, but not what the start has created."""
    assert printed(END_OF_START) == "True True\n"
