"""What an estimate asks of the machine it is made for."""

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
        """The head of a GGUF file, with the tensors of all its parts; CannotEstimate where there is none."""

    def checkpoint(self, path: str) -> Checkpoint:
        """A folder with config.json and *.safetensors; CannotEstimate where there is none."""

    def processor(self) -> frozenset[str]:
        """The flags of this machine's processor."""


class Gpu(Enum):
    """Is there a device beside the processor?"""

    NONE = "none"
    SOME = "some"
    UNSAID = "unsaid"

    @property
    def is_unsaid(self) -> bool:
        return self is Gpu.UNSAID

    def layers(self, said: int | None) -> int:
        """Layers on a device, where the command line says so many, or nothing: whoever says a number has a device."""
        if self is Gpu.NONE:
            return 0
        if said is None:
            return ALL if self is Gpu.SOME else 0
        return said
