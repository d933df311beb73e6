"""Reads the kernel's small text files. What cannot be read counts as absent: nothing raises."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes

PROC, SYS = Path("/proc"), Path("/sys")

_FIGURE = re.compile(r"^(\S+?):?[ \t]+(\d+)(?: ?([kKM])i?B)?$", re.MULTILINE)
_UNITS = {"": 1, "k": 1 << 10, "K": 1 << 10, "M": 1 << 20}
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""The initial namespace, which has the same number in every kernel."""


def text(path: str | Path) -> str:
    """The whole file. Python's own open() takes ten times as long, and one measurement reads hundreds of files."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return b"".join(iter(lambda: os.read(fd, 1 << 16), b"")).decode(errors="replace")
    except OSError:  # a process that ended or is another user's, or a lost card
        return ""
    finally:
        os.close(fd)


def number(path: str | Path) -> int | None:
    """None also for a word such as `max`."""
    try:
        return int(text(path))
    except ValueError:
        return None


def figures(path: str | Path) -> dict[str, Bytes]:
    """The lines `name: number unit` of a file, in bytes if there is a unit; other lines are ignored."""
    return {name: int(count) * _UNITS[unit] for name, count, unit in _FIGURE.findall(text(path))}


def open_files(pid: int, proc: Path = PROC) -> dict[str, str]:
    """A process's open files, by descriptor; empty if it is gone or another user's."""
    folder = f"{proc}/{pid}/fd"
    try:
        return {fd: link(f"{folder}/{fd}") for fd in os.listdir(folder)}
    except OSError:
        return {}


def is_hidden(pid: int, proc: Path = PROC) -> bool:
    """Whether a process exists whose open files this user may not see."""
    try:
        os.scandir(f"{proc}/{pid}/fd").close()
    except PermissionError:
        return True
    except OSError:  # it is gone
        return False
    return False


def link(path: str | Path) -> str:
    try:
        return os.readlink(path)
    except OSError:  # closed meanwhile
        return ""


def is_first_pid_namespace(proc: Path) -> bool:
    """Whether we see processes by the pids that the machine's drivers report. Not in most containers."""
    return link(proc / "self/ns/pid") == _FIRST_PID_NAMESPACE
