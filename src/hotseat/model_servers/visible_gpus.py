"""PURE: the variables that limit a server to some GPUs, in the words of CUDA and ROCm.

CUDA accepts a card's UUID, but most versions of vLLM read numbers only. ROCm's lower layer accepts UUIDs too
(ROCR_VISIBLE_DEVICES); its upper layer only numbers the cards that the lower one left (HIP_VISIBLE_DEVICES), and reads
CUDA's variable if its own is missing.

On a machine with cards of both, a server may be built for both, so the cards of the other runtime are hidden.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from hotseat.estimates.command import Engine, server_in
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotseat.catalog.spec import LaunchRecipe

CUDA, ROCR, HIP = "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
VISIBLE = (CUDA, ROCR, HIP, "GPU_DEVICE_ORDINAL")
"""All variables that decide which cards a server sees."""


class Runtime(Enum):
    CUDA = "CUDA"
    ROCM = "ROCm"
    METAL = "Metal"
    """A Mac has one GPU, so nothing limits a server to it."""


NONE = {Runtime.CUDA: (CUDA, ""), Runtime.ROCM: (HIP, "-1")}
"""What hides all cards of a runtime. HIP takes an empty variable for a missing one; vLLM for ROCm refuses CUDA's if it
has another value than HIP's, unless it is empty.
"""


class CardName(NamedTuple):
    """What a runtime calls a card."""

    runtime: Runtime
    name: str
    """`GPU-…`, `MIG-…`, or a number for a card without a unique id."""
    number: int | None = None
    """Of a whole NVIDIA card in the order of the PCI bus."""


def limited(
    environ: Mapping[str, str], cards: Sequence[CardName], recipe: LaunchRecipe, present: Iterable[CardName]
) -> dict[str, str]:
    """An environment in which a server sees only these cards of those that are present."""
    others = {name: value for name, value in environ.items() if name not in VISIBLE}
    hidden = [NONE[card.runtime] for card in present if card.runtime in NONE]
    return {**others, **dict(hidden), **visible(cards, by_number=reads_numbers(recipe))}


def reads_numbers(recipe: LaunchRecipe) -> bool:
    """Whether it is vLLM."""
    try:
        return server_in(recipe.argv, dict(recipe.env)).engine is Engine.VLLM
    except CannotEstimate:
        return False


def visible(cards: Sequence[CardName], *, by_number: bool = False) -> dict[str, str]:
    nvidia = [card for card in cards if card.runtime is Runtime.CUDA]
    amd = [card.name for card in cards if card.runtime is Runtime.ROCM]
    found = {CUDA: ",".join(card.name for card in nvidia)} if nvidia else {}
    if nvidia and by_number and all(card.number is not None for card in nvidia):
        found = {CUDA: ",".join(str(card.number) for card in nvidia), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if amd:
        found |= {ROCR: ",".join(amd), HIP: ",".join(map(str, range(len(amd))))}
    return found
