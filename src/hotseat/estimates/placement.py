"""Which tensors of a model llama-server puts on a device and which on the host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.estimates.repack import LOOKED_UP
from hotseat.estimates.report import Where

if TYPE_CHECKING:
    from hotseat.estimates.gguf import Tensor

BLOCK = re.compile(r"blk\.(\d+)\.")
EXPERTS = re.compile(r"\.ffn_(up|down|gate|gate_up)_(ch|)exps")


@dataclass(frozen=True, slots=True)
class Override:
    """`-ot pattern=buffer`: tensors whose names match go to that buffer."""

    pattern: re.Pattern[str]
    where: Where


@dataclass(frozen=True, slots=True)
class Placement:
    layers: int
    on_device: int
    """The last so many layers, where the output counts as one more layer after them."""
    host_experts: int = 0
    """The experts of the first so many layers stay on the host."""
    overrides: tuple[Override, ...] = ()

    @property
    def uses_device(self) -> bool:
        return self.on_device > 0

    def of_layer(self, number: int) -> Where:
        # Layers that predict further tokens are numbered after the last layer; they stay on the host if it does.
        number = min(number, self.layers)
        return Where.DEVICE if self.layers - self.on_device < number else Where.HOST

    def of_tensor(self, tensor: Tensor) -> Where:
        for override in self.overrides:
            if override.pattern.search(tensor.name):
                return override.where if self.uses_device else Where.HOST
        if tensor.name in LOOKED_UP:
            return Where.HOST
        block = BLOCK.match(tensor.name)
        number = int(block[1]) if block else self.layers
        if EXPERTS.search(tensor.name) and number < self.host_experts:
            return Where.HOST
        return self.of_layer(number)


def read_overrides(said: str) -> tuple[Override, ...]:
    """The overrides of `-ot`; a pattern that Python cannot compile is left out."""
    read = []
    for part in filter(None, said.split(",")):
        pattern, _, buffer = part.rpartition("=")
        try:
            read.append(Override(re.compile(pattern), Where.HOST if buffer.startswith("CPU") else Where.DEVICE))
        except re.error:
            continue
    return tuple(read)
