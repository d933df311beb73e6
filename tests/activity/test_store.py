"""Finished requests on disk: kept for a while, and never in anybody's way."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from threading import Event
from typing import TYPE_CHECKING

import pytest
from tests.support.relay_rig import turns

from hotseat.activity.recent import KEPT, Activity, Tokens
from hotseat.activity.store import FORMAT, ActivityStore, StoreWriter
from hotseat.errors import HotseatError
from hotseat.identifiers import ClientId, ModelName
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

QWEN, LLAMA, SOMEONE = ModelName("qwen"), ModelName("llama"), ClientId("someone")
NOW = 1_800_000_000.0
A_DAY_S = 86_400.0


class Ledger:
    def finished(self, *_: object) -> None: ...
    def refused(self, code: str) -> None: ...
    def counted(self, *_: object) -> None: ...


class Head:
    method, target = b"POST", b"/v1/chat/completions?key=hush"


class Rig:
    """An activity, the file that it goes to, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "state/activity.sqlite3"
        self.now = NOW
        self.keep_s = 30 * A_DAY_S
        self.activity = Activity(Ledger(), lambda: self.now)
        self.store_writer = StoreWriter(self.activity, ActivityStore(self.file, lambda: self.now), lambda: self.keep_s)

    def finish(self, model: ModelName = QWEN, tokens: Tokens | None = None, why: str = "") -> None:
        self.activity.finished(model, 200, 0.25, 0.5, 1.25, SOMEONE, Head(), b"box-7", tokens, why)

    async def kept_models(self) -> list[str]:
        return [ended.model for ended in await self.store_writer.read(0, None, 1000)]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def test_what_has_ended_is_there_after_a_restart(rig: Rig, tmp_path: Path) -> None:
    """All that the activity knows, but for the query, where people put keys."""
    rig.finish(tokens=Tokens(4, 20, None, cached=3), why="waited for qwen to load")
    rig.finish(LLAMA)
    await rig.store_writer.close()
    first, second = await Rig(tmp_path).store_writer.read(0, None, 10)

    assert (first.model, first.at, first.client, first.method, first.id) == (QWEN, NOW, SOMEONE, b"POST", b"box-7")
    assert (first.target, first.status) == (b"/v1/chat/completions", 200)
    assert (first.waited_s, first.first_byte_s, first.seconds) == (0.25, 0.5, 1.25)
    assert (first.tokens, first.tokens_per_s) == (Tokens(4, 20, 20.0, cached=3), 20.0)
    assert (first.why, second.why) == ("waited for qwen to load", "")
    assert (second.model, second.tokens) == (LLAMA, None)
    assert b"hush" not in b"".join(file.read_bytes() for file in rig.file.parent.iterdir())


async def test_only_what_is_wanted_is_read(rig: Rig) -> None:
    """By model, by time, and the newest of too many."""
    for model in (QWEN, LLAMA, QWEN, LLAMA):
        rig.now += 10
        rig.finish(model)

    assert [ended.at for ended in await rig.store_writer.read(0, "llama", 10)] == [NOW + 20, NOW + 40]
    assert [ended.at for ended in await rig.store_writer.read(NOW + 20, None, 10)] == [NOW + 30, NOW + 40]
    assert [ended.at for ended in await rig.store_writer.read(0, None, 1)] == [NOW + 40]


async def test_nothing_is_kept_unless_that_is_configured(rig: Rig) -> None:
    """Then the last ones are read from memory."""
    rig.keep_s = 0.0
    for model in (QWEN, LLAMA, QWEN):
        rig.finish(model)
    await rig.store_writer.close()

    assert await rig.kept_models() == ["qwen", "llama", "qwen"]
    assert len(await rig.store_writer.read(0, "qwen", 1)) == 1
    assert not rig.file.parent.exists()


async def test_nobody_else_may_read_it(rig: Rig) -> None:
    """Requests are for the operator only."""
    rig.finish()
    await rig.store_writer.close()

    assert (rig.file.stat().st_mode & 0o777, rig.file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


async def test_the_old_and_the_many_are_forgotten(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both bounds hold."""
    monkeypatch.setattr("hotseat.activity.record_file.TIDY_EVERY_S", -1.0)
    monkeypatch.setattr("hotseat.activity.store.MOST_ROWS", 3)
    rig.finish(LLAMA)
    await rig.store_writer.close()
    rig.now += 31 * A_DAY_S
    for _ in range(5):
        rig.finish()
    await rig.store_writer.close()

    assert await rig.kept_models() == ["qwen"] * 3


async def test_what_came_too_quickly_is_counted_as_lost(rig: Rig) -> None:
    """More ended between two looks than is kept in memory."""
    for _ in range(KEPT + 7):
        rig.finish()
    await rig.store_writer.close()

    assert rig.store_writer.lost == 7
    assert len(await rig.kept_models()) == 1000


async def test_a_broken_file_is_put_aside(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """The request that found it is lost, the next one is kept."""
    rig.file.parent.mkdir()
    rig.file.write_bytes(b"this is no database, whatever its name says" * 100)
    rig.finish(LLAMA)
    await rig.store_writer.close()
    rig.finish(QWEN)
    await rig.store_writer.close()

    assert await rig.kept_models() == ["qwen"]
    assert rig.store_writer.lost == 1
    assert [path.name for path in rig.file.parent.glob("*.broken-*")] == [f"activity.sqlite3.broken-{int(NOW)}"]
    assert "a corrupt file of records was renamed" in caplog.text


async def test_a_file_of_another_format_is_put_aside(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Its tables have other columns."""
    rig.file.parent.mkdir()
    with closing(sqlite3.connect(rig.file)) as other:
        other.execute(f"pragma user_version = {FORMAT.version - 1}")
    rig.finish(LLAMA)
    await rig.store_writer.close()
    rig.finish(QWEN)

    assert await rig.kept_models() == ["qwen"]
    assert "its format is 2, and this version reads 3" in caplog.text
    assert rig.file.with_name(f"activity.sqlite3.broken-{int(NOW)}").exists()


async def test_a_file_of_a_newer_hotseat_is_left_alone(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Going back to an older version must not destroy what the newer one wrote."""
    rig.file.parent.mkdir()
    with sqlite3.connect(rig.file) as newer:
        newer.execute(f"pragma user_version = {FORMAT.version + 1}")
    newer.close()
    rig.finish()
    await rig.store_writer.close()

    assert rig.store_writer.lost == 1
    assert f"(format {FORMAT.version + 1}; this version reads {FORMAT.version})" in caplog.text
    with pytest.raises(HotseatError, match="was written by a newer version"):
        await rig.store_writer.read(0, None, 10)


async def test_a_full_disk_is_logged_once_and_so_is_its_end(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """What could not be written meanwhile is lost, and nothing else."""
    caplog.set_level(logging.INFO)
    rig.finish()
    await rig.store_writer.close()
    with limited_file_size(rig.file.stat().st_size):
        for _ in range(3):
            for _ in range(500):
                rig.finish(LLAMA)
            await rig.store_writer.close()
    rig.finish()
    await rig.store_writer.close()

    messages = [record.getMessage() for record in caplog.records]
    assert sum("records cannot be stored on disk" in line for line in messages) == 1
    assert sum("records are stored on disk again" in line for line in messages) == 1
    assert rig.store_writer.lost == 1500
    assert await rig.kept_models() == ["qwen", "qwen"]


@contextmanager
def limited_file_size(size: int) -> Iterator[None]:
    """Inside the block no file of this process can grow beyond this."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


async def test_a_folder_that_cannot_be_written_stops_nobody(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Nor one that is no folder at all."""
    rig.file.parent.write_text("in the way")
    rig.finish()
    await rig.store_writer.close()
    os.unlink(rig.file.parent)
    rig.finish()
    await rig.store_writer.close()

    assert rig.store_writer.lost == 1
    assert await rig.kept_models() == ["qwen"]
    assert "records cannot be stored on disk" in caplog.text


@asynccontextmanager
async def watched(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """In the block, its task has begun to write what has ended; leaving it cancels the task, as shutdown does."""
    monkeypatch.setattr("hotseat.activity.store.EVERY_S", 0.0)
    tasks = Tasks()
    tasks.start(rig.store_writer.watch(), "activity")
    await turns()
    yield
    await tasks.aclose()


async def test_the_end_before_a_write_has_a_thread_loses_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the cancelled task had taken up is on disk when the writer is closed."""
    free = Event()
    with ThreadPoolExecutor(1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        threads.submit(free.wait)
        rig.finish()
        async with watched(rig, monkeypatch):
            pass
        free.set()
        await rig.store_writer.close()

        assert await rig.kept_models() == ["qwen"]


async def test_what_is_being_written_is_read(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks after a request has ended sees it, also if the disk is slow."""
    rig.finish()
    await rig.store_writer.close()
    rig.finish(LLAMA)
    with closing(sqlite3.connect(rig.file)) as another:
        another.execute("begin immediate")
        async with watched(rig, monkeypatch):
            reading = asyncio.get_running_loop().create_task(rig.kept_models())
            await asyncio.wait([reading], timeout=0.1)  # it waits for the write, and would be over without it
            another.rollback()

            assert await reading == ["qwen", "llama"]
