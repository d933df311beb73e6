"""What an estimate needs to know about the machine."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from hotseat.estimates.llama_flags import ALL

if TYPE_CHECKING:
    from hotseat.estimates.gguf import Head
    from hotseat.estimates.safetensors import Checkpoint


class Files(Protocol):
    """`files.Disk` is the real one."""

    def gguf(self, path: str) -> Head:
        """The head of a GGUF file, with the tensors of all its parts; CannotEstimate if there is none."""

    def checkpoint(self, path: str) -> Checkpoint:
        """A folder with config.json and *.safetensors; CannotEstimate if there is none."""

    def processor(self) -> frozenset[str]:
        """The flags of this machine's processor."""


class Gpu(Enum):
    """Whether there is a GPU."""

    NONE = "none"
    SOME = "some"
    UNSAID = "unsaid"

    @property
    def is_unsaid(self) -> bool:
        return self is Gpu.UNSAID

    def layers(self, said: int | None) -> int:
        """Layers on a device; a command line that gives a number implies that there is a device."""
        if self is Gpu.NONE:
            return 0
        if said is None:
            return ALL if self is Gpu.SOME else 0
        return said
