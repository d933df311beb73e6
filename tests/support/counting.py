"""Whether coverage counts: what it would tell the programs that tests start, and which of them hear it.

Hundreds of tests start hotseat, and counting makes it four times as slow, so most hear nothing.
"""

from __future__ import annotations

import os

VARIABLE = "COVERAGE_PROCESS_CONFIG"
TOLD = os.environ.get(VARIABLE)
"""By coverage, to this process."""


def leave_programs_alone() -> None:
    """Coverage sets its variable each time it starts."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.pop(VARIABLE, None)
