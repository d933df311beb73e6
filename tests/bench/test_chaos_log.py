"""The chaos test finds tracebacks in hotseat's log, and the servers that a new process has adopted."""

from __future__ import annotations

import pytest
from bench.chaos.checker import adopted_in, bugs_in

ORDINARY = '{"time": "2026-11-17T11:52Z", "level": "info", "message": "model server ready", "model": "red", "pid": 7}'
ADOPTED = '{"time": "2026-11-17T11:52Z", "level": "info", "message": "model server adopted", "model": "red", "pid": 8}'
LOGGED = (
    '{"time": "2026-11-17T11:52:44Z", "level": "error", "message": "background task failed", "task": "load",'
    ' "trace": "Traceback (most recent call last):\\n  File \\"x.py\\"\\nValueError: odd"}'
)
PRINTED = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: odd'
CUT = '{"time": "2026-11-17T11:52:4'


@pytest.mark.parametrize("bug", [LOGGED, PRINTED])
def test_a_traceback_is_found(bug: str) -> None:
    """Also among other lines, and after a line that a killed process did not finish."""
    (found,) = bugs_in(f"{ORDINARY}\n{CUT}\n{bug}\n{ADOPTED}")

    assert found.endswith("ValueError: odd")


def test_other_lines_are_no_bugs() -> None:
    """A log without tracebacks shows none."""
    assert list(bugs_in(f"{ORDINARY}\n{CUT}\n{ADOPTED}")) == []


def test_adopted_servers() -> None:
    """Those that were started do not count."""
    assert adopted_in(f"{ORDINARY}\n{ADOPTED}\n{CUT}") == {8}
