"""GET /hotseat/fleet/logs: log lines of other hosts, each with its host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import come_true

from hotseat.api.routes import fleet_logs
from hotseat.fleet import other_hosts
from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.served_fleet import Served

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")


async def lines(hosts: Served, query: str, at: str = "a") -> list[tuple[str, str | None, str]]:
    text = (await hosts.ask(at, "GET", f"/hotseat/fleet/logs?{query}&json=true")).text
    return [(line["host"], line["model"], line["text"]) for line in map(json.loads, text.splitlines())]


async def test_a_model_that_runs_on_another_host(hosts: Served) -> None:
    """Its output comes from there, by any of its names, and as text each line begins with time and host."""
    hosts.fleet["b"].launcher.broken = ()
    await hosts.fleet["b"].dispatcher.load(QWEN)
    await come_true(lambda: hosts.fleet["a"].phases_seen("b") == {"qwen": "ready"})
    hosts.parts["a"].logs.write("qwen", "what it said here last week")
    hosts.parts["b"].logs.write("qwen", "loading")
    text = (await hosts.ask("a", "GET", "/hotseat/fleet/logs?model=q")).text

    assert await lines(hosts, "model=q") == [("b", "qwen", "loading")]
    assert text == "2026-11-16T12:00:00.000Z b qwen | loading\n"


async def test_a_model_that_runs_nowhere(hosts: Served) -> None:
    """All hosts that may have run it are asked; lines are in the order of time, and the last ones count."""
    hosts.parts["a"].logs.write("qwen", "first")
    for text in ("first", "second"):
        hosts.parts["b"].logs.write("qwen", text)

    assert await lines(hosts, "model=qwen&lines=2") == [("a", "qwen", "first"), ("b", "qwen", "second")]
    assert await lines(hosts, "model=qwen&lines=0") == []


async def test_the_log_of_a_host(hosts: Served) -> None:
    """It is hotseat's own, without what its models said; the host that is asked may be meant too."""
    for name in "ab":
        hosts.parts[name].logs.write_own("info", f"I am {name}")
        hosts.parts[name].logs.write("qwen", "never mind")

    assert await lines(hosts, "host=b") == [("b", None, "I am b")]
    assert await lines(hosts, "host=a") == [("a", None, "I am a")]


async def test_a_model_on_one_of_its_hosts(hosts: Served) -> None:
    """With both, one host is asked for one model; a host without the model is an error."""
    for name in "ab":
        hosts.parts[name].logs.write("qwen", f"on {name}")
    unknown = await hosts.ask("a", "GET", "/hotseat/fleet/logs?model=qwen&host=c")

    assert await lines(hosts, "model=qwen&host=b") == [("b", "qwen", "on b")]
    assert (unknown.status_code, unknown.json()["error"]) == (404, "c does not have qwen in its configuration")


@pytest.mark.parametrize(
    ("query", "status", "error"),
    [
        ("", 400, "say whose log you want"),
        ("model=nobody", 404, 'no host of the fleet has a model named "nobody".'),
        ("host=z", 404, 'the fleet has no host named "z".'),
    ],
)
async def test_a_log_of_nobody(hosts: Served, query: str, status: int, error: str) -> None:
    """The error says what is missing."""
    answer = await hosts.ask("a", "GET", f"/hotseat/fleet/logs?{query}")

    assert answer.status_code == status
    assert error in answer.json()["error"]


async def test_a_host_that_does_not_answer_is_named(hosts: Served) -> None:
    """Its place is taken by a line that says so."""
    hosts.parts["a"].logs.write("qwen", "here")
    await hosts.fall_silent("b")

    assert await lines(hosts, "model=qwen") == [
        ("a", "qwen", "here"),
        ("b", None, "b did not answer, so its log is missing here"),
    ]


async def test_an_answer_that_is_no_log(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line says so; what it contains is not shown."""
    others: Any = hosts.fleet["a"].fleet_admin.others

    async def answers(asked: list[str], path: str) -> dict[str, bytes]:
        return dict.fromkeys(asked, b"<html>\n")

    monkeypatch.setattr(others, "read_all", answers)

    assert await lines(hosts, "host=b") == [("b", None, "b did not answer with log lines")]


# With follow


async def events(feed: AsyncIterator[str], count: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    async for line in feed:
        if line.startswith("data: "):
            event = json.loads(line.removeprefix("data: "))
            found.append((event["host"], event["text"]))
        if len(found) == count:
            break
    return found


async def test_following_a_model_on_two_hosts(hosts: Served) -> None:
    """Old lines come first, then new ones of both hosts; when the client leaves, the other host notices."""
    for name in "ab":
        hosts.parts[name].logs.write("qwen", "old")
    async with hosts.parts["a"].feed("/hotseat/fleet/logs?model=qwen&follow=true") as feed:
        old = await events(feed, 2)
        await come_true(lambda: all(hosts.parts[name].logs.readers("qwen") for name in "ab"))
        for name in "ab":
            hosts.parts[name].logs.write("qwen", "new")
        new = await events(feed, 2)
    await come_true(lambda: not any(hosts.parts[name].logs.readers("qwen") for name in "ab"))

    assert sorted(old) == [("a", "old"), ("b", "old")]
    assert sorted(new) == [("a", "new"), ("b", "new")]


async def test_a_followed_host_breaks_off(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line says so, and the feed ends."""
    monkeypatch.setattr(other_hosts, "QUIET_S", 0.2)
    async with hosts.parts["a"].feed("/hotseat/fleet/logs?host=b&follow=true") as feed:
        [(host, text)] = await events(feed, 2)

    assert (host, text) == ("b", "b does not answer any more (timeout)")


async def test_a_followed_log_ends(hosts: Served) -> None:
    """Its host has stopped the feed in order: nothing more comes."""
    hosts.fleet["b"].launcher.broken = ()
    await hosts.fleet["b"].dispatcher.load(QWEN)
    await come_true(lambda: hosts.fleet["a"].phases_seen("b") == {"qwen": "ready"})
    async with hosts.parts["a"].feed("/hotseat/fleet/logs?model=qwen&follow=true") as feed:
        await come_true(lambda: hosts.parts["b"].logs.readers("qwen"))
        hosts.parts["b"].logs.write("qwen", "bye")
        hosts.parts["b"].logs.end("qwen")

        assert await events(feed, 2) == [("b", "bye")]


async def test_more_hosts_than_can_be_followed(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to do."""
    monkeypatch.setattr(fleet_logs, "MOST_FOLLOWED", 0)
    answer = await hosts.ask("a", "GET", "/hotseat/fleet/logs?model=qwen&follow=true")

    assert answer.status_code == 400
    assert "1 hosts have qwen, and the logs of at most 0 can be followed" in answer.json()["error"]
