"""PURE: which traces are recorded, as `OTEL_TRACES_SAMPLER` says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hotseat.tracing.traceparent import Parent

BY_PARENT = "parentbased_"
USUAL = "parentbased_always_on"
SHARES = {"always_on": 1.0, "always_off": 0.0}
BY_SHARE = "traceidratio"
COMPARED = 1 << 64
"""The lower half of a trace's id is compared, so that all programs that use the same share choose the same traces."""


class Sampler(Protocol):
    def __call__(self, trace_id: int, parent: Parent | None) -> bool:
        """Is this trace recorded?"""


def sampler_of(name: str, argument: str) -> Sampler:
    """`name` and `argument` are the values of the variables; ValueError says what they must be."""
    name = name.strip() or USUAL
    kind = name.removeprefix(BY_PARENT)
    if kind not in (*SHARES, BY_SHARE):
        raise ValueError(
            f"OTEL_TRACES_SAMPLER must be {', '.join(SHARES)} or {BY_SHARE}, or {BY_PARENT} with one of them"
        )
    share = _share(argument) if kind == BY_SHARE else SHARES[kind]
    return partial(_samples, below=round(share * COMPARED), asks_parent=name != kind)


def _share(argument: str) -> float:
    try:
        share = float(argument or "1")
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise ValueError("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1")
    return share


def _samples(trace_id: int, parent: Parent | None, *, below: int, asks_parent: bool) -> bool:
    if parent is not None and asks_parent:
        return parent.is_sampled
    return trace_id % COMPARED < below
