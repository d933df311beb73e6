"""The chaos test of a fleet finds requests that pass between the fleet and a host with another secret."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from bench.chaos.checker import Alone, Executed, crossings
from bench.chaos.client import End, RequestResult
from bench.chaos.requests import Behaviour, Kind, PlannedRequest

if TYPE_CHECKING:
    from pathlib import Path


def asked(name: str, rig: str) -> RequestResult:
    planned = PlannedRequest(name, "red", Kind.UNARY, "", Behaviour.PATIENT, 3, 0)
    return RequestResult(planned, End.WHOLE, 200, "", 10.0, 11.0, rig)


def host(folder: Path, name: str) -> Any:
    """As far as it is observed here."""
    (folder / name / "stubs").mkdir(parents=True)
    return SimpleNamespace(name=name, folder=folder / name)


def serve(rig: Any, name: str) -> None:
    with (rig.folder / "stubs" / "record").open("a") as record:
        record.write(json.dumps({"what": "born", "pid": 1}) + "\n" + json.dumps({"what": "ran", "id": name}) + "\n")


def test_what_hosts_execute_is_counted_from_the_beginning_of_the_time(tmp_path: Path) -> None:
    """Earlier requests do not count, whoever executed them."""
    a, b, c = (host(tmp_path, name) for name in "abc")
    for rig in (a, b):
        serve(rig, "earlier")
    executed = Executed([a, b, c])
    for rig, name in [(a, "1"), (b, "2"), (c, "3")]:
        serve(rig, name)

    assert executed.alone(a) == Alone("a", here=frozenset("1"), elsewhere=frozenset("23"))


@pytest.mark.parametrize(
    ("rig", "here", "elsewhere", "says"),
    [
        ("a", "1", "", []),
        ("b", "", "1", []),
        ("a", "", "1", ["1 was executed elsewhere for a, which had another secret"]),
        ("b", "1", "", ["1 was executed on a, which had another secret than b"]),
    ],
)
def test_a_request_passes_between_a_host_that_is_alone_and_another(
    rig: str, here: str, elsewhere: str, says: list[str]
) -> None:
    """Each is a violation, in either direction; what clients of the host itself asked is none."""
    alone = Alone("a", frozenset(here), frozenset(elsewhere))

    assert list(crossings([alone], [asked("1", rig)])) == says
