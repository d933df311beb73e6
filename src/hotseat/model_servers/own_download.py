"""Servers that download their model themselves (`llama-server -hf`): a download is progress, not a hang.

The size of the model is unknown until it is there, so no time limit for the whole start would be right. Instead a
server has failed when it has stood still for its time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotseat.estimates.command import Engine, server_in
from hotseat.estimates.llama_flags import LlamaFlags
from hotseat.estimates.report import CannotEstimate
from hotseat.model_servers.load_progress import process_text, taken_in
from hotseat.model_servers.os_processes import children

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Bytes

WRITTEN = re.compile(r"^wchar: (\d+)$", re.MULTILINE)
LEAST: Bytes = 1 << 20
"""A server that only logs that it waits writes less than this."""


def downloads_itself(argv: tuple[str, ...], env: Mapping[str, str]) -> bool:
    """Whether the command names a model by its repository or URL instead of a file."""
    try:
        server = server_in(argv, env)
    except CannotEstimate:
        return False
    flags = LlamaFlags.parse(server.options, server.env)
    return server.engine is Engine.LLAMA and any(map(flags.text, ("fetched", "fetched_draft")))


class DownloadProgress:
    """What the processes of a server have written and read.

    A process counts only if it was there at the last look too: a shell that starts a server again and again makes no
    progress, although each new process reads its libraries. A process with children does not count, because the kernel
    adds to it what those have done that ended.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = moved(pid)

    def has_grown(self) -> bool:
        """Whether one of the processes has noticeably more than at the last look."""
        before, self._before = self._before, moved(self._pid)
        return any(size >= before[pid] + LEAST for pid, size in self._before.items() if pid in before)


def moved(pid: int) -> dict[int, Bytes]:
    """Bytes that each process below, or this one if there are none, has written and read."""
    below = children(pid)
    if not below:
        return {pid: written(pid) + taken_in(pid)}
    return {each: size for child in below for each, size in moved(child).items()}


def written(pid: int) -> Bytes:
    """Bytes that a process has written; 0 if the kernel does not say."""
    own = WRITTEN.search(process_text(pid, "io"))
    return int(own[1]) if own else 0
