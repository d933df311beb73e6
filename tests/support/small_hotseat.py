"""A stand-in for hotseat that can be killed: opens a supervisor, starts misbehaving servers, reports them and waits."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.support.supervisor_rig import GUARD_INTERPRETER, SupervisorRig, model

from hotseat.model_servers.guard_grace import GuardGrace
from hotseat.model_servers.supervisor import open_supervisor


async def supervise(servers: list[dict[str, Any]], records: Path, grace_s: float) -> None:
    grace = GuardGrace(grace_s, records / "guard") if grace_s else None
    opening = open_supervisor(os.environ, interpreter=GUARD_INTERPRETER, records=records, grace=grace)
    async with opening as supervisor:
        rig = SupervisorRig(supervisor)
        for server in servers:
            await rig.ready(model(*server.pop("server"), **server))
        print(json.dumps(rig.tail(100)), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(supervise(json.loads(sys.argv[1]), Path(sys.argv[2]), float((*sys.argv, "0")[3])))
