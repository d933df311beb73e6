"""Background work has an owner, and no failure goes unseen."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hotseat.tasks import Tasks

if TYPE_CHECKING:
    import pytest


async def test_a_finished_task_is_forgotten() -> None:
    """The bag holds what runs, and nothing else."""
    tasks = Tasks()
    task = tasks.start(asyncio.sleep(0), "a nap")
    assert [each.get_name() for each in tasks] == ["a nap"]
    await task

    assert list(tasks) == []


async def test_closing_ends_what_still_runs() -> None:
    """When `aclose` returns, every task has ended, clean-up included."""
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    tasks = Tasks()
    task = tasks.start(work(), "work")
    await asyncio.sleep(0)
    await tasks.aclose()

    assert task.cancelled()
    assert ended == ["cleaned up"]


async def test_closing_an_empty_bag() -> None:
    """Nothing to end is soon ended, twice."""
    tasks = Tasks()

    await tasks.aclose()
    await tasks.aclose()


async def test_work_that_starts_work_while_it_ends() -> None:
    """Closing waits for latecomers, too."""
    tasks = Tasks()

    async def parting_words() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            tasks.start(asyncio.sleep(0), "last words")

    tasks.start(parting_words(), "parting")
    await asyncio.sleep(0)
    await tasks.aclose()

    assert list(tasks) == []


async def test_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A failed background task is logged with name and cause."""
    tasks = Tasks()

    async def fail() -> None:
        raise ValueError("broken")

    await asyncio.wait([tasks.start(fail(), "a risky thing")])

    [record] = caplog.records
    assert record.getMessage() == "background task failed task=a risky thing"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "broken"
    assert list(tasks) == []


async def test_a_cancelled_task_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """Work that is ended on purpose is not logged."""
    tasks = Tasks()
    tasks.start(asyncio.Event().wait(), "waiting")
    await tasks.aclose()

    assert caplog.records == []
