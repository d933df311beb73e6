"""The `hotseat` command that never asks whether other hosts answer: hosts that are only records would not.

Else it shows one more of them as unreachable every few seconds.
"""

from __future__ import annotations

import asyncio

from hotseat.cli import main
from hotseat.fleet.forwarded import ForwardedRequests


async def ask_nobody(_: ForwardedRequests) -> None:
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    setattr(ForwardedRequests, ForwardedRequests.keep_checking.__name__, ask_nobody)
    main()
