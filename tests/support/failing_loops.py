"""The `hotseat` command in which the first turn of every endless loop fails; it prints which loops went on."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from hotseat import tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

SOON_S = 0.1
WENT_ON = "this loop went on:"
forever = tasks.forever


def failing_once(
    turn: Callable[[], Awaitable[object]], name: str, every_s: float = 0.0
) -> Coroutine[None, None, NoReturn]:
    place, turns = sys._getframe(1).f_code.co_qualname, 0

    async def fails_at_first() -> None:
        nonlocal turns
        turns += 1
        if turns == 1:
            raise RuntimeError("told to fail")
        if turns == 2:
            os.write(2, f"{WENT_ON} {place}\n".encode())  # at once: two processes write to the log
        await turn()

    return forever(fails_at_first, name, min(every_s, SOON_S))


if __name__ == "__main__":
    tasks.LEAST_PAUSE_S = SOON_S
    vars(tasks)[forever.__name__] = failing_once  # before anything else imports it
    from hotseat.cli import main

    main()
