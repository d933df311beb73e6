"""Checks the records of clients and upstreams and hotseat's log, without knowing how hotseat works."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.chaos.client import End
from bench.chaos.injecting import AFTERMATH_S, CLIENTLESS, HUNG, POWERLESS, RESTARTED
from bench.chaos.requests import BUDGET_GIB, REAL, REAL_GIB, STUBS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from bench.chaos.client import RequestResult
    from bench.chaos.hotseat_process import HotseatProcess
    from bench.chaos.injecting import Injected

GIB = {**STUBS, REAL: REAL_GIB}
BREAKING = ("reset-mid", "fin-mid", "die-mid", "garble-mid", "stall-mid", "close-reset")
DEADLY = ("die-early", "die-mid")
"""Request faults that end the server for all requests."""
CUTTING = (
    "kill -9 of a server", "health check hangs", "server exits at start", "slow load", "port taken by another process",
    "unload by an operator", "SIGTERM and restart", "kill -9 of hotseat", "crash with grace", "kill -9 of the guard",
    "kill -9 of a host", RESTARTED, "a host is out of reach", "a host is cut off from all", HUNG,
    "a host hears nothing", "a host is not heard", "the fleet is cut in halves", CLIENTLESS, POWERLESS,
)  # fmt: skip
"""Faults that may cut an answer in the middle. A server that saves or restores conversations has no requests."""
DEAFENING = (
    "SIGTERM and restart", "kill -9 of hotseat", "crash with grace", "no descriptors", "kill -9 of a host",
    RESTARTED, CLIENTLESS, POWERLESS,
)  # fmt: skip
"""Faults during which hotseat may close a connection without an answer, or accept none."""
DELAYING = (HUNG, CLIENTLESS, POWERLESS)
"""Faults of the client's own host after which its answer may come late, or never."""
AROUND_S = 2.0
HONEST = (404, 429, 500, 502, 503)


@dataclass(frozen=True, slots=True)
class Evidence:
    results: list[RequestResult]
    record: list[dict[str, Any]]
    injected: list[Injected]
    references: Sequence[str]
    """The answers of the real model to each prompt."""
    budget_gib: int = BUDGET_GIB
    honest: tuple[int, ...] = HONEST
    """The errors that clients may receive."""


def read_record(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def violations(evidence: Evidence) -> list[str]:
    """What should not have happened, one sentence each."""
    return [*wrong_answers(evidence), *repeated(evidence), *exceeding_memory(evidence)]


def wrong_answers(evidence: Evidence) -> Iterator[str]:
    dying = [result for result in evidence.results if result.planned.fault in DEADLY]
    for result in evidence.results:
        if problem := wrong(result, evidence, dying):
            planned = result.planned
            where = f" at {result.rig}" if result.rig else ""
            who = f"{planned.id}{where} ({planned.kind.value}, {planned.model}, {planned.fault or 'no fault'})"
            yield f"{who}: {problem}{around(result, evidence)}"


def around(result: RequestResult, evidence: Evidence) -> str:
    """The faults at that time, to help find the cause."""
    names = [
        f"{fault.name} {fault.began - result.ended:+.2f} to {fault.ended - result.ended:+.2f} s"
        for fault in evidence.injected
        if fault.may_explain(result.began - AROUND_S, result.ended + AROUND_S)
    ]
    return f" after {result.ended - result.began:.2f} s; around it: {', '.join(names) or 'nothing'}"


def wrong(result: RequestResult, evidence: Evidence, dying: list[RequestResult]) -> str | None:
    match result.end:
        case End.WHOLE:
            planned = result.planned
            return unlike(result.text, planned.expected if planned.is_obeyed else evidence.references[planned.prompt])
        case End.ERROR:
            is_honest = result.status in evidence.honest and result.text
            return None if is_honest else f"{result.status} with the reason {result.text!r}"
        case End.BROKEN:
            if result.planned.fault in BREAKING or explained(result, evidence.injected, CUTTING) or died(result, dying):
                return None
            return f"broken after {result.text!r} for no reason"
        case End.SILENT | End.UNREACHED:
            felt = [fault for fault in evidence.injected if fault.rig in ("", result.rig)]
            is_explained = explained(result, felt, DEAFENING)
            return None if is_explained else f"{result.end.value} for no reason, {result.text}"
        case End.TOO_LATE:
            itself = [fault for fault in evidence.injected if fault.rig == result.rig]
            if explained(result, itself, DELAYING):
                return None
            return f"no end after {result.ended - result.began:.0f} s, status {result.status}"
    return None


def died(result: RequestResult, dying: list[RequestResult]) -> bool:
    """Whether another request ended the server that this one used."""
    return any(
        other.planned.model == result.planned.model
        and other.began <= result.ended
        and result.began <= other.ended + AFTERMATH_S
        for other in dying
    )


def unlike(said: str, expected: str) -> str | None:
    if said == expected:
        return None
    kind = "a clean end after a part" if expected.startswith(said[:100]) else "another answer"
    return f"{kind}: {len(said)} of {len(expected)} characters, {said[:80]!r}"


def explained(result: RequestResult, injected: Iterable[Injected], names: tuple[str, ...]) -> bool:
    return any(fault.name in names and fault.may_explain(result.began, result.ended) for fault in injected)


def repeated(evidence: Evidence) -> Iterator[str]:
    ran = Counter(line["id"] for line in evidence.record if line["what"] == "ran")
    for name, times in ran.items():
        if times > 1:
            yield f"{name} was executed {times} times"
    for result in evidence.results:
        if result.end is End.WHOLE and result.planned.is_obeyed and not ran[result.planned.id]:
            yield f"{result.planned.id} was answered and never executed"


def exceeding_memory(evidence: Evidence) -> Iterator[str]:
    for line in evidence.record:
        if line["what"] == "born":
            alive = [line["model"], *line["others"]]
            if sum(GIB[model] for model in alive) > evidence.budget_gib or alive.count(line["model"]) > 1:
                yield f"started with too little memory at {line['at']:.3f}: {' beside '.join(alive)}"


@dataclass(frozen=True, slots=True)
class Alone:
    """A host with another secret, and the requests that were executed meanwhile."""

    rig: str
    here: frozenset[str]
    elsewhere: frozenset[str]


class Executed:
    """What model servers record from now on."""

    def __init__(self, rigs: Sequence[HotseatProcess]) -> None:
        self._rigs = rigs
        self._before = {rig.name: len(record_of(rig)) for rig in rigs}

    def alone(self, rig: HotseatProcess) -> Alone:
        others = (name for other in self._rigs if other is not rig for name in self._since(other))
        return Alone(rig.name, frozenset(self._since(rig)), frozenset(others))

    def _since(self, rig: HotseatProcess) -> Iterator[str]:
        return (line["id"] for line in record_of(rig)[self._before[rig.name] :] if line["what"] == "ran")


def record_of(rig: HotseatProcess) -> list[dict[str, Any]]:
    return read_record(rig.folder / "stubs" / "record")


def crossings(alone: Iterable[Alone], results: Iterable[RequestResult]) -> Iterator[str]:
    """Requests that passed between a host that had to be alone and another one."""
    asked = {result.planned.id: result.rig for result in results}
    for each in alone:
        for name in sorted(each.here):
            if asked.get(name, each.rig) != each.rig:
                yield f"{name} was executed on {each.rig}, which had another secret than {asked[name]}"
        for name in sorted(each.elsewhere):
            if asked.get(name) == each.rig:
                yield f"{name} was executed elsewhere for {each.rig}, which had another secret"


LINES_SHOWN = 20


def bugs_in(text: str) -> Iterator[str]:
    """What only a bug can have written: tracebacks, logged or not."""
    lines = text.splitlines()
    for n, line in enumerate(lines):
        if line.startswith("Traceback"):
            end = next((m for m in range(n + 1, len(lines)) if not lines[m].startswith(" ")), len(lines))
            yield shortened(lines[n : end + 1])
    for entry in entries(text):
        if trace := entry.get("trace"):
            yield f"{entry['message']}: {shortened(str(trace).splitlines())}"


def shortened(lines: list[str]) -> str:
    return " | ".join(lines[-LINES_SHOWN:])


def adopted_in(text: str) -> set[int]:
    """The servers that a new process has taken over, by pid."""
    return {entry["pid"] for entry in entries(text) if entry.get("message") == "model server adopted"}


def entries(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith('{"time"'):
            try:
                yield json.loads(line)
            except ValueError:
                continue  # hotseat was killed while it wrote
