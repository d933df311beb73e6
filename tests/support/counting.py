"""Coverage of programs that tests start: the variable that enables it, and which programs get it.

Hundreds of tests start hotseat, and counting makes it four times as slow, so most do not get it.
"""

from __future__ import annotations

import os

VARIABLE = "COVERAGE_PROCESS_CONFIG"
COVERAGE_CONFIG = os.environ.get(VARIABLE)
"""Set by coverage for this process."""


def leave_programs_alone() -> None:
    """Coverage sets its variable each time it starts."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.pop(VARIABLE, None)
