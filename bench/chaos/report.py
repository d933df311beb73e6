"""The report of a run: each fault, how often it was injected, and what clients saw of it."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from bench.chaos.client import End
from bench.chaos.requests import REAL, STUBS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.chaos.checker import Evidence
    from bench.chaos.client import RequestResult
    from bench.chaos.run import Outcome

MOST_SHOWN = 40
MOST_REASONS, LONGEST_REASON = 12, 160


def report(outcome: Outcome) -> str:
    results = outcome.evidence.results
    statuses = Counter(each.status for each in results if each.end is End.ERROR)
    lines = [
        f"seed {outcome.seed}: {len(results)} requests and {len(outcome.evidence.injected)} faults"
        f" in {outcome.seconds:.0f} s and {outcome.lives} lives of hotseat",
        "",
        *table(outcome.evidence),
        "",
        "errors by status: " + ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items())),
        *(f"  {count:>6} × {reason}" for reason, count in reasons(results).most_common(MOST_REASONS)),
        f"longest wait: {max((each.ended - each.began for each in results), default=0.0):.1f} s",
        *outcome.notes,
        f"violations: {len(outcome.violations)}",
        *(f"  {problem}" for problem in outcome.violations[:MOST_SHOWN]),
    ]
    return "\n".join(lines)


def reasons(results: Iterable[RequestResult]) -> Counter[str]:
    """The errors that clients received, regardless of model and host."""
    names = "|".join([*STUBS, REAL])
    errors = (each for each in results if each.end is End.ERROR)
    return Counter(
        re.sub(rf"\b({names})\b", "MODEL", re.sub(r"\d[\d.]*", "N", each.text))[:LONGEST_REASON] for each in errors
    )


def table(evidence: Evidence) -> Iterator[str]:
    """What clients saw: for request faults exactly, for the others while they lasted."""
    yield f"{'fault':<30}{'times':>7}" + "".join(f"{end.value:>23}" for end in End)
    by_fault: dict[str, list[RequestResult]] = {}
    for result in evidence.results:
        by_fault.setdefault(result.planned.fault or "(no fault of its own)", []).append(result)
    for fault, those in sorted(by_fault.items()):
        yield row(fault, len(those), those)
    for name in sorted({fault.name for fault in evidence.injected}):
        times = [fault for fault in evidence.injected if fault.name == name]
        during = [
            result for result in evidence.results if any(f.may_explain(result.began, result.ended) for f in times)
        ]
        yield row(name, len(times), during)


def row(name: str, times: int, those: Iterable[RequestResult]) -> str:
    ends = Counter(result.end for result in those)
    return f"{name:<30}{times:>7}" + "".join(f"{ends[end]:>23}" for end in End)
