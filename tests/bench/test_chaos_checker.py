"""The checker of the chaos test finds violations and reports nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from bench.chaos.checker import Evidence, violations
from bench.chaos.client import End, RequestResult
from bench.chaos.injecting import CLIENTLESS, HUNG, POWERLESS, RESTART, Injected
from bench.chaos.requests import Behaviour, Kind, PlannedRequest

PLANNED = PlannedRequest("3-7", "red", Kind.STREAM, "", Behaviour.PATIENT, words=3, leaves_after_s=0)
RIGHT = "red/3-7/0 red/3-7/1 red/3-7/2"
RAN = {"what": "ran", "model": "red", "id": "3-7", "pid": 1, "at": 0.0}


def result(end: End, text: str = "", status: int = 200) -> RequestResult:
    return RequestResult(PLANNED, end, status, text, began=10.0, ended=11.0)


def judged(one: RequestResult, *record: dict[str, Any], injected: str = "") -> list[str]:
    faults = [Injected(injected, 9.0, 9.5)] if injected else []
    return violations(Evidence([one], list(record), faults, references=["hello"]))


@pytest.mark.parametrize(
    ("one", "record", "injected"),
    [
        (result(End.WHOLE, RIGHT), [RAN], ""),
        (result(End.ERROR, "red failed: it is gone", 502), [RAN], ""),
        (result(End.ERROR, "the queue is full", 429), [], ""),
        (result(End.BROKEN, "red/3-7/0"), [RAN], "kill -9 of a server"),
        (result(End.SILENT), [], "kill -9 of hotseat"),
        (result(End.SILENT), [], "crash with grace"),
        (result(End.BROKEN, "red/3-7/0"), [RAN], "crash with grace"),
        (result(End.BROKEN, "red/3-7/0"), [RAN], "a host hangs"),
        (result(End.LEFT), [RAN], ""),
    ],
)
def test_what_may_happen_is_no_violation(one: RequestResult, record: list[dict[str, Any]], injected: str) -> None:
    """A correct response, an error response, or a broken connection that a fault explains."""
    assert judged(one, *record, injected=injected) == []


@pytest.mark.parametrize(
    ("one", "record", "says"),
    [
        (result(End.WHOLE, "red/3-7/0 red/3-7/1"), [RAN], "a clean end after a part"),
        (result(End.WHOLE, RIGHT.replace("red", "blue")), [RAN], "another answer"),
        (result(End.WHOLE, RIGHT), [RAN, RAN], "executed 2 times"),
        (result(End.WHOLE, RIGHT), [], "never executed"),
        (result(End.ERROR, "", 502), [RAN], "with the reason ''"),
        (result(End.ERROR, "teapot", 418), [RAN], "418"),
        (result(End.BROKEN, "red/3-7/0"), [RAN], "for no reason"),
        (result(End.SILENT), [], "for no reason"),
        (result(End.UNREACHED), [], "for no reason"),
        (result(End.TOO_LATE), [RAN], "no end after"),
    ],
)
def test_what_must_not_happen_is_found(one: RequestResult, record: list[dict[str, Any]], says: str) -> None:
    """Each kind of violation, once."""
    (found,) = judged(one, *record)

    assert says in found


@pytest.mark.parametrize(("killed", "found"), [("a", 0), ("b", 1)])
def test_only_who_asked_the_killed_host_may_be_left_without_a_word(killed: str, found: int) -> None:
    """All other clients get a response, whichever host served them."""
    asked_a = RequestResult(PLANNED, End.SILENT, 0, "", began=10.0, ended=11.0, rig="a")
    killing = Injected("kill -9 of a host", 9.0, 9.5, killed)

    assert len(violations(Evidence([asked_a], [], [killing], references=["hello"]))) == found


@pytest.mark.parametrize("fault", [HUNG, CLIENTLESS, POWERLESS])
@pytest.mark.parametrize(("host", "found"), [("a", 0), ("b", 1)])
def test_only_who_asked_the_host_that_hears_nothing_may_wait_for_it(host: str, found: int, fault: str) -> None:
    """All other hosts end what they have forwarded to it."""
    asked_a = RequestResult(PLANNED, End.TOO_LATE, 0, "", began=10.0, ended=55.0, rig="a")
    silent = Injected(fault, 12.0, 50.0, host)

    assert len(violations(Evidence([asked_a], [], [silent], references=["hello"]))) == found


@pytest.mark.parametrize(("began", "found"), [(62.0, 0), (90.0, 1)])
def test_the_end_of_a_connection_arrives_late(began: float, found: int) -> None:
    """It was closed behind an answer while the host was cut off, and both arrive as late as the cut has lasted."""
    asked = RequestResult(PLANNED, End.SILENT, 0, "", began, began, rig="a")
    cut_off = Injected(CLIENTLESS, 30.0, 55.0, "a")

    assert len(violations(Evidence([asked], [], [cut_off], references=["hello"]))) == found


@pytest.mark.parametrize("end", [End.BROKEN, End.SILENT, End.UNREACHED])
def test_nobody_notices_a_restart(end: End) -> None:
    """It explains nothing."""
    (found,) = judged(result(end), RAN, injected=RESTART)

    assert "for no reason" in found


@pytest.mark.parametrize(("status", "count"), [(429, 0), (503, 1)])
def test_a_run_without_failures_allows_fewer_errors(status: int, count: int) -> None:
    """A full queue refuses requests, and nothing else does."""
    evidence = Evidence([result(End.ERROR, "try again", status)], [RAN], [], references=["hello"], honest=(429,))

    assert len(violations(evidence)) == count


@pytest.mark.parametrize("fault", ["kill -9 while saving", "kill -9 while restoring", "truncated conversations"])
def test_nobodys_answer_breaks_because_of_saved_conversations(fault: str) -> None:
    """They are saved after the last request and restored before the first."""
    (found,) = judged(result(End.BROKEN, "red/3-7/0"), RAN, injected=fault)

    assert "for no reason" in found


@pytest.mark.parametrize(
    "fault",
    ["kill -9 of NATS' leader", "all of NATS is down", "NATS loses its state", "a host is cut off from NATS"],
)
def test_nobodys_answer_breaks_because_of_nats(fault: str) -> None:
    """Requests do not travel through NATS, so its faults break none."""
    (found,) = judged(result(End.BROKEN, "red/3-7/0"), RAN, injected=fault)

    assert "for no reason" in found


def test_nobodys_answer_breaks_because_of_a_host_that_is_alone() -> None:
    """A host with another secret is no member; only its restarts break something, and they are recorded as such."""
    (found,) = judged(result(End.BROKEN, "red/3-7/0"), RAN, injected="a host has another secret")

    assert "for no reason" in found


@pytest.mark.parametrize("others", [["white"], ["red"], ["green", "green"]])
def test_too_little_memory_is_found(others: list[str]) -> None:
    """A budget of 10 GiB holds neither 14 GiB, nor 12 GiB, nor the same model twice."""
    born = {"what": "born", "model": "red", "pid": 2, "at": 1.0, "others": others}
    (found,) = judged(result(End.WHOLE, RIGHT), RAN, born)

    assert "too little memory" in found
