"""GET /hotseat/fleet/logs: log lines of other hosts, each with its host."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest
from tests.support.served_fleet import all_answer
from tests.support.waiting import PATIENCE_S, come_true

from hotseat.api.log_text import as_json
from hotseat.api.routes import fleet_logs
from hotseat.api.routes.fleet_logs import FleetLog
from hotseat.fleet import other_hosts
from hotseat.identifiers import HostName, LogLine, ModelName
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from tests.support.served_fleet import Served

NO_LOG = "b sent something that is not a log line, so its older lines are missing here"
QWEN, LLAMA = ModelName("qwen"), ModelName("llama")


async def lines(hosts: Served, query: str, at: str = "a") -> list[tuple[str, str | None, str]]:
    text = (await hosts.ask(at, "GET", f"/hotseat/fleet/logs?{query}&json=true")).text
    return [(line["host"], line["model"], line["text"]) for line in map(json.loads, text.splitlines())]


async def test_a_model_that_runs_on_another_host(hosts: Served) -> None:
    """Its output comes from there, by any of its names, and as text each line begins with time and host."""
    hosts.fleet["b"].launcher.broken = ()
    await hosts.fleet["b"].dispatcher.operator.load(QWEN)
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
    """Its place is taken by a line that says so, and why."""
    hosts.parts["a"].logs.write("qwen", "here")
    await hosts.fall_silent("b")

    here, (host, model, text) = await lines(hosts, "model=qwen")

    assert here == ("a", "qwen", "here")
    assert (host, model) == ("b", None)
    assert text.startswith("b did not answer (")
    assert text.endswith("), so its log is missing here")


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>\n",
        b'{"at": "now", "model": "qwen", "level": null, "text": "loading"}\n',
        b'{"at": 1700000000, "model": "qwen", "level": null, "text": {"a": 1}}\n',
        b'{"at": 1e999, "model": "qwen", "level": null, "text": "loading"}\n',
    ],
)
async def test_an_answer_that_is_no_log(hosts: Served, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    """A line names the host; what it sent is not shown, neither as JSON nor as text."""
    all_answer(monkeypatch, answer)
    text = await hosts.ask("a", "GET", "/hotseat/fleet/logs?host=b")

    assert await lines(hosts, "host=b") == [("b", None, NO_LOG)]
    assert (text.status_code, text.text.partition(" | ")[2]) == (200, f"WARNING {NO_LOG}\n")


async def test_an_answer_that_is_a_log_in_part(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is older than the line that is none is left out."""
    parts = [as_json(LogLine(1, "old")), "<html>", as_json(LogLine(2, "new")), as_json(LogLine(3, "newer"))]
    all_answer(monkeypatch, "\n".join(parts).encode())

    assert await lines(hosts, "host=b") == [("b", None, NO_LOG), ("b", None, "new"), ("b", None, "newer")]
    assert await lines(hosts, "host=b&lines=2") == [("b", None, "new"), ("b", None, "newer")]


async def test_lines_that_are_too_long_to_be_kept_of_all_hosts(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest that have room are shown, and nothing of a line that was cut."""
    monkeypatch.setattr(fleet_logs, "MOST_BYTES", 1000)
    all_answer(monkeypatch, "\n".join(as_json(LogLine(n, f"{n}" * 100)) for n in range(1, 9)).encode())

    assert await lines(hosts, "host=b") == [("b", None, f"{n}" * 100) for n in (6, 7, 8)]


# With follow


async def events(feed: AsyncIterator[str], count: int) -> list[tuple[str, str]]:
    """Fewer if the feed ends."""
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


async def test_a_line_that_is_written_while_old_ones_are_sent(hosts: Served) -> None:
    """It is the next one: none is missing between the old lines and the new ones, and none comes twice."""
    hosts.parts["a"].logs.write("qwen", "old")
    source = hosts.parts["a"].logs.of_model(QWEN)
    log = FleetLog(hosts.fleet["a"].fleet_admin.others, [], QWEN, source, HostName("a"))
    async with asyncio.timeout(PATIENCE_S), aclosing(log.feeds(10)[0]) as feed:
        found = [(await anext(feed)).text]
        for text in ("between", "new"):
            hosts.parts["a"].logs.write("qwen", text)
            found.append((await anext(feed)).text)

    assert found == ["old", "between", "new"]
    assert not hosts.parts["a"].logs.readers("qwen")


async def test_a_log_that_is_silent_for_a_while(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next line is what is written next."""
    monkeypatch.setattr(fleet_logs, "HEARTBEAT_S", 0)
    own = hosts.parts["a"].logs
    log = FleetLog(hosts.fleet["a"].fleet_admin.others, [], None, own.own, HostName("a"))
    async with asyncio.timeout(PATIENCE_S), aclosing(log.feeds(10)[0]) as feed:
        following = Tasks().start(anext(feed), "follow")
        await come_true(lambda: own.own.readers)
        for _ in range(10):
            await asyncio.sleep(0)
        own.write_own("info", "hello")

        assert (await following).text == "hello"


async def test_a_followed_host_sends_no_log(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line names the host, and what it sends from then on is not shown."""

    async def follow(host: str, path: str) -> AsyncIterator[bytes]:
        for at in (b"1700000000", b'"now"', b"1700000001"):
            yield b'data: {"at": %b, "model": null, "level": null, "text": "hello"}' % at

    monkeypatch.setattr(hosts.fleet["a"].fleet_admin.others, "follow", follow)
    async with hosts.parts["a"].feed("/hotseat/fleet/logs?host=b&follow=true") as feed:
        assert await events(feed, 3) == [
            ("b", "hello"),
            ("b", "b sent something that is not a log line, so its log is not followed any more"),
        ]


async def test_a_followed_host_restarts(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log continues: what it wrote meanwhile is not missing, and nothing comes twice."""
    monkeypatch.setattr(fleet_logs, "AGAIN_S", 0.01)
    there = hosts.parts["b"]
    there.logs.write_own("info", "before")
    async with there_followed(hosts) as feed:
        found = await events(feed, 1)
        await come_true(lambda: there.logs.own.readers)
        there.feeds_end.set()  # its old process ends its feeds
        await come_true(lambda: not there.logs.own.readers)
        there.logs.write_own("info", "meanwhile")
        there.feeds_end.clear()
        found += await events(feed, 1)
        await come_true(lambda: there.logs.own.readers)
        there.logs.write_own("info", "after")
        found += await events(feed, 1)

    assert found == [("b", "before"), ("b", "meanwhile"), ("b", "after")]


async def test_a_followed_host_falls_silent(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line says so, and that the log continues."""
    monkeypatch.setattr(other_hosts, "QUIET_S", 0.2)
    async with there_followed(hosts) as feed:
        [(host, text)] = await events(feed, 1)

    assert (host, text) == ("b", "b does not answer any more (timeout); its log continues here when it is back")


def there_followed(hosts: Served) -> AbstractAsyncContextManager[AsyncIterator[str]]:
    return hosts.parts["a"].feed("/hotseat/fleet/logs?host=b&follow=true")


async def test_more_hosts_than_can_be_followed(hosts: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to do."""
    monkeypatch.setattr(fleet_logs, "MOST_FOLLOWED", 0)
    answer = await hosts.ask("a", "GET", "/hotseat/fleet/logs?model=qwen&follow=true")

    assert answer.status_code == 400
    assert "1 hosts have qwen, and the logs of at most 0 can be followed" in answer.json()["error"]
