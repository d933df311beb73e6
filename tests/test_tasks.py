"""Background work has an owner, and no failure goes unseen."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.virtual_time import advance, in_virtual_time
from tests.support.waiting import come_true

import hotseat
from hotseat import tasks as tasks_module
from hotseat.tasks import REPEATED, Tasks, failing_loops, forever

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

SOURCE = Path(hotseat.__file__).parent
ENDS = {
    "RecordWriter.idle": "with the write in progress",
    "_hang_up": "with the connection of its client",
    "FollowedLog._come_back": "with the feed of its client",
    "Systemd.pet_watchdog": "when another process serves; a message that cannot be sent is ignored",
    "ServerTasks._ended_within": "by its time limit",
    "ServerTasks._stop": "with the server; catches what a launcher raises, and tries again",
    "HostRestarts._replace": "with the request to the host",
    "HostRestarts._back": "by its time limit",
    "JetStream._published": "by the time limit of the write",
    "Membership._take_name": "by its time limit",
    "Membership._until_worth_publishing": "by its time limit",
    "Moves._claim": "with an agreement of the hosts; each turn tries the next replica",
    "Moves._until_ready": "by its time limit, or with the load",
    "Preload.run": "with the last model; a model that cannot be loaded is logged",
    "OldRequests.serve": "with the previous process; a message that cannot be handled is logged",
    "Restarts._settled": "by its time limit",
    "StateChanges._tell": "when nothing is left in the queue of a feed that is far behind",
    "until_done": "with the task that it waits for",
    "Successor._listen": "with the new process; a message that cannot be handled is logged",
    "until_free": "by its time limit",
    "until": "by its time limit, or with the process that it waits for",
    "end_rest": "when the guard's processes have ended; it runs in the guard",
    "Follower.lines": "with the first lines",
    "Readiness.reached": "by the time limit of the start",
    "ReadinessWait._first_of": "by the time limit of the start",
    "_until_sleeping": "by the time limit of the step",
    "first_of": "with the last address",
    "look_up": "with one of the lookups in progress, whose time the system limits",
    "_head": "with the head of the response",
    "Connections.drain": "by its time limit",
    "FleetState.saved": "with the writes in progress",
    "Tasks.aclose": "with the last task",
    "TraceQueue._send_all": "when nothing waits, or at the first failure",
    "forever": "never: it is the loop",
}
"""What ends the loops of coroutines that `forever` does not run. A generator's end with whoever reads it."""


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


async def test_a_loop_goes_on_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged with the loop's name, at the second failure too, and so is that it works again."""
    monkeypatch.setattr(tasks_module, "LEAST_PAUSE_S", 0.001)
    caplog.set_level("INFO")
    turns: list[float] = []

    async def turn() -> None:
        turns.append(asyncio.get_running_loop().time())
        if len(turns) < 3:
            raise ValueError("broken")
        await asyncio.sleep(0)

    tasks = Tasks()
    tasks.start(forever(turn, "look"), "look")
    await come_true(lambda: len(turns) > 5)
    await tasks.aclose()

    failed = "background loop failed and goes on loop=look again_in_s="
    assert [record.getMessage() for record in caplog.records] == [
        f"{failed}0.001",
        f"{failed}0.002",
        "background loop works again loop=look",
    ]
    assert turns[2] - turns[1] >= 0.002


async def test_a_loop_that_fails_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named from the third failure in a row until a turn succeeds or lasts; its pauses have a limit."""
    monkeypatch.setattr(tasks_module, "LEAST_PAUSE_S", 0.001)
    monkeypatch.setattr(tasks_module, "MOST_PAUSE_S", 0.004)
    turns: list[list[str]] = []
    works = asyncio.Event()

    async def turn() -> None:
        turns.append(failing_loops())
        if not works.is_set():
            raise ValueError("broken")
        await asyncio.Event().wait()

    tasks = Tasks()
    tasks.start(forever(turn, "look"), "look")
    await come_true(lambda: len(turns) > 20)
    works.set()
    was_failing = failing_loops()
    monkeypatch.setattr(tasks_module, "WORKS_S", 0.05)
    await come_true(lambda: not failing_loops())
    await tasks.aclose()

    assert turns[: REPEATED + 2] == [[], [], [], ["look"], ["look"]]
    assert was_failing == ["look"]


async def test_a_failing_loop_that_is_ended() -> None:
    """Nothing is left of it."""

    async def turn() -> None:
        raise ValueError("broken")

    tasks = Tasks()
    tasks.start(forever(turn, "look"), "look")
    await come_true(lambda: tasks_module._loops and tasks_module._loops[0].failures)
    await tasks.aclose()

    assert tasks_module._loops == []


@in_virtual_time
async def test_one_of_two_loops_that_are_alike_is_ended() -> None:
    """Readiness still names the other one, though both have the same name and began at the same time."""
    breaks = asyncio.Event()

    async def turn() -> None:
        await breaks.wait()
        raise ValueError("broken")

    one, other = Tasks(), Tasks()
    for tasks in (one, other):
        tasks.start(forever(turn, "look"), "look")
    await asyncio.sleep(0)
    await other.aclose()
    breaks.set()
    await advance(4)
    failing = failing_loops()
    await one.aclose()

    assert failing == ["look"]
    assert tasks_module._loops == []


async def test_something_that_a_loop_awaits_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    """That is a failure like any other: nobody has cancelled the loop."""
    never = asyncio.get_running_loop().create_future()
    never.cancel()

    async def turn() -> None:
        await never

    tasks = Tasks()
    task = tasks.start(forever(turn, "look"), "look")
    await come_true(lambda: caplog.records)

    assert not task.done()
    await tasks.aclose()
    assert task.cancelled()


def test_every_endless_loop_is_run_by_the_helper() -> None:
    """Every other loop of a coroutine ends, and the list says with what."""
    found = {place for place, _ in loops()}

    assert found - {*ENDS} == set(), "run them with `forever`"
    assert {*ENDS} - found == set(), "these are gone"
    print(f"{len(loops_of_the_helper())} loops are run by the helper, {len(ENDS)} end")


def loops() -> Iterator[tuple[str, ast.While]]:
    """The loops in coroutines that are no generators."""
    for place, function in coroutines():
        own = [*parts(function)]
        if not any(isinstance(part, ast.Yield) for part in own):
            yield from ((place, part) for part in own if isinstance(part, ast.While))


def loops_of_the_helper() -> set[str]:
    """The coroutines that call it."""
    return {place for place, function in coroutines() for part in parts(function) if calls_forever(part)}


def calls_forever(part: ast.AST) -> bool:
    return isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == forever.__name__


def coroutines() -> Iterator[tuple[str, ast.AsyncFunctionDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if "async def" in text and ("while " in text or forever.__name__ in text):
            yield from named(ast.parse(text), "")


def named(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AsyncFunctionDef]]:
    """With the names that Python gives them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}", child
        if isinstance(child, ast.ClassDef):
            yield from named(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from named(child, f"{prefix}{child.name}.<locals>.")
        else:
            yield from named(child, prefix)


def parts(function: ast.AST) -> Iterator[ast.AST]:
    """Without the functions in it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from parts(child)


async def test_a_loop_that_waits_for_nothing() -> None:
    """It takes turns with everything else."""
    turns: list[None] = []

    async def turn() -> None:
        turns.append(None)

    async with asyncio.timeout(10):
        looping = asyncio.get_running_loop().create_task(forever(turn, "a loop"))
        while len(turns) < 3:
            await asyncio.sleep(0)
        looping.cancel()
        await asyncio.wait([looping])

    assert looping.cancelled()
