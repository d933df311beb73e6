"""What the guard's process needs in order to begin."""

from __future__ import annotations

import subprocess

from tests.support.supervisor_rig import PYTHON

from hotseat.model_servers.guard_end import HOME

SLOW = ("asyncio", "dataclasses", "inspect", "logging", "pathlib", "subprocess", "threading")
PROGRAM = """
import sys
sys.path.append(sys.argv[1])
import hotseat.model_servers.guard_process
print(*(name for name in sys.modules if name.partition(".")[0] not in sys.stdlib_module_names))
print(*(name for name in sys.modules if name in sys.argv[2:]))
"""


def test_the_guard_imports_little() -> None:
    """It begins without site-packages, in milliseconds."""
    command = [*PYTHON, "-c", PROGRAM, HOME, *SLOW]
    begun = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    others, slow = (line.split() for line in begun.stdout.splitlines())

    assert slow == []
    assert {name.rpartition(".")[0] for name in others if name.count(".") > 1} == {"hotseat.model_servers"}
    assert {name for name in others if name.count(".") < 2} <= {"__main__", "hotseat", "hotseat.model_servers"}
