"""What the kernel knows about processes: /proc, so Linux only."""

from __future__ import annotations

import os
from pathlib import Path


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environment(pid: int) -> bytes:
    return proc_file(pid, "environ")


def command_line(pid: int) -> str:
    return proc_file(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")


def proc_file(pid: int, name: str) -> bytes:
    """A file of a process; empty once the process is gone, a zombie's are empty too."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
