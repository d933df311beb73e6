"""Divides one swap into parts. Each part ends where the next begins, so they add up to what the client waited."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hotseat.identifiers import Seconds

PARTS = {
    "decide": "from the client's request to the decision that the old model leaves",
    "drain": "until the old model's last request has ended and it is told to stop",
    "stop": "until all processes of the old model have exited",
    "start": "until its memory is free and the new process runs",
    "load": "until the new server passes its health check",
    "first byte": "until the client has the first byte of the response",
}


@dataclass(frozen=True, slots=True)
class Swap:
    case: str
    side: str
    spans: dict[str, float]
    words: float = 0.0
    """Per second, of a model that was in use meanwhile."""

    @property
    def total(self) -> Seconds:
        return sum(self.spans.values())

    @property
    def after_drain(self) -> Seconds:
        """The rest of the swap after the old model's last request has ended."""
        return self.total - self.spans.get("decide", 0.0) - self.spans.get("drain", 0.0)


def cut(parts: Iterable[str], moments: Sequence[float]) -> dict[str, Seconds]:
    """The parts between successive moments."""
    return {part: max(0.0, later - earlier) for part, (earlier, later) in zip(parts, pairwise(moments), strict=True)}


def spans_from_journal(
    history: Sequence[Mapping[str, Any]], wanted: str, sent: float, began: float, first_byte: float
) -> dict[str, Seconds]:
    """A swap to `wanted` that has just ended: its journal entries, newest last, and the moments measured elsewhere."""
    arrived = last(history, lambda entry: is_about(entry["event"], "RequestArrived", wanted))
    stopped = last(history, lambda entry: any(each["type"] == "StopUpstream" for each in entry["commands"]))
    started = last(history, lambda entry: any(is_about(each, "StartUpstream", wanted) for each in entry["commands"]))
    ready = last(history, lambda entry: is_about(entry["event"], "UpstreamReady", wanted))
    return cut(PARTS, [sent, arrived, stopped, started, began, ready, first_byte])


def is_about(fact: Mapping[str, Any], kind: str, model: str) -> bool:
    return bool(fact["type"] == kind and fact["model"] == model)


def last(history: Sequence[Mapping[str, Any]], fits: Callable[[Mapping[str, Any]], bool]) -> float:
    """When the last matching entry was written."""
    return float(next(entry["at"] for entry in reversed(history) if fits(entry)))
