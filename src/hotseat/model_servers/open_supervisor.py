"""Opens the supervisor with its guard, and closes both."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.catalog.spec import NOTHING
from hotseat.model_servers.conversations.files import SavedFiles
from hotseat.model_servers.conversations.manager import Conversations
from hotseat.model_servers.conversations.saves_in_progress import SavesInProgress
from hotseat.model_servers.guard_client import ISOLATED, Guard
from hotseat.model_servers.launch_env import LaunchEnvironment
from hotseat.model_servers.orphans import end_leftovers, private_folder
from hotseat.model_servers.output import Outputs
from hotseat.model_servers.ports import Ports
from hotseat.model_servers.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    from hotseat.identifiers import Bytes, DeviceName
    from hotseat.model_servers.guard_grace import GuardGrace
    from hotseat.model_servers.visible_gpus import CardName

NOWHERE = Path(os.devnull)
"""No folder can be made there."""


def no_cards() -> Mapping[DeviceName, CardName]:
    """Without names of cards every server sees all of them."""
    return NOTHING


def no_memory() -> Bytes:
    """Without a memory figure nothing is read ahead."""
    return 0


def no_conversations() -> Conversations:
    files = SavedFiles(NOWHERE)
    return Conversations(files, SavesInProgress(files, no_memory))


@asynccontextmanager
async def open_supervisor(
    environ: Mapping[str, str],
    withheld_env: Collection[str] = frozenset(),
    outputs: Outputs | None = None,
    interpreter: Sequence[str] = ISOLATED,
    available: Callable[[], Bytes] = no_memory,
    records: Path | None = None,
    card_names: Callable[[], Mapping[DeviceName, CardName]] = no_cards,
    conversations: Conversations | None = None,
    grace: GuardGrace | None = None,
    starts_guard: bool = True,
    makes_keys: Callable[[], bool] = bool,
    fixed_ports: Callable[[], frozenset[int]] = frozenset,
) -> AsyncIterator[Supervisor]:
    """A supervisor with its own guard; at the end none of their processes is left, unless they were handed over.

    `records` is the folder for the guard's record of its processes, in case it is killed together with hotseat. With a
    `grace` the guard keeps the servers of a hotseat that is killed. Without `starts_guard`, `take` gets the guard and
    the servers of another hotseat process. Without `conversations`, servers save none.
    """
    folder = private_folder(records)
    end_leftovers(folder)
    guard = Guard(interpreter, folder, grace)
    if starts_guard:
        guard.start()
    if conversations:
        guard.taken.add_done_callback(lambda _: conversations.leave())
    try:
        environment = LaunchEnvironment(environ, withheld_env, card_names, makes_keys)
        kept, ports = conversations or no_conversations(), Ports(fixed_ports)
        yield Supervisor(guard, environment, outputs or Outputs(), kept, available, ports)
    finally:
        await guard.aclose()
        await asyncio.sleep(0)  # the callback of `taken` runs before the folder of conversations is closed
