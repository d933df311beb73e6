"""GET /hotseat/fleet/requests: requests on all hosts, each once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

import pytest
from msgspec.structs import replace
from tests.support.served_fleet import all_answer

from hotseat.activity.recent import InProgress
from hotseat.api.routes import fleet_requests
from hotseat.api.routes.fleet_requests import FleetRequest, each_once
from hotseat.api.routes.requests import in_progress
from hotseat.api.slices import SLICE
from hotseat.identifiers import ClientId, HostName, ModelName, TicketId

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.loop_turns import Turns
    from tests.support.served_fleet import Served

T = TypeVar("T")

A, B = HostName("a"), HostName("b")
LOCAL = InProgress(
    TicketId(7), b"id-1", ModelName("qwen"), ClientId("ann"), b"POST", b"/v1/chat/completions", 0.0, None, 5.0, False
)
FORWARDED = replace(LOCAL, host=B, first_byte_s=2.0)
"""At a, which its client asked."""
COPY = replace(LOCAL, ticket=TicketId(3), from_host=A, waited_s=4.0, seconds=4.5, is_waiting=True)
"""The same at b, which serves it."""


async def shown(**by_host: list[InProgress]) -> list[FleetRequest]:
    return [*await each_once({host: [in_progress(each) for each in found] for host, found in by_host.items()})]


def places(found: list[FleetRequest]) -> list[tuple[str, str, int | None]]:
    return [(each.host, each.asked, each.ticket) for each in found]


async def test_a_forwarded_request_is_listed_once() -> None:
    """It has the age that its client sees, and the state at the host that serves it."""
    [found] = await shown(a=[FORWARDED], b=[COPY])

    assert places([found]) == [("b", "a", 7)]
    assert (found.state, found.waited_s, found.seconds, found.first_byte_s) == ("waiting", 4.0, 5.0, 2.0)


async def test_a_request_that_is_served_where_it_was_asked() -> None:
    """Both hosts are the same."""
    assert places(await shown(a=[LOCAL], b=[])) == [("a", "a", 7)]


async def test_the_host_that_was_asked_is_silent() -> None:
    """The host that serves the request knows who forwarded it, but not its number there."""
    assert places(await shown(b=[COPY])) == [("b", "a", None)]


async def test_the_host_that_serves_is_silent() -> None:
    """The host that was asked knows where it is."""
    assert places(await shown(a=[FORWARDED])) == [("b", "a", 7)]


async def test_a_request_is_forwarded_between_the_two_reports() -> None:
    """One host still reports that it waits for a host, and the other already has it."""
    assert places(await shown(a=[replace(LOCAL, is_waiting=True)], b=[COPY])) == [("b", "a", 7)]


async def test_a_client_sends_one_id_twice() -> None:
    """One request is served where it was asked and the other was forwarded: both are listed, the oldest first."""
    local = replace(LOCAL, ticket=TicketId(8), seconds=9.0, is_waiting=True)

    assert places(await shown(a=[local, FORWARDED], b=[COPY])) == [("a", "a", 8), ("b", "a", 7)]


async def test_two_hosts_forward_one_id() -> None:
    """Each has its own copy."""
    from_c = replace(COPY, ticket=TicketId(4), from_host=HostName("c"))
    found = await shown(a=[FORWARDED], b=[from_c, COPY], c=[replace(FORWARDED, ticket=TicketId(9), seconds=1.0)])

    assert places(found) == [("b", "a", 7), ("b", "c", 9)]


async def test_all_hosts_are_asked(hosts: Served) -> None:
    """The answer has the requests of all hosts and names the silent ones; finished requests are not asked for."""
    hosts.parts["a"].in_progress = [FORWARDED]
    hosts.parts["b"].in_progress = [COPY]
    hosts.parts["b"].activity.finished(
        ModelName("qwen"), 200, 0.0, None, 1.0, ClientId("ann"), Asked(), b"old", None, ""
    )
    everybody = await hosts.get("c", "/hotseat/fleet/requests")
    await hosts.fall_silent("a")
    without_a = await hosts.get("c", "/hotseat/fleet/requests")

    assert [(each["host"], each["asked"], each["ticket"]) for each in everybody["in_progress"]] == [("b", "a", 7)]
    assert everybody["silent"] == []
    assert [(each["asked"], each["ticket"]) for each in without_a["in_progress"]] == [("a", None)]
    assert without_a["silent"] == ["a"]
    assert without_a["problems"]["a"].startswith("a did not answer (")


@pytest.mark.parametrize("answer", [b'{"in_progress": 4}', b"<html>", b'{"x":' + b"[" * 100_000])
async def test_a_host_whose_answer_cannot_be_read(
    hosts: Served, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    """It counts as silent."""
    all_answer(monkeypatch, answer)

    assert (await hosts.get("a", "/hotseat/fleet/requests"))["silent"] == ["b", "c"]


async def test_hosts_with_more_requests_than_are_kept(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each host the oldest are shown, which come first in its answer."""
    monkeypatch.setattr(fleet_requests, "MOST_REQUESTS", 10)
    monkeypatch.setattr(fleet_requests, "LEAST_REQUESTS", 3)
    aged = [in_progress(replace(LOCAL, seconds=seconds)).model_dump() for seconds in range(20, 0, -1)]
    all_answer(monkeypatch, json.dumps({"at": 0, "in_progress": aged, "finished": []}).encode())
    found = await hosts.get("a", "/hotseat/fleet/requests")

    assert [each["seconds"] for each in found["in_progress"]] == [20, 20, 19, 19, 18, 18, 17, 17, 16, 16]


@pytest.mark.parametrize(
    ("turns", "calls", "most"),
    [
        ((fleet_requests, "_shown"), 40 * 30, SLICE),
        ((FleetRequest, "model_dump_json"), 40 * 30, SLICE),
    ],
    indirect=["turns"],
)
async def test_many_hosts_with_many_requests(
    hosts: Served, turns: Turns, calls: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read, compared and encoded in slices, so that other requests go on."""
    answer = json.dumps({"at": 0, "in_progress": [in_progress(LOCAL).model_dump()] * 30, "finished": []}).encode()

    async def answers(asked: list[HostName], path: str, kept: Callable[[bytes], T]) -> dict[HostName, T]:
        return {HostName(f"gpu{n}"): kept(answer) for n in range(40)}

    monkeypatch.setattr(hosts.fleet["a"].fleet_admin.others, "read_all", answers)
    found = await hosts.get("a", "/hotseat/fleet/requests")

    assert len(found["in_progress"]) == 40 * 30
    assert turns.calls == calls
    assert turns.most_in_a_turn <= most


class Asked:
    method = b"POST"
    target = b"/v1/chat/completions"
