"""Coverage of this process, and of programs that tests start: the variable that enables it, and which get it.

Hundreds of tests start hotseat, and counting makes it four times as slow, so most do not get it.
"""

from __future__ import annotations

import os

from coverage import Coverage

VARIABLE = "COVERAGE_PROCESS_CONFIG"
COVERAGE_CONFIG = os.environ.get(VARIABLE)
"""Set by coverage for this process."""


def leave_programs_alone() -> None:
    """Coverage sets its variable each time it starts."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.pop(VARIABLE, None)


class Counting:
    """Coverage of this process. Starting it takes milliseconds, so it is not stopped and started at each test."""

    def __init__(self) -> None:
        self._coverage = Coverage.current()
        self._is_on = True

    def switch(self, is_on: bool) -> None:
        if self._coverage is None or is_on is self._is_on:
            return
        self._is_on = is_on
        if is_on:
            self._coverage.start()
            leave_programs_alone()
        else:
            self._coverage.stop()

    def save(self) -> None:
        """Also when it is switched off: then `Coverage.current()` does not know it any more."""
        if self._coverage:
            self.switch(False)
            self._coverage.save()
