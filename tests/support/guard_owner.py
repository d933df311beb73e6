"""A stand-in for hotseat that can be killed: opens a guard, runs programs, reports them and waits."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.llama import REPOSITORY
from tests.support.supervisor_rig import GUARD_INTERPRETER

from hotseat.model_servers.guard_client import Guard
from hotseat.model_servers.guard_grace import GuardGrace
from hotseat.model_servers.guarded_process import Order
from hotseat.model_servers.output import Output, Pipe


async def open_guard(records: str = "", grace: GuardGrace | None = None) -> Guard:
    """With a new guard process."""
    guard = Guard(GUARD_INTERPRETER, records, grace)
    guard.start()
    return guard


async def own(programs: list[list[str]], folder: Path, grace_s: float) -> None:
    guard = await open_guard(str(folder), GuardGrace(grace_s, folder / "guard") if grace_s else None)
    pids = []
    for argv in programs:
        pipe = Pipe(Output())
        process = await guard.spawn(Order(argv[0], tuple(argv), dict(os.environ)), pipe.ends())
        process.describe({"program": argv[-1]})
        pids.append(process.pid)
    print(json.dumps({"guard": guard.pid, "pids": pids}), flush=True)
    await asyncio.Event().wait()


class GuardOwner:
    """Such a process, seen from a test."""

    def __init__(self, folder: Path, *programs: tuple[str, ...], grace_s: float = 0.0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.guard_owner", json.dumps(programs), str(folder), str(grace_s)],
            stdout=subprocess.PIPE,
            cwd=REPOSITORY,
        )
        assert self.process.stdout
        said: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.guard: int = said["guard"]
        self.pids: list[int] = said["pids"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()


if __name__ == "__main__":
    asyncio.run(own(json.loads(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])))
