"""Servers that download their model themselves (`llama-server -hf`): a download is progress, not a hang.

The size of the model is unknown until it is there, so no time limit for the whole start would be right. Instead a
server that has written or read since its time began gets the same time again.
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
    """What a process and its descendants have written and read."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before: Bytes = 0

    def has_grown(self) -> bool:
        """Whether it is noticeably more than at the last look."""
        now = written(self._pid) + taken_in(self._pid)
        has_grown = now >= self._before + LEAST
        self._before = max(now, self._before)
        return has_grown


def written(pid: int) -> Bytes:
    """Bytes that a process and all its descendants have written; 0 if the kernel does not say."""
    own = WRITTEN.search(process_text(pid, "io"))
    return (int(own[1]) if own else 0) + sum(map(written, children(pid)))
