"""Checks the records of clients and upstreams, without knowing how hotseat works."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.chaos.client import End
from bench.chaos.injecting import AFTERMATH_S
from bench.chaos.requests import REAL, REAL_GIB, ROOM_GIB, STUBS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from bench.chaos.client import Told
    from bench.chaos.injecting import Injected

GIB = {**STUBS, REAL: REAL_GIB}
BREAKING = ("reset-mid", "fin-mid", "die-mid", "garble-mid", "stall-mid", "close-reset")
DEADLY = ("die-early", "die-mid")
"""Request faults that end the server for all requests."""
CUTTING = (
    "kill -9 of a server", "health check hangs", "server exits at start", "slow load", "port taken by another process",
    "unload by an operator", "SIGTERM and restart", "kill -9 of hotseat", "kill -9 of the guard",
    "kill -9 of a host", "SIGTERM of a host", "a host is out of reach", "a host is cut off from all",
)  # fmt: skip
"""Faults that may cut an answer in the middle."""
DEAFENING = (
    "SIGTERM and restart", "kill -9 of hotseat", "no descriptors", "kill -9 of a host", "SIGTERM of a host",
)  # fmt: skip
"""Faults during which hotseat may close a connection without an answer, or accept none."""
AROUND_S = 2.0
HONEST = (404, 429, 500, 502, 503)


@dataclass(frozen=True, slots=True)
class Evidence:
    told: list[Told]
    record: list[dict[str, Any]]
    injected: list[Injected]
    reference: str
    """The answer of the real model."""


def read_record(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def violations(evidence: Evidence) -> list[str]:
    """What should not have happened, one sentence each."""
    return [*wrong_answers(evidence), *repeated(evidence), *crowded(evidence.record)]


def wrong_answers(evidence: Evidence) -> Iterator[str]:
    dying = [told for told in evidence.told if told.wish.fault in DEADLY]
    for told in evidence.told:
        if problem := wrong(told, evidence, dying):
            wish = told.wish
            who = f"{wish.id} ({wish.kind.value}, {wish.model}, {wish.fault or 'no fault'})"
            yield f"{who}: {problem}{around(told, evidence)}"


def around(told: Told, evidence: Evidence) -> str:
    """The faults at that time, to help find the cause."""
    names = [
        f"{fault.name} {fault.began - told.ended:+.2f} to {fault.ended - told.ended:+.2f} s"
        for fault in evidence.injected
        if fault.may_explain(told.began - AROUND_S, told.ended + AROUND_S)
    ]
    return f" after {told.ended - told.began:.2f} s; around it: {', '.join(names) or 'nothing'}"


def wrong(told: Told, evidence: Evidence, dying: list[Told]) -> str | None:
    match told.end:
        case End.WHOLE:
            return unlike(told.text, told.wish.expected if told.wish.is_obeyed else evidence.reference)
        case End.ERROR:
            return None if told.status in HONEST and told.text else f"{told.status} with the reason {told.text!r}"
        case End.BROKEN:
            if told.wish.fault in BREAKING or explained(told, evidence.injected, CUTTING) or died(told, dying):
                return None
            return f"broken after {told.text!r} for no reason"
        case End.SILENT | End.UNREACHED:
            felt = [fault for fault in evidence.injected if fault.rig in ("", told.rig)]
            is_explained = explained(told, felt, DEAFENING)
            return None if is_explained else f"{told.end.value} for no reason, {told.text}"
        case End.TOO_LATE:
            return f"no end after {told.ended - told.began:.0f} s, status {told.status}"
    return None


def died(told: Told, dying: list[Told]) -> bool:
    """Whether another request ended the server that this one used."""
    return any(
        other.wish.model == told.wish.model and other.began <= told.ended and told.began <= other.ended + AFTERMATH_S
        for other in dying
    )


def unlike(said: str, expected: str) -> str | None:
    if said == expected:
        return None
    kind = "a clean end after a part" if expected.startswith(said[:100]) else "another answer"
    return f"{kind}: {len(said)} of {len(expected)} characters, {said[:80]!r}"


def explained(told: Told, injected: Iterable[Injected], names: tuple[str, ...]) -> bool:
    return any(fault.name in names and fault.may_explain(told.began, told.ended) for fault in injected)


def repeated(evidence: Evidence) -> Iterator[str]:
    ran = Counter(line["id"] for line in evidence.record if line["what"] == "ran")
    for name, times in ran.items():
        if times > 1:
            yield f"{name} was executed {times} times"
    for told in evidence.told:
        if told.end is End.WHOLE and told.wish.is_obeyed and not ran[told.wish.id]:
            yield f"{told.wish.id} was answered and never executed"


def crowded(record: list[dict[str, Any]]) -> Iterator[str]:
    for line in record:
        if line["what"] == "born":
            alive = [line["model"], *line["company"]]
            if sum(GIB[model] for model in alive) > ROOM_GIB or alive.count(line["model"]) > 1:
                yield f"started with too little room at {line['at']:.3f}: {' beside '.join(alive)}"
