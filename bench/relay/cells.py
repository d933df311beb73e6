"""Which loads are measured, and for how long. A cell is one load that every proxy gets in every round."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

KB, MB = 1024, 1024 * 1024


class Work(Enum):
    UNARY = "unary"
    UPLOAD = "upload"
    SSE = "sse"
    STREAMS_MEMORY = "streams-memory"
    IDLE_MEMORY = "idle-memory"
    LLAMA = "llama"


TOPICS = {
    "unary": (Work.UNARY, Work.UPLOAD),
    "sse": (Work.SSE,),
    "memory": (Work.STREAMS_MEMORY, Work.IDLE_MEMORY),
    "llama": (Work.LLAMA,),
}
"""The choices of --only."""


def size_of(count: int) -> str:
    return f"{count // MB}MB" if count >= MB else f"{count // KB}KB"


@dataclass(frozen=True, slots=True)
class Cell:
    work: Work
    clients: int
    body: int = 1024
    """Bytes of the request."""
    in_quick: bool = True

    @property
    def weighs_memory(self) -> bool:
        return self.work in TOPICS["memory"]

    @property
    def key(self) -> str:
        """Its name in files and checks: `unary-16`, `upload-10MB-2`."""
        size = f"{size_of(self.body)}-" if self.work is Work.UPLOAD else ""
        return f"{self.work.value}-{size}{self.clients}"


REQUESTS_S, LLAMA_S, STREAMS_S = 1, 2, 1.0
"""How long each proxy runs a cell: the shorter, the closer in time are the compared figures."""
STREAMS_SETTLE_S = 0.5

CHUNKS_PER_S, SLOW_CHUNKS_PER_S = 50, 1
CELLS = (
    Cell(Work.UNARY, 1),
    Cell(Work.UNARY, 16),
    Cell(Work.UNARY, 128, in_quick=False),
    Cell(Work.UPLOAD, 16, 100 * KB),
    Cell(Work.UPLOAD, 2, 10 * MB, in_quick=False),
    Cell(Work.SSE, 100),
    Cell(Work.SSE, 500),
    Cell(Work.SSE, 2000, in_quick=False),
    Cell(Work.STREAMS_MEMORY, 1000),
    Cell(Work.IDLE_MEMORY, 1000),
    Cell(Work.LLAMA, 1),
    Cell(Work.LLAMA, 8),
)


def chosen(topics: Iterable[str], *, is_quick: bool) -> list[Cell]:
    works = [work for topic in topics for work in TOPICS[topic]]
    return [cell for cell in CELLS if cell.work in works and (cell.in_quick or not is_quick)]
