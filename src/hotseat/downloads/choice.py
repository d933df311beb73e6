"""Which quantisation to download: the usual one if it fits the memory, else the best other that does, with the reason.

Four bits with K-quants is where most people settle: below it answers suffer noticeably, above it each token takes more
memory and time for a difference that is hard to notice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.downloads.problems import DownloadProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotseat.downloads.variants import Variant

USUAL = "Q4_K_M"
BITS = re.compile(r"Q(\d)|(?:BF|FP|F)(16|32)|(?:MX|NV)FP(4)")
MOST_BITS = 8
UNKNOWN_BITS = 16


@dataclass(frozen=True, slots=True)
class Choice:
    variant: Variant
    reason: str


def choose(found: Sequence[Variant], fits: Callable[[Variant], bool], repository: str) -> Choice:
    """`fits` may read the header of the file; it is asked for one variant after the other until one fits."""
    ordered = sorted(found, key=_preference)
    too_large: list[Variant] = []
    for variant in ordered:
        if any(variant.size >= each.size for each in too_large):
            continue
        if fits(variant):
            return Choice(variant, _reason(variant, too_large, len(found)))
        too_large.append(variant)
    smallest = min(found, key=lambda variant: variant.size)
    raise DownloadProblem(
        f"no file of {repository} fits the memory of this machine; "
        f"to download the smallest anyway: hotseat pull {repository}:{smallest.label}"
    )


def _preference(variant: Variant) -> tuple[bool, bool, int]:
    """The usual one, then the largest of at most eight bits, then the smallest of the rest."""
    is_large = bits(variant.quant) > MOST_BITS
    return variant.quant != USUAL, is_large, variant.size if is_large else -variant.size


def bits(quant: str) -> int:
    found = BITS.search(quant)
    return int(next(filter(None, found.groups()))) if found else UNKNOWN_BITS


def _reason(variant: Variant, too_large: Sequence[Variant], count: int) -> str:
    if count == 1:
        return "it is the only model of the repository"
    if not too_large:
        return "it is the usual choice, and it fits" if variant.quant == USUAL else f"there is no {USUAL}, and it fits"
    return f"it is the best that fits; {', '.join(each.label for each in too_large)} would not"
