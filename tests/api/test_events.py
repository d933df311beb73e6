"""The event feed, over a real connection."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.fake_launcher import catalog, spec
from tests.support.server_events import next_event
from tests.support.waiting import come_true

from hotseat.api.routes import events
from hotseat.api.routes.events import missed_since
from hotseat.dispatch import journal as journal_module
from hotseat.dispatch.journal import Gap, Journal
from hotseat.scheduling.events import CatalogChanged, ShutdownRequested

if TYPE_CHECKING:
    import pytest
    from tests.support.management import Management


async def subscribed(rig: Management) -> None:
    await come_true(lambda: rig.journal._subscribers)


async def test_what_happens_is_fed_as_it_happens(rig: Management) -> None:
    """A subscriber gets the load request and the readiness as numbered events with their reasons."""
    async with rig.feed("/hotseat/events") as lines:
        await subscribed(rig)
        await rig.get("/upstream/alpha/load")
        requested, ready = await next_event(lines), await next_event(lines)

    assert (requested["id"], requested["event"]) == ("1", "LoadRequested")
    entry: dict[str, Any] = json.loads(requested["data"])
    assert entry["event"]["model"] == "alpha"
    assert entry["commands"][0]["reason"] == "loaded explicitly (operator or preload)"
    assert (ready["id"], ready["event"]) == ("2", "UpstreamReady")
    upstream = {"address": "http://127.0.0.1:40001", "pid": 7001, "listener": None}
    assert json.loads(ready["data"])["event"]["upstream"] == upstream
    assert [command["type"] for command in json.loads(ready["data"])["commands"]] == ["Confirm"]


async def test_a_returning_watcher_gets_what_it_missed(rig: Management) -> None:
    """Last-Event-ID takes precedence over `after`, which an EventSource repeats when it reconnects."""
    await rig.get("/upstream/alpha/load")
    async with rig.feed("/hotseat/events?after=0", headers={"Last-Event-ID": "1"}) as lines:
        first = await next_event(lines)

    assert first["id"] == "2"


async def test_the_past_can_be_asked_for(rig: Management) -> None:
    """With after=0 the feed begins with the first event."""
    await rig.get("/upstream/alpha/load")
    async with rig.feed("/hotseat/events?after=0") as lines:
        first = await next_event(lines)

    assert first["id"] == "1"


async def test_a_feed_that_was_left_is_forgotten(rig: Management) -> None:
    """A subscriber that disconnects is removed even if no event occurs."""
    async with rig.feed("/hotseat/events"):
        await subscribed(rig)

    await come_true(lambda: not rig.journal._subscribers)


async def test_a_quiet_feed_shows_that_it_lives(rig: Management, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle feed sends comments, so that proxies do not close the connection."""
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.01)
    async with rig.feed("/hotseat/events") as lines:
        beat = await next_event(lines)

    assert beat == {"": "still here"}


async def test_a_slow_watcher_gets_a_gap_event(rig: Management, monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscriber that does not read loses events and gets a gap event; the buffer is bounded."""
    monkeypatch.setattr(journal_module, "BEHIND", 4)
    many = CatalogChanged(catalog(*(spec(f"model-{n}" * 200) for n in range(200))))
    async with rig.feed("/hotseat/events") as lines:
        await subscribed(rig)
        for _ in range(100):
            rig.journal.record(many, [])
        events = [await next_event(lines)]
        while events[-1]["event"] != "gap":
            events.append(await next_event(lines))

    assert json.loads(events[-1]["data"]) == {"n": int(events[-1]["id"])}
    assert len(events) < 100


def test_what_is_no_longer_kept_is_a_gap() -> None:
    """A client that asks for entries that were dropped, or that a previous run of hotseat wrote, gets a gap event."""
    journal = Journal()
    for _ in range(journal_module.KEPT + 10):
        journal.record(ShutdownRequested(), [])

    assert missed_since(journal, 0) == Gap(10)
    assert missed_since(journal, 10) is None
    assert missed_since(journal, None) is None
    assert missed_since(journal, journal.n + 1) == Gap(journal.n)
