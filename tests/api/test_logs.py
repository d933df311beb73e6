"""The log lines of all sources, over a real connection."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.management import WRITTEN_AT
from tests.support.server_events import next_event
from tests.support.waiting import come_true

if TYPE_CHECKING:
    from tests.support.management import Management


async def test_the_last_lines_of_a_model(rig: Management) -> None:
    """The output of one model is plain text with the requested number of lines and their times."""
    rig.logs.write_own("info", "hello")
    for n in range(4):
        rig.logs.write("alpha", f"line {n}")
    answer = await rig.get("/hotseat/logs?model=al&lines=2")

    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text == "2026-11-16T12:00:03.000Z alpha | line 2\n2026-11-16T12:00:04.000Z alpha | line 3\n"


async def test_lines_of_all_sources_are_in_the_order_of_time(rig: Management) -> None:
    """Each line names the model that wrote it, or hotseat, whose lines have a level."""
    rig.logs.write("dud", "loading")
    rig.logs.write("alpha", "hello")
    rig.logs.write("dud", "oh no")
    rig.logs.write_own("warning", "model server failed to start model=dud")

    assert (await rig.get("/hotseat/logs")).text.splitlines() == [
        "2026-11-16T12:00:00.000Z dud | loading",
        "2026-11-16T12:00:01.000Z alpha | hello",
        "2026-11-16T12:00:02.000Z dud | oh no",
        "2026-11-16T12:00:03.000Z hotseat | WARNING model server failed to start model=dud",
    ]


async def test_the_number_of_lines_counts_all_sources_together(rig: Management) -> None:
    """None are none, and more than there are is all."""
    for source in ("alpha", "dud", "alpha", "dud"):
        rig.logs.write(source, "hello")
    counts = [len((await rig.get(f"/hotseat/logs?lines={lines}")).text.splitlines()) for lines in (0, 1, 3, 100)]

    assert counts == [0, 1, 3, 4]


async def test_lines_come_as_json_on_request(rig: Management) -> None:
    """One object per line, for programs."""
    rig.logs.write("alpha", "größe ✓")
    rig.logs.write_own("error", "it broke")
    answer = await rig.get("/hotseat/logs?json=true")

    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert [json.loads(line) for line in answer.text.splitlines()] == [
        {"at": WRITTEN_AT, "model": "alpha", "level": None, "text": "größe ✓"},
        {"at": WRITTEN_AT + 1, "model": None, "level": "error", "text": "it broke"},
    ]


async def test_only_hotseats_own_lines(rig: Management) -> None:
    """They cannot be displaced by a model that writes a lot."""
    rig.logs.write_own("info", "started")
    for _ in range(200):
        rig.logs.write("alpha", "noise")

    assert (await rig.get("/hotseat/logs?own=true")).text == "2026-11-16T12:00:00.000Z hotseat | INFO started\n"


async def test_own_lines_of_a_model_are_400(rig: Management) -> None:
    """A request for two different sources is a mistake, and the message says so."""
    answer = await rig.get("/hotseat/logs?own=true&model=alpha")

    assert answer.status_code == 400
    assert "send one of them" in answer.json()["error"]


async def test_all_sources_are_followed_at_once(rig: Management) -> None:
    """A follower gets the last lines and then new lines of every source, and is removed when it disconnects."""
    for source in ("dud", "alpha", "dud"):
        rig.logs.write(source, "old")
    async with rig.feed("/hotseat/logs?follow=true&lines=2") as lines:
        past = [json.loads((await next_event(lines))["data"]) for _ in range(2)]
        await come_true(lambda: all(source.readers for source in rig.logs.all()))
        rig.logs.write_own("info", "new")
        rig.logs.write("dud", "newer")
        news = [json.loads((await next_event(lines))["data"]) for _ in range(2)]

    assert [(line["model"], line["text"]) for line in past] == [("alpha", "old"), ("dud", "old")]
    assert news == [
        {"at": WRITTEN_AT + 3, "model": None, "level": "info", "text": "new"},
        {"at": WRITTEN_AT + 4, "model": "dud", "level": None, "text": "newer"},
    ]
    await come_true(lambda: not any(source.readers for source in rig.logs.all()))


async def test_logs_of_an_unknown_model_are_404(rig: Management) -> None:
    """The logs of an unknown model are 404, not an empty page."""
    assert (await rig.get("/hotseat/logs?model=nobody")).status_code == 404
