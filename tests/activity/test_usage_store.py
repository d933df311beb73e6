"""Usage by day, model and key: nothing is counted twice, and nothing is lost while the process lives."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import date
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import come_true

from hotseat.activity.recent import Tokens
from hotseat.activity.usage_store import DAY_S, FORMAT, By, UsageCounter, UsageRow, UsageStore, UsageWriter, Used
from hotseat.errors import HotseatError
from hotseat.identifiers import ModelName
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from pathlib import Path

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
FIRST, LAST = date(1970, 1, 1), date(9999, 12, 31)
TODAY = date(2026, 11, 17)
MANY = 1000


class Rig:
    """A counter, the file that it goes to, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "state/usage.sqlite3"
        self.now = (TODAY - FIRST).days * float(DAY_S)
        self.counter = UsageCounter(lambda: self.now)
        self.writer = UsageWriter(self.counter, UsageStore(self.file, lambda: self.now))

    def count(self, model: ModelName = QWEN, key: str = "ann", prompt: int = 10) -> None:
        self.counter.count(model, key, Tokens(prompt, 3, None, cached=4))

    async def sums(self, *by: By) -> list[UsageRow]:
        return await self.writer.read(FIRST, LAST, by, MANY)

    async def requests(self) -> int:
        return sum(row.used.requests for row in await self.sums())


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def test_sums_continue_after_a_restart(rig: Rig, tmp_path: Path) -> None:
    """A new process adds to what the one before has counted."""
    rig.count()
    await rig.writer.close()
    rig.count(prompt=20)
    await rig.writer.close()
    after = Rig(tmp_path)
    after.count(prompt=30)

    [row] = await after.sums(By.DAY, By.MODEL, By.KEY)
    assert row == UsageRow("2026-11-17", "qwen", "ann", Used(3, 0, 60, 12, 9))


async def test_two_processes_write_to_one_file(rig: Rig, tmp_path: Path) -> None:
    """During a restart, the old process still serves its clients while the new one counts."""
    old, new = rig, Rig(tmp_path)
    for each in (old, new, old, new):
        each.count()
        await each.writer.close()

    assert await new.requests() == 4


async def test_sums_are_made_of_what_is_asked_for(rig: Rig) -> None:
    """Over everything, or for each day, model or key, or any of these together."""
    rig.count(QWEN, "ann")
    rig.count(QWEN, "bob")
    rig.now += DAY_S
    rig.count(LLAMA, "ann")

    assert [(row.day, row.model, row.key, row.used.requests) for row in await rig.sums()] == [(None, None, None, 3)]
    assert [(row.day, row.used.prompt) for row in await rig.sums(By.DAY)] == [("2026-11-17", 20), ("2026-11-18", 10)]
    assert [(row.model, row.used.requests) for row in await rig.sums(By.MODEL)] == [("llama", 1), ("qwen", 2)]
    assert [(row.key, row.used.requests) for row in await rig.sums(By.KEY)] == [("ann", 2), ("bob", 1)]
    assert [(row.model, row.key) for row in await rig.sums(By.KEY, By.MODEL)] == [
        ("llama", "ann"), ("qwen", "ann"), ("qwen", "bob"),
    ]  # fmt: skip


async def test_only_the_days_asked_for_are_summed(rig: Rig) -> None:
    """The first and the last day are included."""
    for _ in range(4):
        rig.count()
        rig.now += DAY_S

    rows = await rig.writer.read(date(2026, 11, 18), date(2026, 11, 19), [By.DAY], MANY)
    assert [row.day for row in rows] == ["2026-11-18", "2026-11-19"]
    assert len(await rig.writer.read(FIRST, LAST, [By.DAY], 1)) == 1


async def test_days_of_long_ago_are_forgotten(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """400 days are kept."""
    monkeypatch.setattr("hotseat.activity.record_file.TIDY_EVERY_S", -1.0)
    rig.counter.count(LLAMA, "ann", None, estimated=70)
    rig.now += DAY_S
    rig.counter.count(QWEN, "ann", None, estimated=80)
    await rig.writer.close()
    rig.now += 400 * DAY_S

    await rig.writer.close()
    assert [row.model for row in await rig.sums(By.MODEL)] == ["qwen"]
    with closing(sqlite3.connect(rig.file)) as file:
        assert file.execute("select model, tokens from estimates").fetchall() == [("qwen", 80)]


async def test_nothing_is_written_before_there_is_something_to_count(rig: Rig) -> None:
    """Reading creates no file either."""
    await rig.writer.close()

    assert await rig.sums() == []
    assert not rig.file.exists()


async def test_what_cannot_be_written_is_written_later(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """An outage of the disk loses nothing."""
    rig.file.parent.write_text("in the way")
    for _ in range(3):
        rig.count()
        await rig.writer.close()
    rig.file.parent.unlink()
    rig.count()

    assert await rig.requests() == 4
    assert sum("records cannot be stored on disk" in record.getMessage() for record in caplog.records) == 1


async def test_a_corrupt_file_of_usage_is_put_aside(rig: Rig) -> None:
    """What was counted meanwhile goes to a new file."""
    rig.file.parent.mkdir()
    rig.file.write_bytes(b"this is no database, whatever its name says" * 100)
    rig.count()
    await rig.writer.close()

    assert await rig.requests() == 1
    assert len(list(rig.file.parent.glob("*.broken-*"))) == 1


async def test_a_corrupt_file_that_cannot_be_renamed(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so, and nothing is lost when somebody has removed it."""
    rig.file.parent.mkdir()
    rig.file.write_bytes(b"this is no database, whatever its name says" * 100)
    in_the_way = rig.file.with_name(f"{rig.file.name}.broken-{int(rig.now)}")
    in_the_way.mkdir()
    rig.count()
    await rig.writer.close()
    rig.file.unlink()

    assert "a corrupt file of records cannot be renamed" in caplog.text
    assert await rig.requests() == 1


async def test_a_file_that_cannot_be_read_is_an_error(rig: Rig) -> None:
    """A file of a newer version is neither read nor changed."""
    rig.file.parent.mkdir()
    with sqlite3.connect(rig.file) as newer:
        newer.execute("pragma user_version = 99")
    newer.close()

    with pytest.raises(
        HotseatError,
        match=r"usage.sqlite3 was written by a newer version of hotseat \(format 99; .* or move the file away\.$",
    ):
        await rig.requests()


async def test_what_is_counted_is_soon_on_disk(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to ask for it, and what is counted after the task has ended is written at the end."""
    monkeypatch.setattr("hotseat.activity.usage_store.EVERY_S", 0.0)
    tasks = Tasks()
    tasks.start(rig.writer.watch(), "usage")
    rig.count()
    await come_true(lambda: stored_requests(rig.file) == 1)
    await tasks.aclose()
    rig.count()
    await rig.writer.close()

    assert stored_requests(rig.file) == 2


def stored_requests(file: Path) -> int:
    return sum(row.used.requests for row in UsageStore(file).read(FIRST, LAST, (), MANY))


async def test_many_readers_at_once_count_nothing_twice(rig: Rig) -> None:
    """Each waits for the write before it."""
    for _ in range(5):
        rig.count()
    found = await asyncio.gather(*(rig.requests() for _ in range(5)))

    assert set(found) == {5}


async def test_what_a_key_has_used_today(rig: Rig) -> None:
    """Only of today and of this key; prompts with their cached tokens, and answers."""
    rig.count()
    rig.count(LLAMA, prompt=20)
    rig.count(key="bob")
    await rig.writer.close()
    store = UsageStore(rig.file, lambda: rig.now)
    today = [store.used_today(key, kind) for key in ("ann", "bob", "eve") for kind in ("requests", "tokens")]
    rig.now += DAY_S

    assert today == [2, 36, 1, 13, 0, 0]
    assert store.used_today("ann", "tokens") == 0


def test_what_a_key_has_used_according_to_a_broken_file(tmp_path: Path) -> None:
    """Nothing: it may use its budget, and whoever writes to the file reports the problem."""
    file = tmp_path / "usage.sqlite3"
    file.write_bytes(b"no database" * 1000)

    assert UsageStore(file).used_today("ann", "tokens") == 0


def test_estimates_count_as_used(rig: Rig) -> None:
    """A budget of a day continues with them after a restart."""
    store = UsageStore(rig.file, lambda: rig.now)
    rig.counter.count(QWEN, "ann", Tokens(5, 6, None))
    rig.counter.count(QWEN, "ann", None, estimated=70)
    store.add(rig.counter.take())

    assert store.used_today("ann", "tokens") == 81


def test_a_file_without_a_table_that_was_added_later(rig: Rig) -> None:
    """It is continued: the table is made."""
    first, _ = FORMAT.tables.split("create table if not exists estimates")
    rig.file.parent.mkdir()
    with closing(sqlite3.connect(rig.file)) as file:
        file.executescript(f"{first} pragma user_version = {FORMAT.version};")
    rig.counter.count(QWEN, "ann", None, estimated=70)
    store = UsageStore(rig.file, lambda: rig.now)
    store.add(rig.counter.take())

    assert store.used_today("ann", "tokens") == 70


DAY = 20_000


def test_requests_of_a_key_to_a_model_on_a_day_are_one_sum() -> None:
    """Another model, another key and another day have sums of their own."""
    now = DAY * DAY_S + 0.5
    counter = UsageCounter(lambda: now)
    counter.count(QWEN, "ann", Tokens(10, 3, None, cached=4))
    counter.count(QWEN, "ann", Tokens(20, 5, None))
    counter.count(LLAMA, "ann", Tokens(1, 1, None))
    counter.count(QWEN, "", Tokens(2, 2, None))
    now += DAY_S - 1
    counter.count(QWEN, "ann", Tokens(5, 1, None))
    now += 1
    counter.count(QWEN, "ann", Tokens(7, 7, None))

    assert counter.take() == {
        (DAY, QWEN, "ann"): Used(requests=3, prompt=35, cached=4, completion=9),
        (DAY, LLAMA, "ann"): Used(requests=1, prompt=1, completion=1),
        (DAY, QWEN, ""): Used(requests=1, prompt=2, completion=2),
        (DAY + 1, QWEN, "ann"): Used(requests=1, prompt=7, completion=7),
    }


def test_requests_without_counts_are_counted_as_such() -> None:
    """Tokens of vectors have no completion, and are known; a completion without its prompt is half known."""
    counter = UsageCounter(lambda: 0.0)
    counter.count(QWEN, "", None)
    counter.count(QWEN, "", Tokens(None, 3, None))
    counter.count(QWEN, "", Tokens(4, None, None))

    assert counter.take() == {(0, QWEN, ""): Used(requests=3, unknown=2, prompt=4, completion=3)}


def test_the_sums_of_a_key_go_on_when_they_are_taken() -> None:
    """What was taken is not there a second time, but counts for its key since the start."""
    counter = UsageCounter(lambda: 0.0)
    counter.count(QWEN, "ann", Tokens(1, 2, None))
    counter.take()
    counter.count(LLAMA, "ann", Tokens(10, 20, None))
    counter.count(LLAMA, "bob", None)

    assert counter.by_key() == {
        "ann": Used(requests=2, prompt=11, completion=22),
        "bob": Used(requests=1, unknown=1),
    }
    assert len(counter.take()) == 2
    assert counter.take() == {}
    assert counter.by_key()["ann"].prompt == 11
