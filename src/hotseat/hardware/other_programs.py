"""Finds programs that hotseat yields to, by name: a game, a renderer, a training job."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hotseat.hardware.kernel import PROC, text
from hotseat.hardware.process_table import census

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from hotseat.hardware.process_table import Process

LONGEST_NAME = 15
"""The kernel truncates process names to this length."""


@dataclass(frozen=True, slots=True)
class OtherProgram:
    pid: int
    name: str


def present(patterns: Collection[str], ours: Collection[int] = (), proc: Path = PROC) -> list[OtherProgram]:
    """The processes whose name matches `patterns` (`*`, `?` as in a shell), except `ours` and this one; by pid."""
    if not patterns:
        return []
    excepted = {os.getpid(), *ours}
    others = [process for pid, process in census(proc).items() if pid not in excepted]
    return matching(patterns, ((process.pid, full_name(process, proc)) for process in others))


def matching(patterns: Iterable[str], names: Iterable[tuple[int, str]]) -> list[OtherProgram]:
    """PURE: the processes whose names match."""
    wanted = tuple(patterns)
    return [OtherProgram(pid, name) for pid, name in sorted(names) if any(fnmatchcase(name, each) for each in wanted)]


def full_name(process: Process, proc: Path = PROC) -> str:
    """The name; if the kernel truncated it, the executed file's, whose path has backslashes under Wine."""
    if len(process.name) < LONGEST_NAME:
        return process.name
    program = text(f"{proc}/{process.pid}/cmdline").partition("\0")[0]
    name = re.split(r"[/\\]", program)[-1]
    return name if name.startswith(process.name) else process.name
